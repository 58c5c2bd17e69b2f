"""Compare suggesters on tables of evaluated configurations, in HPO-B's discrete protocol.

    python benchmarks/dre.py --tables tst-svm-hpob,oboe --split test --methods dre,gp,random

needs the data folder (see `tables.py`). A run starts with the five initial rows of its task and
seed (`--initial 0`: with none); then, `--steps` times, the method chooses one of the rows that
were not evaluated yet, and its loss is looked up. Choose on validation, report test.

Every cell, that is a table, a task, a method and a seed, is one JSON file in the output folder.
A run that was stopped goes on where it was; cells that failed are tried again. What methods
learn from the train tasks is kept in its folder `prepared`. After a change of a method use
another output folder, or delete its files in both.

Methods are the keys of `SUGGESTERS`, with options if wanted:
`--methods random,gp:acquisition=lcb,transform=copula,portfolio`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shlex
import sys
import time
import traceback
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, fields
from datetime import date
from functools import cached_property, lru_cache, partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mbo import _end_with_parent, markdown, parse_method, parse_methods
from scipy.spatial import KDTree
from tables import FOLD, HPOB, NAMES, SEEDS, Table, load, regret

import rankwise
from rankwise import Task
from rankwise.acquisition.functions import make_acquisition
from rankwise.strategies.baselines import greedy_portfolio
from rankwise.surrogates.base import Posterior, Surrogate
from rankwise.surrogates.ranking.dre import DeepRankingEnsemble
from rankwise.surrogates.ranking.meta_training import MetaTraining
from rankwise.types import Array

PACKAGES = ("torch", "botorch", "gpytorch", "numpy", "scikit-learn")
MARKS = (1, 5, 10, 15, 25, 50)  # steps at which the regret is reported
RANK_MARKS = (5, 10, 25)
PAIR_MARK = 10
OUTLIER = "colon-cancer"  # of tst-svm-hpob; the report is also given without it

# ---------------------------------------------------------------------- the suggesters


class Suggester(ABC):
    """Chooses the next configuration; built once per table, method and seed.

    It serves all tasks in any order, so it must remember nothing of earlier suggestions.
    """

    @abstractmethod
    def suggest(self, history: Task, pool: Array, rng: np.random.Generator) -> int:
        """The index of a row of the pool.

        Args:
            history: what was evaluated on this task, in that order; it may be empty.
            pool: configurations (m, d) that were not evaluated yet, at least one.
            rng: source of randomness.
        """


@dataclass(frozen=True)
class Context:
    """What a suggester may know besides its table and options.

    Attributes:
        seed: of the run.
        budget: evaluations of a run, initial ones included.
        folder: exists; for what took long to prepare. All methods, tables and seeds share it, and
            other processes may be writing the same, so write elsewhere and rename.
    """

    seed: int
    budget: int
    folder: Path


Options = dict[str, Any]


class Random(Suggester):
    """Any row of the pool."""

    def suggest(self, history: Task, pool: Array, rng: np.random.Generator) -> int:
        return int(rng.integers(len(pool)))


class Portfolio(Suggester):
    """A list of configurations that were good together on the train tasks, in its order.

    Each one minimises the mean over the train tasks of the normalised regret of the best so
    far. Where the list ends, because no configuration lowers that mean or because it has the
    length of a run, the choice is random. A configuration that a table does not have is
    represented by the nearest one that it has.

    Args:
        tasks: the train tasks.
        length: of the list at most.
    """

    def __init__(self, tasks: Sequence[Task], length: int) -> None:
        self.rows = greedy_portfolio(tasks, length)

    def suggest(self, history: Task, pool: Array, rng: np.random.Generator) -> int:
        _, nearest = KDTree(np.concatenate([pool, history.X])).query(self.rows)
        fresh = nearest[nearest < len(pool)]
        return int(fresh[0]) if len(fresh) else int(rng.integers(len(pool)))


class Modelled(Suggester):
    """The row of the pool with the largest utility under a surrogate; ties are broken at random.

    Args:
        fit: from a history, maybe empty, and a seed to a fitted surrogate.
        acquisition: name of the utility.
    """

    def __init__(self, fit: Callable[[Task, int], Surrogate], acquisition: str = "ei") -> None:
        self.fit = fit
        self.acquisition = make_acquisition(acquisition)

    def suggest(self, history: Task, pool: Array, rng: np.random.Generator) -> int:
        surrogate = self.fit(history, int(rng.integers(2**31)))
        # Pool and history go in together: ranks, unlike losses, depend on the set.
        X, n = np.concatenate([pool, history.X]), len(pool)
        posterior = surrogate.predict(X, joint=self.acquisition.random)
        evaluated = posterior.mean[n:] if len(history) else posterior.mean
        covariance = posterior.covariance
        candidates = Posterior(
            posterior.mean[:n],
            posterior.std[:n],
            None if covariance is None else covariance[:n, :n],
        )
        utility = self.acquisition(candidates, float(np.min(evaluated)), rng)
        if np.isnan(utility).any():
            raise ValueError("a utility is NaN")
        return int(rng.choice(np.flatnonzero(utility == utility.max())))


def _random(table: Table, options: Options, context: Context) -> Suggester:
    return Random(**options)


def _portfolio(table: Table, options: Options, context: Context) -> Suggester:
    tasks = [table.tasks[name] for name in table.train]
    return Portfolio(tasks, **{"length": context.budget, **options})


def _gp(table: Table, options: Options, context: Context) -> Suggester:
    from rankwise.surrogates.single_study.gp import GaussianProcess

    rest = dict(options)
    acquisition = rest.pop("acquisition", "ei")
    GaussianProcess(**rest)  # a wrong option is an error now, not in the middle of a run
    return Modelled(lambda task, seed: GaussianProcess(**rest).fit(task), acquisition)


def _dre(table: Table, options: Options, context: Context, transfer: bool = True) -> Suggester:
    """The ensemble, meta-trained on the train tasks if `transfer`; validation ones end it.

    Options are those of `DeepRankingEnsemble` and `MetaTraining`, "acquisition", and "reuse":
    fine-tuning goes on from the weights of the step before. What was meta-trained is kept, and
    serves all options that do not change it.
    """
    rest = {"seed": context.seed, **options}
    acquisition, reuse = rest.pop("acquisition", "ei"), rest.pop("reuse", False)
    training = {f.name: rest.pop(f.name) for f in fields(MetaTraining) if f.name in rest}
    # The names of two options are taken: fine-tuning has a patience, a rate and a support too.
    for name in ("patience", "rate", "support"):
        if name in training:
            rest[name] = training.pop(name)
        if f"meta_{name}" in rest:
            training[name] = rest.pop(f"meta_{name}")
    ensemble = DeepRankingEnsemble(**rest)
    if transfer:
        kept = ("members", "layers", "width", "deep_set", "loss", "weighting", "limit", "seed")
        shape = {name: rest[name] for name in kept if name in rest}
        parts = (table.name, *(f"{k}={v}" for k, v in sorted({**training, **shape}.items())))
        path = context.folder / f"{'__'.join(parts)}.safetensors"
        if not path.exists():
            past, checks = ([table.tasks[n] for n in s] for s in (table.train, table.validation))
            # Without the other options: a file's settings hold where the reader's say nothing.
            learner = DeepRankingEnsemble(**shape, training=MetaTraining(**training))
            learner.meta_fit(past, checks, progress=False).save(path)
        ensemble = DeepRankingEnsemble.load(path, **rest)
    if reuse:
        return Modelled(Reusing(ensemble), acquisition)
    return Modelled(lambda task, seed: ensemble.with_seed(seed).fit(task), acquisition)


class Reusing:
    """Fits an ensemble from the weights it had one evaluation before, if it was asked then."""

    def __init__(self, ensemble: DeepRankingEnsemble) -> None:
        self._ensemble = ensemble
        self._last: tuple[bytes, DeepRankingEnsemble] = (b"", ensemble)

    def __call__(self, task: Task, seed: int) -> DeepRankingEnsemble:
        seen, last = self._last
        known = bool(seen) and task.X[:-1].tobytes() == seen
        start = last.reused() if known else self._ensemble
        fitted = start.with_seed(seed).fit(task)
        self._last = task.X.tobytes(), fitted
        return fitted


SUGGESTERS: dict[str, Callable[[Table, Options, Context], Suggester]] = {
    "random": _random,
    "gp": _gp,
    "portfolio": _portfolio,
    "dre": _dre,
    "dre-ri": partial(_dre, transfer=False),
}


# ---------------------------------------------------------------------- running cells


@dataclass(frozen=True)
class Cell:
    """One run of a method on a task of a table."""

    table: str
    method: str
    seed: int
    task: str
    initial: int
    steps: int

    def path(self, out: Path) -> Path:
        """Where its results are."""
        budget = f"{self.initial}+{self.steps}"
        parts = (self.table, self.task, self.method, budget, f"seed-{self.seed}")
        name = "__".join(part.replace("/", "-").replace(":", "@") for part in parts)
        return out / f"{name}.json"

    def read(self, out: Path) -> dict[str, Any]:
        """Its results; an "error" if it failed or was not run."""
        path, nothing = self.path(out), {"error": "not run"}
        return json.loads(path.read_text()) if path.exists() else nothing


def run(
    suggester: Suggester, table: Table, task: Task, seed: int, initial: int, steps: int
) -> dict[str, Any]:
    """Evaluated rows, regrets before and after each step, CPU seconds of each suggestion."""
    rows = table.initial[task.name, seed][:initial].tolist()
    rng = np.random.default_rng([seed, zlib.crc32(f"{table.name}/{task.name}".encode())])
    losses, seconds = task.losses, []
    for _ in range(min(steps, len(task) - len(rows))):
        pool = np.setdiff1d(np.arange(len(task)), rows)
        history = Task.of(task.X[rows], losses[rows], name=task.name)
        start = time.process_time()
        chosen = suggester.suggest(history, task.X[pool], rng)
        seconds.append(time.process_time() - start)
        rows.append(int(pool[chosen]))
    regrets = regret(task, rows).tolist()
    before = regrets[:initial][-1:] or [1.0]  # nothing evaluated is as bad as the worst row
    return {"rows": rows, "regrets": [*before, *regrets[initial:]], "seconds": seconds}


@lru_cache(maxsize=1)  # cells come sorted, so that many in a row have the same suggester
def make_suggester(
    table: str, method: str, seed: int, budget: int, data: Path, out: Path
) -> Suggester:
    """The suggester of a method."""
    name, options = parse_method(method)
    context = Context(seed, budget, out / "prepared")
    context.folder.mkdir(parents=True, exist_ok=True)
    return SUGGESTERS[name](load(table, data), options, context)


def prepare(cell: Cell, data: Path, out: Path) -> Suggester:
    """The suggester of a cell, in a process with one thread."""
    import torch

    torch.set_num_threads(1)
    budget = cell.initial + cell.steps
    return make_suggester(cell.table, cell.method, cell.seed, budget, data, out)


def prepare_cell(cell: Cell, data: Path, out: Path) -> str:
    """Prepare, so that the cells find the results; returns the last line of an error, if any."""
    try:
        prepare(cell, data, out)
    except Exception:  # its cells will record it
        return traceback.format_exc().strip().rpartition("\n")[2]
    return ""


def run_cell(cell: Cell, data: Path, out: Path) -> str:
    """Run a cell and write it at once; returns the last line of its error, if any."""
    try:
        suggester, table = prepare(cell, data, out), load(cell.table, data)
        task = table.tasks[cell.task]
        result = run(suggester, table, task, cell.seed, cell.initial, cell.steps)
    except Exception:  # one bad cell must not end the run; the report counts it as missing
        result = {"error": traceback.format_exc()}
    path = cell.path(out)
    unfinished = path.with_suffix(f".{os.getpid()}.tmp")
    unfinished.write_text(json.dumps(result))
    unfinished.replace(path)
    return str(result.get("error", "")).strip().rpartition("\n")[2]


def run_cells(cells: Sequence[Cell], data: Path, out: Path, jobs: int) -> None:
    """Run the cells that have no result yet, each in a process with one thread."""
    todo = [cell for cell in cells if "error" in cell.read(out)]
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"  # read by the new processes when they import NumPy
    # One cell for each suggester: without this all processes would prepare the same at once.
    first: dict[tuple[str, str, int], Cell] = {}
    for cell in todo:
        first.setdefault((cell.table, cell.method, cell.seed), cell)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, spawn, _end_with_parent) as pool:
        try:
            _in_parallel(pool, prepare_cell, list(first.values()), data, out, "prepared")
            _in_parallel(pool, run_cell, todo, data, out, "cells")
        except BaseException:  # else the pool would first finish what is waiting
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _in_parallel(
    pool: ProcessPoolExecutor,
    function: Callable[[Cell, Path, Path], str],
    cells: Sequence[Cell],
    data: Path,
    out: Path,
    what: str,
) -> None:
    start = time.monotonic()
    futures = {pool.submit(function, cell, data, out): cell for cell in cells}
    for done, future in enumerate(as_completed(futures), start=1):
        if error := future.result():
            print(f"\n{futures[future]}: {error}", file=sys.stderr)
        left = (time.monotonic() - start) / done * (len(cells) - done)
        line = f"\r{done}/{len(cells)} {what}, {left / 60:.1f} min left "
        print(line, end="", file=sys.stderr, flush=True)
    if cells:
        print(file=sys.stderr)


# ---------------------------------------------------------------------- the report


@dataclass(frozen=True)
class Results:
    """Runs of some methods on the tasks of one table.

    Attributes:
        frame: a row per run: table, task, method, seed; regrets after each step in the columns
            1, 2, ..., their mean in "mean", all NaN if the run is missing; "seconds" is a list.
        steps: how many.
    """

    frame: pd.DataFrame
    steps: int

    @classmethod
    def of(cls, cells: Sequence[Cell], out: Path) -> Results:
        """The results of these cells, which have the same number of steps."""
        rows, steps = [], cells[0].steps
        for cell in cells:
            result = cell.read(out)
            curve = result.get("regrets", [np.nan])
            # A run that evaluated the whole table ended early, with its last regret.
            curve = np.pad(curve, (0, steps + 1 - len(curve)), mode="edge")[1:]
            values = {**dict(enumerate(curve, start=1)), "mean": curve.mean()}
            rows.append({**vars(cell), **values, "seconds": result.get("seconds", [])})
        return cls(pd.DataFrame(rows), steps)

    def where(self, chosen: pd.Series) -> Results:
        """Some of the runs."""
        return Results(self.frame[chosen], self.steps)

    @cached_property
    def ranks(self) -> pd.DataFrame:
        """Ranks among the methods: ties share theirs, missing runs come last."""
        marks = [mark for mark in RANK_MARKS if mark <= self.steps]
        return self.frame.groupby(["task", "seed"])[marks].rank(na_option="bottom")

    def pairs(self, method: str, column: int | str) -> str:
        """How often a method was better and worse than the first one, where both were run."""
        first = self.frame["method"].iloc[0]
        if method == first or column not in self.frame:
            return "-"
        table = self.frame.pivot(index=["task", "seed"], columns="method", values=column)
        difference = table[method] - table[first]
        return f"{(difference < 0).sum()}/{(difference > 0).sum()}"

    def table(self) -> str:
        """A row per method."""
        marks = [mark for mark in MARKS if mark <= self.steps]
        header = ["method", *(f"r@{mark}" for mark in marks), "mean"]
        header += [f"rank@{mark}" for mark in self.ranks]
        header += ["optimum", "CPU s", f"pairs@{PAIR_MARK}", "pairs mean", "runs"]
        rows = []
        for method, part in self.frame.groupby("method", sort=False):
            ran = part[part["mean"].notna()]
            regrets = [_number(value, 4) for value in ran[[*marks, "mean"]].mean()]
            ranks = [_number(value, 2) for value in self.ranks.loc[part.index].mean()]
            found = _number((ran[self.steps] == 0).mean(), 2)
            cpu = _number(ran["seconds"].explode().astype(float).median(), 4)
            pairs = [self.pairs(method, PAIR_MARK), self.pairs(method, "mean")]
            rows.append([method, *regrets, *ranks, found, cpu, *pairs, len(ran)])
        return markdown(header, rows)


def _number(value: float, digits: int) -> str:
    return "-" if np.isnan(value) else f"{value:.{digits}f}"


def sections(results: Results, name: str) -> list[str]:
    """The table of one table of tasks, and of parts of it that were published."""
    frame = results.frame
    tasks = ", ".join(frame["task"].unique())
    parts = [f"## {name}", f"Tasks: {tasks}.", results.table()]
    if name == HPOB and not frame["seed"].isin([0, 1]).all() and frame["seed"].isin([0, 1]).any():
        part = results.where(frame["seed"].isin([0, 1]))
        parts += [f"### {name}, seeds 0 and 1", part.table()]
    if name == HPOB and OUTLIER in set(frame["task"]):
        part = results.where(frame["task"] != OUTLIER)
        parts += [f"### {name} without {OUTLIER}", part.table()]
    return parts


def report(cells: Sequence[Cell], out: Path, split: str) -> str:
    """The comparison as Markdown."""
    versions = [f"rankwise {rankwise.__version__}", *(f"{p} {version(p)}" for p in PACKAGES)]
    command = shlex.join(["python", *(word for word in sys.argv if word != "--report-only")])
    missing = sum("error" in cell.read(out) for cell in cells)
    parts = [
        f"# Suggestions from tables, {split} tasks",
        f"{date.today()}, {os.cpu_count()} cores, one thread per run; {cells[0].initial} initial "
        f"rows and {cells[0].steps} steps, seeds "
        f"{', '.join(map(str, sorted({cell.seed for cell in cells})))}. {', '.join(versions)}.",
        f"`{command}`",
        "`r@k`: normalised regret after k steps, 0 the best and 1 the worst row of the task, mean "
        "over tasks and seeds; `mean`: over all steps; `rank@k`: average rank among the methods, "
        "ties share ranks, missing runs rank last; `optimum`: share of runs that found the best "
        "row; `CPU s`: median per suggestion, preparation excluded; `pairs`: runs that were "
        f"better/worse than those of {cells[0].method}, after {PAIR_MARK} steps and in the mean. "
        f"Missing runs: {missing}.",
    ]
    for name in dict.fromkeys(cell.table for cell in cells):
        mine = [cell for cell in cells if cell.table == name]
        parts += sections(Results.of(mine, out), name)
    return "\n\n".join(parts) + "\n"


# ---------------------------------------------------------------------- the command


def _names(text: str) -> list[str]:
    names = list(dict.fromkeys(text.split(",")))
    for name in names:
        if name.removesuffix(FOLD) not in NAMES:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(NAMES)}")
    return names


def _seeds(text: str) -> list[int]:
    seeds = sorted({int(seed) for seed in text.split(",")})
    if not set(seeds) <= set(SEEDS):
        raise argparse.ArgumentTypeError(f"seeds are {', '.join(map(str, SEEDS))}")
    return seeds


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compare suggesters on tables.")
    names = (
        f"{', '.join(NAMES)}; with {FOLD} at the end, a third of the train tasks is the test split"
    )
    parser.add_argument("--tables", type=_names, default=HPOB, help=names)
    parser.add_argument("--split", choices=("validation", "test"), default="validation")
    methods = partial(parse_methods, known=SUGGESTERS)
    parser.add_argument("--methods", type=methods, default="random,portfolio,gp")
    parser.add_argument("--seeds", type=_seeds, default="0,1,2,3,4")
    parser.add_argument("--steps", type=int, default=50, help="suggestions per run")
    parser.add_argument("--initial", type=int, default=5, choices=range(6), help="initial rows")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time")
    parser.add_argument("--out", type=Path, default=Path("runs/dre"), help="folder of results")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="data folder")
    parser.add_argument("--report-only", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        parser.error(f"there is no data folder {arguments.data}")
    if arguments.steps < 1:
        parser.error("--steps must be positive")
    return arguments


def main() -> None:
    """Run what is missing, then report."""
    arguments = parse_arguments()
    data, out = arguments.data.resolve(), arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    cells = [
        Cell(table, method, seed, task, arguments.initial, arguments.steps)
        for table, method, seed in product(arguments.tables, arguments.methods, arguments.seeds)
        for task in getattr(load(table, data), arguments.split)
    ]
    if not arguments.report_only:
        run_cells(cells, data, out, arguments.jobs)
    text = report(cells, out, arguments.split)
    (out / "report.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
