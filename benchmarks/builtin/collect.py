"""Collect the records of the built-in past: every learner on every data set.

    python -m benchmarks.builtin.collect --budget-hours 3

There is one file per learner, kind and data set: `OUT/LEARNER/KIND/DATASET.json`. It is written
after every few evaluations, and always as a whole, so that the command can be stopped at any time
and repeated: what is there is not evaluated again. See README.md for the format.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.builtin.datasets import describe, load, manifest, names_in
from benchmarks.builtin.evaluate import OK, Evaluator, Problem
from benchmarks.builtin.library import KINDS, LEARNERS, N_OWN, Learner, key
from benchmarks.builtin.scores import FRACTIONS, METRICS

ROOT = Path(__file__).resolve().parents[2]
FORMAT = 1
_SAVE_EVERY = 30.0  # seconds
Cell = tuple[str, str, str]
"""Learner, kind and data set."""


def cells(arguments: argparse.Namespace) -> Iterator[Cell]:
    """All files to collect, in the order of `LEARNERS`."""
    for learner in arguments.learners:
        for kind in KINDS:
            if kind in LEARNERS[learner]:
                for name in names_in(arguments.data, kind):
                    if not arguments.datasets or name in arguments.datasets:
                        yield learner, kind, name


def path_of(out: Path, cell: Cell) -> Path:
    """The file of a cell."""
    return out.joinpath(*cell).with_suffix(".json")


def write(path: Path, content: dict[str, Any]) -> None:
    """Write JSON under a temporary name and rename it, so that a file is always complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".part{os.getpid()}")
    part.write_text(json.dumps(content, separators=(",", ":"), ensure_ascii=False) + "\n")
    os.replace(part, path)


def read(path: Path) -> list[dict[str, Any]]:
    """The evaluations of a file, one dict each; none if the file is missing or damaged."""
    try:
        content = json.loads(path.read_text())
        columns = content["columns"]
        names = list(columns)
        return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def save(path: Path, cell: Cell, rows: list[dict[str, Any]], facts: dict[str, Any]) -> None:
    """Write evaluations as columns."""
    names = ["design", "configuration", "status", "error", "seconds"]
    names += [name for metric in METRICS[cell[1]] for name in (metric, f"{metric}_std")]
    names += ["curve"] if any(row.get("curve") for row in rows) else []
    columns = {name: [row.get(name) for row in rows] for name in names}
    head = dict(zip(("learner", "kind", "dataset"), cell, strict=True))
    write(path, {"format": FORMAT, **head, **facts, "columns": columns})


def collect(cell: Cell, arguments: argparse.Namespace, deadline: float) -> tuple[int, int, float]:
    """Evaluate what is missing in a file; returns new, failed and CPU seconds (approximately)."""
    learner, kind, name = cell
    path = path_of(arguments.out, cell)
    rows = read(path)
    known = {key(row["configuration"]) for row in rows}
    made = Learner.of(learner, kind)
    designs = made.designs(name, arguments.own)
    missing = [(d, c) for d, c in designs if key(c) not in known]
    if not missing:
        return 0, 0, 0.0
    data = load(arguments.data, kind, name).sample(arguments.rows, arguments.folds)
    facts = {
        "rows": len(data.y),
        "folds": arguments.folds,
        "time_limit": arguments.time_limit,
        "fractions": list(FRACTIONS),
    }
    evaluate = Evaluator(Problem(made, data, arguments.folds), arguments.time_limit)
    new, failed, saved, start = 0, 0, time.monotonic(), time.monotonic()
    try:
        for design, configuration in missing:
            if time.time() > deadline:
                break
            result = evaluate(configuration)
            rows.append({"design": design, "configuration": configuration, **result})
            new, failed = new + 1, failed + (result["status"] != OK)
            if time.monotonic() - saved > _SAVE_EVERY:
                save(path, cell, rows, facts)
                saved = time.monotonic()
    finally:
        if new:
            save(path, cell, rows, facts)
        evaluate.close()
    return new, failed, time.monotonic() - start


def write_contexts(arguments: argparse.Namespace) -> None:
    """Write what is known about each data set, without its rows."""
    for kind in KINDS:
        facts = manifest(arguments.data, kind)
        for name in names_in(arguments.data, kind):
            path = arguments.out / "contexts" / kind / f"{name}.json"
            if not path.exists():
                entry = facts.get(name, {})
                write(
                    path,
                    describe(arguments.data, kind, name, entry, arguments.rows, arguments.folds),
                )


def run(arguments: argparse.Namespace) -> None:
    """Collect all files, with a line of progress for each."""
    start = time.time()
    deadline = start + 3600 * arguments.budget_hours
    write_contexts(arguments)
    todo = list(cells(arguments))
    done = new = failed = 0
    print(f"{len(todo)} files; {arguments.budget_hours:g} hours at most", flush=True)
    with ProcessPoolExecutor(arguments.jobs) as pool:
        waiting = iter(todo)
        running = {}
        while True:
            while len(running) < arguments.jobs and time.time() < deadline:
                cell = next(waiting, None)
                if cell is None:
                    break
                running[pool.submit(collect, cell, arguments, deadline)] = cell
            if not running:
                break
            future = next(as_completed(running))
            cell = running.pop(future)
            done += 1
            try:
                n, bad, seconds = future.result()
            except Exception as error:  # one bad data set must not end the collection
                print(f"{'/'.join(cell)}: {type(error).__name__}: {error}", flush=True)
                continue
            new, failed = new + n, failed + bad
            if n:
                hours = (time.time() - start) / 3600
                print(
                    f"{done}/{len(todo)} {'/'.join(cell)}: {n} evaluations, {bad} not ok, "
                    f"{seconds:.0f} s; in all {new} ({failed} not ok) in {hours:.2f} h",
                    flush=True,
                )
    left = sum(len(read(path_of(arguments.out, cell))) == 0 for cell in todo)
    print(f"{new} new evaluations; {left} of {len(todo)} files are still empty")


def parse(words: list[str]) -> argparse.Namespace:
    """The arguments of the command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "builtin")
    available = [name for name in LEARNERS if name != "catboost"]
    parser.add_argument("--learners", nargs="*", default=available, choices=list(LEARNERS))
    parser.add_argument("--datasets", nargs="*", default=[], help="names; all by default")
    parser.add_argument("--rows", type=int, default=700, help="rows of a data set at most")
    parser.add_argument("--own", type=int, default=N_OWN, help="configurations of its own")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--time-limit", type=float, default=20.0, help="CPU s per evaluation")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--budget-hours", type=float, default=12.0)
    return parser.parse_args(words)


if __name__ == "__main__":
    run(parse(sys.argv[1:]))
