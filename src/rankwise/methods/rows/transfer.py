"""Published methods that learn from past studies, and CMA-ES."""

from __future__ import annotations

from rankwise.methods import build_single, build_transfer
from rankwise.methods.method import Method

_DEEP_KERNEL = "shared_features.fsbo:DeepKernelGP"

ADAPTIVE_BLR = Method(
    name="ablr",
    summary="Bayesian linear regression on features learnt from past studies",
    idea="Bayesian linear regression for each task, on features of one network that all past "
    "studies share",
    family="shared-features",
    build=build_transfer.learned,
    transfer=True,
    surrogate="shared_features.ablr:AdaptiveBLR",
    paper="Perrone et al. 2018",
    weak_on=("conditional",),
    needs="neural",
)

METHODS = (
    Method(
        name="rgpe",
        summary="Gaussian processes of all studies, weighted by how well they rank",
        idea="A Gaussian process for each past study and one for the target study, weighted by "
        "how well their posterior samples rank the trials",
        family="source-ensemble",
        build=build_transfer.learned,
        transfer=True,
        surrogate="source_ensembles.rgpe:RankingWeightedGPs",
        paper="Feurer et al. 2018",
        weak_on=("conditional",),
    ),
    Method(
        name="tst",
        summary="mean of the Gaussian processes of similar studies",
        idea="The processes of `rgpe` with weights that fall with the share of pairs of trials "
        "that a past study orders differently",
        family="source-ensemble",
        build=build_transfer.learned,
        transfer=True,
        surrogate="source_ensembles.tst:TwoStageTransfer",
        paper="Wistuba et al. 2016",
        weak_on=("conditional",),
    ),
    Method(
        name="taf",
        summary="expected improvement plus that predicted by similar past studies",
        idea="The weights of `tst` on acquisition functions: the expected improvement of the "
        "target study and the improvement that past studies predict",
        family="source-ensemble",
        build=build_transfer.learned,
        transfer=True,
        surrogate="source_ensembles.taf:TransferAcquisition",
        paper="Wistuba et al. 2018",
        weak_on=("conditional",),
    ),
    Method(
        name="scot",
        summary="one ranking of all studies, modelled by a Gaussian process",
        idea="One common scale for all studies, learnt from the order within each, and a Gaussian "
        "process over configurations and tasks",
        family="joint-task",
        build=build_transfer.learned,
        transfer=True,
        surrogate="joint_task.scot:JointRankingGP",
        paper="Bardenet et al. 2013",
        weak_on=("conditional",),
    ),
    Method(
        name="icm",
        summary="one Gaussian process of all studies (multi-task)",
        idea="One Gaussian process of past studies and target study, with a learnt covariance "
        "between tasks",
        family="joint-task",
        build=build_transfer.learned,
        transfer=True,
        surrogate="joint_task.icm:MultiTaskGP",
        paper="Swersky et al. 2013",
        weak_on=("conditional",),
    ),
    Method(
        name="init",
        summary="best configurations of similar past studies, then mbo",
        idea="The best configurations of the most similar past studies, then `mbo` or another "
        "method without transfer (`then=`)",
        family="warm-start",
        build=build_transfer.warm_start,
        transfer=True,
        fallback="mbo",
        paper="Feurer et al. 2015",
    ),
    Method(
        name="ws-cma-es",
        summary="CMA-ES, started where past studies were good",
        idea="CMA-ES, started at the best configurations of past studies",
        family="evolution",
        build=build_transfer.warm_evolution,
        transfer=True,
        paper="Nomura et al. 2021",
        weak_on=("mixed", "conditional"),
        needs="bench",
    ),
    Method(
        name="cma-es",
        summary="CMA-ES, started in the middle of the space",
        idea="CMA-ES, started in the middle of the space",
        family="evolution",
        build=build_single.evolution,
        paper="Hansen, Ostermeier 2001",
        weak_on=("mixed", "conditional"),
        needs="bench",
    ),
    Method(
        name="fsbo",
        summary="Gaussian process with a deep kernel, meta-learned on past studies",
        idea="Gaussian process with a deep kernel, meta-learned on past studies by the marginal "
        "likelihood and fine-tuned before each proposal",
        family="shared-features",
        build=build_transfer.learned,
        transfer=True,
        surrogate=_DEEP_KERNEL,
        fixed={"deep_set": 0},
        paper="Wistuba, Grabocka 2021",
        weak_on=("conditional",),
        needs="neural",
    ),
    Method(
        name="dklm",
        summary="fsbo with a Deep Set of the trials so far",
        idea="`fsbo` whose network also sees a Deep Set of the trials so far",
        family="shared-features",
        build=build_transfer.learned,
        transfer=True,
        surrogate=_DEEP_KERNEL,
        fixed={"deep_set": 16},
        paper="Jomaa et al. 2021",
        weak_on=("conditional",),
        needs="neural",
    ),
    ADAPTIVE_BLR,
    Method(
        name="gcp",
        summary="Gaussian copula process: network of past studies plus a Gaussian process",
        idea="Losses become normal scores. A network of all past studies is the prior; a Gaussian "
        "process models how the target study differs from it",
        family="shared-features",
        build=build_transfer.learned,
        transfer=True,
        surrogate="shared_features.gcp:CopulaProcess",
        paper="Salinas et al. 2020",
        weak_on=("conditional",),
        needs="neural",
    ),
)
