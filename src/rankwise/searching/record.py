"""A search as a study in an archive, and the studies of the archive as its past."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import optuna

from rankwise import methods
from rankwise.archive.context import context_of, full_context
from rankwise.archive.optuna_storage import columns_of_trials, storage_origin, uncached
from rankwise.archive.places import model_folder
from rankwise.archive.studies import PastStudy
from rankwise.cache import learnt_optimizer
from rankwise.errors import ConfigurationError, StudyMismatchError
from rankwise.optimizer import Optimizer
from rankwise.space import Encoder
from rankwise.study import StudyLog, configuration_of, quiet_optuna, storage_errors
from rankwise.task import Task, TaskSet

DIRECTION = "maximize"
"""Of the studies of searches: scores of scikit-learn are larger for better."""
_SAME = (
    "scoring",
    "n_splits",
    "n_rows",
    "n_columns",
    "data",
    "successive",
)  # or scores cannot be compared
_FINGERPRINT = "rankwise:fingerprint"
_BEGAN = "began"
_LONGEST = 60  # letters for the names of estimators, of which there may be many


def unique_name(estimator: str, data: str) -> str:
    """A name for a study that no other has."""
    return f"{estimator[:_LONGEST]}-{data}-{datetime.now():%Y%m%d-%H%M%S}-{uuid4().hex[:6]}"


def note_search(log: StudyLog, facts: Mapping[str, Any]) -> None:
    """Write down what is searched, and when that began.

    Raises:
        StudyMismatchError: the study has trials of something else.
    """
    noted = log.noted("search")
    if noted is None and log.stored:
        raise StudyMismatchError(
            f"study {log.study.study_name!r} has trials that no search made; use another name"
        )
    if noted is None:
        log.note("search", dict(facts))
    else:
        for what in _SAME:
            if noted.get(what) != facts[what]:
                raise StudyMismatchError(
                    f"study {log.study.study_name!r} was run with {what} {noted.get(what)!r}, "
                    f"not {facts[what]!r}: its scores cannot be compared; use another name"
                )
    if log.noted(_BEGAN) is None:
        log.note(_BEGAN, datetime.now().isoformat())


def past_tasks(log: StudyLog, encoder: Encoder) -> TaskSet:
    """The other studies of the storage that have the same space.

    Only what had ended when the search began: so one that is resumed sees the same past, however
    many others ran in between.

    Args:
        log: of the search.
        encoder: of the space.

    Raises:
        StorageError: the storage cannot be read.
    """
    before = datetime.fromisoformat(log.noted(_BEGAN))
    storage, tasks = uncached(log.study._storage), []
    folder = model_folder(storage_origin(log.study._storage))
    with quiet_optuna(), storage_errors(storage_origin(storage) or storage, "read"):
        for other in storage.get_all_studies():
            same = other.user_attrs.get(_FINGERPRINT) == encoder.fingerprint
            if not same or other.study_name == log.study.study_name or len(other.directions) > 1:
                continue
            trials = storage.get_all_trials(other._study_id, deepcopy=False)
            ended = [t for t in trials if t.datetime_complete and t.datetime_complete <= before]
            direction = other.directions[0].name.lower()
            context = context_of(other.user_attrs)
            past = columns_of_trials(other.study_name, direction, ended, context)
            tasks.append(_task(encoder, past, folder))
    return TaskSet(tuple(task for task in tasks if task.ok.any()), (), encoder.fingerprint)


def _task(encoder: Encoder, past: PastStudy, folder: Path | None) -> Task:
    """A study, encoded; trials that are not of the space are left out."""
    rows, kept = [], []
    for k, params in enumerate(past.params):
        try:
            rows.append(encoder.encode([configuration_of(encoder, params)])[0])
        except (KeyError, ConfigurationError):
            continue
        kept.append(k)
    losses = past.losses[kept].copy()
    stopped = past.pruned[kept]
    if (~stopped).any():
        # With less data a score may be better by chance; what was stopped was not good.
        losses[stopped] = np.maximum(losses[stopped], np.nanmin([*losses[~stopped], np.inf]))
    return Task.of(
        np.array(rows, dtype=float).reshape(len(kept), encoder.n_columns),
        losses,
        past.seconds[kept],
        [past.status[k] for k in kept],
        past.name,
        full_context(past.context, folder, past.name),
    )


def make_optimizer(
    method: str,
    log: StudyLog,
    encoder: Encoder,
    past: TaskSet,
    progress: bool | None,
    options: Mapping[str, Any],
) -> Optimizer:
    """An optimizer that has learnt the past; what is learnt is kept beside the archive."""
    row = methods.get(method)
    options = {**({"progress": progress} if "progress" in row.options else {}), **options}
    folder = model_folder(storage_origin(log.study._storage))
    if folder is not None:
        return learnt_optimizer(method, encoder, past, folder, **options)
    return Optimizer(encoder, method=method, tasks=past if row.transfer else (), **options)


def in_memory(log: StudyLog, optimizer: Optimizer) -> optuna.Study:
    """The study without a connection to its storage: it can be pickled with the search."""
    study = log.study
    if isinstance(study._storage, optuna.storages.InMemoryStorage):
        return study
    name, memory = study.study_name, optuna.storages.InMemoryStorage()
    try:
        if not log.unsaved:
            with quiet_optuna():
                optuna.copy_study(
                    from_study_name=name, from_storage=study._storage, to_storage=memory
                )
                return optuna.load_study(study_name=name, storage=memory)
    except Exception:  # the storage is gone; the trials are known here, too
        pass
    known = StudyLog(optimizer.encoder, storage=None, name=name, direction=DIRECTION)
    for trial in optimizer.trials:
        known.finish(trial)
    return known.study
