"""Past studies from Optuna's storages."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage
from optuna.storages._cached_storage import _CachedStorage
from optuna.trial import FrozenTrial, TrialState

from rankwise.archive.context import context_of
from rankwise.archive.places import sqlite_path
from rankwise.archive.studies import PastStudy
from rankwise.archive.unify import Vote, merge
from rankwise.errors import is_number
from rankwise.study import quiet_optuna, storage_errors, without_password
from rankwise.task import FAILED, INVALID, OK, STATUSES

Filter = Callable[[str, Mapping[str, Any]], bool]
"""Whether a study is wanted, by its name and what is known about it."""


def open_url(url: str) -> BaseStorage:
    """The storage behind a URL; none of its trials is kept in memory.

    Raises:
        StorageError: it cannot be opened. Nothing is made that is not there.
    """
    path = sqlite_path(url)
    with quiet_optuna(), storage_errors(url, "open"):
        if path is not None and not path.is_file():
            raise FileNotFoundError("there is no such file")
        return optuna.storages.RDBStorage(url, skip_table_creation=True)


def open_journal(path: Path) -> BaseStorage:
    """The storage in a journal file.

    Raises:
        StorageError: it cannot be read.
    """
    from optuna.storages.journal import JournalFileBackend, JournalStorage

    with quiet_optuna(), storage_errors(str(path), "open"):
        return JournalStorage(JournalFileBackend(str(path)))


def uncached(storage: BaseStorage) -> BaseStorage:
    """The storage behind Optuna's cache, which would keep every trial that is read."""
    return storage._backend if isinstance(storage, _CachedStorage) else storage


def storage_origin(storage: BaseStorage) -> str:
    """The URL or the path of a storage, without a password; "" if it has none."""
    storage = uncached(storage)
    if isinstance(storage, optuna.storages.RDBStorage):
        return without_password(str(storage.url))
    backend = getattr(storage, "_backend", None)  # of a journal
    return str(getattr(backend, "_file_path", ""))


def read_storage(
    storage: BaseStorage, wanted: Filter, address: str = ""
) -> tuple[list[PastStudy], dict[str, str]]:
    """The studies of a storage, one after the other, as columns.

    Args:
        storage: of Optuna.
        wanted: which studies to read.
        address: of the storage, for messages.

    Returns:
        The studies, and by name the reason why others cannot be used.

    Raises:
        StorageError: it cannot be read.
    """
    studies, left_out = [], {}
    with quiet_optuna(), storage_errors(address or storage, "read"):
        for frozen in storage.get_all_studies():
            name = frozen.study_name
            context = context_of(frozen.user_attrs)
            if not wanted(name, {**frozen.user_attrs, **context}):
                continue
            if len(frozen.directions) != 1:
                left_out[name] = f"it has {len(frozen.directions)} objectives; one is supported"
                continue
            trials = storage.get_all_trials(frozen._study_id, deepcopy=False)
            direction = frozen.directions[0].name.lower()
            if direction == "not_set":
                left_out[name] = "it has no direction"
                continue
            studies.append(columns_of_trials(name, direction, trials, context))
    return studies, left_out


def columns_of_trials(
    name: str,
    direction: str,
    trials: Sequence[FrozenTrial],
    context: Mapping[str, Any] | None = None,
) -> PastStudy:
    """The finished trials of a study as columns.

    Args:
        name: of the study.
        direction: "minimize" or "maximize".
        trials: in any state; those that run or wait are left out, and those whose worker died
            and that were tried again.
        context: what is known about the study.
    """
    again = {n for t in trials for n in t.system_attrs.get("retry_history", ())}
    finished = [t for t in trials if t.state.is_finished() and t.number not in again]
    outcomes = [_outcome(trial) for trial in finished]
    starts = [t.datetime_start for t in finished if t.datetime_start is not None]
    started: datetime | None = min(starts, default=None)
    return PastStudy(
        name,
        direction,
        [trial.params for trial in finished],
        _distributions(finished),
        np.array([value for _, value in outcomes], dtype=float),
        tuple(status for status, _ in outcomes),
        np.array([t.state == TrialState.PRUNED for t in finished], dtype=bool),
        np.array([_seconds(trial) for trial in finished], dtype=float),
        dict(context or {}),
        started,
        np.array(_shared(finished), dtype=bool),
    )


def _outcome(trial: FrozenTrial) -> tuple[str, float]:
    """Status and value of a finished trial."""
    if trial.state == TrialState.FAIL:
        status = trial.user_attrs.get("rankwise:status", FAILED)
        return status if status in STATUSES and status != OK else FAILED, math.nan
    value: float | None
    if trial.state == TrialState.PRUNED:
        reported = trial.intermediate_values
        value = reported[max(reported)] if reported else None
    else:
        value = trial.values[0] if trial.values else None
    if value is None:
        return FAILED, math.nan
    return (OK, float(value)) if math.isfinite(value) else (INVALID, math.nan)


def _shared(trials: Sequence[FrozenTrial]) -> list[bool]:
    """Which trials a sampler was not asked for alone: enqueued, or begun beside earlier ones."""
    found: list[bool] = []
    busy: datetime | None = None
    for trial in trials:
        start, end = trial.datetime_start, trial.datetime_complete
        beside = busy is not None and start is not None and start < busy
        found.append(beside or "fixed_params" in trial.system_attrs)
        busy = max((t for t in (busy, end) if t is not None), default=None)
    return found


def _seconds(trial: FrozenTrial) -> float:
    measured: Any = trial.user_attrs.get("rankwise:seconds")
    if is_number(measured):  # anyone may write such an attribute
        return float(measured)
    if trial.datetime_start is None or trial.datetime_complete is None:
        return math.nan
    return (trial.datetime_complete - trial.datetime_start).total_seconds()


def _distributions(trials: Sequence[FrozenTrial]) -> dict[str, BaseDistribution]:
    """What each parameter was, over all trials; ranges may change from trial to trial."""
    different: dict[str, list[Vote]] = {}
    for age, trial in enumerate(trials):
        for name, distribution in trial.distributions.items():
            seen = different.get(name)
            if seen is None:
                different[name] = [(distribution, float(age))]
            # Most are equal; comparing only with the last one keeps this cheap.
            elif seen[-1][0].__dict__ != distribution.__dict__:
                seen.append((distribution, float(age)))
    return {name: merge(votes) for name, votes in different.items()}
