"""Studies from one place to another: copied into an Optuna storage, or out to a table."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from rankwise.archive import Archive, PastStudy, open_archive
from rankwise.commands.places import optuna_at, storage_at
from rankwise.errors import ArchiveError, OptionError
from rankwise.study import quiet_optuna, storage_errors, without_password
from rankwise.task import OK


@dataclass(frozen=True)
class Copy:
    """A study as it can be written: its name, direction, attributes and finished trials."""

    name: str
    direction: StudyDirection
    attributes: Mapping[str, Any]
    trials: Sequence[FrozenTrial]


def studies_of(
    source: str,
    *,
    like: str,
    direction: str | None,
    study: str,
    value: str,
    ignore: Collection[str],
    space: str | None,
) -> list[Copy]:
    """The studies of a source, with all that it knows of them.

    Raises:
        ArchiveError, StorageError: it cannot be read, or has no such study.
    """
    storage = optuna_at(source)
    if storage is not None:
        found = _stored(storage, like, source)
    else:
        past = open_archive(
            source,
            like=like,
            direction=direction,
            study=study,
            value=value,
            ignore=ignore,
            space=space,
        )
        found = [_copy(one) for one in past.studies]
    if not found:
        raise ArchiveError(f"{without_password(source)} has no study like {like!r} to import")
    return found


def _stored(storage: BaseStorage, like: str, source: str) -> list[Copy]:
    with quiet_optuna(), storage_errors(without_password(source), "read"):
        return [
            Copy(
                study.study_name,
                study.directions[0],
                study.user_attrs,
                [
                    trial
                    for trial in storage.get_all_trials(study._study_id, deepcopy=False)
                    if trial.state.is_finished()
                ],
            )
            for study in storage.get_all_studies()
            if len(study.directions) == 1 and fnmatchcase(study.study_name, like)
        ]


def _copy(past: PastStudy) -> Copy:
    direction = StudyDirection[past.direction.upper()]
    trials = []
    for params, value, status, seconds in zip(
        past.params, past.values.tolist(), past.status, past.seconds.tolist(), strict=True
    ):
        known = math.isfinite(seconds)
        trial = optuna.trial.create_trial(
            state=TrialState.COMPLETE if status == OK else TrialState.FAIL,
            value=value if status == OK else None,
            params=dict(params),
            distributions={name: past.distributions[name] for name in params},
            user_attrs={"rankwise:seconds": seconds} if known else {},
        )
        if known and trial.datetime_complete is not None:
            trial.datetime_start = trial.datetime_complete - timedelta(seconds=seconds)
        trials.append(trial)
    return Copy(past.name, direction, dict(past.context), trials)


def write_studies(studies: Sequence[Copy], archive: str, prefix: str) -> list[dict[str, Any]]:
    """Write studies to an archive, and say what was done with each.

    A study that is there with the same trials is left alone. One that is there with the first of
    the trials only, as after an interruption, is replaced. Another study of the same name stays.

    Raises:
        StorageError: the archive cannot be written.
    """
    target = storage_at(archive)
    if target is None:
        raise OptionError("studies can only be imported into an archive; give --archive")
    shown, done = without_password(archive), []
    with quiet_optuna(), storage_errors(shown, "write"):
        storage = optuna.storages.get_storage(target)
        there = {study.study_name: study._study_id for study in storage.get_all_studies()}
        for copy in studies:
            name = prefix + copy.name
            outcome = "imported"
            if name in there:
                before = storage.get_all_trials(there[name], deepcopy=False)
                outcome = _compared(before, copy.trials)
            if outcome == "replaced by the longer one":
                storage.delete_study(there[name])
            if outcome in ("imported", "replaced by the longer one"):
                _write(storage, name, copy)
            done.append({"study": name, "trials": len(copy.trials), "done": outcome})
    return done


def _write(storage: BaseStorage, name: str, copy: Copy) -> None:
    study = optuna.create_study(storage=storage, study_name=name, direction=copy.direction)
    for key, value in copy.attributes.items():
        study.set_user_attr(key, value)
    study.add_trials(copy.trials)


def _compared(there: Sequence[FrozenTrial], new: Sequence[FrozenTrial]) -> str:
    old, own = [_content(t) for t in there], [_content(t) for t in new]
    if old == own:
        return "there already"
    if own[: len(old)] == old:
        return "replaced by the longer one"
    return "refused: another study of this name is there"


def _content(trial: FrozenTrial) -> tuple[Any, ...]:
    return trial.params, trial.values, trial.state


def write_table(past: Archive, out: Path) -> dict[str, Any]:
    """Write the studies of an archive as a table, the file whole or not at all.

    Raises:
        ArchiveError: there are no studies, or they are of both directions.
        OptionError: the file is of a kind that is not known, or cannot be written.
    """
    if out.suffix not in (".csv", ".jsonl"):
        raise OptionError(f"a table is .csv or .jsonl, not {out.name!r}")
    directions = {study.direction for study in past.studies}
    if len(directions) != 1:
        raise ArchiveError(
            "a table has one direction, and the studies are of both; choose with --like"
            if directions
            else f"{past.origin} has no study to export"
        )
    parameters = dict.fromkeys(name for study in past.studies for name in study.distributions)
    names = _free("study", parameters), _free("value", parameters)
    rows = [
        {names[0]: study.name, names[1]: value if math.isfinite(value) else None, **params}
        for study in past.studies
        for params, value in zip(study.params, study.values.tolist(), strict=True)
    ]
    partial = out.with_name(out.name + ".partial")
    try:
        with partial.open("w", encoding="utf-8", newline="") as file:
            if out.suffix == ".csv":
                writer = csv.DictWriter(file, [*names, *parameters])
                writer.writeheader()
                writer.writerows(rows)
            else:
                file.writelines(json.dumps(row) + "\n" for row in rows)
        os.replace(partial, out)
    except OSError as error:
        raise OptionError(f"{out} cannot be written ({error})") from error
    return {
        "table": str(out),
        "studies": len(past.studies),
        "rows": len(rows),
        "direction": next(iter(directions)),
        "import": _command(out, next(iter(directions)), *names),
    }


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _command(out: Path, direction: str, study: str, value: str) -> str:
    columns = "" if study == "study" else f" --study {study}"
    columns += "" if value == "value" else f" --value {value}"
    return f"rankwise archive import {out} --direction {direction}{columns}"
