"""Records a search as a study of an archive, and learns from its other studies."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import optuna

from rankwise import methods
from rankwise.archive.sources.optuna_storage import storage_origin
from rankwise.errors import StudyMismatchError
from rankwise.history.task import TaskSet
from rankwise.run.model_cache import learnt_optimizer
from rankwise.run.optimizer import Optimizer
from rankwise.run.several import Directions
from rankwise.space.encoder import Encoder
from rankwise.storage.locations import model_folder
from rankwise.storage.optuna_private import storage_of
from rankwise.storage.study_log import StudyLog, quiet_optuna

if TYPE_CHECKING:
    from rankwise.surrogates.empirical_bayes.surrogate import EmpiricalBayes

DIRECTION = "maximize"
"""Direction of the studies of searches: larger scores are better in scikit-learn."""
_SAME = (
    "scoring",
    "n_splits",
    "n_rows",
    "n_columns",
    "data",
    "successive",
    "objectives",
)  # or scores cannot be compared
_BEGAN = "began"
_LONGEST = 60  # characters of the estimator names in a study name


def unique_name(estimator: str, data: str) -> str:
    """A unique name for a study."""
    return f"{estimator[:_LONGEST]}-{data}-{datetime.now():%Y%m%d-%H%M%S}-{uuid4().hex[:6]}"


def note_search(log: StudyLog, facts: Mapping[str, Any]) -> None:
    """Store the facts of a search and its start time.

    Raises:
        StudyMismatchError: the study has trials of another search.
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
            if noted.get(what) != facts.get(what):
                raise StudyMismatchError(
                    f"study {log.study.study_name!r} was run with {what} {noted.get(what)!r}, "
                    f"not {facts.get(what)!r}: its scores cannot be compared; use another name"
                )
    if log.noted(_BEGAN) is None:
        log.note(_BEGAN, datetime.now().isoformat())


def began(log: StudyLog) -> datetime:
    """Return the time that `note_search` recorded: past studies count if they ended before it."""
    return datetime.fromisoformat(log.noted(_BEGAN))


def make_optimizer(
    method: str,
    log: StudyLog,
    encoder: Encoder,
    past: TaskSet,
    progress: bool | None,
    options: Mapping[str, Any],
    known: EmpiricalBayes | None = None,
) -> Optimizer:
    """Make an optimizer that learnt from past studies; its model is kept beside the archive."""
    row = methods.get(method)
    options = {**({"progress": progress} if "progress" in row.options else {}), **options}
    folder = model_folder(storage_origin(storage_of(log.study)))
    return learnt_optimizer(method, encoder, past, folder, known, **options)


def in_memory(log: StudyLog, optimizer: Optimizer, directions: Directions) -> optuna.Study:
    """A copy of the study in memory, which can be pickled with the search."""
    study = log.study
    if isinstance(storage_of(study), optuna.storages.InMemoryStorage):
        return study
    name, memory = study.study_name, optuna.storages.InMemoryStorage()
    try:
        if not log.unsaved:
            with quiet_optuna():
                optuna.copy_study(
                    from_study_name=name, from_storage=storage_of(study), to_storage=memory
                )
                return optuna.load_study(study_name=name, storage=memory)
    except Exception:  # the storage is unreachable, but the optimizer has the trials
        pass
    known = StudyLog(
        optimizer.encoder,
        storage=None,
        name=name,
        direction=directions.each,
        metrics=directions.names,
    )
    for trial in optimizer.trials:
        known.finish(trial)
    return known.study
