"""Import of studies into an Optuna storage, and export of studies to a table."""

from __future__ import annotations

import csv
import json
import math
import shlex
import warnings
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from rankwise._core.atomic_write import atomic_write
from rankwise.archive import Archive, PastStudy, open_archive
from rankwise.archive.objectives import MOST, Objective, objectives_of
from rankwise.cli.addresses import optuna_at, storage_at
from rankwise.cli.console import say
from rankwise.cli.studies_file import (
    Copy,
    read_studies_file,
    studies_path,
    write_studies_file,
)
from rankwise.errors import ArchiveError, OptionError
from rankwise.history.task import OK
from rankwise.storage.add_trials import add_trials
from rankwise.storage.all_studies import all_studies
from rankwise.storage.optuna_private import id_of_study
from rankwise.storage.study_facts import UNDATED
from rankwise.storage.study_log import quiet_optuna, storage_errors, without_password
from rankwise.storage.trial_facts import SECONDS


def studies_of(
    source: str,
    *,
    like: str,
    direction: str | None,
    space: str | None = None,
    **options: Any,
) -> tuple[list[Copy], tuple[str, ...]]:
    """The studies of a source, and notes about how it was read.

    Args:
        source: any source of `open_archive`.
        like: pattern of study names.
        direction: "minimize" or "maximize", for tables and runs.
        space: for HPO-B data, the search space.
        **options: other options of `open_archive` for tables and runs.

    Raises:
        ArchiveError, StorageError: the source cannot be read, or no study matches `like`.
    """
    storage, notes = optuna_at(source), tuple[str, ...]()
    changed = options.get("rename") or options.get("known")
    exported = read_studies_file(source) if storage is None else None
    if storage is not None and not changed:
        found = _stored(storage, like, source)
    elif exported is not None and not changed:
        found = [copy for copy in exported if fnmatchcase(copy.name, like)]
    else:
        if exported is None and studies_path(source).is_file():
            say(f"note: {source} was changed since its export: {studies_path(source)} is not used")
        past = open_archive(
            source,
            like=like,
            direction=direction,
            space=space,
            **options,
        )
        notes += past.notes
        found = [_copy(one) for one in _exported(past)]
    if not found:
        raise ArchiveError(f"{without_password(source)} has no study like {like!r} to import")
    return found, notes


def copies_of(past: Archive, address: str, like: str) -> list[Copy]:
    """The studies of an archive as they are stored; without a storage, as they were read."""
    storage = optuna_at(address)
    if storage is None:
        return [_copy(study) for study in _exported(past)]
    names = {study.name for study in _exported(past)}
    return [copy for copy in _stored(storage, like, address) if copy.name in names]


def _exported(past: Archive) -> list[PastStudy]:
    """The studies of an archive that can be used, and those with several objectives."""
    used = {study.name for study in past.studies}
    return [study for study in past.given if study.several or study.name in used]


def _stored(storage: BaseStorage, like: str, source: str) -> list[Copy]:
    """The studies of an Optuna storage whose names match `like`, with up to four objectives."""
    with quiet_optuna(), storage_errors(without_password(source), "read"):
        return [
            Copy(
                study.study_name,
                tuple(study.directions),
                study.user_attrs,
                [
                    trial
                    for trial in storage.get_all_trials(id_of_study(study), deepcopy=False)
                    if trial.state.is_finished()
                ],
                _names(objectives_of(study.directions, study.system_attrs)),
            )
            for study in all_studies(storage)
            if len(study.directions) <= MOST and fnmatchcase(study.study_name, like)
        ]


def _names(kinds: Sequence[Objective]) -> tuple[str, ...]:
    """Names of objectives; empty unless all have one."""
    names = tuple(kind.name for kind in kinds)
    return names if all(names) else ()


def _copy(past: PastStudy) -> Copy:
    """A past study as Optuna trials; trials without a value become failed trials."""
    kinds = past.objectives.kinds if past.objectives else (Objective("", past.direction),)
    directions = tuple(StudyDirection[kind.direction.upper()] for kind in kinds)
    several = past.objectives.values.tolist() if past.several and past.objectives else None
    trials = []
    curves = past.curves or [{}] * len(past)
    clock = None if past.started is None else _local(past.started)
    for k, (params, value, status, seconds) in enumerate(
        zip(past.params, past.values.tolist(), past.status, past.seconds.tolist(), strict=True)
    ):
        known = math.isfinite(seconds)
        trial = optuna.trial.create_trial(
            state=_state(status, past.pruned[k]),
            value=value if status == OK and several is None else None,
            values=several[k] if status == OK and several is not None else None,
            intermediate_values=dict(curves[k]),
            params=dict(params),
            distributions={name: past.distributions[name] for name in params},
            user_attrs={SECONDS: seconds if known else None},
        )
        took = timedelta(seconds=seconds if known else 0.0)
        if clock is not None:  # one after the other, because only the first start is known
            trial.datetime_start, clock = clock, clock + took
            trial.datetime_complete = clock
        elif known and trial.datetime_complete is not None:
            trial.datetime_start = trial.datetime_complete - took
        trials.append(trial)
    undated = {UNDATED: True} if past.started is None else {}
    return Copy(past.name, directions, {**past.context, **undated}, trials, _names(kinds))


def _local(moment: datetime) -> datetime:
    """A time as Optuna stores it: local and without a time zone."""
    return moment if moment.tzinfo is None else moment.astimezone().replace(tzinfo=None)


def _state(status: str, pruned: bool) -> TrialState:
    if status != OK:
        return TrialState.FAIL
    return TrialState.PRUNED if pruned else TrialState.COMPLETE


def write_studies(studies: Sequence[Copy], archive: str, prefix: str) -> list[dict[str, Any]]:
    """Write studies to an archive.

    If the archive already has a study of the same name: a study with the same trials is left
    alone; a study with only the first of the trials (an interrupted import, or a source that has
    grown) is replaced; any other study is left alone and the import is refused.

    Returns:
        For each study its name, its number of trials and what was done.

    Raises:
        StorageError: the archive cannot be written.
    """
    target = storage_at(archive)
    if target is None:
        raise OptionError("studies can only be imported into an archive; give --archive")
    shown, done = without_password(archive), []
    with quiet_optuna(), storage_errors(shown, "write"):
        storage = optuna.storages.get_storage(target)
        there = {study.study_name: id_of_study(study) for study in all_studies(storage)}
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
    study = optuna.create_study(storage=storage, study_name=name, directions=list(copy.directions))
    if copy.metrics:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names(list(copy.metrics))
    for key, value in copy.attributes.items():
        study.set_user_attr(key, value)
    add_trials(study, copy.trials)


def _compared(there: Sequence[FrozenTrial], new: Sequence[FrozenTrial]) -> str:
    """Describe, for the user, what to do with a study whose name already exists."""
    old, own = [_content(t) for t in there], [_content(t) for t in new]
    if old == own:
        return "there already"
    if own[: len(old)] == old:
        return "replaced by the longer one"
    return "refused: another study of this name is there"


def _content(trial: FrozenTrial) -> tuple[Any, ...]:
    return trial.params, trial.values, trial.state


def write_table(past: Archive, out: Path, copies: Sequence[Copy]) -> dict[str, Any]:
    """Write the studies of an archive to one table. A partly written file is never left.

    What a table cannot hold (directions, distributions, attributes, states) is in a second file
    beside it, from which `studies_of` restores the studies exactly.

    Args:
        past: the studies.
        out: the table.
        copies: the same studies as they are stored.

    Returns:
        The path, the numbers of studies and rows, the direction, and the command that imports
        the table again.

    Raises:
        ArchiveError: there are no studies.
        OptionError: the file is neither .csv nor .jsonl, or it cannot be written.
    """
    if out.suffix not in (".csv", ".jsonl"):
        raise OptionError(f"a table is .csv or .jsonl, not {out.name!r}")
    studies = _exported(past)
    directions = sorted({study.direction for study in studies})
    if not directions:
        raise ArchiveError(f"{past.origin} has no study to export")
    parameters = dict.fromkeys(name for study in studies for name in study.distributions)
    most = max(len(_values(study)[0]) if len(study) else 1 for study in studies)
    values = ["value", *(f"value_{k}" for k in range(2, most + 1))]
    names = [_free(name, parameters) for name in ("study", *values)]
    rows = [
        {**dict(zip(names, [study.name, *found], strict=False)), **params}
        for study in studies
        for params, found in zip(study.params, _values(study), strict=True)
    ]
    try:
        with (
            atomic_write(out) as unfinished,
            unfinished.open("w", encoding="utf-8", newline="") as file,
        ):
            if out.suffix == ".csv":
                writer = csv.DictWriter(file, [*names, *parameters])
                writer.writeheader()
                writer.writerows(rows)
            else:
                file.writelines(json.dumps(row) + "\n" for row in rows)
        beside = write_studies_file(copies, out)
    except OSError as error:
        raise OptionError(f"{out} cannot be written ({error})") from error
    return {
        "table": str(out),
        "beside": str(beside),
        "studies": len(studies),
        "rows": len(rows),
        "direction": directions[0] if len(directions) == 1 and most == 1 else None,
        "import": f"rankwise archive import {shlex.quote(str(out))}",
    }


def _values(study: PastStudy) -> list[list[float | None]]:
    """The values of each trial; None where there is no number."""
    several = study.objectives.values if study.several and study.objectives else None
    table = study.values[:, None] if several is None else several
    return [[v if math.isfinite(v) else None for v in row] for row in table.tolist()]


def _free(name: str, taken: Collection[str]) -> str:
    """Append underscores to a name until it is not in `taken`."""
    while name in taken:
        name += "_"
    return name
