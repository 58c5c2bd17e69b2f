"""Tables of data: reading files, defining the problem, preparing for estimators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise._core.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.tabular.preparation import Preparation
    from rankwise.tabular.problem import Problem
    from rankwise.tabular.reading import read_table

__all__ = [
    "Preparation",
    "Problem",
    "read_table",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Preparation": "tabular.preparation",
        "Problem": "tabular.problem",
        "read_table": "tabular.reading",
    },
)
