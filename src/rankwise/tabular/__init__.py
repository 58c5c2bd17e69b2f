"""Tables of data: read from files, made into a problem, prepared for any estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.tabular.preparation import Preparation
    from rankwise.tabular.problem import Problem
    from rankwise.tabular.reading import TableError, read_table

__all__ = ["Preparation", "Problem", "TableError", "read_table"]

__getattr__ = lazy_names(
    __name__,
    {
        "Preparation": "preparation",
        "Problem": "problem",
        "TableError": "reading",
        "read_table": "reading",
    },
)
