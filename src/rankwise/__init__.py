"""Rankwise: hyperparameter optimization that learns to rank.

Public names load on first use, so that importing the package is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise._core.lazy import lazy_names

__version__ = "0.2.0"

if TYPE_CHECKING:
    from rankwise import (
        acquisition,
        archive,
        bench,
        context,
        errors,
        estimators,
        learners,
        methods,
        networks,
        report,
        space,
        surrogates,
    )
    from rankwise.acquisition import maximizer as proposal
    from rankwise.context.data import Context
    from rankwise.history.promising_box import bounding_box
    from rankwise.history.task import Task, TaskSet
    from rankwise.history.trial import Trial
    from rankwise.integrations.optuna.pruner import RankwisePruner
    from rankwise.integrations.optuna.sampler import RankwiseSampler
    from rankwise.integrations.sklearn.search_cv import RankwiseSearchCV
    from rankwise.run.loop import minimize
    from rankwise.run.optimizer import Optimizer
    from rankwise.run.result import Result
    from rankwise.space import design
    from rankwise.space.design import Design
    from rankwise.space.encoder import Encoder
    from rankwise.space.shorthand import make_space
    from rankwise.storage.suggest_space import suggest
    from rankwise.strategies.growing import Growing
    from rankwise.surrogates.ranking import losses

__all__ = [
    "Context",
    "Design",
    "Encoder",
    "Growing",
    "Optimizer",
    "RankwisePruner",
    "RankwiseSampler",
    "RankwiseSearchCV",
    "Result",
    "Task",
    "TaskSet",
    "Trial",
    "acquisition",
    "archive",
    "bench",
    "bounding_box",
    "context",
    "design",
    "errors",
    "estimators",
    "learners",
    "losses",
    "make_space",
    "methods",
    "minimize",
    "networks",
    "proposal",
    "report",
    "space",
    "suggest",
    "surrogates",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Context": "context.data",
        "Design": "space.design",
        "Encoder": "space.encoder",
        "Growing": "strategies.growing",
        "Optimizer": "run.optimizer",
        "RankwisePruner": "integrations.optuna.pruner",
        "RankwiseSampler": "integrations.optuna.sampler",
        "RankwiseSearchCV": "integrations.sklearn.search_cv",
        "Result": "run.result",
        "Task": "history.task",
        "TaskSet": "history.task",
        "Trial": "history.trial",
        "bounding_box": "history.promising_box",
        "make_space": "space.shorthand",
        "minimize": "run.loop",
        "suggest": "storage.suggest_space",
    },
    {
        "acquisition": "acquisition",
        "archive": "archive",
        "bench": "bench",
        "context": "context",
        "design": "space.design",
        "errors": "errors",
        "estimators": "estimators",
        "learners": "learners",
        "losses": "surrogates.ranking.losses",
        "methods": "methods",
        "networks": "networks",
        "proposal": "acquisition.maximizer",
        "report": "report",
        "space": "space",
        "surrogates": "surrogates",
    },
)
