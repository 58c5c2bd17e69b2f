"""The sources of past studies: those of this package, and those of other packages."""

from __future__ import annotations

import importlib
import os
import warnings
from pathlib import Path

from rankwise._core.plugins import plugins
from rankwise.archive.sources.base import GROUP, Contents, ReadOptions, Source
from rankwise.errors import ArchiveError, OptionError, RankwiseError, RunWarning

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

    Raises:
        OptionError: it does not have them.
    """
    if not all(callable(getattr(source, name, None)) for name in ("belongs", "read")):
        raise OptionError(f"a source has the functions belongs and read; {_name(source)} has not")
    _ADDED.insert(0, source)
    return source


def sources() -> list[Source]:
    """All sources in the order in which they are asked: those of others, then our own."""
    own = [importlib.import_module(f"rankwise.archive.sources.{name}") for name in _OWN]
    return [*_of_others(), importlib.import_module(_BUILTIN), *own]


def _of_others() -> list[Source]:
    return [*_ADDED, *plugins(GROUP).values()]


def _name(source: object) -> str:
    return str(getattr(source, "__name__", None) or type(source).__name__)


def source_of(address: str) -> Source:
    """The first source that an address belongs to.

    Raises:
        ArchiveError: there is none.
    """
    if not address.strip():
        raise ArchiveError("the address of the archive is empty: give a URL, a file or a folder")
    for source in sources():
        if _belongs(source, address):
            return source
    if "://" not in address and not os.path.lexists(address):
        raise ArchiveError(f"there is no file or folder {Path(address)}; check the path")
    raise ArchiveError(
        f"{address} holds no studies that can be read: expected is a journal or SQLite file of "
        "Optuna, HPO-B's JSON, tables (.csv, .parquet, .jsonl), or an address of another source "
        "(rankwise.archive.sources)"
    )


def _belongs(source: Source, address: str) -> bool:
    """Whether an address belongs to a source; one of others that fails is left out."""
    try:
        return bool(source.belongs(address))
    except Exception as error:  # a plug-in of others may raise anything
        if source not in _of_others():
            raise
        warnings.warn(
            f"the source {_name(source)} is not used: {type(error).__name__}: {error}",
            RunWarning,
            stacklevel=3,
        )
        return False


def read(address: str, options: ReadOptions) -> Contents:
    """Read the studies at an address.

    Raises:
        ArchiveError, StorageError: no source reads the address, or it cannot be read.
    """
    source = source_of(address)
    if source not in _of_others():
        return source.read(address, options)
    try:
        contents = source.read(address, options)
    except RankwiseError:
        raise
    except Exception as error:  # a plug-in of others may raise anything
        raise ArchiveError(
            f"{address} cannot be read by the source {_name(source)} "
            f"({type(error).__name__}: {error})"
        ) from error
    if not isinstance(contents, Contents):
        raise ArchiveError(
            f"the source {_name(source)} must return rankwise.archive.Contents, not "
            f"{type(contents).__name__}"
        )
    return contents
