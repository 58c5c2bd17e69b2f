"""Does the built-in past help? Optimization on the recorded evaluations, leaving data sets out.

    python -m benchmarks.builtin.evaluate_past --budget-hours 1

Data sets are dealt into ten folds; near-duplicates are in the same fold. For each fold, `eb-gp`
and the portfolio learn from the records of the other folds. A method then chooses among the
recorded evaluations of a held-out data set, 20 one after the other. Slow methods (`SHARE`) get a
part of the data sets. `flaml` starts with the configuration that FLAML suggests for the data set
(`flaml_defaults`), random ones follow; its regret is negative if it is better than all recorded
configurations. There is one file per learner, kind and method,
`benchmarks/results/builtin-past/LEARNER.KIND.METRIC.METHOD.json`, with the normalised regret after
each trial for each data set. Repeat the command to go on.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.builtin.collect import ROOT, write
from benchmarks.builtin.library import KINDS, N_SHARED, Learner
from rankwise import methods
from rankwise._core.threads import one_thread
from rankwise.builtin.learnt import learnt_surrogate
from rankwise.builtin.records import VERSION, Records, available, read_records
from rankwise.builtin.tasks import Placed, source_tasks
from rankwise.history.task import Task
from rankwise.strategies.baselines import greedy_portfolio

FLAML = ROOT / "benchmarks" / "results" / "builtin-flaml"
TRIALS, FOLDS, DESIGN = 20, 10, 6
METRIC = {"classification": "accuracy", "regression": "r2"}
METHODS = ("default", "random", "portfolio", "eb-gp", "eb-gp-no-context", "tpe", "mbo", "flaml")
REPEATS = {"random": 20, "default": 20, "flaml": 20, "tpe": 3, "mbo": 1}
SHARE = {"tpe": 4, "mbo": 4}  # every fourth data set
Choose = Callable[[Task, np.ndarray, np.random.Generator], int]
"""Chooses one row of a pool: trials so far, pool (m, d) and random generator to its index."""


class Corpus:
    """The records of one learner as tasks, with folds."""

    def __init__(self, records: Records, metric: str) -> None:
        self.records, self.metric = records, metric
        self.encoder = Learner.of(records.learner, records.kind).encoder
        self.tasks = source_tasks([Placed.of(records, self.encoder)], metric)
        self.known = learnt_surrogate(records, metric, self.tasks)
        names = sorted(set(records.groups.values()))
        order = np.random.default_rng(0).permutation(len(names))
        place = {name: int(k) % FOLDS for name, k in zip(names, order, strict=True)}
        self.folds = [place[records.groups[name]] for name in sorted(records.datasets)]

    def chooser(self, method: str, fold: int) -> Choose:
        """A method that has learnt from the data sets outside of a fold."""
        rest = [t for t, f in zip(self.tasks, self.folds, strict=True) if f != fold]
        if method == "portfolio":
            shared = [t.rows(range(1 + N_SHARED)) for t in rest]
            return _listed(greedy_portfolio(shared, TRIALS))
        if method in ("random", "default", "flaml"):
            return lambda history, pool, rng: int(rng.integers(len(pool)))
        options: dict[str, Any] = {}
        if method.startswith("eb-gp"):
            options = {"tasks": rest, "previous": self.known, "progress": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            strategy = methods.make(method.removesuffix("-no-context"), self.encoder, **options)
        return strategy.choose


def _listed(rows: np.ndarray) -> Choose:
    """The rows of a list one after the other, then random ones."""

    def choose(history: Task, pool: np.ndarray, rng: np.random.Generator) -> int:
        k = len(history)
        if k >= len(rows):
            return int(rng.integers(len(pool)))
        return int(np.argmin(np.square(pool - rows[k]).sum(axis=1)))

    return choose


def regrets(
    task: Task,
    method: str,
    choose: Choose,
    seed: int,
    before: tuple[float, ...] = (),
    trials: int = TRIALS,
) -> list[float]:
    """Normalised regret after each trial; `before` has losses of trials that are not recorded."""
    losses = task.losses
    scale = float(np.ptp(losses)) or 1.0
    left, done = list(range(len(task))), []
    context = {} if method == "eb-gp-no-context" else task.context
    started = {"default": 1, "mbo": DESIGN}.get(method, 0)  # trials of the initial design
    for number in range(min(trials, len(task))):
        rng = np.random.default_rng([seed, number, zlib.crc32(task.name.encode())])
        if number < started:
            index = 0 if number == 0 else int(rng.integers(len(left)))
        else:
            history = Task.of(task.X[done], losses[done], context=context)
            index = choose(history, task.X[left], rng)
        done.append(left.pop(index))
    best = np.minimum.accumulate([*before, *losses[done]])[:trials]
    return [round(float(v), 5) for v in (best - losses.min()) / scale]


def flaml_losses(corpus: Corpus) -> dict[str, tuple[float, ...]]:
    """Loss of FLAML's suggestion on each data set that has one."""
    path = FLAML / f"{corpus.records.learner}.{corpus.records.kind}.json"
    sign = 1.0 if corpus.records.directions[corpus.metric] == "minimize" else -1.0
    rows = json.loads(path.read_text())["suggested"]
    return {n: (sign * r[corpus.metric],) for n, r in rows.items() if r["status"] == "ok"}


def evaluate(corpus: Corpus, method: str, path: Path) -> None:
    found: dict[str, list[list[float]]] = {}
    names = sorted(corpus.records.datasets)
    first = flaml_losses(corpus) if method == "flaml" else dict.fromkeys(names, ())
    chosen = {*names[:: SHARE.get(method, 1)]} & set(first)
    for fold in range(FOLDS):
        choose = corpus.chooser(method, fold)
        for task, own, name in zip(corpus.tasks, corpus.folds, names, strict=True):
            if own == fold and name in chosen and np.ptp(task.losses) > 0:
                with one_thread(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found[name] = [
                        regrets(task, method, choose, s, first[name])
                        for s in range(REPEATS.get(method, 1))
                    ]
    mean = {n: [round(float(v), 5) for v in np.mean(r, axis=0)] for n, r in found.items()}
    records = corpus.records
    facts = {"learner": records.learner, "kind": records.kind, "metric": corpus.metric}
    command = "python -m benchmarks.builtin.evaluate_past"
    write(
        path, {"version": VERSION, "command": command, **facts, "method": method, "regret": mean}
    )


def main(arguments: argparse.Namespace) -> None:
    start = time.time()
    for method in arguments.methods:
        for kind in KINDS:
            for learner in available(kind):
                path = arguments.out / f"{learner}.{kind}.{METRIC[kind]}.{method}.json"
                if path.exists() or time.time() - start > 3600 * arguments.budget_hours:
                    continue
                if method == "flaml" and not (FLAML / f"{learner}.{kind}.json").exists():
                    continue
                began = time.process_time()
                evaluate(Corpus(read_records(learner, kind), METRIC[kind]), method, path)
                rows = np.array(list(json.loads(path.read_text())["regret"].values()))
                shown = " ".join(f"{rows[:, k - 1].mean():.3f}" for k in (1, 3, 5, 10, 20))
                took = time.process_time() - began
                print(f"{method:17s} {kind:15s} {learner:20s} {shown} ({took:.0f} s)", flush=True)


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--out", type=Path, default=ROOT / "benchmarks" / "results" / "builtin-past"
    )
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--budget-hours", type=float, default=12.0)
    return parser.parse_args(words)


if __name__ == "__main__":
    main(parse(sys.argv[1:]))
