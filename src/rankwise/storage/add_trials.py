"""Adds many finished trials to a study at once.

Optuna writes one trial per transaction, and reads the trial again for each of its parameters. A
database on a server then takes minutes for some thousand trials.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from optuna import Study
from optuna.distributions import (
    BaseDistribution,
    check_distribution_compatibility,
    distribution_to_json,
)
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial

from rankwise.storage.optuna_private import (
    id_of_study,
    rdb_tables,
    storage_of,
    uncached,
    validate,
)


def add_trials(study: Study, trials: Sequence[FrozenTrial]) -> None:
    """Add trials to a study without trials. In a database it is one transaction.

    Args:
        study: a study that no other process writes to.
        trials: the trials, in the order of their numbers.

    Raises:
        ValueError: a trial contradicts itself or the study.
    """
    storage = uncached(storage_of(study))
    if not isinstance(storage, RDBStorage):
        study.add_trials(trials)
        return
    _check(study, trials)
    from sqlalchemy.orm import Session

    tables = rdb_tables()
    with Session(storage.engine) as session, session.begin():
        rows = [
            tables.TrialModel(
                study_id=id_of_study(study),
                number=number,
                state=trial.state,
                datetime_start=trial.datetime_start,
                datetime_complete=trial.datetime_complete,
            )
            for number, trial in enumerate(trials)
        ]
        session.add_all(rows)
        session.flush()  # gives the rows their ids
        parts = defaultdict(list)
        texts: dict[BaseDistribution, str] = {}
        for row, trial in zip(rows, trials, strict=True):
            for table, part in _parts(tables, trial, texts):
                parts[table].append({"trial_id": row.trial_id, **part})
        for table, content in parts.items():
            session.execute(table.__table__.insert(), content)


def _check(study: Study, trials: Sequence[FrozenTrial]) -> None:
    """Check what Optuna checks when it adds a trial."""
    first: dict[str, BaseDistribution] = {}
    for trial in trials:
        validate(trial)
        if trial.values is not None and len(trial.values) != len(study.directions):
            raise ValueError(
                f"trial {trial.number} has {len(trial.values)} values, "
                f"its study {len(study.directions)} objectives"
            )
        for name, distribution in trial.distributions.items():
            check_distribution_compatibility(first.setdefault(name, distribution), distribution)


def _parts(
    tables: Any, trial: FrozenTrial, texts: dict[BaseDistribution, str]
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The rows of a trial in the other tables; `texts` keeps the JSON of distributions."""
    for objective, value in enumerate(trial.values or ()):
        number, kind = tables.TrialValueModel.value_to_stored_repr(value)
        part = {"objective": objective, "value": number, "value_type": kind}
        yield tables.TrialValueModel, part
    for name, value in trial.params.items():
        distribution = trial.distributions[name]
        if distribution not in texts:
            texts[distribution] = distribution_to_json(distribution)
        part = {
            "param_name": name,
            "param_value": distribution.to_internal_repr(value),
            "distribution_json": texts[distribution],
        }
        yield tables.TrialParamModel, part
    for key, content in trial.user_attrs.items():
        yield tables.TrialUserAttributeModel, {"key": key, "value_json": json.dumps(content)}
    for key, content in trial.system_attrs.items():
        yield tables.TrialSystemAttributeModel, {"key": key, "value_json": json.dumps(content)}
    reported = tables.TrialIntermediateValueModel
    for step, value in trial.intermediate_values.items():
        number, kind = reported.intermediate_value_to_stored_repr(value)
        part = {
            "step": step,
            "intermediate_value": number,
            "intermediate_value_type": kind,
        }
        yield reported, part
