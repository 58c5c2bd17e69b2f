"""The built-in past: tuning records of many data sets that are shipped with the package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise._core.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.builtin.records import VERSION, Records, available, read_records

__all__ = ["VERSION", "Records", "available", "read_records"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "VERSION": "builtin.records",
        "Records": "builtin.records",
        "available": "builtin.records",
        "read_records": "builtin.records",
    },
)
