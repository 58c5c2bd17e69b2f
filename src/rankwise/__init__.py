"""Rankwise: hyperparameter optimization that learns to rank.

Public names load on first use, so that importing the package is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise.lazy import lazy_names

__version__ = "0.1.0"

if TYPE_CHECKING:
    from rankwise import (
        acquisition,
        archive,
        bench,
        context,
        design,
        errors,
        learners,
        losses,
        methods,
        proposal,
        surrogates,
    )
    from rankwise.asking import suggest
    from rankwise.boxes import bounding_box
    from rankwise.context import Context
    from rankwise.design import Design
    from rankwise.growing import Growing
    from rankwise.loop import minimize
    from rankwise.optimizer import Optimizer, Trial
    from rankwise.result import Result
    from rankwise.sampler import RankwiseSampler
    from rankwise.search import RankwiseSearchCV
    from rankwise.shorthand import make_space
    from rankwise.space import Encoder
    from rankwise.task import Task, TaskSet

__all__ = [
    "Context",
    "Design",
    "Encoder",
    "Growing",
    "Optimizer",
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
    "learners",
    "losses",
    "make_space",
    "methods",
    "minimize",
    "proposal",
    "suggest",
    "surrogates",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Context": "context.data",
        "Design": "design",
        "Encoder": "space",
        "Growing": "growing",
        "Optimizer": "optimizer",
        "RankwiseSampler": "sampler",
        "RankwiseSearchCV": "search",
        "Result": "result",
        "Task": "task",
        "TaskSet": "task",
        "Trial": "optimizer",
        "acquisition": "acquisition",
        "archive": "archive",
        "bench": "bench",
        "bounding_box": "boxes",
        "context": "context",
        "design": "design",
        "errors": "errors",
        "learners": "learners",
        "losses": "losses",
        "make_space": "shorthand",
        "methods": "methods",
        "minimize": "loop",
        "proposal": "proposal",
        "suggest": "asking",
        "surrogates": "surrogates",
    },
)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
