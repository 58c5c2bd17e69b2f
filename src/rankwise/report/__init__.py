"""A report of one study as a single HTML page that needs no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise._core.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.report.write import write_report

__all__ = [
    "write_report",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "write_report": "report.write",
    },
)
