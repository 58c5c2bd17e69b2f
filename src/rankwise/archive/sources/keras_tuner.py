"""Reads the projects of Keras Tuner: `trial.json` of each trial beside `oracle.json`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rankwise._core.words import count
from rankwise.archive.sources.base import Contents, ReadOptions
from rankwise.archive.sources.cells import number
from rankwise.archive.sources.json_files import read_json
from rankwise.archive.sources.records import Record, studies_of
from rankwise.errors import ArchiveError

_DIRECTIONS = {"min": "minimize", "max": "maximize"}


def belongs(address: str) -> bool:
    """True for a project folder, or a folder of projects."""
    path = Path(address)
    return path.is_dir() and bool(_projects(path))


def read(address: str, options: ReadOptions) -> Contents:
    """Read projects as studies; the name of a study is that of its folder.

    The value of a trial is its score, or the last mean observation of `metric`.

    Raises:
        ArchiveError: a file cannot be read, or it is of another version.
    """
    records: list[Record] = []
    directions: set[str | None] = set()
    for project in _projects(Path(address)):
        for file in sorted(project.glob("trial_*/trial.json")):
            record, direction = _trial(file, project.name, options.metric)
            records.append(record)
            directions.add(direction)
    known = directions - {None}
    what = "the score" if options.metric is None else repr(options.metric)
    notes = [f"Keras Tuner: {count(len(records), 'trial')}, values from {what}"]
    return studies_of(
        records,
        address,
        options,
        direction=known.pop() if len(known) == 1 else None,
        notes=notes,
    )


def _projects(path: Path) -> list[Path]:
    try:
        folders = [path, *sorted(p for p in path.iterdir() if p.is_dir())]
    except OSError:
        return []
    return [f for f in folders if (f / "oracle.json").is_file() and any(f.glob("trial_*"))]


def _trial(file: Path, study: str, metric: str | None) -> tuple[Record, str | None]:
    """A trial, and the direction of its metric if that is known."""
    content = read_json(file)
    try:
        values = dict(content["hyperparameters"]["values"])
        metrics = dict(content["metrics"]["metrics"])
        status, score = str(content["status"]), content.get("score")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArchiveError(
            f"{file} is not a trial of Keras Tuner that can be read: no {error}"
        ) from error
    if metric is not None and metric not in metrics and metrics:
        raise ArchiveError(
            f"{file} has no metric {metric!r}: say which one with metric= (one of "
            f"{', '.join(sorted(metrics)[:12])})"
        )
    curve = _curve(file, metrics.get(metric)) if metric in metrics else {}
    value = curve[max(curve)] if curve else math.nan
    if metric is None:
        value = _number(file, "score", score)
    params = {key: v for key, v in values.items() if not key.startswith("tuner/")}
    record = Record(study, params, value, status, curve=curve if len(curve) > 1 else {})
    return record, _direction(metrics, metric)


def _curve(file: Path, history: Any) -> dict[int, float]:
    """Mean of the observations of a metric by step."""
    try:
        points = [(int(o["step"]), list(o["value"])) for o in history["observations"]]
    except (KeyError, TypeError, ValueError) as error:
        raise ArchiveError(
            f"{file}: the observations have an unknown layout, perhaps of another version of "
            f"KerasTuner ({error!r})"
        ) from error
    found = {}
    for step, cells in points:
        numbers = [_number(file, "observation", cell) for cell in cells]
        mean = sum(numbers) / len(numbers) if numbers else math.nan
        if math.isfinite(mean):
            found[step] = mean
    return found


def _direction(metrics: dict[str, Any], metric: str | None) -> str | None:
    """The direction of the metric; without one, that of all metrics if they agree."""
    asked = [metrics[metric]] if metric in metrics else list(metrics.values())
    found = {m.get("direction") for m in asked if isinstance(m, dict)}
    return _DIRECTIONS.get(str(found.pop())) if len(found) == 1 else None


def _number(file: Path, what: str, value: Any) -> float:
    try:
        return number(value)
    except ValueError as error:
        raise ArchiveError(f"{file}: {what} must be a number: {error}") from error
