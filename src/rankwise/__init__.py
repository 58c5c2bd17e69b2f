"""Rankwise: hyperparameter optimization that learns to rank.

Public names load on first use, so that importing the package is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from rankwise import acquisition, design, errors, methods, proposal, surrogates
    from rankwise.design import Design
    from rankwise.loop import minimize
    from rankwise.optimizer import Optimizer, Trial
    from rankwise.result import Result
    from rankwise.shorthand import make_space
    from rankwise.space import Encoder
    from rankwise.task import Task

__all__ = [
    "Design",
    "Encoder",
    "Optimizer",
    "Result",
    "Task",
    "Trial",
    "acquisition",
    "design",
    "errors",
    "make_space",
    "methods",
    "minimize",
    "proposal",
    "surrogates",
]

_HOME = {
    "Design": "design",
    "Encoder": "space",
    "Optimizer": "optimizer",
    "Result": "result",
    "Task": "task",
    "Trial": "optimizer",
    "make_space": "shorthand",
    "minimize": "loop",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"rankwise.{_HOME[name]}"), name)
    if name in __all__:
        return importlib.import_module(f"rankwise.{name}")
    raise AttributeError(f"module 'rankwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
