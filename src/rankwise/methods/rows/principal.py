"""Baselines, Gaussian process, forest, ranking ensembles and the empirical-Bayes transfer GP."""

from __future__ import annotations

from rankwise.methods import build_single, build_transfer
from rankwise.methods.method import Method

_RANKING = "ranking.dre:DeepRankingEnsemble"
_EMPIRICAL_BAYES = "empirical_bayes.surrogate:EmpiricalBayes"

GAUSSIAN_PROCESS = Method(
    name="gp",
    summary="Gaussian process with expected improvement",
    idea="Gaussian process (Matérn-5/2 kernel with a length scale for each column) with expected "
    "improvement",
    family="single-study",
    build=build_single.gaussian_process,
    paper="Snoek et al. 2012",
    weak_on=("conditional",),
)

METHODS = (
    Method(
        name="auto",
        summary="eb-gp or eb-net if past studies help, else mbo",
        idea="`mbo` without past studies, `eb-gp` with past studies, `eb-net` with more than 3000 "
        "of them if PyTorch is installed",
        family="automatic",
        build=build_transfer.automatic,
        transfer=True,
        fallback="mbo",
        use_when="always, unless you have a reason to choose another method",
    ),
    Method(
        name="random",
        summary="random search without repetitions",
        idea="Random configurations without repetitions",
        family="baseline",
        build=build_single.random_search,
        paper="Bergstra, Bengio 2012",
    ),
    Method(
        name="grid",
        summary="grid search with grids that become finer",
        idea="Points of a grid in random order; when all are evaluated, a finer grid follows",
        family="baseline",
        build=build_single.grid_search,
    ),
    Method(
        name="default",
        summary="the default configuration, then random search",
        idea="The default configuration of the space, then random configurations",
        family="baseline",
        build=build_single.default_first,
    ),
    GAUSSIAN_PROCESS,
    Method(
        name="forest",
        summary="random forest with a lower confidence bound",
        idea="Extremely randomized trees with the jackknife's standard error and a lower "
        "confidence bound; its standard deviations are too small",
        family="single-study",
        build=build_single.random_forest,
        paper="Hutter et al. 2011",
        weak_on=("numeric",),
    ),
    Method(
        name="mbo",
        summary="Gaussian process for all kinds of spaces, few initial points",
        idea="Gaussian process with one length-scale per hyperparameter, distances that respect "
        "which ones are active, and a scale of losses chosen by evidence; few initial points",
        family="single-study",
        build=build_single.model_based,
        paper="Bischl et al. 2017",
        use_when="without past studies",
    ),
    Method(
        name="dre",
        summary="Deep Ranking Ensemble, meta-learned on past studies",
        idea="Deep Ranking Ensemble: neural networks that learn to rank, meta-learned on past "
        "studies, with the expected improvement of ranks",
        family="ranking",
        build=build_transfer.ranking_ensemble,
        transfer=True,
        surrogate=_RANKING,
        paper="Khazi et al. 2023",
        needs="neural",
    ),
    Method(
        name="dre-ri",
        summary="Deep Ranking Ensemble from random weights, without past studies",
        idea="`dre` from random weights",
        family="ranking",
        build=build_single.untaught_ranking_ensemble,
        surrogate=_RANKING,
        paper="Khazi et al. 2023",
        needs="neural",
    ),
    Method(
        name="eb-gp",
        summary="Gaussian process with a prior learnt from past studies",
        idea="Empirical-Bayes transfer GP: past studies give the mean and the covariance of a "
        "Gaussian process, averaged over models with and without them",
        family="empirical-bayes",
        build=build_transfer.empirical_bayes,
        transfer=True,
        surrogate=_EMPIRICAL_BAYES,
        fixed={"kind": "gp"},
        use_when="with past studies of the same space",
    ),
    Method(
        name="eb-net",
        summary="eb-gp with one network for all past studies",
        idea="`eb-gp` with one network for all past studies instead of a Gaussian process for "
        "each",
        family="empirical-bayes",
        build=build_transfer.empirical_bayes,
        transfer=True,
        surrogate=_EMPIRICAL_BAYES,
        fixed={"kind": "net"},
        needs="neural",
    ),
    Method(
        name="dre-gp",
        summary="dre as the prior of a Gaussian process, without fine-tuning",
        idea="`eb-gp` with the scorers of `dre`, given a Deep Set of each past study, instead of "
        "Gaussian processes of the past studies; no fine-tuning",
        family="empirical-bayes",
        build=build_transfer.empirical_bayes,
        transfer=True,
        surrogate=_EMPIRICAL_BAYES,
        fixed={"kind": "rank"},
        needs="neural",
    ),
)
