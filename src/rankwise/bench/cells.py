"""Cells: one method on one task with one seed, and the files of their results.

Each cell has two files. The file of the result depends only on the cell, so it is the same if a
run was interrupted and resumed. The other file has the seconds of the proposals. Both are written
atomically: a file that exists is complete.
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

from rankwise._core.atomic_write import atomic_write
from rankwise.bench.results import Run
from rankwise.errors import BenchmarkDataError

_LONGEST = 150  # maximum length of a part of a path, for all file systems


@dataclass(frozen=True)
class Cell:
    """One run of a benchmark: a method on a task with a seed.

    Attributes:
        benchmark: name of the benchmark, with modifiers.
        task: name of a task of the benchmark.
        method: name of the method with options: "dre:epochs=100".
        seed: seed of the run.
        initial: number of given initial points.
        trials: number of evaluations after the initial points.
    """

    benchmark: str
    task: str
    method: str
    seed: int
    initial: int
    trials: int

    def path(self, out: Path) -> Path:
        """Path of the result file in a results folder."""
        name = f"{_part(self.task)}__seed-{self.seed}__{self.initial}+{self.trials}.json"
        return out / "cells" / _part(self.benchmark) / _part(self.method) / name

    def seconds_path(self, out: Path) -> Path:
        """Path of the file with the seconds of proposals in a results folder."""
        return self.path(out).with_suffix(".seconds")

    def lock(self, out: Path) -> BaseFileLock:
        """Return the lock for running the cell; it is released if the process is killed."""
        folder = out / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / f"{hashlib.sha256(repr(self).encode()).hexdigest()[:32]}.lock")

    def is_done(self, out: Path) -> bool:
        """True if the cell has a result that is not an error."""
        return not self.read(out).error

    def read(self, out: Path) -> Run:
        """Read the result; if the cell failed or was not run, the result has an error."""
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
        """Write the result files. The caller must hold the lock.

        Args:
            out: results folder.
            result: result as JSON data.
            times: seconds of proposals as JSON data; None if the cell failed.

        Raises:
            BenchmarkDataError: a file cannot be written.
        """
        if times is not None:
            write_json(self.seconds_path(out), times)
        write_json(self.path(out), {"cell": asdict(self), **result})


def read_seconds(cell: Cell, out: Path) -> list[float]:
    """Read the seconds of each proposal of a cell."""
    times = json.loads(cell.seconds_path(out).read_text(encoding="utf-8"))
    seconds: list[float] = times["seconds"]
    return seconds


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file atomically.

    Raises:
        BenchmarkDataError: the file cannot be written.
    """
    text = json.dumps(content, sort_keys=True) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Only the process that holds the lock writes a cell, so a fixed temporary name is safe.
        # It also replaces the temporary file of a process that was killed.
        with atomic_write(path, temporary=f"{path.name}.unfinished") as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BenchmarkDataError(
            f"cannot write {path}: {error.strerror or error}; finished results are kept: "
            "free some disk space and run the same command again"
        ) from error


def _part(text: str) -> str:
    """Convert any text to a file name; different texts give different names."""
    name = quote(text, safe="=,+ ")
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}~{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def stored_cells(out: Path) -> list[Cell]:
    """Return the cells that have a result in a folder, including failed ones, sorted by path.

    Raises:
        BenchmarkDataError: a file is damaged.
    """
    found = []
    for path in sorted((out / "cells").glob("*/*/*.json")):
        try:
            found.append(Cell(**json.loads(path.read_text(encoding="utf-8"))["cell"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BenchmarkDataError(
                f"{path} is not a result of a benchmark ({error}); delete it and run again"
            ) from error
    return found


def asked(out: Path) -> list[dict[str, Any]]:
    """Read the settings and environments of all runs in a folder, oldest first.

    Raises:
        BenchmarkDataError: a file is damaged.
    """
    found = []
    for path in sorted((out / "asked").glob("*.json")):
        try:
            found.append(json.loads(path.read_text(encoding="utf-8")))
            found[-1]["settings"]["methods"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BenchmarkDataError(
                f"{path} does not have the settings of a run ({error}); delete it and run again"
            ) from error
    return found


def asked_cells(out: Path) -> list[Cell]:
    """Return all cells of the runs in a folder, with or without a result."""
    cells: dict[Cell, None] = {}
    for run in asked(out):
        settings = run["settings"]
        budget = settings["initial"], settings["trials"]
        for benchmark, tasks in settings["benchmarks"].items():
            for method, seed, task in product(settings["methods"], settings["seeds"], tasks):
                cells[Cell(benchmark, task, method, seed, *budget)] = None
    return list(cells)


def collect(out: Path) -> list[Run]:
    """Read all results in a folder; cells without a result are included with an error.

    Raises:
        BenchmarkDataError: there are no results, or a file is damaged.
    """
    cells = list(dict.fromkeys([*asked_cells(out), *stored_cells(out)]))
    if not cells:
        raise BenchmarkDataError(f"there are no results in {out}: call rankwise bench run first")
    return [cell.read(out) for cell in cells]
