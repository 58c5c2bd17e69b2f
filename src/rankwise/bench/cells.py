"""Cells: one method on one task with one seed, each with a file of its own.

Two files, in fact. The result depends on nothing but the cell, so that it is the same however
often a run was interrupted; how long it took is beside it. Both are written elsewhere and
renamed: a file that is there is complete.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from filelock import BaseFileLock, FileLock

from rankwise.bench.results import Run
from rankwise.errors import BenchmarkDataError

_LONGEST = 150  # characters of a part of a path, so that it fits every file system


@dataclass(frozen=True)
class Cell:
    """What is to be run.

    Attributes:
        benchmark: its name, modifiers included.
        task: of the benchmark.
        method: its name, options included: "dre:epochs=100".
        seed: of the run.
        initial: given points that it begins with.
        trials: evaluations after them.
    """

    benchmark: str
    task: str
    method: str
    seed: int
    initial: int
    trials: int

    def path(self, out: Path) -> Path:
        """The file of the result."""
        name = f"{_part(self.task)}__seed-{self.seed}__{self.initial}+{self.trials}.json"
        return out / "cells" / _part(self.benchmark) / _part(self.method) / name

    def seconds_path(self, out: Path) -> Path:
        """The file of the times."""
        return self.path(out).with_suffix(".seconds")

    def lock(self, out: Path) -> BaseFileLock:
        """Held by the process that runs the cell; the system releases it if that one is killed."""
        folder = out / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / f"{hashlib.sha256(repr(self).encode()).hexdigest()[:32]}.lock")

    def is_done(self, out: Path) -> bool:
        """Whether it has a result that is no error."""
        return not self.read(out).error

    def read(self, out: Path) -> Run:
        """Its result; with an error if it failed or was not run."""
        facts = asdict(self)
        try:
            result = json.loads(self.path(out).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return Run(**facts, regrets=None, error="not run")
        except (OSError, ValueError) as error:
            return Run(**facts, regrets=None, error=f"unreadable: {error}")
        if "error" in result:
            return Run(**facts, regrets=None, error=result["error"])
        seconds = read_seconds(self, out)
        regrets = np.array(result["regrets"])
        return Run(
            **facts, regrets=regrets, seconds=np.array(seconds), fallbacks=result["fallbacks"]
        )

    def write(self, out: Path, result: dict[str, Any], times: dict[str, Any] | None) -> None:
        """Write the times, then the result; only by the process that holds the lock.

        Raises:
            BenchmarkDataError: they cannot be written.
        """
        if times is not None:
            write_json(self.seconds_path(out), times)
        write_json(self.path(out), {"cell": asdict(self), **result})


def read_seconds(cell: Cell, out: Path) -> list[float]:
    """How long each proposal of a cell took."""
    times = json.loads(cell.seconds_path(out).read_text(encoding="utf-8"))
    seconds: list[float] = times["seconds"]
    return seconds


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a file completely or not at all.

    Raises:
        BenchmarkDataError: it cannot be written.
    """
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(content, sort_keys=True) + "\n", encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise BenchmarkDataError(
            f"cannot write {path}: {error.strerror or error}; what was finished before is kept: "
            "make room and run the same command again"
        ) from error


def _part(text: str) -> str:
    """A part of a path for any text; different texts have different ones."""
    name = quote(text, safe="=,+ ")
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}~{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def stored_cells(out: Path) -> list[Cell]:
    """The cells that have a result in the folder, failed ones included, in order."""
    found = []
    for path in sorted((out / "cells").glob("*/*/*.json")):
        try:
            found.append(Cell(**json.loads(path.read_text(encoding="utf-8"))["cell"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BenchmarkDataError(
                f"{path} is no result of a benchmark ({error}); delete it and run again"
            ) from error
    return found


def asked(out: Path) -> list[dict[str, Any]]:
    """What the runs in the folder were to do, and where and when, the first one first."""
    found = []
    for path in sorted((out / "asked").glob("*.json")):
        try:
            found.append(json.loads(path.read_text(encoding="utf-8")))
            found[-1]["settings"]["methods"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BenchmarkDataError(
                f"{path} does not say what was run ({error}); delete it and run again"
            ) from error
    return found


def asked_cells(out: Path) -> list[Cell]:
    """The cells that runs in the folder were to make, in order, whether they have a result."""
    cells: dict[Cell, None] = {}
    for run in asked(out):
        settings = run["settings"]
        budget = settings["initial"], settings["trials"]
        for benchmark, tasks in settings["benchmarks"].items():
            for method, seed, task in product(settings["methods"], settings["seeds"], tasks):
                cells[Cell(benchmark, task, method, seed, *budget)] = None
    return list(cells)


def collect(out: Path) -> list[Run]:
    """The results in a folder; cells that were asked for and have none are there as missing.

    Raises:
        BenchmarkDataError: there are no results, or one of the files is damaged.
    """
    cells = list(dict.fromkeys([*asked_cells(out), *stored_cells(out)]))
    if not cells:
        raise BenchmarkDataError(f"there are no results in {out}; make some: rankwise bench run")
    return [cell.read(out) for cell in cells]
