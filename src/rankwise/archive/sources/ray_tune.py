"""Reads Ray Tune's experiment folders: `params.json` and `result.json` of each trial.

Ray's own files of an experiment's state contain pickles, which are never loaded. Each trial's
folder has its configuration and one line of JSON per reported result.
"""

from __future__ import annotations

import json
import math
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rankwise._core.words import count
from rankwise.archive.sources.base import Contents, ReadOptions
from rankwise.archive.sources.cells import number
from rankwise.archive.sources.json_files import flat, read_json
from rankwise.archive.sources.records import Record, studies_of
from rankwise.errors import ArchiveError

_OWN = frozenset(
    [
        "timestamp",
        "checkpoint_dir_name",
        "done",
        "training_iteration",
        "trial_id",
        "date",
        "time_this_iter_s",
        "time_total_s",
        "pid",
        "hostname",
        "node_ip",
        "config",
        "time_since_restore",
        "iterations_since_restore",
        "experiment_id",
        "experiment_tag",
        "should_checkpoint",
        "timesteps_total",
        "episodes_total",
    ]
)
"""Entries of a result that are not metrics."""


def belongs(address: str) -> bool:
    """True for an experiment folder, or a folder of experiment folders."""
    path = Path(address)
    return path.is_dir() and bool(_experiments(path))


def read(address: str, options: ReadOptions) -> Contents:
    """Read experiments as studies; the name of a study is that of its folder.

    A trial's value is the last reported one. A trial without results has failed.

    Raises:
        ArchiveError: a file cannot be read, or it is not clear which metric is meant.
    """
    records: list[Record] = []
    damaged = 0
    for folder in _experiments(Path(address)):
        for trial in sorted(folder.iterdir()):
            if (trial / "params.json").is_file():
                record, lost = _trial(trial, folder.name, options.metric)
                records.append(record)
                damaged += lost
    notes = [f"Ray Tune: {count(len(records), 'trial')}, values from {options.metric!r}"]
    if damaged:
        notes.append(f"{count(damaged, 'damaged line')} of result.json left out")
    return studies_of(records, address, options, notes=notes)


def _experiments(path: Path) -> list[Path]:
    """The folders below a path, or the path itself, that are experiments."""
    try:
        folders = [path, *sorted(p for p in path.iterdir() if p.is_dir())]
    except OSError:
        return []
    return [f for f in folders if any(f.glob("*/params.json")) and _is_run(f)]


def _is_run(folder: Path) -> bool:
    state = any(folder.glob("experiment_state*.json"))
    return state or any(folder.glob("*/result.json"))


def _trial(folder: Path, study: str, metric: str | None) -> tuple[Record, int]:
    """A trial, and the number of its damaged results."""
    params = read_json(folder / "params.json")
    if not isinstance(params, dict):
        raise ArchiveError(f"{folder / 'params.json'} is not a configuration: {params!r:.60}")
    results, damaged = _results(folder / "result.json")
    curve: dict[int, float] = {}
    value = math.nan
    for k, result in enumerate(results):
        value = _value(folder / "result.json", result, metric)
        if math.isfinite(value):
            curve[_step(result, k)] = value
    last = results[-1] if results else {}
    return Record(
        study,
        flat(params),
        value,
        "" if results else "ERROR",
        _number(last.get("time_total_s")),
        _began(results[0]) if results else None,
        curve if len(curve) > 1 else {},
    ), damaged


def _results(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The lines of a file of results, and the number of lines that cannot be read."""
    if not path.is_file():
        return [], 0
    found, damaged = [], 0
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ArchiveError(f"{path} cannot be read ({error})") from error
    for line in lines:
        try:
            result = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            damaged += 1  # the last line of a killed run
            continue
        if isinstance(result, dict):
            found.append(result)
        else:
            damaged += result is not None
    return found, damaged


def _value(path: Path, result: dict[str, Any], metric: str | None) -> float:
    entries = flat({k: v for k, v in result.items() if k != "config"})
    if metric is None or metric not in entries:
        if (
            metric is not None
            and any(k in entries for k in ("error", "done"))
            and not (set(entries) - _OWN)
        ):
            return math.nan  # Ray's note about the end of a trial
        metrics = sorted(set(entries) - _OWN)
        what = "reports several metrics" if metric is None else f"has no metric {metric!r}"
        raise ArchiveError(
            f"{path} {what}: say which one with metric= (one of {', '.join(metrics[:12])})"
        )
    try:
        return number(entries[metric])
    except ValueError as error:
        raise ArchiveError(f"{path}: metric {metric!r} must be a number: {error}") from error


def _step(result: dict[str, Any], k: int) -> int:
    step = _number(result.get("training_iteration"))
    return int(step) if math.isfinite(step) else k


def _began(result: dict[str, Any]) -> datetime | None:
    moment = _number(result.get("timestamp")) - _number(result.get("time_total_s"))
    try:
        return datetime.fromtimestamp(moment, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None


def _number(value: Any) -> float:
    try:
        return number(value)
    except ValueError:
        return math.nan
