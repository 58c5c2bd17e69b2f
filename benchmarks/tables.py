"""Finite tables of evaluated configurations, as tasks with fixed splits and initial points.

    table = load("tst-svm-hpob", Path("../shared/data"))

- `tst-svm-hpob`: 50 tasks with 288 SVMs each, in the JSON layout of HPO-B, X as it is there;
- `hpobench-xgb`: 48 tasks with up to 1000 XGBoost configurations, most of them on one task only;
- `textclf`: 50 tasks with the same 384 text-classification pipelines;
- `oboe`: 335 tasks with the same 219 settings of 12 algorithms.

The last three are encoded by their `schema.json`. The data folder also holds `splits.json`.

Five or six validation tasks are few to choose settings on. `tst-svm-hpob-fold`, and so on, is a
table for choosing, too: every third train task takes the place of the test tasks, which it does
not contain, and the other train tasks are left to learn from.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rankwise import Task
from rankwise.types import Array

HPOB = "tst-svm-hpob"
NAMES = (HPOB, "hpobench-xgb", "textclf", "oboe")
FOLD = "-fold"
SEEDS = range(5)  # those that have initial points

_SPLITS = ("train", "validation", "test")
_ORIGIN = "tst-svm"  # the same tasks as `HPOB` in the other layout, row by row


@dataclass(frozen=True)
class Table:
    """Tasks whose configurations have all been evaluated.

    Attributes:
        name: of the table.
        tasks: by name; smaller losses are better.
        train: names of the tasks to learn from.
        validation: names of the tasks to choose on.
        test: names of the tasks to report.
        initial: for every validation and test task and seed, five row numbers to start with.
    """

    name: str
    tasks: Mapping[str, Task]
    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]
    initial: Mapping[tuple[str, int], np.ndarray]


@cache
def load(name: str, data: Path) -> Table:
    """The table of that name from the data folder; one that ends in `FOLD` is for choosing."""
    if name.endswith(FOLD):
        return _fold(load(name.removesuffix(FOLD), data))
    if name not in NAMES:
        raise ValueError(f"{name!r} is not one of {', '.join(NAMES)}")
    splits = json.loads((data / "splits.json").read_text())
    return _load_hpob(data, splits[_ORIGIN]) if name == HPOB else _load(name, data, splits[name])


def _fold(table: Table) -> Table:
    held = table.train[::3]
    train = tuple(name for name in table.train if name not in held)
    known = (*train, *held, *table.validation)
    initial = {
        (name, seed): np.random.default_rng([seed, zlib.crc32(name.encode())]).choice(
            len(table.tasks[name]), 5, replace=False
        )
        for name in held
        for seed in SEEDS
    }
    return Table(
        f"{table.name}{FOLD}",
        {name: table.tasks[name] for name in known},
        train,
        table.validation,
        held,
        {**{key: rows for key, rows in table.initial.items() if key[0] in known}, **initial},
    )


def regret(task: Task, rows: Sequence[int] | np.ndarray) -> Array:
    """Normalised regret (n,) of the best row so far, after each of n evaluated rows.

    Zero is the best loss of the table, one the worst; all zeros where they are the same.
    """
    losses = task.losses
    best, worst = losses.min(), losses.max()
    if worst == best:
        return np.zeros(len(rows))
    curve: Array = np.minimum.accumulate(losses[np.asarray(rows, dtype=int)])
    return (curve - best) / (worst - best)


# ---------------------------------------------------------------------- NumPy files


def _load(name: str, data: Path, split: Mapping[str, Any]) -> Table:
    schema = json.loads((data / name / "schema.json").read_text())
    with np.load(data / name / "data.npz") as file:
        X = encode(file["X"], schema["hyperparameters"])
        y, number, names = file["y"], file["task"], file["tasks"].tolist()
    losses = -y if schema["direction"] == "maximize" else y
    tasks = {}
    for task in (task for part in _SPLITS for task in split[part]):
        rows = number == names.index(task)
        tasks[task] = Task.of(X[rows], losses[rows], name=task)
    return _table(name, tasks, split, _initial(split["initial"], split["initial"]))


def encode(X: np.ndarray, hyperparameters: Sequence[Mapping[str, Any]]) -> Array:
    """Raw configurations (n, p), with NaN where inactive, in the unit cube (n, d)."""
    columns = []
    for values, spec in zip(X.T.astype(float), hyperparameters, strict=True):
        active = ~np.isnan(values)
        part = np.zeros((len(values), len(spec.get("choices", [0]))))
        part[active] = _encode_active(values[active], spec)
        columns.append(part)
        if "condition" in spec:
            columns.append(active[:, None].astype(float))
        elif not active.all():
            raise ValueError(f"{spec['name']} is inactive somewhere, but has no condition")
    return np.concatenate(columns, axis=1)


def _encode_active(values: Array, spec: Mapping[str, Any]) -> Array:
    """Values (n,) of one hyperparameter as columns (n, k): one-hot or scaled."""
    if spec["type"] == "categorical":
        return np.eye(len(spec["choices"]))[values.astype(int)]
    if "grid" in spec:  # undo that some files have single precision
        grid = np.array(spec["grid"], dtype=float)
        values = grid[np.argmin(np.abs(values[:, None] - grid), axis=1)]
    low, high = float(spec["lower"]), float(spec["upper"])
    if spec["log"]:
        values, low, high = np.log(values), np.log(low), np.log(high)
    scaled = (values - low) / (high - low) if high > low else np.zeros_like(values)
    return np.clip(scaled, 0.0, 1.0)[:, None]


# ---------------------------------------------------------------------- HPO-B's layout


def _load_hpob(data: Path, split: Mapping[str, Any]) -> Table:
    tasks: dict[str, Task] = {}
    names: dict[str, list[str]] = {}
    for part in _SPLITS:
        [space] = json.loads((data / HPOB / f"meta-{part}-dataset.json").read_text()).values()
        names[part] = list(space)
        for name, content in space.items():
            tasks[name] = Task.of(content["X"], -np.ravel(content["y"]), name=name)
    [points] = json.loads((data / HPOB / "bo-initializations.json").read_text()).values()
    initial = _initial(points, names["test"], key="test{}")
    # HPO-B has none for validation; `splits.json` has them by row numbers of the other layout.
    _check_order(tasks, data / _ORIGIN / "data.npz")
    initial |= _initial(split["initial"], names["validation"])
    return _table(HPOB, tasks, names, initial)


def _check_order(tasks: Mapping[str, Task], path: Path) -> None:
    """Row numbers of one layout may be used in the other only if their rows are the same."""
    with np.load(path) as file:
        y, number, names = file["y"], file["task"], file["tasks"].tolist()
    for name, task in tasks.items():
        if not np.array_equal(task.y, -y[number == names.index(name)]):
            raise ValueError(f"the rows of {name} differ between {HPOB} and {_ORIGIN}")


# ---------------------------------------------------------------------- both


def _initial(
    points: Mapping[str, Mapping[str, Any]], names: Sequence[str], key: str = "{}"
) -> dict[tuple[str, int], np.ndarray]:
    return {
        (name, seed): np.ravel(points[name][key.format(seed)]).astype(int)
        for name in names
        for seed in SEEDS
    }


def _table(
    name: str,
    tasks: Mapping[str, Task],
    split: Mapping[str, Sequence[str]],
    initial: Mapping[tuple[str, int], np.ndarray],
) -> Table:
    return Table(name, tasks, *(tuple(split[part]) for part in _SPLITS), initial)
