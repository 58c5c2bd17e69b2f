"""Past studies: read from where they are kept, as tasks of one common space."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.archive.archive import Archive
    from rankwise.archive.common import CommonSpace
    from rankwise.archive.context import attach_context, attach_rows, read_context
    from rankwise.archive.describe import Description
    from rankwise.archive.opening import open_archive
    from rankwise.archive.studies import PastStudy

__all__ = [
    "Archive",
    "CommonSpace",
    "Description",
    "PastStudy",
    "attach_context",
    "attach_rows",
    "open_archive",
    "read_context",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Archive": "archive",
        "CommonSpace": "common",
        "Description": "describe",
        "PastStudy": "studies",
        "attach_context": "context",
        "attach_rows": "context",
        "open_archive": "opening",
        "read_context": "context",
    },
)
