"""Problems with several objectives whose past tasks are known.

Families: ZDT1, ZDT2 and DTLZ2 (three objectives) with an optimum that moves from task to task;
`hpolib-fcnet` (error and size of networks); the records of the built-in past (error and seconds of
estimators of scikit-learn), where a forest stands for the target data set between its records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.trial import create_trial
from scipy.stats import rankdata
from sklearn.ensemble import ExtraTreesRegressor

from rankwise.acquisition.hypervolume import hypervolume, on_front
from rankwise.builtin.records import Records, read_records
from rankwise.builtin.tasks import Placed
from rankwise.estimators.ready_spaces import ready
from rankwise.space.encoder import Encoder
from rankwise.storage.study_log import distribution
from rankwise.storage.suggest_space import suggest

PAST_TRIALS, PAST_DATASETS = 30, 20
LEARNERS = ("logistic-regression", "sgd", "svc")  # their seconds depend on the configuration


@dataclass(frozen=True)
class Problem:
    """A target task with its past tasks.

    Attributes:
        suggest: asks a trial for the values of the parameters.
        target: values of the objectives.
        past: makes the past studies from a seed.
        volume: relative hypervolume of some values (n, m) of the target.
        m: number of objectives.
    """

    suggest: Callable[[optuna.Trial], Any]
    target: Callable[[Any], tuple[float, ...]]
    past: Callable[[int], optuna.storages.InMemoryStorage]
    volume: Callable[[np.ndarray], float]
    m: int = 2


def random_past(
    suggest: Callable[[optuna.Trial], Any], functions: Sequence[Callable], m: int
) -> Callable[[int], optuna.storages.InMemoryStorage]:
    """Past studies of `PAST_TRIALS` random trials of each of some functions."""

    def past(seed: int) -> optuna.storages.InMemoryStorage:
        storage = optuna.storages.InMemoryStorage()
        for k, f in enumerate(functions):
            study = optuna.create_study(
                storage=storage,
                study_name=f"past-{k}",
                directions=["minimize"] * m,
                sampler=optuna.samplers.RandomSampler(seed=100 * seed + k),
            )
            study.optimize(lambda t, f=f: f(suggest(t)), n_trials=PAST_TRIALS)
        return storage

    return past


def quantile_volume(values: np.ndarray) -> Callable[[np.ndarray], float]:
    """Hypervolume of objectives as quantiles of some values (n, 2), relative to their front."""
    places = [np.sort(values[:, k]) for k in range(2)]
    ranks = np.stack([rankdata(values[:, k], "max") for k in range(2)], axis=1) / len(values)
    best = hypervolume(np.unique(ranks[on_front(ranks)], axis=0), np.ones(2))

    def volume(v: np.ndarray) -> float:
        q = [np.searchsorted(places[k], v[:, k], "right") / len(values) for k in range(2)]
        return hypervolume(np.stack(q, axis=1), np.ones(2)) / best

    return volume


# ---------------------------------------------------------------------- functions


def zdt(kind: int, centre: np.ndarray) -> Callable[[tuple], tuple[float, ...]]:
    """ZDT1, 2 or 3 whose front is at `centre` instead of zero."""

    def f(x: tuple) -> tuple[float, ...]:
        f1, rest = x[0], np.abs(np.array(x[1:]) - centre[1:])
        g = 1 + 9 * float(rest.mean())
        shape = {1: 1 - np.sqrt(f1 / g), 2: 1 - (f1 / g) ** 2}.get(kind)
        if shape is None:
            shape = 1 - np.sqrt(f1 / g) - f1 / g * np.sin(10 * np.pi * f1)
        return f1, g * float(shape)

    return f


def dtlz2(centre: np.ndarray) -> Callable[[tuple], tuple[float, ...]]:
    """DTLZ2 with three objectives."""

    def f(x: tuple) -> tuple[float, ...]:
        a, b = np.array(x[:2]) * np.pi / 2
        g = 1 + float(((np.array(x[2:]) - centre[2:]) ** 2).sum())
        return (
            float(g * np.cos(a) * np.cos(b)),
            float(g * np.cos(a) * np.sin(b)),
            float(g * np.sin(a)),
        )

    return f


def bowls(centre: np.ndarray) -> Callable[[tuple], tuple[float, ...]]:
    """Two bowls, for development."""

    def f(x: tuple) -> tuple[float, ...]:
        v = np.array(x) - centre
        return float((v**2).sum()), float(((v - 0.3) ** 2 * np.linspace(1, 3, len(v))).sum())

    return f


def three_bowls(centre: np.ndarray) -> Callable[[tuple], tuple[float, ...]]:
    """Three bowls, for development."""

    def f(x: tuple) -> tuple[float, ...]:
        v = np.array(x) - centre
        third = v + np.array([0.3, -0.3, *[0.0] * (len(v) - 2)])
        return *bowls(centre)(x), float((third**2 * np.linspace(2, 1, len(v))).sum())

    return f


def convex(centre: np.ndarray) -> Callable[[tuple], tuple[float, ...]]:
    """DTLZ2 with a convex front, for development."""
    f = dtlz2(centre)
    return lambda x: tuple(v**k for v, k in zip(f(x), (4, 4, 2), strict=True))


def plane(centre: np.ndarray) -> Callable[[tuple], tuple[float, ...]]:
    """Three objectives with a plane as front, for development."""

    def f(x: tuple) -> tuple[float, ...]:
        g = 1 + 2 * float(((np.array(x[2:]) - centre[2:]) ** 2).sum())
        return g * x[0] * x[1], g * x[0] * (1 - x[1]), g * (1 - x[0])

    return f


def synthetic(make: Callable, name: str, seed: int, d: int = 5) -> Problem:
    rng = np.random.default_rng([seed, sum(map(ord, name))])
    centres = 0.5 + rng.uniform(-0.12, 0.12, (6, d))
    target = make(centres[0])
    m = len(target(tuple(centres[0])))
    X = rng.uniform(size=(4000, d))
    X[:2000, (m - 1) :] = centres[0][(m - 1) :]
    if name.endswith("bowls"):
        X[:2000] = centres[0] + rng.uniform(0, 0.3, (2000, 1))
    values = np.array([target(tuple(x)) for x in X])
    front = values[on_front(values)]
    reference = np.quantile(values[2000:], 0.5, axis=0) + 0.0
    reference = np.maximum(reference, front.max(axis=0) * 1.1)
    best = hypervolume(front[:: max(1, len(front) // 150)], reference)

    def suggest(trial: optuna.Trial) -> tuple:
        return tuple(trial.suggest_float(f"x{k}", 0, 1) for k in range(d))

    past = random_past(suggest, [make(c) for c in centres[1:]], m)
    return Problem(suggest, target, past, lambda v: hypervolume(v, reference) / best, m)


# ---------------------------------------------------------------------- tables


@cache
def read(folder: Path) -> tuple[dict, list]:
    with np.load(folder / "data.npz", allow_pickle=False) as data:
        arrays = {name: data[name] for name in data.files}
    return arrays, json.loads((folder / "schema.json").read_text("utf-8"))["hyperparameters"]


def table(folder: Path, second: str, target: str, past: list[str]) -> Problem:
    """A problem of a table whose tasks have the same configurations."""
    data, schema = read(folder)
    names = data["tasks"].tolist()
    columns = [np.unique(data["X"][:, j]).tolist() for j in range(data["X"].shape[1])]

    def function(name: str) -> tuple[Callable, np.ndarray]:
        mine = data["task"] == names.index(name)
        X, y = data["X"][mine], np.log(np.maximum(data["y"][mine], 1e-12))
        values = np.stack([y, np.log(np.maximum(data[second][mine], 1e-6))], axis=1)
        where = {tuple(map(float, row)): k for k, row in enumerate(X)}
        return (lambda x: tuple(map(float, values[where[x]]))), values

    f, values = function(target)

    def suggest(trial: optuna.Trial) -> tuple:
        found = []
        for h, levels in zip(schema, columns, strict=True):
            if h["type"] == "categorical" or len(levels) == 1:
                k = trial.suggest_categorical(h["name"], list(range(len(levels))))
            else:
                k = trial.suggest_int(h["name"], 0, len(levels) - 1)
            found.append(float(levels[k]))
        return tuple(found)

    others = [function(name)[0] for name in past]
    return Problem(suggest, f, random_past(suggest, others, 2), quantile_volume(values))


# ---------------------------------------------------------------------- built-in records


@cache
def placed(learner: str) -> tuple[Records, Encoder, np.ndarray]:
    """The records of a classifier, its space, and 1 - accuracy and log seconds (n, 2)."""
    records = read_records(learner, "classification")
    [space] = [row.space_for("classification") for row in ready() if row.name == learner]
    error = 1 - records.scores["accuracy"]
    values = np.stack([error, np.log(np.maximum(records.seconds, 1e-4))], axis=1)
    values[np.isnan(error), 0] = np.nanmax(error)
    return records, Encoder(space), values


def builtin(learner: str, dataset: str) -> Problem:
    """Error and seconds of a learner; the past studies are records of other data sets.

    Between its records the target data set is represented by a forest; the hypervolume is relative
    to the front of 3000 random configurations.
    """
    records, encoder, values = placed(learner)
    X = Placed.of(records, encoder).X
    rows = records.rows(records.datasets.index(dataset))
    forest = ExtraTreesRegressor(100, random_state=0).fit(X[rows], values[rows])
    codes = encoder.sample_codes(3000, np.random.default_rng(0))
    everywhere = forest.predict(encoder.encode_codes(codes))
    others = [d for d in records.datasets if records.groups[d] != records.groups[dataset]]

    def target(configuration: dict) -> tuple[float, ...]:
        return tuple(map(float, forest.predict(encoder.encode([configuration]))[0]))

    def past(seed: int) -> optuna.storages.InMemoryStorage:
        storage = optuna.storages.InMemoryStorage()
        rng = np.random.default_rng([seed, 7])
        distributions = {p.name: distribution(p) for p in encoder.parameters}
        for name in rng.choice(others, PAST_DATASETS, replace=False):
            study = optuna.create_study(
                storage=storage, study_name=str(name), directions=["minimize"] * 2
            )
            there = records.rows(records.datasets.index(name))
            some = rng.choice(np.arange(there.start, there.stop), PAST_TRIALS, replace=False)
            for row, params in zip(some, encoder.decode(X[some]), strict=True):
                active = {p: distributions[p] for p in params}
                study.add_trial(
                    create_trial(params=params, distributions=active, values=values[row])
                )
        return storage

    return Problem(lambda t: suggest(t, encoder), target, past, quantile_volume(everywhere))


# ---------------------------------------------------------------------- all problems


def problems(data: Path, seed: int) -> dict[tuple[str, str], Callable[[], Problem]]:
    """The problems by family and name; they are made when they are used."""
    found: dict[tuple[str, str], Callable[[], Problem]] = {}
    for kind in (1, 2):
        name = f"ZDT{kind}"
        found["shifted functions", name] = lambda kind=kind, name=name: synthetic(
            lambda c: zdt(kind, c), name, seed
        )
    found["shifted functions", "DTLZ2"] = lambda: synthetic(dtlz2, "DTLZ2", seed)
    names = read(data / "hpolib-fcnet")[0]["tasks"].tolist()
    for target in names:
        past = [name for name in names if name != target]
        found["hpolib-fcnet", target] = lambda t=target, p=past: table(
            data / "hpolib-fcnet", "m_model_size", t, p
        )
    for k, learner in enumerate(LEARNERS):
        rng = np.random.default_rng([seed, k])
        dataset = str(rng.choice(read_records(learner, "classification").datasets))
        found["built-in records", f"{learner}/{dataset}"] = lambda n=learner, d=dataset: builtin(
            n, d
        )
    return found
