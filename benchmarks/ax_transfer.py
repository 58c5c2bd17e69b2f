"""Ax's transfer learning (BOTL) beside `eb-gp` and `gp`, on tables.

    pip install ax-platform
    python benchmarks/ax_transfer.py --data ../shared/data --out runs/ax-transfer

The protocol is that of `rankwise bench` with five initial points, seed 0: a method chooses among
the rows of a table. Ten trials on the test tasks of two tables. The past of BOTL is five
train tasks with 30 random rows each, other ones for every task, because its multi-task Gaussian
process takes seconds per fit with these 150 rows. `eb-gp` runs with the same past, and with all
past studies.

BOTL is `Generators.BOTL` of Ax with its defaults. Its inputs are the columns of rankwise's encoder
as numbers from 0 to 1. It proposes the row of the table with the largest value of its acquisition
function (log noisy expected improvement). Ax's own fits start anew for every trial and take 16 s
or more. Here the first fit of a run ends after 1000 iterations of L-BFGS at the latest, and later
ones start at the parameters of the trial before and end after 200. On the first tasks of each
table (`--full`) there are also runs without a maximum of iterations.

The program continues an interrupted run; `--write` writes `benchmarks/results/ax-transfer.json`
and the regrets of every run beside it.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from datetime import date
from importlib.metadata import version
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")})

import numpy as np
import pandas as pd
import torch
from ax.adapter.registry import Generators
from ax.adapter.transfer_learning.adapter import TL_EXP
from ax.core.arm import Arm
from ax.core.auxiliary_source import AuxiliarySource
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.metric import Metric
from ax.core.objective import Objective
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.parameter import ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from ax.generators.torch.botorch_modular import utils as ax_utils

from rankwise.bench import benchmarks as registry
from rankwise.bench.base import Benchmark
from rankwise.bench.protocol import run as run_once
from rankwise.history.task import Task, TaskSet
from rankwise.run.optimizer import Optimizer
from rankwise.types import Array

RESULTS = Path(__file__).parent / "results"
TABLES = ("tst-svm", "hpobench-xgb")
METHODS = ("BOTL", "eb-gp", "eb-gp, all past studies", "gp")
FULL = "BOTL, full fits"
STUDIES, ROWS, INITIAL, TRIALS, SEED = 5, 30, 5, 10, 0
ITERATIONS = {"BOTL": (1000, 200), FULL: (15_000, 15_000)}  # of the first fit, and of later ones
MARKS = (1, 3, 5, 10)
COMMAND = "python benchmarks/ax_transfer.py --data ../shared/data"
PACKAGES = ("ax-platform", "botorch", "torch", "numpy")

fit_mll: Callable[..., Any] = ax_utils.fit_gpytorch_mll

# ---------------------------------------------------------------------- Ax


def parameters(row: Array) -> dict[str, float]:
    return {f"x{k}": float(value) for k, value in enumerate(row)}


def experiment(task: Task) -> Experiment:
    """An experiment of Ax with the trials of a task."""
    space = [RangeParameter(name, ParameterType.FLOAT, 0.0, 1.0) for name in parameters(task.X[0])]
    loss = Objective(metric=Metric("loss", lower_is_better=True), minimize=True)
    found = Experiment(
        name=task.name,
        search_space=SearchSpace(space),
        optimization_config=OptimizationConfig(objective=loss),
    )
    rows = []
    for k, x in enumerate(task.X):
        arm = Arm(parameters=parameters(x), name=f"{task.name} {k}")
        found.new_trial().add_arm(arm).mark_running(no_runner_required=True)
        rows.append({"trial_index": k, "arm_name": arm.name, "mean": task.y[k]})
    constant = {"metric_name": "loss", "metric_signature": "loss", "sem": np.nan}
    found.attach_data(Data(df=pd.DataFrame(rows).assign(**constant)))
    for trial in found.trials.values():
        trial.mark_completed()
    return found


class Botl:
    """Chooses rows with BOTL; has the part of a strategy that the protocol of tables calls."""

    design = None

    def __init__(self, past: TaskSet, iterations: tuple[int, int]) -> None:
        self.sources = [AuxiliarySource(experiment=experiment(task)) for task in past.tasks]
        self._parameters: dict[str, torch.Tensor] = {}
        self._iterations = iterations

    def choose(self, history: Task, pool: Array, rng: np.random.Generator) -> int:
        torch.manual_seed(int(rng.integers(2**31)))
        target = experiment(history)
        target.auxiliary_experiments_by_purpose[TL_EXP] = list(self.sources)
        ax_utils.fit_gpytorch_mll = self._fit
        adapter = Generators.BOTL(experiment=target, data=target.lookup_data())
        points = [ObservationFeatures(parameters=parameters(row)) for row in pool]
        return int(np.argmax(adapter.evaluate_acquisition_function(points)))

    def _fit(self, mll: Any) -> None:
        """Fit a model, from the parameters of the trial before if there was one."""
        for name, parameter in mll.named_parameters():
            if name in self._parameters:
                parameter.data.copy_(self._parameters[name])
        iterations = self._iterations[bool(self._parameters)]
        fit_mll(mll, optimizer_kwargs={"options": {"maxiter": iterations}})
        self._parameters = {name: p.detach().clone() for name, p in mll.named_parameters()}


# ---------------------------------------------------------------------- runs


def small_past(benchmark: Benchmark, target: str) -> TaskSet:
    """Some rows of some train tasks."""
    rng, tasks = np.random.default_rng(zlib.crc32(target.encode())), []
    for name in rng.permutation(benchmark.train)[:STUDIES].tolist():
        task = benchmark.history(name)
        rows = rng.choice(len(task), ROWS, replace=False)
        tasks.append(Task.of(task.X[rows], task.y[rows], name=name))
    return TaskSet(tuple(tasks), (), benchmark.encoder.fingerprint)


def optimizer(method: str, benchmark: Benchmark, target: str) -> Any:
    if method in ITERATIONS:
        return SimpleNamespace(strategy=Botl(small_past(benchmark, target), ITERATIONS[method]))
    name, _, everything = method.partition(", ")
    past: TaskSet | tuple[()] = ()
    if name != "gp":
        past = benchmark.past(target) if everything else small_past(benchmark, target)
    return Optimizer(benchmark.encoder, method=name, tasks=past, seed=SEED)


def run(data: Path, out: Path, tasks: int, full: int) -> list[dict[str, Any]]:
    out.mkdir(parents=True, exist_ok=True)
    path = out / "runs.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(row["table"], row["task"], row["method"]) for row in rows}
    tables = {name: registry.load(name, data) for name in TABLES}
    for k, method, (name, table) in product(range(tasks), (*METHODS, FULL), tables.items()):
        target = table.test[k]
        if (name, target, method) in done or (method == FULL and k >= full):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chooser = optimizer(method, table, target)
            start = time.process_time()
            trace = run_once(
                table.problem(target), chooser, seed=SEED, initial=INITIAL, trials=TRIALS
            )
        seconds = (time.process_time() - start) / max(len(trace.seconds), 1)
        row = {"table": name, "task": target, "method": method, "seconds": round(seconds, 4)}
        rows.append({**row, "regrets": np.round(trace.regrets, 6).tolist()})
        with path.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
        print(name, target, method, f"{seconds:.3f} s", rows[-1]["regrets"], flush=True)
    return rows


# ---------------------------------------------------------------------- the result


def lines(rows: list[dict[str, Any]]) -> Iterator[list[Any]]:
    """Rows of the table of results."""
    for table, method in product((*TABLES, "both"), METHODS):
        mine = [r for r in rows if r["method"] == method and table in (r["table"], "both")]
        regrets = np.array([row["regrets"] for row in mine])
        seconds = float(np.median([row["seconds"] for row in mine]))
        over = float(regrets[:, 1:].mean())
        after = regrets.mean(axis=0)[list(MARKS)].round(4).tolist()
        yield [table, method, len(mine), round(over, 4), *after, round(seconds, 4)]


def against(rows: list[dict[str, Any]]) -> Iterator[list[Any]]:
    """Each method beside BOTL, task by task."""
    means = {(r["method"], r["table"], r["task"]): np.mean(r["regrets"][1:]) for r in rows}
    tasks = sorted({key[1:] for key in means if key[0] == "BOTL"})
    for method in METHODS[1:]:
        gap = np.array([means[(method, *task)] - means[("BOTL", *task)] for task in tasks])
        error = gap.std(ddof=1) / np.sqrt(len(gap))
        signs = [int(np.sum(np.sign(gap.round(9)) == sign)) for sign in (-1, 0, 1)]
        yield [method, {"value": round(gap.mean(), 4), "se": round(error, 4)}, *signs]


def fits(rows: list[dict[str, Any]]) -> Iterator[list[Any]]:
    """BOTL with limited and with full fits, on the tasks that have both."""
    by = {(r["table"], r["task"], r["method"]): r for r in rows}
    for table, task, method in sorted(by):
        if method == FULL:
            pair = [by[(table, task, name)] for name in ("BOTL", FULL)]
            over = [round(float(np.mean(row["regrets"][1:])), 4) for row in pair]
            last = [round(row["regrets"][-1], 4) for row in pair]
            yield [table, task, *over, *last, *(row["seconds"] for row in pair)]


def result(rows: list[dict[str, Any]], tasks: int, full: int) -> dict[str, Any]:
    marks = [{"name": f"after {mark}", "digits": 4, "best": "min"} for mark in MARKS]
    return {
        "title": "Ax's transfer learning beside eb-gp",
        "date": str(date.today()),
        "machine": "2 cores, one thread",
        "versions": ", ".join(f"{name} {version(name)}" for name in PACKAGES),
        "command": [
            f"{COMMAND} --tasks {tasks} --full {full} --write",
        ],
        "protocol": f"The first {tasks} test tasks of each table, five initial points, seed 0, "
        f"{TRIALS} trials. The past is {STUDIES} train tasks with {ROWS} random rows each, other "
        "ones for every task, and in one row of each table all train and validation tasks. "
        "Seconds to learn past studies are not included.",
        "tables": {
            "regret": {
                "about": f"Mean regret over trials 1 to {TRIALS} and after some of them, and "
                "processor seconds per proposal (median over runs).",
                "best_within": "table",
                "columns": [
                    {"name": "table"},
                    {"name": "method"},
                    {"name": "tasks"},
                    {"name": f"trials 1 to {TRIALS}", "digits": 4, "best": "min"},
                    *marks,
                    {"name": "s per proposal", "significant": 2},
                ],
                "rows": list(lines(rows)),
            },
            "against": {
                "about": f"Mean regret over trials 1 to {TRIALS} minus that of BOTL, with its "
                "standard error over the tasks of both tables, and tasks with less, equal and "
                "more regret than BOTL.",
                "columns": [
                    {"name": "method"},
                    {"name": "difference", "digits": 4, "signed": True},
                    *({"name": name} for name in ("less", "equal", "more")),
                ],
                "rows": list(against(rows)),
            },
            "fits": {
                "about": "BOTL with limited fits, as in the tables above, and with full fits.",
                "columns": [
                    {"name": "table"},
                    {"name": "task"},
                    {"name": f"trials 1 to {TRIALS}", "digits": 4},
                    {"name": "full fits", "digits": 4},
                    {"name": f"after {TRIALS}", "digits": 4},
                    {"name": "full fits", "digits": 4},
                    {"name": "s per proposal", "significant": 2},
                    {"name": "full fits", "significant": 2},
                ],
                "rows": list(fits(rows)),
            },
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("runs/ax-transfer"))
    parser.add_argument("--tasks", type=int, default=10, help="test tasks of each table")
    parser.add_argument("--full", type=int, default=2, help="of them also with full fits")
    parser.add_argument("--write", action="store_true", help="write the files of results")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    rows = run(arguments.data, arguments.out, arguments.tasks, arguments.full)
    found = result(rows, arguments.tasks, arguments.full)
    for line in (row for table in found["tables"].values() for row in table["rows"]):
        print(*line)
    if arguments.write:
        (RESULTS / "ax-transfer.json").write_text(json.dumps(found, indent=1) + "\n")
        (RESULTS / "ax-transfer").mkdir(exist_ok=True)
        runs = pd.DataFrame(rows)
        curves = pd.DataFrame(runs.pop("regrets").tolist()).add_prefix("after ")
        runs = runs.join(curves).sort_values(["table", "task", "method"])
        runs.to_csv(RESULTS / "ax-transfer" / "runs.csv", index=False)


if __name__ == "__main__":
    main()
