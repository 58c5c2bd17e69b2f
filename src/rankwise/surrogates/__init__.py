"""Surrogates: models that learn from tasks and predict a posterior. One file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.surrogates.ablr import AdaptiveBLR
    from rankwise.surrogates.base import Posterior, Surrogate
    from rankwise.surrogates.bohamiann import BayesianNetworks
    from rankwise.surrogates.deep_ensemble import DeepEnsemble
    from rankwise.surrogates.described import DescribedRankingEnsemble
    from rankwise.surrogates.dist import DistributionalTransfer, NetworkRegression
    from rankwise.surrogates.dkgp import LoneDeepKernelGP
    from rankwise.surrogates.dngo import DeepGlobalOptimization
    from rankwise.surrogates.dre import DeepRankingEnsemble
    from rankwise.surrogates.eb import EmpiricalBayes
    from rankwise.surrogates.forest import RandomForest
    from rankwise.surrogates.fsbo import DeepKernelGP
    from rankwise.surrogates.gcp import CopulaProcess
    from rankwise.surrogates.gp import GaussianProcess
    from rankwise.surrogates.mc_dropout import MonteCarloDropout
    from rankwise.surrogates.meta import MetaTraining
    from rankwise.surrogates.multitask import MultiTaskGP
    from rankwise.surrogates.rgpe import RankingWeightedGPs
    from rankwise.surrogates.scot import JointRankingGP
    from rankwise.surrogates.taf import TransferAcquisition
    from rankwise.surrogates.tst import TwoStageTransfer
    from rankwise.surrogates.warped import WarpedGP

__all__ = [
    "AdaptiveBLR",
    "BayesianNetworks",
    "CopulaProcess",
    "DeepEnsemble",
    "DeepGlobalOptimization",
    "DeepKernelGP",
    "DeepRankingEnsemble",
    "DescribedRankingEnsemble",
    "DistributionalTransfer",
    "EmpiricalBayes",
    "GaussianProcess",
    "JointRankingGP",
    "LoneDeepKernelGP",
    "MetaTraining",
    "MonteCarloDropout",
    "MultiTaskGP",
    "NetworkRegression",
    "Posterior",
    "RandomForest",
    "RankingWeightedGPs",
    "Surrogate",
    "TransferAcquisition",
    "TwoStageTransfer",
    "WarpedGP",
]

__getattr__ = lazy_names(
    __name__,
    {
        "AdaptiveBLR": "ablr",
        "BayesianNetworks": "bohamiann",
        "CopulaProcess": "gcp",
        "DeepEnsemble": "deep_ensemble",
        "DeepGlobalOptimization": "dngo",
        "DeepKernelGP": "fsbo",
        "DeepRankingEnsemble": "dre",
        "DescribedRankingEnsemble": "described",
        "DistributionalTransfer": "dist",
        "EmpiricalBayes": "eb",
        "GaussianProcess": "gp",
        "JointRankingGP": "scot",
        "LoneDeepKernelGP": "dkgp",
        "MetaTraining": "meta",
        "MonteCarloDropout": "mc_dropout",
        "MultiTaskGP": "multitask",
        "NetworkRegression": "dist",
        "Posterior": "base",
        "RandomForest": "forest",
        "RankingWeightedGPs": "rgpe",
        "Surrogate": "base",
        "TransferAcquisition": "taf",
        "TwoStageTransfer": "tst",
        "WarpedGP": "warped",
    },
)
