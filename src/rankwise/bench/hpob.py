"""Benchmarks in the layout of HPO-B: JSON files of tables, by search space and data set.

A folder holds `meta-train-dataset.json`, `meta-validation-dataset.json`, `meta-test-dataset.json`
(and, for some modes, `meta-train-dataset-augmented.json`), each
`{space: {dataset: {"X": [[...]], "y": [[...]]}}}`, and `bo-initializations.json`,
`{space: {dataset: {"test0": [rows], ...}}}`: where runs with the seeds 0, 1, ... begin. There y is
to be maximised.

The files of HPO-B have more than a gigabyte. They are read as streams, and only the tables of the
space asked for are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rankwise.bench.base import MODIFIERS, Benchmark, TableProblem
from rankwise.bench.files import (
    missing_package,
    need_data,
    need_folder,
    read_json,
    unreadable,
    wrong,
)
from rankwise.bench.registry import Source
from rankwise.errors import BenchmarkDataError, check_name
from rankwise.space import Encoder
from rankwise.task import Task
from rankwise.types import Array

FOLDERS = ("hpob-data", "hpob", ".")
"""Where in the data folder HPO-B's files may be."""

_TRAIN, _AUGMENTED = "meta-train-dataset.json", "meta-train-dataset-augmented.json"
_VALIDATION, _TEST = "meta-validation-dataset.json", "meta-test-dataset.json"
_INITIAL = "bo-initializations.json"


@dataclass(frozen=True)
class _Mode:
    """The files that hold the tasks to learn from, to choose on and to optimise."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]


MODES: dict[str, _Mode] = {
    "v1": _Mode((), (), (_AUGMENTED, _VALIDATION, _TEST)),
    "v2": _Mode((), (), (_TRAIN, _VALIDATION, _TEST)),
    "v3": _Mode((_TRAIN,), (_VALIDATION,), (_TEST,)),
    "v3-test": _Mode((), (), (_TEST,)),
    "v3-train-augmented": _Mode((_AUGMENTED,), (_VALIDATION,), (_TEST,)),
}
"""The modes of HPO-B's handler: which files hold the tasks of each part."""

# ---------------------------------------------------------------------- the box of the columns


@dataclass(frozen=True)
class Box:
    """The ranges of the columns of X, and the space that they are.

    Attributes:
        lower: (d,), at most 0.
        upper: (d,), at least 1.
        encoder: of the space; its columns are those of X, in their order.
    """

    lower: Array
    upper: Array
    encoder: Encoder

    def scale(self, X: Array) -> Array:
        """X (n, d) with the box as the unit cube; rows outside of the box stay outside."""
        scaled: Array = (X - self.lower) / (self.upper - self.lower)
        return scaled

    def unscale(self, X: Array) -> Array:
        """What `scale` made X (n, d) of."""
        unscaled: Array = self.lower + X * (self.upper - self.lower)
        return unscaled


def box(arrays: Iterable[Array]) -> Box:
    """The smallest box that contains the unit cube and all rows of some arrays (n, d)."""
    ranges = [(X.min(axis=0), X.max(axis=0)) for X in arrays]
    lower = np.minimum(0.0, np.min([low for low, _ in ranges], axis=0))
    upper = np.maximum(1.0, np.max([high for _, high in ranges], axis=0))
    digits = len(str(len(lower) - 1))  # spaces sort by name: x02 comes before x10
    pairs = enumerate(zip(lower.tolist(), upper.tolist(), strict=True))
    return Box(lower, upper, Encoder({f"x{j:0{digits}d}": bounds for j, bounds in pairs}))


# ---------------------------------------------------------------------- reading

Rows = Mapping[str, Mapping[int, np.ndarray]]


@dataclass(frozen=True)
class Space:
    """The tables of one search space.

    Attributes:
        box: of its columns.
        parts: the names of the tasks to learn from, to choose on and to optimise.
        tables: X (n, d), not scaled, and losses (n,) by task.
        rows: where runs begin, by task and seed.
    """

    box: Box
    parts: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
    tables: Mapping[str, tuple[Array, Array]]
    rows: Rows


@lru_cache(maxsize=1)
def read_space(folder: Path, space: str, mode: str) -> Space:
    """The tables of a search space; those of the last one only are kept in memory.

    Raises:
        BenchmarkDataError: a file is missing, cannot be read, or does not hold what it should.
    """
    files = MODES[mode]
    tables: dict[str, tuple[Array, Array]] = {}
    parts = []
    for names in (files.train, files.validation, files.test):
        earlier = set(tables)
        for name in names:
            for task, table in stream_tables(folder / name, space):
                if task in earlier:  # what is learnt from would be optimised, too
                    what = f"task {task!r} of space {space!r} is in another part, too"
                    raise wrong(folder / name, what)
                tables[task] = table
        parts.append(tuple(task for task in tables if task not in earlier))
    train, validation, test = parts
    rows = read_json(folder / _INITIAL)
    if not test:
        known = ", ".join(sorted(rows)) or "none"
        raise BenchmarkDataError(
            f"{folder / _TEST} has no tasks of the space {space!r}: name one of {known}"
        )
    widths = {task: X.shape[1] for task, (X, _) in tables.items()}
    if len(set(widths.values())) > 1:
        raise wrong(folder, f"tasks of the space {space!r} differ in columns: {widths}")
    bounds = box(tables[task][0] for task in train or test)
    initial = _initial(folder / _INITIAL, rows.get(space, {}), tables)
    return Space(bounds, (train, validation, test), tables, initial)


def stream_tables(path: Path, space: str) -> Iterator[tuple[str, tuple[Array, Array]]]:
    """The tables of a space from one file, one after the other: X (n, d) and losses (n,)."""
    try:
        import ijson
    except ImportError:
        raise missing_package(space, "ijson") from None
    try:
        with path.open("rb") as file:
            for name, content in ijson.kvitems(file, space, use_float=True):
                yield name, _table(path, f"task {name!r} of space {space!r}", content)
    except (OSError, ijson.JSONError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from error


def _table(path: Path, what: str, content: Any) -> tuple[Array, Array]:
    try:
        X = np.array(content["X"], dtype=float)
        losses = -np.array(content["y"], dtype=float).ravel()
    except (KeyError, TypeError, ValueError) as error:
        raise wrong(path, f"{what} has another layout ({error!r})") from error
    if X.ndim != 2 or not len(X) == len(losses) > 0:
        raise wrong(path, f"{what} has X of shape {X.shape} and {len(losses)} values in y")
    if not (np.isfinite(X).all() and np.isfinite(losses).all()):
        raise wrong(path, f"{what} has numbers that are not finite")
    return X, losses


def _initial(path: Path, content: Any, tables: Mapping[str, tuple[Array, Array]]) -> Rows:
    """Rows where runs begin, of the tasks that there are; seed 3 is called "test3"."""
    try:
        initial = {
            task: {
                int(key.removeprefix("test")): np.array(rows, dtype=int).ravel()
                for key, rows in seeds.items()
            }
            for task, seeds in content.items()
            if task in tables
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise wrong(path, f"the initial rows have another layout ({error!r})") from error
    for task, seeds in initial.items():
        n = len(tables[task][1])
        if any(np.any((rows < 0) | (rows >= n)) for rows in seeds.values()):
            raise wrong(path, f"an initial row of task {task!r} is not in 0..{n - 1}")
    return initial


# ---------------------------------------------------------------------- the benchmarks


@dataclass(frozen=True)
class _Problems:
    folder: Path
    space: str
    mode: str

    def __call__(self, name: str) -> TableProblem:
        space = read_space(self.folder, self.space, self.mode)
        X, losses = space.tables[name]
        return TableProblem.of(name, space.box.scale(X), losses, space.rows.get(name))


@dataclass(frozen=True)
class _Histories:
    folder: Path
    space: str
    mode: str

    def __call__(self, name: str) -> Task:
        space = read_space(self.folder, self.space, self.mode)
        X, losses = space.tables[name]
        return Task.of(space.box.scale(X), losses, name=name)


@dataclass(frozen=True)
class _Load:
    """Loads a space from the first of some folders that has a test file."""

    name: str
    space: str
    mode: str
    folders: tuple[str, ...]

    def __call__(self, data: Path | None) -> Benchmark:
        data = need_data(self.name, data)
        folder = self._folder(data)
        key = (folder, self.space, self.mode)
        space = read_space(*key)
        return Benchmark(
            self.name, space.box.encoder, *space.parts, _Problems(*key), _Histories(*key)
        )

    def _folder(self, data: Path) -> Path:
        if len(self.folders) == 1:
            return need_folder(self.name, data / self.folders[0])
        for folder in self.folders:
            if (data / folder / _TEST).exists():
                return data / folder
        places = ", ".join(str(data / folder) for folder in self.folders)
        raise BenchmarkDataError(
            f"benchmark {self.name!r} needs HPO-B's files ({_TEST} and the others); none of "
            f"{places} has them: unpack HPO-B's data in one of them"
        )


def space_source(space: str, mode: str = "v3") -> Source:
    """The row of a search space of HPO-B.

    Args:
        space: its id, such as "5860".
        mode: one of `MODES`.
    """
    hint = f"After a mode there may be modifiers: {', '.join(MODIFIERS)}."
    check_name("mode of HPO-B's handler", mode, MODES, hint)
    name = space if mode == "v3" else f"{space}:{mode}"
    summary = f"search space {space} of HPO-B, mode {mode}"
    return Source(name, summary, _Load(name, space, mode, FOLDERS))


SOURCES: tuple[Source, ...] = (
    Source(
        "tst-svm-hpob",
        "the tasks of tst-svm in HPO-B's layout and encoding, with its protocol",
        _Load("tst-svm-hpob", "svm", "v3", ("tst-svm-hpob",)),
    ),
)
