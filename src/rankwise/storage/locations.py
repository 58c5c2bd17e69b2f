"""Addresses of storages and archives, and the folders of their models."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

from rankwise.storage.study_log import without_password

SQLITE_FILES = (".db", ".sqlite", ".sqlite3")
"""Endings of the names of SQLite files."""
JOURNAL_FILES = (".log", ".journal")
"""Endings of the names of new journal files; existing ones are known by their content."""

_MODELS = ".rankwise"
_URL = re.compile(r"[A-Za-z][\w+.-]*://")
_SQLITE = re.compile(r"sqlite(?:\+\w+)?:///(?P<path>[^?]*)")


def is_url(address: str) -> bool:
    """True for "sqlite:///a.db", not for an address with a prefix ("mlflow:sqlite:///a.db")."""
    return _URL.match(address) is not None


def storage_url(address: str | Path) -> str | None:
    """Return the URL of the database at an address; None for any other kind of address.

    Args:
        address: a URL, which is returned unchanged, or the path of a file or folder.
    """
    if is_url(str(address)):
        return str(address)
    path = Path(address)
    return f"sqlite:///{path}" if path.suffix in SQLITE_FILES else None


def is_journal(path: Path) -> bool:
    """Return whether a file is an Optuna journal, by its first line; an empty file is one."""
    if not path.is_file():
        return False
    try:
        with path.open(encoding="utf-8") as file:
            line = file.readline()
        return not line or "op_code" in json.loads(line)
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def sqlite_path(url: str) -> Path | None:
    """File of an SQLite URL; None for a database in memory or of another kind."""
    match = _SQLITE.match(url)
    inside = match["path"] if match else ""
    return None if inside in ("", ":memory:") else Path(inside)


def model_folder(origin: str) -> Path | None:
    """Folder of the models of an archive: beside its file, else in the user's cache folder.

    Args:
        origin: URL or path of the archive; "" for studies that are only in memory.
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
