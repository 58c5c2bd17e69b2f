"""The sources of past studies: those of this package, and those of other packages."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from rankwise._core.plugins import plugins
from rankwise.archive.sources.base import GROUP, Source
from rankwise.errors import ArchiveError

_OWN = (
    "mlflow_runs",
    "ray_tune",
    "keras_tuner",
    "smac_history",
    "hpob_files",
    "table_files",
    "optuna_storage",
)
"""Modules of this folder in the order in which they are asked."""

_BUILTIN = "rankwise.estimators.builtin_source"
"""The source "builtin:NAME". It needs the ready-made spaces, so it is registered by its name, like
the sources of other packages."""

_ADDED: list[Source] = []


def add_source(source: Source) -> Source:
    """Add a source for this process; it is asked before all others.

    Args:
        source: an object or a module with the functions `belongs` and `read`.
    """
    _ADDED.insert(0, source)
    return source


def sources() -> list[Source]:
    """All sources in the order in which they are asked: added ones, entry points, our own."""
    own = [importlib.import_module(f"rankwise.archive.sources.{name}") for name in _OWN]
    return [*_ADDED, *plugins(GROUP).values(), importlib.import_module(_BUILTIN), *own]


def source_of(address: str) -> Source:
    """The first source that an address belongs to.

    Raises:
        ArchiveError: there is none.
    """
    if not address.strip():
        raise ArchiveError("the address of the archive is empty: give a URL, a file or a folder")
    for source in sources():
        if source.belongs(address):
            return source
    if "://" not in address and not os.path.lexists(address):
        raise ArchiveError(f"there is no file or folder {Path(address)}; check the path")
    raise ArchiveError(
        f"{address} holds no studies that can be read: expected is a journal or SQLite file of "
        "Optuna, HPO-B's JSON, tables (.csv, .parquet, .jsonl), or an address of another source "
        "(rankwise.archive.sources)"
    )
