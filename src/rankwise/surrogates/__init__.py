"""Surrogates: models that learn from tasks and predict a posterior. One file each."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankwise.surrogates.base import Posterior, Surrogate
    from rankwise.surrogates.forest import RandomForest
    from rankwise.surrogates.gp import GaussianProcess

__all__ = ["GaussianProcess", "Posterior", "RandomForest", "Surrogate"]

_HOME = {
    "GaussianProcess": "gp",
    "Posterior": "base",
    "RandomForest": "forest",
    "Surrogate": "base",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"rankwise.surrogates.{_HOME[name]}"), name)
    raise AttributeError(f"module 'rankwise.surrogates' has no attribute {name!r}")
