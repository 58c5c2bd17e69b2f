"""Published surrogates of a single study, without past studies."""

from __future__ import annotations

from rankwise.methods import build_single
from rankwise.methods.method import Method

METHODS = (
    Method(
        name="deep-ensemble",
        summary="ensemble of networks that predict mean and variance",
        idea="Deep Ensemble: a mixture of networks that predict a mean and a variance each, "
        "trained from random weights",
        family="single-study",
        build=build_single.alone,
        surrogate="single_study.deep_ensemble:DeepEnsemble",
        paper="Lakshminarayanan et al. 2017",
        weak_on=("conditional",),
        needs="neural",
    ),
    Method(
        name="mc-dropout",
        summary="network with Monte-Carlo dropout",
        idea="Monte-Carlo dropout: one network whose units are also dropped at random when it "
        "predicts; its standard deviations are too small",
        family="single-study",
        build=build_single.alone,
        surrogate="single_study.mc_dropout:MonteCarloDropout",
        paper="Gal, Ghahramani 2016",
        weak_on=("conditional",),
        needs="neural",
    ),
    Method(
        name="dngo",
        summary="DNGO: Bayesian linear regression on a trained network",
        idea="DNGO: Bayesian linear regression on the last layer of a trained network; its "
        "standard deviations are too small",
        family="single-study",
        build=build_single.alone,
        surrogate="single_study.dngo:DeepGlobalOptimization",
        paper="Snoek et al. 2015",
        weak_on=("conditional",),
        needs="neural",
    ),
    Method(
        name="bohamiann",
        summary="BOHAMIANN: networks sampled by Hamiltonian Monte Carlo",
        idea="BOHAMIANN: networks sampled from their posterior by Hamiltonian Monte Carlo",
        family="single-study",
        build=build_single.alone,
        surrogate="single_study.bohamiann:BayesianNetworks",
        paper="Springenberg et al. 2016",
        weak_on=("conditional",),
        needs="neural",
    ),
    Method(
        name="dkgp",
        summary="Gaussian process with a deep kernel, without past studies",
        idea="Gaussian process with a deep kernel: `fsbo` without past studies",
        family="single-study",
        build=build_single.alone,
        surrogate="single_study.deep_kernel_gp:LoneDeepKernelGP",
        paper="Wilson et al. 2016",
        weak_on=("conditional",),
        needs="neural",
    ),
    Method(
        name="hebo",
        summary="HEBO: warped Gaussian process with three acquisition functions",
        idea="Parts of HEBO: Gaussian process with warped inputs and power-transformed losses, "
        "and three acquisition functions at once",
        family="single-study",
        build=build_single.hebo,
        surrogate="single_study.warped_gp:WarpedGP",
        paper="Cowen-Rivers et al. 2022",
        weak_on=("conditional",),
    ),
)
