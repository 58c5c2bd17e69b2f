"""Reads studies from Optuna's database tables, many studies per query.

Optuna's own loading makes an object of every row and parses the JSON of every distribution. With
some thousand studies that takes minutes. The reader asks for the columns that are used, for some
hundred studies at a time, and parses each distribution once.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from optuna.distributions import BaseDistribution, FloatDistribution, json_to_distribution
from optuna.storages import RDBStorage
from optuna.trial import TrialState
from sqlalchemy import Connection, and_, func, or_, select

from rankwise.storage.optuna_private import rdb_tables
from rankwise.storage.trial_facts import CONSTRAINTS

models = rdb_tables()

_STUDIES = 100  # studies per query
_USED = ("rankwise:status", "rankwise:seconds", "fixed_params", "retry_history", CONSTRAINTS)
"""Attributes of trials that archives use."""

_trials = models.TrialModel.__table__
_IS_UTC = hasattr(models.TrialModel, "_datetime_start_utc")  # since Optuna 5


@dataclass(slots=True)
class StoredTrial:
    """The part of Optuna's `FrozenTrial` that archives use, with its names.

    Times may have a time zone.
    """

    number: int
    state: TrialState
    datetime_start: datetime | None
    datetime_complete: datetime | None
    params: dict[str, Any] = field(default_factory=dict)
    distributions: dict[str, BaseDistribution] = field(default_factory=dict)
    values: list[float] = field(default_factory=list)
    intermediate_values: dict[int, float] = field(default_factory=dict)
    user_attrs: dict[str, Any] = field(default_factory=dict)
    system_attrs: dict[str, Any] = field(default_factory=dict)


class RowReader:
    """Reads the trials of studies.

    Args:
        storage: a storage with tables.
    """

    def __init__(self, storage: RDBStorage) -> None:
        self._engine = storage.engine
        self._distributions: dict[str, BaseDistribution] = {}

    def read(self, ids: Sequence[int]) -> Iterator[tuple[int, list[StoredTrial] | Exception]]:
        """Yield each study's id with its trials, ordered by number, or with the error in its rows.

        Args:
            ids: ids of the studies.
        """
        with self._engine.connect() as connection:
            for first in range(0, len(ids), _STUDIES):
                some = list(ids[first : first + _STUDIES])
                yield from self._read_some(connection, some)

    def _read_some(
        self, connection: Connection, ids: list[int]
    ) -> Iterator[tuple[int, list[StoredTrial] | Exception]]:
        studies: dict[int, dict[int, StoredTrial]] = {study: {} for study in ids}
        found: dict[int, StoredTrial] = {}
        study_of: dict[int, int] = {}
        c = _trials.c
        columns = (c.study_id, c.trial_id, c.number, c.state)
        query = select(*columns, c.datetime_start, c.datetime_complete)
        query = query.where(c.study_id.in_(ids)).order_by(c.number)
        for study, trial, number, state, start, end in connection.execute(query).all():
            stored = StoredTrial(number, state, _aware(start), _aware(end))
            found[trial] = studies[study][trial] = stored
            study_of[trial] = study
        errors: dict[int, Exception] = {}
        for table, add in (
            (models.TrialParamModel, self._add_param),
            (models.TrialValueModel, _add_value),
            (models.TrialIntermediateValueModel, _add_reported),
            (models.TrialUserAttributeModel, _add_attribute),
            (models.TrialSystemAttributeModel, _add_system_attribute),
        ):
            for trial, *row in connection.execute(_rows(table, ids)).all():
                if trial in found:  # else it was created after the first query
                    try:
                        add(found[trial], *row)
                    except Exception as error:  # anyone may write into a database
                        errors.setdefault(study_of[trial], error)
        for study, trials in studies.items():
            yield study, errors.get(study) or list(trials.values())

    def _add_param(self, trial: StoredTrial, name: str, value: float, text: str) -> None:
        known = self._distributions.get(text)
        if known is None:
            known = self._distributions[text] = json_to_distribution(text)
        trial.distributions[name] = known
        if not isinstance(known, FloatDistribution):
            value = known.to_external_repr(value)
        trial.params[name] = value


def _rows(table: Any, ids: list[int]) -> Any:
    """The query for the rows of one table, beginning with the trial's id."""
    c, wanted = table.__table__.c, [_trials.c.study_id.in_(ids)]
    columns: tuple[Any, ...]
    if table is models.TrialParamModel:
        columns, order = (c.param_name, c.param_value, c.distribution_json), c.param_id
    elif table is models.TrialValueModel:
        columns, order = (c.value, c.value_type), c.objective
    elif table is models.TrialIntermediateValueModel:
        columns = (c.step, c.intermediate_value, c.intermediate_value_type)
        order = c.step
    else:
        columns, order = (c.key, c.value_json), c.key
        wanted.append(or_(c.key.in_(_USED), c.key.startswith(CONSTRAINTS + ":")))
    both = table.__table__.join(_trials, c.trial_id == _trials.c.trial_id)
    return select(c.trial_id, *columns).select_from(both).where(and_(*wanted)).order_by(order)


def _add_value(trial: StoredTrial, value: float | None, kind: Any) -> None:
    trial.values.append(models.TrialValueModel.stored_repr_to_value(value, kind))


def _add_reported(trial: StoredTrial, step: int, value: float | None, kind: Any) -> None:
    number = models.TrialIntermediateValueModel.stored_repr_to_intermediate_value(value, kind)
    trial.intermediate_values[step] = number


def _add_attribute(trial: StoredTrial, key: str, text: str) -> None:
    trial.user_attrs[key] = json.loads(text)


def _add_system_attribute(trial: StoredTrial, key: str, text: str) -> None:
    trial.system_attrs[key] = json.loads(text)


def _aware(stored: datetime | None) -> datetime | None:
    """A stored time with its time zone, if it has one; else it is local."""
    return stored.replace(tzinfo=timezone.utc) if _IS_UTC and stored is not None else stored


def stamps(storage: RDBStorage) -> dict[int, str]:
    """A text for each study id that changes when one of its trials begins or ends.

    It has, for each state, the number of trials, the last id and the last time of completion.
    """
    c = _trials.c
    columns = (c.study_id, c.state, func.count(), func.max(c.trial_id))
    query = select(*columns, func.max(c.datetime_complete)).group_by(c.study_id, c.state)
    found: dict[int, list[str]] = defaultdict(list)
    with storage.engine.connect() as connection:
        for study, state, count, last, when in connection.execute(query):
            found[study].append(f"{state.name} {count} {last} {when}")
    return {study: ", ".join(sorted(parts)) for study, parts in found.items()}
