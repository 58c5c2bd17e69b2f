"""The file beside an exported table that has what a table cannot hold, so that nothing is lost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from optuna.distributions import distribution_to_json, json_to_distribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from rankwise._core.atomic_write import atomic_write
from rankwise.errors import ArchiveError
from rankwise.storage.optuna_private import validate

_VERSION, _SEVERAL = 1, 2  # of files whose studies have one objective, and of others
_SUFFIX = ".studies.json"


@dataclass(frozen=True)
class Copy:
    """A study ready to be written.

    Attributes:
        name: its name.
        directions: direction of each objective.
        attributes: its user attributes.
        trials: its finished trials.
        metrics: names of the objectives; empty if it has none.
    """

    name: str
    directions: tuple[StudyDirection, ...]
    attributes: Mapping[str, Any]
    trials: Sequence[FrozenTrial]
    metrics: tuple[str, ...] = ()


def studies_path(table: str | Path) -> Path:
    """The file that belongs to a table: "trials.csv.studies.json"."""
    path = Path(table)
    return path.with_name(path.name + _SUFFIX)


def write_studies_file(studies: Sequence[Copy], table: Path) -> Path:
    """Write directions, distributions, attributes and trials of studies beside their table."""
    known: dict[str, int] = {}
    records = [_study(study, known) for study in studies]
    document = {
        "version": _SEVERAL if any(len(s.directions) > 1 for s in studies) else _VERSION,
        "table": _digest(table),
        "distributions": list(known),
        "studies": records,
    }
    path = studies_path(table)
    with atomic_write(path) as unfinished:
        unfinished.write_text(json.dumps(document), encoding="utf-8")
    return path


def read_studies_file(table: str | Path) -> list[Copy] | None:
    """The studies of an exported table; None if the table has no such file or was changed.

    Raises:
        ArchiveError: the file is damaged or of a version that is not known.
    """
    path = studies_path(table)
    if not path.is_file() or not Path(table).is_file():
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["version"] not in (_VERSION, _SEVERAL):
            raise ArchiveError(
                f"{path} has version {document['version']!r}, and 1 and 2 are known; export the "
                "table again, or remove the file and give --direction"
            )
        if document["table"] != _digest(Path(table)):
            return None
        distributions = [json_to_distribution(text) for text in document["distributions"]]
        return [_copy(record, distributions) for record in document["studies"]]
    except ArchiveError:
        raise
    except Exception as error:  # anyone may write such a file
        raise ArchiveError(
            f"{path} is damaged ({type(error).__name__}: {error}); remove it to import the table "
            "alone, with --direction"
        ) from error


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _study(study: Copy, known: dict[str, int]) -> dict[str, Any]:
    return {
        "name": study.name,
        "direction": study.directions[0].name,
        "directions": [direction.name for direction in study.directions],
        "metrics": list(study.metrics),
        "attributes": dict(study.attributes),
        "trials": [_trial(trial, known) for trial in study.trials],
    }


def _trial(trial: FrozenTrial, known: dict[str, int]) -> dict[str, Any]:
    """A trial as JSON: a categorical value is the index of its choice."""
    params = {}
    for name, distribution in trial.distributions.items():
        number = known.setdefault(distribution_to_json(distribution), len(known))
        params[name] = [number, distribution.to_internal_repr(trial.params[name])]
    times = (trial.datetime_start, trial.datetime_complete)
    return {
        "state": trial.state.name,
        "values": trial.values,
        "params": params,
        "times": [None if moment is None else moment.isoformat() for moment in times],
        "steps": list(trial.intermediate_values.items()),
        "user": trial.user_attrs,
        "system": trial.system_attrs,
    }


def _copy(record: Mapping[str, Any], distributions: Sequence[Any]) -> Copy:
    trials = [_restored(k, t, distributions) for k, t in enumerate(record["trials"])]
    names = record.get("directions") or [record["direction"]]  # older files have one only
    directions = tuple(StudyDirection[name] for name in names)
    metrics = tuple(map(str, record.get("metrics", ())))
    return Copy(str(record["name"]), directions, dict(record["attributes"]), trials, metrics)


def _restored(number: int, record: Mapping[str, Any], distributions: Sequence[Any]) -> FrozenTrial:
    used = {name: distributions[k] for name, (k, _) in record["params"].items()}
    values = {name: used[name].to_external_repr(v) for name, (_, v) in record["params"].items()}
    start, complete = (None if t is None else datetime.fromisoformat(t) for t in record["times"])
    trial = FrozenTrial(
        number=number,
        trial_id=-1,
        state=TrialState[record["state"]],
        value=None,
        values=record["values"],
        datetime_start=start,
        datetime_complete=complete,
        params=values,
        distributions=used,
        user_attrs=record["user"],
        system_attrs=record["system"],
        intermediate_values={int(step): value for step, value in record["steps"]},
    )
    validate(trial)
    return trial
