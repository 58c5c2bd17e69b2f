"""Reads the runs of an MLflow folder (`mlruns`): one file per parameter, tag and metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from rankwise.errors import ArchiveError

_STATUS = {1: "RUNNING", 2: "SCHEDULED", 3: "FINISHED", 4: "FAILED", 5: "KILLED"}
_META = "meta.yaml"


def is_folder(path: Path) -> bool:
    """True for a folder with experiments of MLflow."""
    try:
        return path.is_dir() and any((p / _META).is_file() for p in path.iterdir())
    except OSError:
        return False


def runs(
    folder: Path,
    wanted: Callable[[str], bool],
    metric_of: Callable[[Iterable[str]], str],
    make: Callable[..., Any],
) -> dict[str, Any]:
    """The active runs of some experiments, by id; the arguments are those of the database.

    Raises:
        ArchiveError: a file cannot be read; the message names it.
    """
    found: dict[str, Any] = {}
    logged: dict[str, dict[str, Path]] = {}
    for experiment in _parts(folder):
        about = _meta(experiment / _META)
        if about.get("lifecycle_stage") != "active" or not wanted(str(about.get("name"))):
            continue
        for place in _parts(experiment):
            facts = _meta(place / _META)
            if facts.get("lifecycle_stage") != "active":
                continue
            key = str(facts.get("run_id") or facts.get("run_uuid") or place.name)
            status = facts.get("status")
            run = make(
                key,
                str(about.get("name")),
                _STATUS.get(status, "") if isinstance(status, int) else str(status or ""),
                _whole(facts.get("start_time")),
                _whole(facts.get("end_time")),
                str(facts.get("run_name") or ""),
            )
            run.params.update({k: _text(f) for k, f in _files(place / "params")})
            run.tags.update({k: _text(f) for k, f in _files(place / "tags")})
            logged[key] = dict(_files(place / "metrics"))
            found[key] = run
    if not found:
        return found
    metric = metric_of(name for files in logged.values() for name in files)
    for key, files in logged.items():
        if metric in files:
            found[key].points += list(_points(files[metric]))
    return found


def _parts(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if (p / _META).is_file())


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files below a folder with their names; a name with a slash is a file in a folder."""
    if folder.is_dir():
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                yield path.relative_to(folder).as_posix(), path


def _points(path: Path) -> Iterator[tuple[int, int, float]]:
    """The lines "milliseconds value step" of a metric."""
    for k, line in enumerate(_text(path).splitlines(), 1):
        cells = line.split(" ")
        try:
            moment, value = int(cells[0]), float(cells[1])
            step = int(cells[2]) if len(cells) > 2 else 0
        except (ValueError, IndexError):
            raise ArchiveError(
                f"{path}, line {k}: expected milliseconds, value and step, not {line[:60]!r}"
            ) from None
        yield step, moment, value if math.isfinite(value) else math.nan


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArchiveError(f"{path} cannot be read ({error})") from error


def _meta(path: Path) -> dict[str, Any]:
    """The entries of a file meta.yaml, which has one line for each.

    Only plain entries are used, so no parser of YAML is needed.
    """
    found: dict[str, Any] = {}
    for line in _text(path).splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip() == name:
            found[name] = value.strip().strip("'\"")
    if "lifecycle_stage" not in found:
        raise ArchiveError(f"{path} is not a description of an MLflow run: no lifecycle_stage")
    status = found.get("status", "")
    if status.isdigit():
        found["status"] = int(status[:9])
    return found


def _whole(text: Any) -> int | None:
    try:
        return int(str(text)[:20])
    except ValueError:
        return None
