"""The private names of Optuna that this library uses, in one place.

`make test-latest` runs the tests with Optuna's newest release, so that a change of them is noticed
here first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from optuna import Study, Trial
from optuna.samplers._base import _process_constraints_after_trial
from optuna.storages import BaseStorage
from optuna.storages._cached_storage import _CachedStorage
from optuna.storages._heartbeat import is_heartbeat_enabled
from optuna.study._frozen import FrozenStudy
from optuna.trial import FrozenTrial, TrialState

__all__ = [
    "FrozenStudy",
    "id_of_study",
    "id_of_trial",
    "rdb_tables",
    "storage_of",
    "store_constraints",
    "uncached",
    "validate",
    "without_heartbeat",
]


def storage_of(study: Study) -> BaseStorage:
    """The storage of a study."""
    return study._storage


def id_of_study(study: Study | FrozenStudy) -> int:
    """The number of a study in its storage."""
    return study._study_id


def id_of_trial(trial: Trial | FrozenTrial) -> int:
    """The number of a trial in its storage; not that in its study."""
    return trial._trial_id


def store_constraints(
    constraints_func: Callable[[FrozenTrial], Sequence[float]],
    study: Study,
    trial: FrozenTrial,
    state: TrialState,
) -> None:
    """Store the constraints of a finished trial as Optuna's own samplers do."""
    _process_constraints_after_trial(constraints_func, study, trial, state)


def validate(trial: FrozenTrial) -> None:
    """Raise ValueError if the parts of a trial contradict each other."""
    trial._validate()


def uncached(storage: BaseStorage) -> BaseStorage:
    """The storage behind Optuna's cache; the cache would keep every trial in memory."""
    return storage._backend if isinstance(storage, _CachedStorage) else storage


def without_heartbeat(study: Study) -> set[int] | None:
    """Storage numbers of the trials without a recent heartbeat; None if none are recorded."""
    storage: Any = storage_of(study)
    if not is_heartbeat_enabled(storage):
        return None
    return set(storage._get_stale_trial_ids(id_of_study(study)))


def rdb_tables() -> Any:
    """The module with the tables of databases."""
    from optuna.storages._rdb import models

    return models
