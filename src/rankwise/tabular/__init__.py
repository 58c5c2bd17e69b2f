"""Tables of data: read from files, made into a problem, prepared for any estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.tabular.preparation import Preparation
    from rankwise.tabular.problem import Problem
    from rankwise.tabular.reading import read_table

__all__ = ["Preparation", "Problem", "read_table"]

__getattr__ = lazy_names(
    __name__,
    {
        "Preparation": "preparation",
        "Problem": "problem",
        "read_table": "reading",
    },
)
