"""Benchmarks in the file layout of HPO-B: JSON files of tables, by search space and data set.

A folder has `meta-train-dataset.json`, `meta-validation-dataset.json`, `meta-test-dataset.json`
and, for some modes, `meta-train-dataset-augmented.json`. Each is
`{space: {dataset: {"X": [[...]], "y": [[...]]}}}`; larger y are better. The file
`bo-initializations.json` is `{space: {dataset: {"test0": [rows], ...}}}`: the initial rows of runs
with the seeds 0, 1, and so on.

The files of HPO-B have more than a gigabyte. They are read as streams, and only the tables of the
requested space are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rankwise._core.data_errors import wrong
from rankwise.archive.sources.hpob_tables import Box, box, stream_tables
from rankwise.bench.base import MODIFIERS, Benchmark, TableProblem
from rankwise.bench.benchmarks import Source
from rankwise.bench.data_files import need_data, need_folder, read_json
from rankwise.errors import BenchmarkDataError, check_name
from rankwise.history.task import Task
from rankwise.types import Array

FOLDERS = ("hpob-data", "hpob", ".")
"""Folders below the data folder where HPO-B's files are searched."""

_TRAIN, _AUGMENTED = "meta-train-dataset.json", "meta-train-dataset-augmented.json"
_VALIDATION, _TEST = "meta-validation-dataset.json", "meta-test-dataset.json"
_INITIAL = "bo-initializations.json"


@dataclass(frozen=True)
class _Mode:
    """Files of the source tasks, validation tasks and target tasks."""

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
"""Modes of HPO-B's handler: the files of each part."""

# ---------------------------------------------------------------------- reading

Rows = Mapping[str, Mapping[int, np.ndarray]]


@dataclass(frozen=True)
class Space:
    """Tables of one search space.

    Attributes:
        box: ranges of the columns.
        parts: names of the source tasks, validation tasks and target tasks.
        tables: X (n, d), not scaled, and losses (n,) of each task by name.
        rows: row numbers of the initial points by task and seed.
    """

    box: Box
    parts: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
    tables: Mapping[str, tuple[Array, Array]]
    rows: Rows


@lru_cache(maxsize=1)
def read_space(folder: Path, space: str, mode: str) -> Space:
    """Read the tables of a search space; only the last result is cached.

    Args:
        folder: folder of the files.
        space: id of the search space.
        mode: one of `MODES`.

    Raises:
        BenchmarkDataError: a file is missing or cannot be read, or its content is wrong.
    """
    files = MODES[mode]
    tables: dict[str, tuple[Array, Array]] = {}
    parts = []
    for names in (files.train, files.validation, files.test):
        earlier = set(tables)
        for name in names:
            for task, table in stream_tables(folder / name, space):
                if task in earlier:  # the same task would be source task and target task
                    what = f"task {task!r} of space {space!r} is in another part, too"
                    raise wrong(folder / name, what)
                tables[task] = table
        parts.append(tuple(task for task in tables if task not in earlier))
    train, validation, test = parts
    rows = read_json(folder / _INITIAL)
    if not test:
        known = ", ".join(sorted(rows)) or "none"
        raise BenchmarkDataError(
            f"{folder / _TEST} has no tasks of the space {space!r}: choose one of {known}"
        )
    widths = {task: X.shape[1] for task, (X, _) in tables.items()}
    if len(set(widths.values())) > 1:
        raise wrong(folder, f"tasks of the space {space!r} differ in columns: {widths}")
    bounds = box(tables[task][0] for task in train or test)
    initial = _initial(folder / _INITIAL, rows.get(space, {}), tables)
    return Space(bounds, (train, validation, test), tables, initial)


def _initial(path: Path, content: Any, tables: Mapping[str, tuple[Array, Array]]) -> Rows:
    """Return the initial rows by task and seed, for tasks in `tables`; "test3" is seed 3.

    Raises:
        BenchmarkDataError: the content is wrong.
    """
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
        raise wrong(path, f"the initial rows have a wrong layout ({error!r})") from error
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
    """Loads a search space from the first folder that has a test file."""

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
            f"benchmark {self.name!r} needs HPO-B's files ({_TEST} and the others), which are in "
            f"none of {places}: unpack HPO-B's data in one of these folders"
        )


def space_source(space: str, mode: str = "v3") -> Source:
    """Return the registry entry of a search space of HPO-B.

    Args:
        space: id of the search space, such as "5860".
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
