"""Problems for comparing optimizers: synthetic functions, tables and a YAHPO surrogate.

Every problem is given once, in the shorthand of `rankwise.make_space`; the space of each
optimizer is derived from it. There are two disjoint lists of problems, by fixed rules:

- development, for choosing settings: Hartmann-3, Rosenbrock-2 (family "low-d"), Ackley-4,
  Rosenbrock-4, Levy-4, Michalewicz-5 (family "high-d"), the five validation tasks of tst-svm;
- report: Branin, Hartmann-6, the first five test tasks of tst-svm;
- of the task ids of rbv2_rpart in increasing order every twelfth, in turns one for development
  and one for the report, five each.

The data folder holds `splits.json`, `tst-svm/` and `yahpo/`.
"""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from ConfigSpace import ConfigurationSpace

SPLITS = ("development", "report")
SAMPLE = 100_000  # random configurations whose best is the best known value of a surrogate

_SVM, _RPART = "tst-svm", "rbv2_rpart"
_TASKS = 5
_EVERY = 12


@dataclass(frozen=True)
class Problem:
    """Something to minimize.

    Attributes:
        name: unique, also part of file names.
        family: problems that are averaged before families are.
        parameters: the space in the shorthand of `rankwise.make_space`, parents first.
        objective: from a configuration to its loss.
        best: computes the smallest known loss.
        floor: smaller regrets count as this one.
        when: conditions, for each child the value of one parent.
    """

    name: str
    family: str
    parameters: Mapping[str, Any]
    objective: Callable[[Mapping[str, Any]], float]
    best: Callable[[], float]
    floor: float
    when: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def space(self) -> ConfigurationSpace:
        """A new ConfigSpace space."""
        from rankwise import make_space

        return make_space(self.parameters, when=self.when)

    def suggest(self, trial: Any) -> dict[str, Any]:
        """A configuration from an Optuna trial, define-by-run."""
        chosen: dict[str, Any] = {}
        for name, spec in self.parameters.items():
            if all(chosen.get(parent) == v for parent, v in self.when.get(name, {}).items()):
                chosen[name] = _suggest(trial, name, spec)
        return chosen


def _suggest(trial: Any, name: str, spec: Any) -> Any:
    if isinstance(spec, list):
        return trial.suggest_categorical(name, spec)
    low, high, *log = spec
    suggest = trial.suggest_int if isinstance(low, int) else trial.suggest_float
    return suggest(name, low, high, log=bool(log))


def names(split: str, data: Path) -> list[str]:
    """The names of the problems of a split."""
    part = SPLITS.index(split)
    synthetic = [name for name, row in _FUNCTIONS.items() if row.split == split]
    tasks = json.loads((data / "splits.json").read_text())[_SVM]
    svm = tasks["test" if split == "report" else "validation"][:_TASKS]
    rpart = sorted(_reader(data).instances, key=int)[part * _EVERY :: 2 * _EVERY][:_TASKS]
    return [*synthetic, *(f"{_SVM}/{t}" for t in svm), *(f"{_RPART}/{t}" for t in rpart)]


@cache
def load(name: str, data: Path) -> Problem:
    """The problem of that name."""
    family, _, task = name.partition("/")
    if family == _SVM:
        return table_problem(name, task, data / _SVM)
    if family == _RPART:
        return _rpart_problem(name, task, data)
    return _synthetic_problem(name)


# ---------------------------------------------------------------------- synthetic functions


def _branin(x: np.ndarray) -> float:
    a, b = x
    hill = b - 5.1 / (4 * math.pi**2) * a**2 + 5 / math.pi * a - 6
    return float(hill**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(a) + 10)


_HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
_HARTMANN: dict[int, tuple[np.ndarray, np.ndarray]] = {  # dimension: widths, 10^4 centres
    3: (
        np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]]),
        np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]),
    ),
    6: (
        np.array(
            [
                [10, 3, 17, 3.5, 1.7, 8],
                [0.05, 10, 17, 0.1, 8, 14],
                [3, 3.5, 1.7, 10, 17, 8],
                [17, 8, 0.05, 10, 0.1, 14],
            ]
        ),
        np.array(
            [
                [1312, 1696, 5569, 124, 8283, 5886],
                [2329, 4135, 8307, 3736, 1004, 9991],
                [2348, 1451, 3522, 2883, 3047, 6650],
                [4047, 8828, 8732, 5743, 1091, 381],
            ]
        ),
    ),
}


def _hartmann(x: np.ndarray) -> float:
    widths, centres = _HARTMANN[len(x)]
    return float(-_HEIGHTS @ np.exp(-np.sum(widths * (x - 1e-4 * centres) ** 2, axis=1)))


def _rosenbrock(x: np.ndarray) -> float:
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))


def _ackley(x: np.ndarray) -> float:
    bowl = -20 * math.exp(-0.2 * math.sqrt(np.mean(x**2)))
    return float(bowl - math.exp(np.mean(np.cos(2 * math.pi * x))) + 20 + math.e)


def _levy(x: np.ndarray) -> float:
    w = 1 + (x - 1) / 4
    inner = (w[:-1] - 1) ** 2 * (1 + 10 * np.sin(math.pi * w[:-1] + 1) ** 2)
    last = (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2)
    return float(math.sin(math.pi * w[0]) ** 2 + np.sum(inner) + last)


def _michalewicz(x: np.ndarray) -> float:
    i = np.arange(1, len(x) + 1)
    return float(-np.sum(np.sin(x) * np.sin(i * x**2 / math.pi) ** 20))


@dataclass(frozen=True)
class _Function:
    """A synthetic function on a box, its smallest value, its split and its family."""

    split: str
    family: str
    function: Callable[[np.ndarray], float]
    box: list[tuple[float, float]]
    optimum: float


_FUNCTIONS = {
    "branin": _Function("report", "branin", _branin, [(-5.0, 10.0), (0.0, 15.0)], 0.39788735773),
    "hartmann-6": _Function("report", "hartmann-6", _hartmann, [(0.0, 1.0)] * 6, -3.32236801142),
    "hartmann-3": _Function("development", "low-d", _hartmann, [(0.0, 1.0)] * 3, -3.86277978733),
    "rosenbrock-2": _Function("development", "low-d", _rosenbrock, [(-5.0, 10.0)] * 2, 0.0),
    "rosenbrock-4": _Function("development", "high-d", _rosenbrock, [(-5.0, 10.0)] * 4, 0.0),
    "ackley-4": _Function("development", "high-d", _ackley, [(-5.0, 10.0)] * 4, 0.0),
    "levy-4": _Function("development", "high-d", _levy, [(-10.0, 10.0)] * 4, 0.0),
    "michalewicz-5": _Function(
        "development", "high-d", _michalewicz, [(0.0, math.pi)] * 5, -4.68765817909
    ),
}


def _synthetic_problem(name: str) -> Problem:
    row = _FUNCTIONS[name]
    parameters = {f"x{i + 1}": bounds for i, bounds in enumerate(row.box)}

    def objective(configuration: Mapping[str, Any]) -> float:
        return row.function(np.array([float(configuration[key]) for key in parameters]))

    return Problem(name, row.family, parameters, objective, lambda: row.optimum, floor=1e-6)


# ---------------------------------------------------------------------- tables


def table_problem(name: str, task: str, folder: Path) -> Problem:
    """A task of a table with all configurations of a grid: every number is an index into it."""
    columns, table = _table(task, folder)

    def objective(configuration: Mapping[str, Any]) -> float:
        return table[tuple(configuration.get(column["name"]) for column in columns)]

    return Problem(
        name,
        folder.name,
        {c["name"]: c.get("choices") or (0, len(c["grid"]) - 1) for c in columns},
        objective,
        lambda: min(table.values()),
        floor=1e-4,
        when={
            c["name"]: {c["condition"]["parent"]: c["condition"]["values"][0]}
            for c in columns
            if "condition" in c
        },
    )


@cache
def _table(task: str, folder: Path) -> tuple[list[dict[str, Any]], dict[tuple[Any, ...], float]]:
    """The columns with more than one value, and the loss by configuration, None if inactive."""
    schema = json.loads((folder / "schema.json").read_text())
    with np.load(folder / "data.npz", allow_pickle=False) as data:
        rows = data["task"] == list(data["tasks"]).index(task)
        X, y = data["X"][rows], data["y"][rows]
    losses = 1.0 - y if schema["direction"] == "maximize" else y
    columns, keys = [], []
    for column, values in zip(schema["hyperparameters"], X.T, strict=True):
        if len(np.unique(values[~np.isnan(values)])) > 1:
            columns.append(column)
            keys.append(_levels(column, values))
    table = dict(zip(zip(*keys, strict=True), losses.tolist(), strict=True))
    if len(table) != len(X):
        raise ValueError(f"{task}: {len(X)} rows, but {len(table)} configurations")
    return columns, table


def _levels(column: Mapping[str, Any], values: np.ndarray) -> list[Any]:
    """For each value a number's index in its grid, a choice itself, None where inactive."""
    if "choices" in column:
        names = column["choices"]
        return [None if math.isnan(v) else names[int(v)] for v in values]
    grid = np.array(column["grid"], dtype=float)
    found = np.argmin(np.abs(grid - values[:, None]), axis=1)
    active = ~np.isnan(values)
    if not np.allclose(grid[found][active], values[active], rtol=1e-6, atol=0.0):
        raise ValueError(f"a value is not in the grid of {column['name']}")
    return [int(k) if known else None for k, known in zip(found, active, strict=True)]


# ---------------------------------------------------------------------- the YAHPO surrogate


def _rpart_problem(name: str, task: str, data: Path) -> Problem:
    """A task of rbv2_rpart at full fidelity; its best known value is that of a sample."""
    reader = _reader(data)
    fidelity = {key: reader.hps[key]["upper"] for key in reader.meta["fid"]}
    fixed = {reader.meta["inst"], *fidelity}

    def objective(configuration: Mapping[str, Any]) -> float:
        return 1.0 - float(reader([{**configuration, **fidelity}], task)["acc"][0])

    def best() -> float:
        return 1.0 - float(np.max(reader(_sample(data), task)["acc"]))

    parameters = {k: _shorthand(h) for k, h in reader.hps.items() if k not in fixed}
    return Problem(name, _RPART, parameters, objective, best, floor=1e-4)


def _shorthand(hyperparameter: Mapping[str, Any]) -> Any:
    if hyperparameter["type"] == "categorical":
        return list(hyperparameter["choices"])
    number = int if "int" in hyperparameter["type"] else float
    bounds = number(hyperparameter["lower"]), number(hyperparameter["upper"])
    return (*bounds, "log") if hyperparameter["log"] else bounds


@cache
def _reader(data: Path) -> Any:
    """The reader of the surrogate, which comes with the data."""
    path = data / "yahpo" / "yahpo_reader.py"
    spec = importlib.util.spec_from_file_location("yahpo_reader", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Yahpo(_RPART)


@cache
def _sample(data: Path) -> list[dict[str, Any]]:
    configurations: list[dict[str, Any]] = _reader(data).sample(SAMPLE, np.random.default_rng(0))
    return configurations
