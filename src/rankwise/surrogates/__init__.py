"""Surrogates: models that learn from tasks and predict a posterior. One file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.surrogates.base import Posterior, Surrogate
    from rankwise.surrogates.dre import DeepRankingEnsemble
    from rankwise.surrogates.eb import EmpiricalBayes
    from rankwise.surrogates.forest import RandomForest
    from rankwise.surrogates.gp import GaussianProcess
    from rankwise.surrogates.meta import MetaTraining

__all__ = [
    "DeepRankingEnsemble",
    "EmpiricalBayes",
    "GaussianProcess",
    "MetaTraining",
    "Posterior",
    "RandomForest",
    "Surrogate",
]

__getattr__ = lazy_names(
    __name__,
    {
        "DeepRankingEnsemble": "dre",
        "EmpiricalBayes": "eb",
        "GaussianProcess": "gp",
        "MetaTraining": "meta",
        "Posterior": "base",
        "RandomForest": "forest",
        "Surrogate": "base",
    },
)
