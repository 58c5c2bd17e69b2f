"""Reads the run histories of SMAC3 (`runhistory.json`)."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rankwise._core.words import count
from rankwise.archive.sources.base import Contents, ReadOptions
from rankwise.archive.sources.cells import number
from rankwise.archive.sources.json_files import flat, read_json
from rankwise.archive.sources.records import Record, studies_of
from rankwise.errors import ArchiveError

_FILE = "runhistory.json"
_STATES = {0: "RUNNING", 1: "finished", 2: "crashed", 3: "failed", 4: "failed"}
"""SMAC's states; 3 and 4 ran out of memory or time."""


def belongs(address: str) -> bool:
    """True for a file `runhistory.json`, or a folder with some at most three levels below."""
    path = Path(address)
    return path.name == _FILE if path.is_file() else path.is_dir() and bool(_histories(path))


def read(address: str, options: ReadOptions) -> Contents:
    """Read run histories as studies; costs are minimized.

    A study has the name of its scenario and its seed, which are the names of the two folders.

    Raises:
        ArchiveError: a file cannot be read, or it is of another version.
    """
    path = Path(address)
    records: list[Record] = []
    for file in [path] if path.is_file() else _histories(path):
        name = "/".join(file.absolute().parent.parts[-2:])
        records += _trials(file, name)
    notes = [f"SMAC3: {count(len(records), 'trial')}; one study per folder of a scenario"]
    return studies_of(records, address, options, direction="minimize", notes=notes)


def _histories(folder: Path) -> list[Path]:
    patterns = (_FILE, f"*/{_FILE}", f"*/*/{_FILE}", f"*/*/*/{_FILE}")
    return sorted(path for pattern in patterns for path in folder.glob(pattern))


def _trials(file: Path, study: str) -> list[Record]:
    content = read_json(file)
    try:
        configs = {str(key): flat(config) for key, config in content["configs"].items()}
        data = list(content["data"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ArchiveError(
            f"{file} is not a run history of SMAC3 that can be read: no {error}"
        ) from error
    found = []
    for k, trial in enumerate(data):
        try:
            config = configs[str(trial["config_id"])]
            cost, status = trial["cost"], trial["status"]
        except (KeyError, TypeError) as error:
            raise ArchiveError(f"{file}: trial {k} has no {error}") from error
        if isinstance(cost, list):
            raise ArchiveError(f"{file}: trial {k} has {len(cost)} costs; one is supported")
        params = {name: value for name, value in config.items() if value is not None}
        found.append(
            Record(
                study,
                params,
                _number(file, k, "cost", cost),
                _STATES.get(status, "failed") if isinstance(status, int) else str(status),
                _number(file, k, "time", trial.get("time")),
                _moment(trial.get("starttime")),
            )
        )
    return found


def _number(file: Path, k: int, what: str, value: Any) -> float:
    try:
        return number(value)
    except ValueError as error:
        raise ArchiveError(f"{file}: {what} of trial {k} must be a number: {error}") from error


def _moment(seconds: Any) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, timezone.utc) if seconds else None
    except (TypeError, ValueError, OverflowError, OSError):
        return None
