"""Reads past studies from Optuna storages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from rankwise._core.words import listed
from rankwise.archive.merge_distributions import Vote, merge
from rankwise.archive.objectives import MOST, Objective, objectives_of
from rankwise.archive.past_study import Outcomes, PastStudy
from rankwise.archive.sources.base import Contents, ReadOptions
from rankwise.errors import StorageError, is_number
from rankwise.history.task import FAILED, INVALID, OK, STATUSES
from rankwise.storage.all_studies import all_studies
from rankwise.storage.locations import is_journal, is_url, sqlite_path, storage_url
from rankwise.storage.optuna_private import FrozenStudy, id_of_study, uncached
from rankwise.storage.study_facts import TWIN, UNDATED, context_of
from rankwise.storage.study_log import (
    quiet_optuna,
    release_connections,
    storage_errors,
    without_password,
)
from rankwise.storage.trial_facts import SECONDS, constraints_of, without_retried
from rankwise.types import Array

Filter = Callable[[str, Mapping[str, Any]], bool]
"""Filter of a study by its name and its facts; True keeps it."""


def open_url(url: str) -> BaseStorage:
    """Open the storage of a URL without a cache of trials; nothing is created.

    Raises:
        StorageError: the storage does not exist or cannot be opened.
    """
    path = sqlite_path(url)
    try:
        with quiet_optuna(), storage_errors(url, "open"):
            if path is not None and not path.is_file():
                raise FileNotFoundError("there is no such file")
            return optuna.storages.RDBStorage(url, skip_table_creation=True)
    except StorageError as error:
        missing = path is not None and not path.is_file()
        tables = None if missing else _tables(url)
        if tables is None or "studies" in tables:
            raise
        why = f"it has the tables {listed(sorted(tables))}" if tables else "it has no tables"
        if {"experiments", "runs"} <= tables:
            why = f"it is a database of MLflow: give the address mlflow:{without_password(url)}"
        raise StorageError(f"{without_password(url)} is not an Optuna storage; {why}") from error


def _tables(url: str) -> set[str] | None:
    """Names of the tables of a database; None if it cannot be read."""
    import sqlalchemy as sa

    try:
        engine = sa.create_engine(url)
        try:
            return set(sa.inspect(engine).get_table_names())
        finally:
            engine.dispose()
    except (sa.exc.SQLAlchemyError, ImportError, ValueError):
        return None


def open_journal(path: Path) -> BaseStorage:
    """Open the storage of a journal file.

    Raises:
        StorageError: the file cannot be read.
    """
    from optuna.storages.journal import JournalFileBackend, JournalStorage

    with quiet_optuna(), storage_errors(str(path), "open"):
        return JournalStorage(JournalFileBackend(str(path)))


def open_address(address: str | Path) -> BaseStorage | None:
    """Open the existing Optuna storage at an address; None if the address is something else.

    Args:
        address: a URL, or the path of an SQLite file or of a journal file.

    Raises:
        StorageError: the storage cannot be opened.
    """
    url = storage_url(address)
    if url is not None:
        return open_url(url)
    return open_journal(Path(address)) if is_journal(Path(address)) else None


@contextmanager
def closing(storage: BaseStorage) -> Iterator[BaseStorage]:
    """Close the connections of a storage that nobody else uses when the block ends."""
    try:
        yield storage
    finally:
        release_connections(storage)


def storage_origin(storage: BaseStorage) -> str:
    """The URL or the path of a storage, without a password; "" if it has none."""
    storage = uncached(storage)
    if isinstance(storage, optuna.storages.RDBStorage):
        return without_password(str(storage.url))
    backend = getattr(storage, "_backend", None)  # a journal has one
    return str(getattr(backend, "_file_path", ""))


def belongs(address: str) -> bool:
    """True for the URL of a database, or the path of an SQLite file or a journal file."""
    if is_url(address):
        return True
    path = Path(address)
    return path.is_file() and (storage_url(path) is not None or is_journal(path))


def read(address: str, options: ReadOptions) -> Contents:
    """Read the studies of the storage at an address.

    Raises:
        StorageError: the storage cannot be read.
    """
    storage = open_address(address)
    assert storage is not None  # it belongs to this source
    with closing(storage):
        return read_contents(storage, options, without_password(storage_url(address) or address))


def read_contents(storage: BaseStorage, options: ReadOptions, origin: str) -> Contents:
    """Read the studies of a storage.

    Args:
        storage: an Optuna storage.
        options: what the user said; the filter of studies is used.
        origin: address of the storage, for messages.

    Raises:
        StorageError: the storage cannot be read.
    """
    storage = uncached(storage)
    studies = []
    with quiet_optuna(), storage_errors(origin or storage, "read"):
        chosen, left_out = choose(all_studies(storage), options.wanted)
        for study, trials in _trials_of(storage, chosen):
            name = study.study_name
            kinds = objectives_of(study.directions, study.system_attrs)
            try:
                if isinstance(trials, Exception):
                    raise trials
                past = columns_of_trials(name, kinds, trials, context_of(study.user_attrs))
                if study.user_attrs.get(UNDATED):
                    past = replace(past, started=None)
            except Exception as error:  # anyone may write into a database
                left_out[name] = f"its trials cannot be read ({type(error).__name__}: {error})"
                continue
            studies.append(past)
    return Contents(studies, left_out, origin=origin, filtered=True)


def choose(
    studies: Sequence[FrozenStudy], wanted: Filter
) -> tuple[list[FrozenStudy], dict[str, str]]:
    """The studies to read, and the reason, by name, why others cannot be used."""
    chosen, left_out = [], {}
    for study in studies:
        name = study.study_name
        if not wanted(name, {**study.user_attrs, **context_of(study.user_attrs)}):
            continue
        if TWIN in study.user_attrs:
            left_out[name] = "it is the comparison without past studies (rankwise tune --compare)"
        elif len(study.directions) > MOST:
            left_out[name] = f"it has {len(study.directions)} objectives; {MOST} are supported"
        elif study.directions[0].name == "NOT_SET":
            left_out[name] = "it has no direction"
        else:
            chosen.append(study)
    return chosen, left_out


def _trials_of(
    storage: BaseStorage, studies: Sequence[FrozenStudy]
) -> Iterator[tuple[FrozenStudy, Any]]:
    """Yield each study with its trials, or with the error in its rows."""
    if isinstance(storage, optuna.storages.RDBStorage):
        from rankwise.archive.sources.rdb_rows import RowReader

        by_id = {id_of_study(study): study for study in studies}
        for study_id, trials in RowReader(storage).read(list(by_id)):
            yield by_id[study_id], trials
    else:
        for study in studies:
            frozen = storage.get_all_trials(id_of_study(study), deepcopy=False)
            yield study, sorted(frozen, key=lambda trial: trial.number)  # MLflow's: newest first


def columns_of_trials(
    name: str,
    objectives: str | Sequence[Objective],
    trials: Sequence[Any],
    context: Mapping[str, Any] | None = None,
) -> PastStudy:
    """Convert the finished trials of a study to a `PastStudy`.

    Args:
        name: name of the study.
        objectives: its objectives, or "minimize" or "maximize" for one without a name.
        trials: trials in any state; running and waiting ones are left out, and so are trials of
            dead workers that were retried.
        context: facts about the study.
    """
    kinds = [Objective("", objectives)] if isinstance(objectives, str) else list(objectives)
    finished = [t for t in without_retried(trials) if t.state.is_finished()]
    outcomes = [_outcome(trial, len(kinds)) for trial in finished]
    several = None
    if len(kinds) > 1 or kinds[0].name:
        several = Outcomes(tuple(kinds), _all_values(finished, outcomes, len(kinds)))
    starts = [t.datetime_start for t in finished if t.datetime_start is not None]
    started: datetime | None = min(starts, default=None)
    if started is not None and started.tzinfo is not None:
        started = started.astimezone().replace(tzinfo=None)
    return PastStudy(
        name,
        kinds[0].direction,
        [trial.params for trial in finished],
        _distributions(finished),
        np.array([value for _, value in outcomes], dtype=float),
        tuple(status for status, _ in outcomes),
        np.array([t.state == TrialState.PRUNED for t in finished], dtype=bool),
        np.array([_seconds(trial) for trial in finished], dtype=float),
        dict(context or {}),
        started,
        np.array(_shared(finished), dtype=bool),
        [t.intermediate_values for t in finished] if _any_curve(finished) else None,
        several,
        _constraints(finished),
    )


def _all_values(
    trials: Sequence[FrozenTrial], outcomes: Sequence[tuple[str, float]], m: int
) -> Array:
    """Values (n, m) of all objectives; NaN for the trials without a value."""
    found = np.full((len(trials), m), np.nan)
    for k, (trial, (status, value)) in enumerate(zip(trials, outcomes, strict=True)):
        if status == OK:
            found[k] = value if m == 1 else trial.values
    return found


def _constraints(trials: Sequence[FrozenTrial]) -> dict[str, Array]:
    """Values (n,) of each constraint of n trials by name; NaN if a trial has none."""
    found = [constraints_of(trial) for trial in trials]
    names = dict.fromkeys(name for some in found for name in some)
    return {name: np.array([some.get(name, np.nan) for some in found]) for name in names}


def _any_curve(trials: Sequence[FrozenTrial]) -> bool:
    return any(trial.intermediate_values for trial in trials)


def _outcome(trial: FrozenTrial, m: int) -> tuple[str, float]:
    """Status and first value of a finished trial of a study with m objectives."""
    if trial.state == TrialState.FAIL:
        status = trial.user_attrs.get("rankwise:status", FAILED)
        return status if status in STATUSES and status != OK else FAILED, math.nan
    value: float | None
    if trial.state == TrialState.PRUNED:
        reported = trial.intermediate_values
        value = reported[max(reported)] if reported else (trial.values or [None])[0]
    else:
        value = trial.values[0] if trial.values and len(trial.values) == m else None
        if value is not None and not all(map(math.isfinite, trial.values)):
            return INVALID, math.nan
    if value is None:
        return FAILED, math.nan
    return (OK, float(value)) if math.isfinite(value) else (INVALID, math.nan)


def _shared(trials: Sequence[FrozenTrial]) -> list[bool]:
    """True for each trial that was enqueued or started while another one was running."""
    found: list[bool] = []
    busy: datetime | None = None
    for trial in trials:
        start, end = trial.datetime_start, trial.datetime_complete
        beside = busy is not None and start is not None and start < busy
        found.append(beside or "fixed_params" in trial.system_attrs)
        busy = max((t for t in (busy, end) if t is not None), default=None)
    return found


def _seconds(trial: FrozenTrial) -> float:
    measured: Any = trial.user_attrs.get(SECONDS, "")
    if is_number(measured):  # anyone may write such an attribute
        return float(measured)
    if measured is None:  # written by an import, because the source had no seconds
        return math.nan
    if trial.datetime_start is None or trial.datetime_complete is None:
        return math.nan
    return (trial.datetime_complete - trial.datetime_start).total_seconds()


def _distributions(trials: Sequence[FrozenTrial]) -> dict[str, BaseDistribution]:
    """Merged distribution of each parameter; ranges may change from trial to trial."""
    different: dict[str, list[Vote]] = {}
    for age, trial in enumerate(trials):
        for name, distribution in trial.distributions.items():
            seen = different.get(name)
            if seen is None:
                different[name] = [(distribution, float(age))]
            # Most are equal, so comparing with the last one is enough and cheap.
            elif seen[-1][0].__dict__ != distribution.__dict__:
                seen.append((distribution, float(age)))
    return {name: merge(votes) for name, votes in different.items()}
