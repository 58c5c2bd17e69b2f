"""Regret with all, few, opposite and small past studies, on the tasks for choices.

    python benchmarks/pasts.py run today --data ../shared/data --out runs/pasts
    python benchmarks/pasts.py run trial --out runs/pasts \
        --set surrogates.empirical_bayes.posterior._MIN_SHARE=0.02
    python benchmarks/pasts.py compare today trial --out runs/pasts

Every task is a train task that was left out, or a validation task; the test tasks are not read. A
run has 30 trials among the rows of a table, with five initial points or none. The past studies
are one of:

- `all`: all other train tasks (those of two other folds, or all for a validation task);
- `inverted`: the same with losses of the opposite sign;
- `2`, `3`, `5`, `8`: so many of them, other ones for every task.

Besides the four tables there is `svm-poly`, the 108 rows of tst-svm with a polynomial kernel and
their two hyperparameters, and `svm-rbf`, the 168 rows with a Gaussian kernel. Every seed has other
folds and other initial points; figures are means over seeds, and errors are over tasks. `run`
continues an interrupted run.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")})

import numpy as np

from rankwise.bench import benchmarks as registry
from rankwise.bench.base import PASTS as CHANGES
from rankwise.bench.base import Benchmark, TableProblem
from rankwise.bench.protocol import run as run_once
from rankwise.history.task import Task, TaskSet
from rankwise.run.optimizer import Optimizer
from rankwise.space.encoder import Encoder
from rankwise.surrogates.empirical_bayes import past_functions

TABLES = ("tst-svm", "hpobench-xgb", "oboe", "textclf", "svm-poly", "svm-rbf")
PASTS = ("all", "inverted", "2", "3", "5", "8")
INITIAL = (5, 0)
TRIALS, FOLDS, MOST = 30, 3, 40
RESULTS = Path(__file__).parent / "results"
MODULES = "rankwise"


class Table:
    """Train and validation tasks of a table, or of the rows of one kernel of tst-svm."""

    def __init__(self, name: str, data: Path) -> None:
        origin, _, self._kernel = name.partition("-")
        self._part = origin == "svm"
        whole = registry.load("tst-svm" if self._part else name, data)
        self._whole: Benchmark = whole
        self.train, self.validation = whole.train, whole.validation
        self.encoder = whole.encoder
        if self._part:
            second = {"poly": ("degree", 2, 10), "rbf": ("gamma", 1e-4, 1e3, "log")}[self._kernel]
            self.encoder = Encoder({"C": (2.0**-5, 2.0**6, "log"), second[0]: second[1:]})

    def problem(self, name: str) -> TableProblem:
        problem = self._whole.problem(name)
        assert isinstance(problem, TableProblem)
        if not self._part:
            return problem
        rows = self._whole.encoder.decode(problem.X)
        mine = [k for k, row in enumerate(rows) if row["kernel"] == self._kernel]
        X = self.encoder.encode([{n: rows[k][n] for n in self.encoder.names} for k in mine])
        return TableProblem.of(name, X, problem.losses[mine])

    def history(self, name: str) -> Task:
        if not self._part:
            return self._whole.history(name)
        problem = self.problem(name)
        return Task.of(problem.X, problem.losses, name=name)

    def folds(self, seed: int) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Target tasks with their source tasks."""
        train = self.train
        if seed:
            train = tuple(np.random.default_rng(seed).permutation(train).tolist())
        few = len(train) <= 3 * MOST
        for k in range(FOLDS if few else 1):
            held = train[k::FOLDS] if few else train[:: len(train) // MOST][:MOST]
            yield held, tuple(name for name in self.train if name not in held)
        yield self.validation, self.train


def cells(
    table: Table, pasts: Sequence[str], seed: int
) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Kind of past, target tasks and source tasks."""
    for held, rest in table.folds(seed):
        for past in pasts:
            if not past.isdigit():
                yield past, held, rest
                continue
            for name in held[::2]:
                rng = np.random.default_rng([len(name), *name.encode(), *[seed] * (seed > 0)])
                yield past, (name,), tuple(rng.permutation(rest)[: int(past)].tolist())


def run(arguments: argparse.Namespace) -> None:
    for change in arguments.set:
        name, _, value = change.partition("=")
        module, _, constant = name.rpartition(".")
        setattr(importlib.import_module(f"{MODULES}.{module}"), constant, json.loads(value))
    options = dict(option.split("=") for option in arguments.option)
    options = {name: json.loads(value) for name, value in options.items()}
    arguments.out.mkdir(parents=True, exist_ok=True)
    path, fits = arguments.out / f"{arguments.label}.jsonl", arguments.out / "fits.json"
    done = {tuple(row["key"]) for row in read(path)} if path.exists() else set()
    past_functions._MAX_FITTED = 1_000_000
    if fits.exists():
        for digest, (lengthscales, noise) in json.loads(fits.read_text()).items():
            past_functions._FITTED[digest] = np.array(lengthscales), noise
    known = len(past_functions._FITTED)
    method, start = arguments.method, time.process_time()
    pasts = arguments.pasts if method != "gp" else ["all"]
    with path.open("a") as file:
        for name, seed in product(arguments.tables, range(arguments.seeds)):
            table = Table(name, arguments.data)
            for past, targets, sources in cells(table, pasts, seed):
                keys = [(name, past, i, t, seed) for i in arguments.initial for t in targets]
                if all(key in done for key in keys):
                    continue
                change = CHANGES["inverted" if past == "inverted" else "as it is"]
                tasks = TaskSet(
                    tuple(change(table.history(s)) for s in sources), (), table.encoder.fingerprint
                )
                given = {} if method == "gp" else {"tasks": tasks}
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    optimizer = Optimizer(table.encoder, method=method, seed=0, **given, **options)
                for key in keys:
                    if key in done:
                        continue
                    trace = run_once(
                        table.problem(key[3]), optimizer, seed=seed, initial=key[2], trials=TRIALS
                    )
                    assert not trace.fallbacks
                    row = {"key": key, "regrets": trace.regrets, "s": sum(trace.seconds)}
                    file.write(json.dumps({**row, "n": len(trace.seconds)}) + "\n")
            file.flush()
            print(name, seed, f"{time.process_time() - start:.0f} s", flush=True)
    if len(past_functions._FITTED) > known:
        found = {key: (fit[0].tolist(), fit[1]) for key, fit in past_functions._FITTED.items()}
        fits.write_text(json.dumps(found))


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def mean_regrets(out: Path, labels: Sequence[str]) -> dict[tuple[Any, ...], dict[str, np.ndarray]]:
    """Mean regrets over 30 trials (n,) of `gp` and of each label on the tasks that all have run.

    The keys are table, past and number of initial points. The values are means over the seeds.
    `gp` is the same for every past.
    """
    means: dict[str, dict[tuple[Any, ...], float]] = {}
    for label in ("gp", *labels):
        rows = read(out / f"{label}.jsonl")
        means[label] = {tuple(row["key"]): float(np.mean(row["regrets"][1:])) for row in rows}
    found: dict[tuple[Any, ...], dict[str, dict[str, list[float]]]] = {}
    for key in means[labels[0]]:
        alone = key[0], "all", *key[2:]
        if alone in means["gp"] and all(key in means[label] for label in labels):
            group = found.setdefault(key[:3], defaultdict(lambda: defaultdict(list)))
            group["gp"][key[3]].append(means["gp"][alone])
            for label in labels:
                group[label][key[3]].append(means[label][key])
    return {
        group: {
            label: np.array([np.mean(values) for values in tasks.values()])
            for label, tasks in each.items()
        }
        for group, each in found.items()
    }


def compare(arguments: argparse.Namespace) -> None:
    base, *others = arguments.labels
    for group, regrets in mean_regrets(arguments.out, arguments.labels).items():
        line = [f"{group[0]:13s}{group[1]:>9s} {group[2]} n={len(regrets[base]):3d}"]
        line += [f"{label} {regrets[label].mean():.4f}" for label in ("gp", base)]
        for label in others:
            change = regrets[label] - regrets[base]
            error = change.std() / len(change) ** 0.5
            line.append(f"{label} {regrets[label].mean():.4f} {change.mean():+.4f}±{error:.4f}")
        print(" | ".join(line))


BOTH = ("all", "inverted")
VARIANTS = {
    "pasts": {
        "opposite": ({"0": "today", "0.05": "opp0.05", "0.15": "opp0.15"}, BOTH),
        "scores": ({"standardised": "opp0.05", "half by rank": "blend"}, ("all",)),
        "few": ({"before": "today", "not used if they disagree": "new", "used": "soft"}, ("2",)),
        "five": ({"before": "today", "with a prior": "new"}, ("5",)),
    },
    "pasts-more": {
        "opposite": (
            {"none": "nocheck", "1": "opp", "5": "opp5", "5, no rule": "cand2"},
            ("all",),
        ),
        "reversed": ({"none": "nocheck", "1": "opp", "5, no rule": "cand2"}, ("inverted",)),
        "taken": ({"before": "today", "no checks": "nocheck", "taken": "cand2"}, ("all",)),
        "scores": ({"standardised": "nocheck", "half by rank": "blend"}, ("all",)),
        "grid": ({"before": "nocheck", "noise": "noise", "noise and weight": "grid1"}, ("all",)),
        "two": ({"before": "cand2", "fixed prior": "few"}, ("2",)),
    },
    "pasts-few": {"curve": ({"eb-gp": "insM"}, ("2", "3", "5", "8"))},
    "pasts-late": {
        "good": ({"none": "base4", "mbo": "insM"}, ("all",)),
        "reversed": ({"none": "base4", "mbo": "insM"}, ("inverted",)),
        "others": (
            {
                "none": "base",
                "plain": "insP",
                "fitted": "insF",
                "undecided": "insT",
                "early": "insB",
                "mbo": "insM",
            },
            BOTH,
        ),
        "sources": ({"before": "base", "top": "savage", "sources": "mixA4"}, ("all",)),
    },
}
"""Tables of the variants that were tried: file, name, label of each column's results, pasts."""

SEEDS = {
    "pasts": "seed 0",
    "pasts-few": "seeds 0 and 1; other past studies for every task, and half of the tasks",
    "pasts-late": "four seeds (tables of good and reversed past studies) or two",
    "pasts-more": "two or three seeds (tables of opposites and of two past studies: one)",
}


def write(arguments: argparse.Namespace) -> None:
    """Write the tables of a decision record; the labels are those of `VARIANTS`."""
    tables = {}
    for name, (columns, pasts) in VARIANTS[arguments.file].items():
        rows = []
        found = mean_regrets(arguments.out, list(columns.values()))
        for (table, past, initial), regrets in found.items():
            if past not in pasts:
                continue
            compared = [regrets[label] for label in columns.values()]
            first = compared[0] if len(compared) > 1 else regrets["gp"]
            last = compared[-1]
            error = float((last - first).std() / len(first) ** 0.5)
            means = [round(float(values.mean()), 4) for values in regrets.values()]
            rows.append([table, past, initial, len(first), *means, round(error, 4)])
        digits = [{"name": label, "digits": 4} for label in ("gp", *columns)]
        tables[name] = {
            "about": "Mean regret over trials 1 to 30; the last column is the standard error of "
            "the difference between the two "
            + ("methods." if len(columns) == 1 else "outer columns of `eb-gp`."),
            "columns": [
                *({"name": label} for label in ("table", "past", "initial points", "tasks")),
                *digits,
                {"name": "error", "digits": 4},
            ],
            "rows": rows,
        }
    result = {
        "title": "What was tried for the transfer GP",
        "date": str(date.today()),
        "machine": "2 cores, one thread",
        "command": ["python benchmarks/pasts.py run trial --data ../shared/data --out runs/pasts"],
        "protocol": "Train tasks that were left out and validation tasks of the four tables, and "
        "the 108 rows of tst-svm with a polynomial kernel (svm-poly); "
        f"{SEEDS[arguments.file]}. Variants that "
        "were not taken are not in the repository; gp does not use past studies.",
        "tables": tables,
    }
    path = RESULTS / f"{arguments.file}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parts = parser.add_subparsers(dest="part", required=True)
    one = parts.add_parser("run", help="run a method")
    one.add_argument("label", help="name of the results")
    one.add_argument("--method", default="eb-gp")
    one.add_argument("--set", action="append", default=[], help="module.CONSTANT=value")
    one.add_argument("--option", action="append", default=[], help="option=value of the method")
    one.add_argument("--data", type=Path, default=Path("../shared/data"))
    one.add_argument("--tables", nargs="+", default=list(TABLES))
    one.add_argument("--pasts", nargs="+", default=list(PASTS))
    one.add_argument("--seeds", type=int, default=1)
    one.add_argument("--initial", nargs="+", type=int, default=list(INITIAL))
    two = parts.add_parser("compare", help="mean regrets over 30 trials and after them")
    two.add_argument("labels", nargs="+")
    three = parts.add_parser("write", help="write the tables of a decision record")
    three.add_argument("file", choices=list(VARIANTS))
    for part in (one, two, three):
        part.add_argument("--out", type=Path, default=Path("runs/pasts"))
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    {"run": run, "compare": compare, "write": write}[arguments.part](arguments)


if __name__ == "__main__":
    main()
