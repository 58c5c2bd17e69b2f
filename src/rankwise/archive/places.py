"""Where an archive is, written without passwords, and where its models can be kept."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from rankwise.study import without_password

_MODELS = ".rankwise"
_SQLITE = re.compile(r"sqlite(?:\+\w+)?:///(?P<path>[^?]*)")


def sqlite_path(url: str) -> Path | None:
    """The file of an SQLite database; None if it is in memory or another kind of database."""
    match = _SQLITE.match(url)
    inside = match["path"] if match else ""
    return None if inside in ("", ":memory:") else Path(inside)


def model_folder(origin: str) -> Path | None:
    """The folder of the models of an archive: next to its file, else in the user's cache.

    Args:
        origin: a URL or a path; "" for studies that are only in memory.
    """
    path = sqlite_path(origin)
    if path is not None:
        return _beside(path)
    if _SQLITE.match(origin):
        return None
    if "://" in origin:
        digest = hashlib.sha256(without_password(origin).encode()).hexdigest()[:32]
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(cache) / "rankwise" / digest
    return _beside(Path(origin)) if origin else None


def _beside(path: Path) -> Path:
    return path / _MODELS if path.is_dir() else path.with_name(path.name + _MODELS)
