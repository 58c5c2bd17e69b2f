"""Past studies: read from where they are kept, as tasks of one common space."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise._core.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.archive.archive import Archive
    from rankwise.archive.common_space import CommonSpace
    from rankwise.archive.describe import Description
    from rankwise.archive.open import open_archive
    from rankwise.archive.past_study import PastStudy
    from rankwise.archive.sources.base import Contents, ReadOptions, Source
    from rankwise.archive.sources.records import Record, studies_of
    from rankwise.archive.sources.registry import add_source
    from rankwise.storage.study_facts import attach_context, attach_rows, read_context

__all__ = [
    "Archive",
    "CommonSpace",
    "Contents",
    "Description",
    "PastStudy",
    "ReadOptions",
    "Record",
    "Source",
    "add_source",
    "attach_context",
    "attach_rows",
    "open_archive",
    "read_context",
    "studies_of",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Archive": "archive.archive",
        "CommonSpace": "archive.common_space",
        "Contents": "archive.sources.base",
        "Description": "archive.describe",
        "PastStudy": "archive.past_study",
        "ReadOptions": "archive.sources.base",
        "Record": "archive.sources.records",
        "Source": "archive.sources.base",
        "add_source": "archive.sources.registry",
        "attach_context": "storage.study_facts",
        "attach_rows": "storage.study_facts",
        "open_archive": "archive.open",
        "read_context": "storage.study_facts",
        "studies_of": "archive.sources.records",
    },
)
