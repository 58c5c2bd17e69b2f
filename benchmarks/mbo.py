"""Compare `mbo` with random search, Optuna's TPE and GP samplers and SMAC3.

    python benchmarks/mbo.py --split report --seeds 10 --trials 60 --jobs 2 --out runs/mbo

needs `pip install smac onnxruntime` and the data folder (see `problems.py`). Every cell, that is
a problem, a method and a seed, is one JSON file in the output folder. A run that was stopped goes
on where it was; cells that failed are tried again. After a change of the library's source use
another folder, or delete the files of its methods.

Methods are `tpe`, `gp-optuna`, `smac` and every method of rankwise, with options if wanted:
`--methods mbo,forest:acquisition=ei,trees=100,gp:design=lhs-2d`.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import date
from functools import cache, partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np
import pandas as pd
from problems import SAMPLE, SPLITS, Problem, load, names

import rankwise

PACKAGES = ("optuna", "smac", "ConfigSpace", "torch", "botorch", "scikit-learn", "onnxruntime")
FALLBACK = "the surrogate failed"  # how rankwise's warning begins

# ---------------------------------------------------------------------- the optimizers


class Peer(Protocol):
    """What the comparison needs of an optimizer; `startup` trials come before its model."""

    startup: int

    def ask(self) -> dict[str, Any]: ...

    def tell(self, loss: float) -> None: ...


class Rankwise:
    """A method of this library."""

    def __init__(self, method: str, problem: Problem, seed: int, trials: int, folder: str) -> None:
        from rankwise.strategies.model_based import ModelStrategy

        name, options = parse_method(method)
        encoder = rankwise.Encoder(problem.space())
        self._optimizer = rankwise.Optimizer(encoder, method=name, seed=seed, **options)
        design = options.pop("design", None)
        strategy = rankwise.methods.make(name, encoder, **options)
        chosen = (
            strategy.design if design is None else rankwise.Design.parse(design, strategy.design)
        )
        self.startup = chosen.n(encoder) if isinstance(strategy, ModelStrategy) else trials

    def ask(self) -> dict[str, Any]:
        [self._configuration] = self._optimizer.ask()
        return dict(self._configuration)

    def tell(self, loss: float) -> None:
        self._optimizer.tell(self._configuration, loss)


class Optuna:
    """A sampler of Optuna with its defaults, asked define-by-run."""

    startup = 10

    def __init__(self, method: str, problem: Problem, seed: int, trials: int, folder: str) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        quiet_gp = partial(optuna.samplers.GPSampler, warn_independent_sampling=False)
        samplers = {"tpe": optuna.samplers.TPESampler, "gp-optuna": quiet_gp}
        self._problem = problem
        self._study = optuna.create_study(sampler=samplers[method](seed=seed))

    def ask(self) -> dict[str, Any]:
        self._trial = self._study.ask()
        return self._problem.suggest(self._trial)

    def tell(self, loss: float) -> None:
        self._study.tell(self._trial, loss)


class Smac:
    """SMAC3's facade for hyperparameter optimization with its defaults."""

    def __init__(self, method: str, problem: Problem, seed: int, trials: int, folder: str) -> None:
        from smac import HyperparameterOptimizationFacade, Scenario

        logging.getLogger("smac").setLevel(logging.ERROR)
        budget = {"deterministic": True, "n_trials": trials, "seed": seed}
        scenario = Scenario(problem.space(), output_directory=Path(folder), **budget)
        facade = HyperparameterOptimizationFacade
        self.startup = len(facade.get_initial_design(scenario).select_configurations())
        unused = lambda config, seed=0: 0.0  # noqa: E731 (wanted even if only asked and told)
        self._facade = facade(scenario, unused, overwrite=True, logging_level=False)

    def ask(self) -> dict[str, Any]:
        self._info = self._facade.ask()
        return dict(self._info.config)

    def tell(self, loss: float) -> None:
        from smac.runhistory.dataclasses import TrialValue

        self._facade.tell(self._info, TrialValue(cost=loss, time=0.0), save=False)


PEERS: dict[str, Callable[..., Peer]] = {"tpe": Optuna, "gp-optuna": Optuna, "smac": Smac}


def parse_method(text: str) -> tuple[str, dict[str, Any]]:
    """Name and options of a method written like `forest:acquisition=ei,trees=100`."""
    name, _, rest = text.partition(":")
    pairs = (option.partition("=") for option in rest.split(",") if option)
    return name, {key: _value(value) for key, _, value in pairs}


def _value(text: str) -> Any:
    try:
        return json.loads(text)  # a number, true, false, null
    except ValueError:
        return text


def parse_methods(text: str, known: Collection[str] = ()) -> list[str]:
    """The methods of a list in which commas separate methods and also options of a method."""
    found: list[str] = []
    for piece in text.split(","):
        if "=" in piece and ":" not in piece and found:
            found[-1] += f",{piece}"
        else:
            found.append(piece)
    known = known or [*PEERS, *rankwise.methods.available()]
    unknown = [method for method in found if parse_method(method)[0] not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(known)}")
    return list(dict.fromkeys(found))


# ---------------------------------------------------------------------- running cells


@dataclass(frozen=True)
class Cell:
    """One run of a method on a problem."""

    problem: str
    method: str
    seed: int
    trials: int

    def path(self, out: Path) -> Path:
        """Where its results are."""
        parts = (self.problem, self.method, f"trials-{self.trials}", f"seed-{self.seed}")
        name = "__".join(part.replace("/", "-").replace(":", "@") for part in parts)
        return out / f"{name}.json"

    def read(self, out: Path) -> dict[str, Any]:
        """Its results; an "error" if it failed or was not run."""
        path, nothing = self.path(out), {"error": "not run"}
        return json.loads(path.read_text()) if path.exists() else nothing


def run(method: str, problem: Problem, seed: int, trials: int) -> dict[str, Any]:
    """The losses of all trials and the seconds of every proposal (asking, not telling)."""
    losses, seconds = [], []
    with TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        peer = PEERS.get(method, Rankwise)(method, problem, seed, trials, folder)
        for _ in range(trials):
            start = time.perf_counter()
            configuration = peer.ask()
            seconds.append(time.perf_counter() - start)
            losses.append(problem.objective(configuration))
            peer.tell(losses[-1])
    fallbacks = sum(str(warning.message).startswith(FALLBACK) for warning in caught)
    return {"losses": losses, "seconds": seconds, "startup": peer.startup, "fallbacks": fallbacks}


@cache
def warm_up(method: str) -> None:
    """Import what the method needs, so that no proposal is charged for it."""
    parameters = {"x": (0.0, 1.0), "a": ["u", "v"], "y": (0.0, 1.0)}
    for when in ({}, {"y": {"a": "u"}}):  # a numeric space and a conditional one
        run(method, Problem("", "", parameters, lambda c: c["x"], lambda: 0.0, 0.0, when), 0, 12)


def run_cell(cell: Cell, data: Path, out: Path) -> str:
    """Run a cell and write it at once; returns the last line of its error, if any."""
    import torch

    torch.set_num_threads(1)
    try:
        warm_up(cell.method)
        result = run(cell.method, load(cell.problem, data), cell.seed, cell.trials)
    except Exception:  # one bad cell must not end the run; the report counts it as missing
        result = {"error": traceback.format_exc()}
    path = cell.path(out)
    unfinished = path.with_suffix(f".{os.getpid()}.tmp")
    unfinished.write_text(json.dumps(result))
    unfinished.replace(path)
    return str(result.get("error", "")).strip().rpartition("\n")[2]


def _end_with_parent() -> None:
    """Let this worker end when the process that started it is gone, even if it was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def run_cells(cells: Sequence[Cell], data: Path, out: Path, jobs: int) -> None:
    """Run the cells that have no result yet, each in a process with one thread."""
    todo = [cell for cell in cells if "error" in cell.read(out)]
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"  # read by the new processes when they import NumPy
    start = time.monotonic()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, spawn, _end_with_parent) as pool:
        futures = {pool.submit(run_cell, cell, data, out): cell for cell in todo}
        for done, future in enumerate(as_completed(futures), start=1):
            if error := future.result():
                print(f"\n{futures[future]}: {error}", file=sys.stderr)
            left = (time.monotonic() - start) / done * (len(todo) - done)
            line = f"\r{done}/{len(todo)} cells, {left / 60:.1f} min left "
            print(line, end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


# ---------------------------------------------------------------------- the report


def tabulate(results: dict[Cell, dict[str, Any]], data: Path, marks: list[int]) -> pd.DataFrame:
    """A row per cell: log10 of the regret after each of `marks` evaluations, NaN if missing.

    The best value of a problem is its best known one or a better one that a cell has seen.
    """
    best: dict[str, float] = {}
    for cell, result in results.items():
        if cell.problem not in best:
            best[cell.problem] = load(cell.problem, data).best()
        best[cell.problem] = min([best[cell.problem], *result.get("losses", [])])
    rows = []
    for cell, result in results.items():
        problem = load(cell.problem, data)
        losses = result.get("losses", [np.nan] * cell.trials)
        curve = np.maximum(np.minimum.accumulate(losses) - best[cell.problem], problem.floor)
        values = {mark: np.log10(curve[mark - 1]) for mark in marks}
        rows.append({**vars(cell), "family": problem.family, **values})
    return pd.DataFrame(rows)


def ranks(frame: pd.DataFrame, marks: list[int]) -> pd.DataFrame:
    """The table with ranks per problem and seed: ties share theirs, missing cells come last."""
    grouped = frame.groupby(["problem", "seed"])[marks]
    return frame.drop(columns=marks).join(grouped.rank(na_option="bottom"))


def timings(results: dict[Cell, dict[str, Any]], data: Path) -> pd.DataFrame:
    """A row per proposal: its method, its family, its seconds and whether a model made it."""
    rows = [
        (cell.method, load(cell.problem, data).family, seconds, number >= result["startup"])
        for cell, result in results.items()
        for number, seconds in enumerate(result.get("seconds", []))
    ]
    return pd.DataFrame(rows, columns=["method", "family", "seconds", "model"])


def markdown(header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table: numbers with three decimals, NaN as a dash."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_text, line))} |" for line in lines)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "-" if np.isnan(value) else f"{value:.3f}"
    return str(value)


def regret_table(frame: pd.DataFrame, by: str, marks: list[int]) -> str:
    """Mean log10 regret and mean rank, per family or problem (`by`) and method."""
    last = ranks(frame, marks)[marks[-1]]
    rows = [
        [*key, *part[marks].mean(), last[part.index].mean(), part[marks[-1]].isna().sum()]
        for key, part in frame.groupby([by, "method"], sort=False)
    ]
    header = [by, "method", *(f"after {mark}" for mark in marks)]
    return markdown([*header, f"rank after {marks[-1]}", "missing"], rows)


def rank_table(frame: pd.DataFrame, marks: list[int]) -> str:
    """Average ranks, best first: within a family, then over families, then over seeds."""
    families = ranks(frame, marks).groupby(["method", "seed", "family"])[marks].mean()
    seeds = families.groupby(["method", "seed"]).mean().groupby("method")
    table = seeds.mean().assign(error=seeds.sem()[marks[-1]]).sort_values(marks[-1])
    header = ["method", *(f"after {mark}" for mark in marks), "standard error"]
    return markdown(header, table.itertuples(name=None))


def time_table(frame: pd.DataFrame) -> str:
    """Seconds per proposal by method, and those of its model by family."""
    columns, model = {}, frame[frame["model"]]
    for what, part in (("model", model), ("all", frame)):
        for summary in ("mean", "median"):
            columns[f"{what}, {summary}"] = part.groupby("method")["seconds"].agg(summary)
    for family, part in model.groupby("family", sort=False):
        columns[f"{family}, model, mean"] = part.groupby("method")["seconds"].mean()
    table = pd.DataFrame(columns).reindex(frame["method"].unique())
    return markdown(["method", *table.columns], table.itertuples(name=None))


def report(cells: Sequence[Cell], data: Path, out: Path, split: str) -> str:
    """The comparison as Markdown."""
    results = {cell: cell.read(out) for cell in cells}
    trials = cells[0].trials
    marks = [round(trials * part / 3) for part in (1, 2, 3)]
    frame = tabulate(results, data, marks)
    fallbacks = sum(result.get("fallbacks", 0) for result in results.values())
    versions = [f"rankwise {rankwise.__version__}", *(f"{p} {version(p)}" for p in PACKAGES)]
    parts = [
        f"# Model-based optimization, {split} problems",
        f"{date.today()}, {os.cpu_count()} cores, one thread per run; {trials} evaluations, "
        f"{frame['seed'].nunique()} seeds. {', '.join(versions)}.",
        f"Problems: {', '.join(frame['problem'].unique())}.",
        "Regret is to the known optimum of a function, to the best entry of a table and, for "
        f"rbv2_rpart, to the best known value: the best of {SAMPLE} random configurations and of "
        "all that any of these runs evaluated. It is floored at 1e-6 for functions and at 1e-4 "
        "for the others; ranks are of floored regrets, ties share ranks, missing runs rank last.",
        f"Proposals made at random because rankwise's surrogate failed: {fallbacks}.",
        "## Average rank, families weighing the same",
        rank_table(frame, marks),
        "## Mean log10 regret by family",
        regret_table(frame, "family", marks),
        "## Seconds per proposal",
        "`model`: after the initial design. SMAC fits its model for every eighth proposal only.",
        time_table(timings(results, data)),
        "## Mean log10 regret by problem",
        regret_table(frame, "problem", marks),
    ]
    return "\n\n".join(parts) + "\n"


# ---------------------------------------------------------------------- the command


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compare mbo with its peers.")
    parser.add_argument("--split", choices=SPLITS, default="report")
    parser.add_argument("--seeds", type=int, default=10, help="how many, from 0")
    parser.add_argument("--trials", type=int, default=60, help="evaluations per run")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time")
    parser.add_argument("--methods", type=parse_methods, default="mbo,random,tpe,gp-optuna,smac")
    parser.add_argument("--problems", default="", help="only those that contain this text")
    parser.add_argument("--out", type=Path, default=Path("runs/mbo"), help="folder of results")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="data folder")
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        parser.error(f"there is no data folder {arguments.data}")
    return arguments


def main() -> None:
    """Run what is missing, then report."""
    arguments = parse_arguments()
    data, out = arguments.data.resolve(), arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    problems = [n for n in names(arguments.split, data) if arguments.problems in n]
    grid = product(range(arguments.seeds), problems, arguments.methods)
    cells = [Cell(problem, method, seed, arguments.trials) for seed, problem, method in grid]
    run_cells(cells, data, out, arguments.jobs)
    text = report(cells, data, out, arguments.split)
    (out / "report.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
