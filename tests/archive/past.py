"""Small past studies for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import TrialState, create_trial

from rankwise.archive import PastStudy
from rankwise.history.task import OK


def past(
    name: str,
    distributions: Mapping[str, BaseDistribution],
    params: Sequence[Mapping[str, Any]],
    values: Sequence[float] | None = None,
    *,
    direction: str = "minimize",
    status: Sequence[str] | None = None,
    year: int | None = None,
) -> PastStudy:
    n = len(params)
    return PastStudy(
        name,
        direction,
        list(params),
        dict(distributions),
        np.arange(float(n)) if values is None else np.array(values, dtype=float),
        (OK,) * n if status is None else tuple(status),
        np.zeros(n, dtype=bool),
        np.full(n, np.nan),
        {},
        None if year is None else datetime(year, 1, 1),
    )


def add(study: optuna.Study, params: Mapping[str, Any], value: Any = None, **facts: Any) -> None:
    """Add a trial; the distributions are those of `SPACE` for the names that it has."""
    facts.setdefault("state", TrialState.COMPLETE)
    study.add_trial(
        create_trial(
            value=value,
            params=dict(params),
            distributions={name: SPACE[name] for name in params},
            **facts,
        )
    )


SPACE = {
    "lr": optuna.distributions.FloatDistribution(1e-4, 1.0, log=True),
    "layers": optuna.distributions.IntDistribution(1, 5),
    "optimizer": optuna.distributions.CategoricalDistribution(["sgd", "adam"]),
    "momentum": optuna.distributions.FloatDistribution(0.0, 0.9, step=0.1),
}


def objective(trial: optuna.Trial) -> float:
    lr = trial.suggest_float("lr", 1e-4, 1.0, log=True)
    layers = trial.suggest_int("layers", 1, 5)
    optimizer = trial.suggest_categorical("optimizer", ["sgd", "adam"])
    momentum = 0.0
    if optimizer == "sgd":
        momentum = trial.suggest_float("momentum", 0.0, 0.9, step=0.1)
    return float((np.log10(lr) + 2) ** 2 + layers + momentum)


def fill(storage: Any, name: str, n: int, direction: str = "minimize", seed: int = 0) -> Any:
    """A study of n random trials of `objective`."""
    study = optuna.create_study(
        storage=storage,
        study_name=name,
        direction=direction,
        sampler=optuna.samplers.RandomSampler(seed=seed),
    )
    sign = 1.0 if direction == "minimize" else -1.0
    study.optimize(lambda trial: sign * objective(trial), n_trials=n)
    return study
