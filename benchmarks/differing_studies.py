"""Studies that differ from their past studies, for `differences.py`: archives and objectives.

The synthetic family has problems of "tree boosting", with an optimum that varies little between
problems. The real one is the table hpobench-xgb.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.trial import TrialState, create_trial

NOISE = 0.005
"""Standard deviation of the noise of a value."""

Params = dict[str, Any]
Objective = Callable[[optuna.Trial], float]

BOOSTERS = ("gbtree", "gblinear", "goss")
BASE: dict[str, BaseDistribution] = {
    "learning_rate": FloatDistribution(1e-3, 1.0, log=True),
    "max_depth": IntDistribution(2, 14),
    "subsample": FloatDistribution(0.3, 1.0),
    "reg_lambda": FloatDistribution(1e-4, 10.0, log=True),
    "booster": CategoricalDistribution(BOOSTERS),
}


# ---------------------------------------------------------------------- the family


@dataclass(frozen=True)
class Problem:
    """One problem of the family: a bowl around an optimum that varies little between problems."""

    optimum: Mapping[str, float]
    weight: Mapping[str, float]
    booster: Mapping[str, float]

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Problem:
        centre = {
            "learning_rate": math.log(0.08),
            "max_depth": 7.0,
            "subsample": 0.75,
            "reg_lambda": math.log(0.05),
        }
        spread = {"learning_rate": 0.5, "max_depth": 1.0, "subsample": 0.06, "reg_lambda": 0.8}
        width = {"learning_rate": 6.9, "max_depth": 12.0, "subsample": 0.7, "reg_lambda": 11.5}
        size = {"learning_rate": 3.0, "max_depth": 1.5, "subsample": 0.7, "reg_lambda": 0.4}
        optimum = {k: centre[k] + spread[k] * rng.normal() for k in centre}
        weight = {k: size[k] * math.exp(0.3 * rng.normal()) / width[k] ** 2 for k in centre}
        booster = {"gbtree": 0.1, "gblinear": 0.5, "goss": 0.2, "dart": 0.0}
        return cls(
            optimum, weight, {k: v * math.exp(0.3 * rng.normal()) for k, v in booster.items()}
        )

    def __call__(self, params: Mapping[str, Any]) -> float:
        """Regret of a configuration; parameters that it does not have cost nothing."""
        loss = self.booster[params["booster"]] if "booster" in params else 0.0
        for name, best in self.optimum.items():
            if name in params:
                x = float(params[name])
                x = math.log(x) if name in ("learning_rate", "reg_lambda") else x
                loss += self.weight[name] * (x - best) ** 2
        return loss


def add_study(
    storage: BaseStorage,
    name: str,
    space: Mapping[str, BaseDistribution],
    loss: Callable[[Params], float],
    rng: np.random.Generator,
    n: int = 25,
    sign: float = 1.0,
) -> None:
    """Write a past study: half random configurations, half near the best so far."""
    study = optuna.create_study(
        storage=storage, study_name=name, direction="minimize" if sign > 0 else "maximize"
    )
    best: tuple[float, Params] = (math.inf, {})
    for k in range(n):
        params = {key: _draw(d, rng) for key, d in space.items()}
        if k >= n // 2:
            kept = [key for key in space if rng.random() < 0.7]
            params.update({key: best[1][key] for key in kept})
        value = loss(params) + NOISE * rng.normal()
        best = min(best, (value, params), key=lambda pair: pair[0])
        study.add_trial(create_trial(params=params, distributions=dict(space), value=sign * value))


def _draw(d: BaseDistribution, rng: np.random.Generator) -> Any:
    if isinstance(d, CategoricalDistribution):
        return d.choices[rng.integers(len(d.choices))]
    assert isinstance(d, FloatDistribution | IntDistribution)
    if isinstance(d, IntDistribution):
        return int(rng.integers(d.low, d.high + 1))
    u = rng.random()
    return float(
        math.exp(math.log(d.low) + u * math.log(d.high / d.low))
        if d.log
        else d.low + u * (d.high - d.low)
    )


def clean_archive(seed: int) -> BaseStorage:
    """30 studies with the parameters of `BASE`."""
    storage, rng = InMemoryStorage(), np.random.default_rng([1, seed])
    for k in range(30):
        add_study(storage, f"xgb-{k}", BASE, Problem.draw(rng), rng)
    return storage


def messy_archive(seed: int) -> BaseStorage:
    """60 studies as they gather in a shared database.

    35 have the parameters of `BASE`. The others have another type, range or scale of a parameter,
    numbers as texts, another name, no booster, an unusual parameter, failed and pruned trials
    only, no trials, several objectives, or are maximized.
    """
    storage, rng = InMemoryStorage(), np.random.default_rng([2, seed])
    lost = TrialState.FAIL
    for k in range(60):
        problem, name, sign = Problem.draw(rng), f"study-{k:02d}", 1.0
        space: dict[str, BaseDistribution] = dict(BASE)
        loss: Callable[[Params], float] = problem
        n = int(rng.integers(8, 30))
        if 35 <= k < 39:
            space["max_depth"] = FloatDistribution(1.0, 20.0)
        elif k < 35:
            sign = -1.0 if k % 7 == 0 else 1.0
        elif k < 42:
            space["max_depth"] = CategoricalDistribution(["3", "6", "9", "12"])
        elif k < 45:
            space["learning_rate"] = FloatDistribution(0.01, 0.3)
        elif k < 48:
            space["eta"] = space.pop("learning_rate")
            loss = _renamed(problem)
        elif k < 50:
            space["seed"] = IntDistribution(0, 2**62)
        elif k < 52:
            space.pop("booster")
        elif k < 54:
            space["booster"] = CategoricalDistribution([0, 1])
            loss = _without(problem, "booster")
        elif k < 57:
            study = optuna.create_study(storage=storage, study_name=name)
            for _ in range(3 if k < 56 else 0):
                params = {key: _draw(d, rng) for key, d in space.items()}
                study.add_trial(create_trial(params=params, distributions=space, state=lost))
            continue
        else:
            optuna.create_study(
                storage=storage, study_name=name, directions=["minimize", "maximize"]
            )
            continue
        add_study(storage, name, space, loss, rng, n, sign)
    return storage


def _renamed(problem: Problem) -> Callable[[Params], float]:
    return lambda params: problem({**params, "learning_rate": params["eta"]})


def _without(problem: Problem, name: str) -> Callable[[Params], float]:
    return lambda params: problem({k: v for k, v in params.items() if k != name})


# ---------------------------------------------------------------------- kinds of difference


@dataclass(frozen=True)
class Kind:
    """A kind of difference.

    Attributes:
        space: what the objective asks for; None removes a parameter of `BASE`.
        extra: loss of parameters that are not in `BASE`.
        cast: values as `Problem` needs them.
        fails: booster with which the objective fails before it asks for anything else.
        sampler: arguments of the sampler.
    """

    space: Mapping[str, BaseDistribution | None] = field(default_factory=dict)
    extra: Callable[[Params], float] = lambda params: 0.0
    cast: Callable[[Params], Params] = lambda params: params
    fails: str = ""
    sampler: Mapping[str, Any] = field(default_factory=dict)


def _number(name: str) -> Callable[[Params], Params]:
    return lambda params: {**params, name: float(params[name])}


def _momentum(params: Params) -> float:
    return 1.0 * (params["momentum"] - 0.9) ** 2


def _policy(params: Params) -> float:
    return {"depthwise": 0.15, "lossguide": 0.0}[params["policy"]] + (
        0.5 * (params["leaves"] / 256 - 0.6) ** 2 if "leaves" in params else 0.0
    )


EVERYTHING: dict[str, Kind] = {
    "none": Kind(),
    "float instead of int": Kind({"max_depth": FloatDistribution(2.0, 14.0)}),
    "choices instead of int": Kind({"max_depth": CategoricalDistribution([3, 5, 6, 7, 9, 12])}),
    "texts instead of int": Kind(
        {"max_depth": CategoricalDistribution(["3", "5", "6", "7", "9", "12"])},
        cast=_number("max_depth"),
    ),
    "another log flag": Kind({"reg_lambda": FloatDistribution(1e-4, 10.0)}),
    "narrower ranges": Kind(
        {
            "learning_rate": FloatDistribution(0.01, 0.3, log=True),
            "max_depth": IntDistribution(4, 9),
        }
    ),
    "wider ranges": Kind(
        {
            "learning_rate": FloatDistribution(1e-5, 10.0, log=True),
            "max_depth": IntDistribution(1, 40),
        }
    ),
    "new choice": Kind({"booster": CategoricalDistribution([*BOOSTERS, "dart"])}),
    "new parameter": Kind({"momentum": FloatDistribution(0.0, 1.0)}, extra=_momentum),
    "new conditional parameters": Kind(
        {
            "policy": CategoricalDistribution(["depthwise", "lossguide"]),
            "leaves": IntDistribution(2, 256),
        },
        extra=_policy,
    ),
    "parameter no longer varied": Kind({"subsample": None, "booster": None}),
    "renamed parameter": Kind(
        {"learning_rate": None, "step_size": FloatDistribution(1e-3, 1.0, log=True)},
        cast=lambda p: {**p, "learning_rate": p["step_size"]},
        sampler={"rename": {"learning_rate": "step_size"}},
    ),
    "one unusual parameter": Kind({"seed": IntDistribution(0, 2**62)}),
    "a choice that fails": Kind(fails="gbtree"),
}


def objective_of(kind: Kind, problem: Problem) -> Objective:
    """The objective of a target study: the regret of what it asks for."""
    space = {k: d for k, d in {**BASE, **kind.space}.items() if d is not None}
    offset = best_booster(kind, problem)

    def objective(trial: optuna.Trial) -> float:
        params: Params = {}
        order = ["booster", *(k for k in space if k != "booster")] if "booster" in space else space
        for name in order:
            if name == "leaves" and params["policy"] != "lossguide":
                continue
            params[name] = trial._suggest(name, space[name])
            if name == "booster" and params[name] == kind.fails:
                raise RuntimeError(f"{kind.fails} is not installed")
        return problem(kind.cast(params)) + kind.extra(params) - offset

    return objective


def best_booster(kind: Kind, problem: Problem) -> float:
    """The loss of the best booster that the objective has."""
    d = {**BASE, **kind.space}["booster"]
    if d is None:
        return 0.0
    assert isinstance(d, CategoricalDistribution)
    return min(problem.booster[str(c)] for c in d.choices if c != kind.fails)


# ---------------------------------------------------------------------- a real family

TABLE = "hpobench-xgb"
_TRIALS_OF_PAST, _TREES, _REFERENCE = 25, 50, 4000
_CONSTANT = {"colsample_bylevel": 1.0, "reg_alpha": 1e-5}

REAL: dict[str, Kind] = {
    "none": Kind(),
    "choices instead of float": Kind(
        {"min_child_weight": CategoricalDistribution([0.1, 0.5, 1, 3, 10])}
    ),
    "another log flag": Kind({"reg_alpha": FloatDistribution(1e-5, 2.0)}),
    "narrower ranges": Kind(
        {
            "eta": FloatDistribution(0.01, 0.3, log=True),
            "colsample_bytree": FloatDistribution(0.3, 1.0),
        }
    ),
    "wider ranges": Kind(
        {
            "reg_lambda": FloatDistribution(1e-8, 100.0, log=True),
            "min_child_weight": FloatDistribution(1e-3, 100.0, log=True),
        }
    ),
    "new parameter": Kind({"momentum": FloatDistribution(0.0, 1.0)}, extra=_momentum),
    "new conditional parameters": EVERYTHING["new conditional parameters"],
    "parameter no longer varied": Kind(dict.fromkeys(_CONSTANT), cast=lambda p: _CONSTANT | p),
}


def real_family(seed: int, kind: Kind, data: Path) -> tuple[BaseStorage, Objective]:
    """Past studies of the table, and an objective that a random forest of another task gives.

    A loss of 0 is the best one of the task, a loss of 1 the median. The regret is relative to the
    best of 4000 random configurations, and at least 0.
    """
    from sklearn.ensemble import RandomForestRegressor

    table = np.load(data / TABLE / "data.npz", allow_pickle=False)
    schema = json.loads((data / TABLE / "schema.json").read_text("utf-8"))
    past_space = {
        h["name"]: FloatDistribution(h["lower"], h["upper"], log=h["log"])
        for h in schema["hyperparameters"]
    }
    names = list(past_space)
    X, y, task = table["X"].astype(float), table["y"].astype(float), table["task"]
    rng = np.random.default_rng([3, seed])
    target = int(rng.choice(np.unique(task)))
    storage = InMemoryStorage()
    for t in np.unique(task[task != target]):
        study = optuna.create_study(storage=storage, study_name=f"task-{t}")
        for k in rng.choice(np.flatnonzero(task == t), _TRIALS_OF_PAST, replace=False):
            values = np.clip(X[k], [d.low for d in past_space.values()], None)
            params = dict(zip(names, map(float, values), strict=True))
            params = {n: min(v, past_space[n].high) for n, v in params.items()}
            dists: dict[str, BaseDistribution] = dict(past_space)
            study.add_trial(create_trial(params=params, distributions=dists, value=float(y[k])))

    mine = y[task == target]
    losses = (mine - mine.min()) / max(float(np.median(mine) - mine.min()), 1e-9)
    forest = RandomForestRegressor(_TREES, min_samples_leaf=2, random_state=seed)
    forest.fit(X[task == target], losses)  # trees need no scaling
    space = {k: d for k, d in {**past_space, **kind.space}.items() if d is not None}

    def loss(some: list[Params]) -> Any:
        rows = [[float(kind.cast(p)[n]) for n in names] for p in some]
        return forest.predict(np.array(rows)) + np.array([kind.extra(p) for p in some])

    def ask(get: Callable[[str, BaseDistribution], Any]) -> Params:
        params: Params = {}
        for name, d in space.items():
            if name != "leaves" or params["policy"] == "lossguide":
                params[name] = get(name, d)
        return params

    best = float(loss([ask(lambda _, d: _draw(d, rng)) for _ in range(_REFERENCE)]).min())

    def objective(trial: optuna.Trial) -> float:
        return max(0.0, float(loss([ask(trial._suggest)])[0]) - best)

    return storage, objective
