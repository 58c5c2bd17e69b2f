"""Surrogates: models that learn from tasks and predict a posterior. One file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise._core.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.surrogates.base import Posterior, Surrogate
    from rankwise.surrogates.distbo.surrogate import DistributionalTransfer, NetworkRegression
    from rankwise.surrogates.empirical_bayes.surrogate import EmpiricalBayes
    from rankwise.surrogates.joint_task.icm import MultiTaskGP
    from rankwise.surrogates.joint_task.scot import JointRankingGP
    from rankwise.surrogates.ranking.dre import DeepRankingEnsemble
    from rankwise.surrogates.ranking.dre_with_data import DescribedRankingEnsemble
    from rankwise.surrogates.ranking.meta_training import MetaTraining
    from rankwise.surrogates.shared_features.ablr import AdaptiveBLR
    from rankwise.surrogates.shared_features.fsbo import DeepKernelGP
    from rankwise.surrogates.shared_features.gcp import CopulaProcess
    from rankwise.surrogates.single_study.bohamiann import BayesianNetworks
    from rankwise.surrogates.single_study.deep_ensemble import DeepEnsemble
    from rankwise.surrogates.single_study.deep_kernel_gp import LoneDeepKernelGP
    from rankwise.surrogates.single_study.dngo import DeepGlobalOptimization
    from rankwise.surrogates.single_study.forest import RandomForest
    from rankwise.surrogates.single_study.gp import GaussianProcess
    from rankwise.surrogates.single_study.mc_dropout import MonteCarloDropout
    from rankwise.surrogates.single_study.warped_gp import WarpedGP
    from rankwise.surrogates.source_ensembles.rgpe import RankingWeightedGPs
    from rankwise.surrogates.source_ensembles.taf import TransferAcquisition
    from rankwise.surrogates.source_ensembles.tst import TwoStageTransfer

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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AdaptiveBLR": "surrogates.shared_features.ablr",
        "BayesianNetworks": "surrogates.single_study.bohamiann",
        "CopulaProcess": "surrogates.shared_features.gcp",
        "DeepEnsemble": "surrogates.single_study.deep_ensemble",
        "DeepGlobalOptimization": "surrogates.single_study.dngo",
        "DeepKernelGP": "surrogates.shared_features.fsbo",
        "DeepRankingEnsemble": "surrogates.ranking.dre",
        "DescribedRankingEnsemble": "surrogates.ranking.dre_with_data",
        "DistributionalTransfer": "surrogates.distbo.surrogate",
        "EmpiricalBayes": "surrogates.empirical_bayes.surrogate",
        "GaussianProcess": "surrogates.single_study.gp",
        "JointRankingGP": "surrogates.joint_task.scot",
        "LoneDeepKernelGP": "surrogates.single_study.deep_kernel_gp",
        "MetaTraining": "surrogates.ranking.meta_training",
        "MonteCarloDropout": "surrogates.single_study.mc_dropout",
        "MultiTaskGP": "surrogates.joint_task.icm",
        "NetworkRegression": "surrogates.distbo.surrogate",
        "Posterior": "surrogates.base",
        "RandomForest": "surrogates.single_study.forest",
        "RankingWeightedGPs": "surrogates.source_ensembles.rgpe",
        "Surrogate": "surrogates.base",
        "TransferAcquisition": "surrogates.source_ensembles.taf",
        "TwoStageTransfer": "surrogates.source_ensembles.tst",
        "WarpedGP": "surrogates.single_study.warped_gp",
    },
)
