"""Reads past studies from MLflow: a tracking database or a folder of runs; without mlflow.

The children of a run are one study; runs without a parent are the study of their experiment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rankwise._core.words import count
from rankwise.archive.sources import mlflow_database, mlflow_folder
from rankwise.archive.sources.base import Contents, ReadOptions
from rankwise.archive.sources.records import Record, studies_of
from rankwise.errors import ArchiveError
from rankwise.storage.locations import is_url, sqlite_path, storage_url
from rankwise.storage.study_log import without_password

_PREFIX, _FILE = "mlflow:", "file://"
_PARENT, _NAME = "mlflow.parentRunId", "mlflow.runName"
_INFINITE = 1.7e308  # MLflow's databases keep an infinity as the largest float


@dataclass
class Run:
    """One run of MLflow.

    Attributes:
        id: id of the run.
        experiment: name of its experiment.
        status: status, such as "FINISHED".
        start: start in milliseconds since 1970, or None.
        end: end in milliseconds since 1970, or None.
        name: name of the run.
        params: logged parameters, as texts.
        tags: tags, as texts.
        points: logged values of the metric: step, milliseconds since 1970, value.
    """

    id: str
    experiment: str
    status: str
    start: int | None = None
    end: int | None = None
    name: str = ""
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    points: list[tuple[int, int, float]] = field(default_factory=list)


def belongs(address: str) -> bool:
    """True for "mlflow:" before the URL of a database or a path, and for a folder `mlruns`."""
    path = Path(address.removeprefix(_FILE))
    return address.startswith(_PREFIX) or mlflow_folder.is_folder(path)


def read(address: str, options: ReadOptions) -> Contents:
    """Read the runs of MLflow as studies.

    Args:
        address: "mlflow:sqlite:///mlflow.db", another database with the same prefix, or a folder.
        options: what the user said; `experiment` is a pattern of experiments, `metric` the logged
            metric of the values.

    Raises:
        ArchiveError: the place cannot be read, no run has the metric, or it is not clear which
            one is meant.
    """
    place = address.removeprefix(_PREFIX)
    shown = without_password(place)

    def wanted(name: str) -> bool:
        return fnmatchcase(name, options.experiment)

    def metric_of(names: Iterable[str]) -> str:
        return _metric(shown, sorted(set(names)), options.metric)

    runs = _reader(place, shown)(wanted, metric_of)
    if not runs:
        raise ArchiveError(f"{shown} has no runs of an experiment like {options.experiment!r}")
    parents = {run.tags[_PARENT] for run in runs.values() if _PARENT in run.tags}
    names = {key: _title(run) for key, run in runs.items() if key in parents}
    trials = [run for key, run in runs.items() if key not in parents and run.params]
    runs_of = count(len(trials), "run")
    notes = [
        f"MLflow: {runs_of} with parameters; one study per parent run, or else per experiment"
    ]
    empty = len(runs) - len(trials) - len(names)
    if empty:
        notes.append(f"{count(empty, 'run')} left out: no parameters")
    contents = studies_of(
        (_record(run, runs) for run in sorted(trials, key=lambda run: run.start or 0)),
        shown,
        options,
        names=names,
        notes=notes,
    )
    origin = place if sqlite_path(place) is not None or not is_url(place) else shown
    return Contents(contents.studies, {}, contents.notes, origin)


Reader = Callable[[Callable[[str], bool], Callable[[Iterable[str]], str]], Mapping[str, Run]]


def _reader(place: str, shown: str) -> Reader:
    """The function that reads the runs of a place."""
    if place.startswith(("http:", "https:", "databricks")):
        raise ArchiveError(
            f"{shown} is a tracking server, which cannot be read directly: give its database, or "
            "save mlflow.search_runs() as a CSV file and open that"
        )
    path = Path(place.removeprefix(_FILE))
    if not is_url(place) or place.startswith(_FILE):
        if path.is_dir():
            return lambda wanted, metric: mlflow_folder.runs(path, wanted, metric, Run)
        if not path.exists():
            raise ArchiveError(f"there is no file or folder {path}; check the path")
    file = sqlite_path(place)
    if file is not None and not file.is_file():
        raise ArchiveError(f"there is no file {file}; check the path")
    url = storage_url(place) or f"sqlite:///{place}"
    return lambda wanted, metric: mlflow_database.runs(url, wanted, metric, Run)


def _metric(shown: str, names: Sequence[str], asked: str | None) -> str:
    """The metric that the user asked for, or the only one."""
    if asked is None and len(names) == 1:
        return names[0]
    if asked is None or asked not in names:
        what = "has several metrics" if asked is None else f"has no metric {asked!r}"
        listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
        raise ArchiveError(
            f"{shown} {what if names else 'has no metrics'}: say which one with metric= "
            f"(one of {listed or 'none'})"
        )
    return asked


def _title(run: Run) -> str:
    return run.tags.get(_NAME) or run.name or run.id


def _record(run: Run, runs: Mapping[str, Run]) -> Record:
    """A run as a trial; the data-set tags of its parent count for it too."""
    parent = run.tags.get(_PARENT, "")
    tags = {**(runs[parent].tags if parent in runs else {}), **run.tags}
    points = sorted(run.points)
    value = points[-1][2] if points else math.nan
    curve = {step: loss for step, _, loss in points if abs(loss) < _INFINITE}
    took = math.nan if run.start is None or run.end is None else (run.end - run.start) / 1000
    return Record(
        parent or run.experiment,
        run.params,
        value if abs(value) < _INFINITE else math.nan,
        run.status,
        took,
        _moment(run.start),
        curve if len(curve) > 1 else {},
        {key: tag for key, tag in tags.items() if not key.startswith("mlflow.")},
    )


def _moment(milliseconds: Any) -> datetime | None:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
