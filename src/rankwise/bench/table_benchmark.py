"""Benchmarks from tables of evaluated configurations: `data.npz` and `schema.json` in a folder.

`data.npz` has `X` (n, p), one column per hyperparameter, `y` (n,), `task` (n,), the number of each
row's task, and `tasks`, the names of the tasks. A choice is an index into the schema's `choices`;
NaN means that a hyperparameter is inactive. `schema.json` has `direction` and `hyperparameters`.
Each hyperparameter has `name`, `type`, either `choices` or `lower`, `upper` and `log`, and
optionally `grid` and `condition` (`parent`, `values`).

The file `splits.json` beside the folders divides the tasks into train, validation and test, and
has the initial rows of runs. If it does not mention the table, the tasks are divided at random,
always in the same way.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rankwise._core.data_errors import unreadable, wrong
from rankwise.bench.base import Benchmark, TableProblem
from rankwise.bench.benchmarks import Source
from rankwise.bench.data_files import need_data, need_folder, read_json
from rankwise.errors import SpaceError
from rankwise.history.task import Task
from rankwise.space.encoder import Encoder
from rankwise.space.shorthand import make_space
from rankwise.types import Array, sign_of

PARTS = ("train", "validation", "test")
SHARES = (0.7, 0.8)  # shares of tasks at which train and validation end, without given splits

_PRECISION = 1e-6  # relative tolerance, because some files have single precision
_NEEDED = {"categorical": ("choices",), "float": ("lower", "upper"), "int": ("lower", "upper")}
Rows = Mapping[str, Mapping[int, np.ndarray]]


@dataclass(frozen=True)
class Table:
    """Rows of all tasks.

    Attributes:
        encoder: encoder of the space.
        codes: configurations (n, p) as codes of the encoder.
        losses: losses (n,).
        number: task number (n,) of each row.
        names: names of the tasks.
    """

    encoder: Encoder
    codes: Array
    losses: Array
    number: np.ndarray
    names: tuple[str, ...]

    def rows(self, name: str) -> tuple[Array, Array]:
        """Return encoded configurations (m, d) and losses (m,) of a task."""
        mine = self.number == self.names.index(name)
        return self.encoder.encode_codes(self.codes[mine]), self.losses[mine]


@lru_cache(maxsize=4)
def read_table(folder: Path) -> Table:
    """Read and check the table in a folder.

    Raises:
        BenchmarkDataError: a file is missing or cannot be read, or its content is wrong.
    """
    path = folder / "schema.json"
    schema = read_json(path)
    sign = _direction(path, schema)
    columns = _columns(path, schema)
    encoder = _encoder(path, columns)
    X, y, number, names = _arrays(folder / "data.npz")
    if X.shape[1] != len(columns):
        raise wrong(folder / "data.npz", f"X has {X.shape[1]} columns, the schema {len(columns)}")
    codes = _codes(folder / "data.npz", X, columns, encoder)
    return Table(encoder, codes, sign * y, number, names)


# ---------------------------------------------------------------------- the schema


def _direction(path: Path, schema: Mapping[str, Any]) -> float:
    direction = schema.get("direction")
    if direction not in ("minimize", "maximize"):
        raise wrong(path, f'"direction" is minimize or maximize, not {direction!r}')
    return sign_of(direction)


def _columns(path: Path, schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    columns = schema.get("hyperparameters")
    if not isinstance(columns, list) or not columns:
        raise wrong(path, '"hyperparameters" is missing or not a list')
    for j, column in enumerate(columns):
        if not isinstance(column, dict) or "name" not in column:
            raise wrong(path, f"hyperparameter number {j} has no name")
        name, kind = column["name"], column.get("type")
        if kind not in _NEEDED:
            known = ", ".join(_NEEDED)
            raise wrong(path, f"{name!r} has the unknown type {kind!r}; known: {known}")
        for key in _NEEDED[kind]:
            if key not in column:
                raise wrong(path, f"{name!r} has no {key!r}")
        condition = column.get("condition", {"parent": "", "values": []})
        if not isinstance(condition, dict) or not {"parent", "values"} <= condition.keys():
            raise wrong(path, f"the condition of {name!r} has no parent or no values")
    return columns


def _encoder(path: Path, columns: list[dict[str, Any]]) -> Encoder:
    try:
        return Encoder(
            make_space(
                {column["name"]: _shorthand(column) for column in columns},
                when={
                    column["name"]: {column["condition"]["parent"]: column["condition"]["values"]}
                    for column in columns
                    if "condition" in column
                },
            )
        )
    except (SpaceError, TypeError, ValueError) as error:
        raise wrong(path, str(error)) from error


def _shorthand(column: Mapping[str, Any]) -> Any:
    if column["type"] == "categorical":
        return list(column["choices"])
    number: Callable[[Any], Any] = int if column["type"] == "int" else float
    low, high = number(column["lower"]), number(column["upper"])
    if low == high:
        return low
    return (low, high, "log") if column.get("log") else (low, high)


# ---------------------------------------------------------------------- the rows


def _arrays(path: Path) -> tuple[Array, Array, np.ndarray, tuple[str, ...]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            X, y = file["X"].astype(float), file["y"].astype(float)
            number, names = file["task"], tuple(map(str, file["tasks"].tolist()))
    except KeyError as error:
        raise wrong(path, f"an array is missing ({error.args[0]})") from error
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise unreadable(path, error) from error
    if X.ndim != 2 or not len(X) == len(y) == len(number) or y.ndim != 1:
        shapes = f"{X.shape}, {y.shape} and {number.shape}"
        raise wrong(path, f"X, y and task have the shapes {shapes}, not (n, p), (n,) and (n,)")
    if not np.isfinite(y).all():
        raise wrong(path, f"y is not finite in {np.sum(~np.isfinite(y))} rows")
    if not np.isin(number, np.arange(len(names))).all():
        raise wrong(path, f"task has numbers that are not in 0..{len(names) - 1}")
    empty = [name for k, name in enumerate(names) if not np.any(number == k)]
    if empty:
        raise wrong(path, f"task {empty[0]!r} has no rows")
    return X, y, number, names


def _codes(path: Path, X: Array, columns: list[dict[str, Any]], encoder: Encoder) -> Array:
    """Convert values (n, p) in the schema's order to codes (n, p) in the encoder's order.

    Raises:
        BenchmarkDataError: a value is missing, invalid, or given for an inactive hyperparameter.
    """
    codes = np.empty_like(X)
    for j, column in enumerate(columns):
        codes[:, encoder.names.index(column["name"])] = _column(path, X[:, j], column)
    present = ~np.isnan(codes)
    # Missing values are replaced by 0, because only the values of parents decide on activity.
    active = ~np.isnan(encoder.deactivate(np.where(present, codes, 0.0)))
    for k, name in enumerate(encoder.names):
        for bad, what in ((active & ~present, "no value"), (present & ~active, "a value")):
            if bad[:, k].any():
                state = "active" if active[bad[:, k], k][0] else "inactive"
                row = int(np.flatnonzero(bad[:, k])[0])
                raise wrong(path, f"{name!r} has {what} in row {row}, where it is {state}")
    # Encode and decode, so that numbers are exactly those that the encoder represents.
    return encoder.decode_codes(encoder.encode_codes(codes))


def _column(path: Path, values: Array, column: Mapping[str, Any]) -> Array:
    """Convert values (n,) of a hyperparameter to codes (n,); NaN is kept.

    Raises:
        BenchmarkDataError: a value is outside the range or not in the grid.
    """
    known = values[~np.isnan(values)]
    low, high = 0.0, len(column.get("choices", ())) - 1.0
    if column["type"] != "categorical":
        low, high = float(column["lower"]), float(column["upper"])
        grid = np.array(column.get("grid", ()), dtype=float)
        known = _snapped(path, known, grid, column["name"]) if len(grid) else known
    slack = _PRECISION * max(abs(low), abs(high))
    outside = (known < low - slack) | (known > high + slack) | np.isinf(known)
    if outside.any():
        raise wrong(
            path,
            f"{column['name']!r} is {known[outside][0]:g}, which is not in [{low:g}, {high:g}]",
        )
    if column["type"] != "float" and np.any(known != np.round(known)):
        raise wrong(path, f"{column['name']!r} is not an integer in some row")
    codes = values.copy()
    codes[~np.isnan(values)] = np.clip(known, low, high) if low < high else 0.0
    return codes


def _snapped(path: Path, values: Array, grid: Array, name: str) -> Array:
    """Replace values (n,) of single precision by those of the grid in double precision.

    Raises:
        BenchmarkDataError: a value is not in the grid.
    """
    levels, index = np.unique(values, return_inverse=True)
    nearest = grid[np.argmin(np.abs(levels[:, None] - grid), axis=1)]
    off = np.abs(levels - nearest) > _PRECISION * np.abs(nearest)
    if off.any():
        raise wrong(path, f"{name!r} is {levels[off][0]:g}, which is not in the schema's grid")
    snapped: Array = nearest[index]
    return snapped


# ---------------------------------------------------------------------- splits


def read_splits(data: Path, name: str, table: Table) -> tuple[dict[str, tuple[str, ...]], Rows]:
    """Read the tasks of each part, and the initial rows by task and seed.

    Args:
        data: data folder.
        name: name of the benchmark.
        table: table of the benchmark.

    Raises:
        BenchmarkDataError: the file of the splits is damaged.
    """
    path = data / "splits.json"
    content = read_json(path) if path.exists() else {}
    if name not in content:
        order = np.random.default_rng(0).permutation(len(table.names))
        cuts = [round(share * len(order)) for share in SHARES]
        chosen = (sorted(part) for part in np.split(order, cuts))
        return {
            p: tuple(table.names[k] for k in c) for p, c in zip(PARTS, chosen, strict=True)
        }, {}
    try:
        split = {part: tuple(map(str, content[name][part])) for part in PARTS}
        initial = {
            task: {int(seed): np.array(rows, dtype=int).ravel() for seed, rows in seeds.items()}
            for task, seeds in content[name].get("initial", {}).items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise wrong(path, f"the entry of {name!r} has a wrong layout ({error!r})") from error
    _check_splits(path, table, split, initial)
    return split, initial


def _check_splits(
    path: Path, table: Table, split: Mapping[str, tuple[str, ...]], initial: Rows
) -> None:
    tasks = [task for part in split.values() for task in part]
    unknown = {*tasks, *initial} - set(table.names)
    if unknown:
        raise wrong(path, f"it names the task {min(unknown)!r}, which the table does not have")
    if len(set(tasks)) < len(tasks):
        twice = next(task for task in tasks if tasks.count(task) > 1)
        raise wrong(path, f"the task {twice!r} is named twice")
    sizes = np.bincount(table.number, minlength=len(table.names))
    for task, seeds in initial.items():
        n = sizes[table.names.index(task)]
        if any(np.any((rows < 0) | (rows >= n)) for rows in seeds.values()):
            raise wrong(path, f"an initial row of {task!r} is not in 0..{n - 1}")


# ---------------------------------------------------------------------- the benchmarks


@dataclass(frozen=True)
class _Problems:
    folder: Path
    initial: Rows

    def __call__(self, name: str) -> TableProblem:
        X, losses = read_table(self.folder).rows(name)
        return TableProblem.of(name, X, losses, self.initial.get(name))


@dataclass(frozen=True)
class _Histories:
    folder: Path

    def __call__(self, name: str) -> Task:
        return Task.of(*read_table(self.folder).rows(name), name=name)


@dataclass(frozen=True)
class _Load:
    name: str

    def __call__(self, data: Path | None) -> Benchmark:
        data = need_data(self.name, data)
        folder = need_folder(self.name, data / self.name)
        table = read_table(folder)
        split, initial = read_splits(data, self.name, table)
        return Benchmark(
            self.name,
            table.encoder,
            split["train"],
            split["validation"],
            split["test"],
            _Problems(folder, initial),
            _Histories(folder),
        )


_SUMMARIES = {
    "tst-svm": "support vector machines on 50 data sets, 288 configurations each",
    "hpobench-xgb": "gradient boosting (XGBoost) on 48 tasks, up to 1000 configurations each",
    "oboe": "219 settings of 12 algorithms on 335 data sets",
    "textclf": "384 text-classification pipelines on 50 data sets",
}

SOURCES: tuple[Source, ...] = tuple(
    Source(name, summary, _Load(name)) for name, summary in _SUMMARIES.items()
)
