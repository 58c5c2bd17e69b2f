"""Compare optimizers without past studies, from 2 to 40 dimensions and on conditional spaces.

    python benchmarks/alone_peers.py --split report --out runs/alone-peers --data ../shared/data

runs what is missing and prints tables. `--results FILE.json` writes them to a file, and the best
losses of every run to `FILE/runs.csv`. With `--partial` nothing is run: the tables have the
problems and seeds that all methods have run so far; runs that only `FILE/runs.csv` has count, if
they have as many trials. It needs `pip install coco-experiment onnxruntime` and the
data folder (see `problems.py`). Every cell, that is a problem, a method and a seed, is one JSON
file in the output folder; a run that was stopped goes on where it was. One process, one thread;
seconds are those of the processor.

Problems of the report:

- `bbob`: the 24 functions of the BBOB suite in 2, 5, 10, 20 and 40 dimensions; seed k runs on
  instance k + 1;
- conditional and mixed: six test tasks each of tst-svm and oboe, four of textclf, two each of
  hpolib-fcnet and nasbench201, three tasks of rbv2_rpart;
- scikit-learn: four tasks of hpobench-mlp (a table of MLPClassifier, five numbers), and support
  vector machines, random forests and gradient boosting in their ready-made spaces, evaluated anew
  on data sets of scikit-learn (`sklearn_problems.py`).

For development there are other instances (seed k runs on instance k + 11) of nine functions, up to
six validation tasks, and other tasks of the tables without a split.

Methods are `tpe`, `gp-optuna`, `cma-es-optuna` and `random-optuna`, which are samplers of Optuna
with their defaults, `smac`, `hebo-original` (functions of BBOB only), and every method of
rankwise, with options if wanted: `--methods mbo,forest:trees=50`. HEBO 0.3.6 asks for old versions
of NumPy and pymoo, so it needs an environment of its own, `pip install --no-deps HEBO` and its
dependencies by hand; GPy and CatBoost are not needed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from mbo import FALLBACK, PEERS, Cell, Optuna, Rankwise, parse_methods
from problems import SPLITS, Problem, table_problem
from problems import load as load_named
from problems import names as named
from sklearn_problems import FAMILY as SKLEARN
from sklearn_problems import REPORT as TUNED
from sklearn_problems import load as sklearn_problem

import rankwise

DIMENSIONS = (2, 5, 10, 20, 40)
SPLIT_TABLES = {"tst-svm": 6, "oboe": 6, "textclf": 4}  # at most so many tasks of each
OTHER_TABLES = ("hpolib-fcnet", "nasbench201", "hpobench-mlp")  # every second task
DEVELOPED_ON = (1, 3, 6, 8, 10, 13, 15, 20, 21)
MARKS = (10, 25, 50, 100)
METHODS = "mbo,tpe,gp-optuna,cma-es-optuna,random-optuna"
PACKAGES = ("optuna", "cmaes", "torch", "scikit-learn")
TO_INSTALL = ("coco-experiment", "onnxruntime")
OTHER_TOOLS = {  # packages of methods, and what installs them
    "smac": ("smac", "pip install smac"),
    "hebo-original": (
        "HEBO",
        "pip install --no-deps HEBO==0.3.6 pymoo==0.6.0 disjoint-set autograd cma alive-progress "
        "about-time grapheme dill Deprecated wrapt",
    ),
}
PEERS_TITLE = "mbo and its peers"
QUESTION = {
    "table": "rank",
    "rows": {"problems": ["all"]},
    "columns": ["method", *(f"after {mark}" for mark in MARKS)],
    "rename": {"after 10": "after 10 trials"},
}  # the table of docs/benchmarks.md
GROUPS = ("2-d and 5-d", "10-d", "20-d and 40-d", "conditional or mixed", "scikit-learn")

# ---------------------------------------------------------------------- problems


def names(split: str, data: Path) -> list[str]:
    """The problems of a split."""
    report = split == "report"
    bbob = [
        f"bbob/f{f:02d}-d{d:02d}"
        for d in DIMENSIONS
        for f in (range(1, 25) if report else DEVELOPED_ON)
    ]
    tasks = json.loads((data / "splits.json").read_text())
    part = "test" if report else "validation"
    found = [f"{t}/{n}" for t, most in SPLIT_TABLES.items() for n in tasks[t][part][:most]]
    found += [f"{t}/{n}" for t in OTHER_TABLES for n in _tasks(data / t)[0 if report else 1 :: 2]]
    rpart = [name for name in named(split, data) if name.startswith("rbv2_rpart/")][:3]
    tuned = [f"{SKLEARN}/{name}" for name in TUNED] if report else []
    return [*bbob, *found, *rpart, *tuned]


def load(name: str, seed: int, split: str, data: Path) -> Problem:
    """The problem that a seed runs on."""
    family, _, task = name.partition("/")
    if family == "bbob":
        return bbob_problem(name, seed + (1 if split == "report" else 11))
    if family == SKLEARN:
        return sklearn_problem(name)
    if family in SPLIT_TABLES or family in OTHER_TABLES:
        return table_problem(name, task, data / family)
    return load_named(name, data)


def bbob_problem(name: str, instance: int) -> Problem:
    """A function of the BBOB suite on [-5, 5]^d, named like bbob/f01-d05."""
    from cocoex import BareProblem

    function, dimension = int(name[6:8]), int(name[-2:])
    bare = BareProblem("bbob", function, dimension, instance)
    parameters = {f"x{j:02d}": (-5.0, 5.0) for j in range(dimension)}

    def objective(configuration: Mapping[str, Any]) -> float:
        return float(bare(np.array([float(configuration[key]) for key in parameters])))

    return Problem(name, "bbob", parameters, objective, bare.best_value, floor=1e-6)


def group(name: str) -> str:
    """Which of `GROUPS` a problem belongs to."""
    family = name.partition("/")[0]
    if family == "bbob":
        dimension = int(name[-2:])
        return GROUPS[0 if dimension < 10 else 1 if dimension == 10 else 2]
    return GROUPS[4 if family in ("hpobench-mlp", SKLEARN) else 3]


@cache
def _tasks(folder: Path) -> list[str]:
    with np.load(folder / "data.npz", allow_pickle=False) as arrays:
        return [str(task) for task in arrays["tasks"]]


# ---------------------------------------------------------------------- runs


class OptunaPeer(Optuna):
    """Samplers of Optuna that the comparison `mbo.py` does not have."""

    def __init__(self, method: str, problem: Problem, seed: int, trials: int, folder: str) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        evolution = partial(optuna.samplers.CmaEsSampler, warn_independent_sampling=False)
        samplers = {"cma-es-optuna": evolution, "random-optuna": optuna.samplers.RandomSampler}
        self._problem = problem
        self._study = optuna.create_study(sampler=samplers[method](seed=seed))


class Hebo:
    """HEBO with its defaults, for the functions of BBOB."""

    startup = 0

    def __init__(self, method: str, problem: Problem, seed: int, trials: int, folder: str) -> None:
        import torch
        from hebo.design_space.design_space import DesignSpace
        from hebo.optimizers.hebo import HEBO

        np.random.seed(seed)  # noqa: NPY002 (HEBO has no generator of its own)
        torch.manual_seed(seed)
        numbers = [
            {"name": name, "type": "num", "lb": low, "ub": high}
            for name, (low, high) in problem.parameters.items()
        ]
        self._optimizer = HEBO(DesignSpace().parse(numbers), scramble_seed=seed)

    def ask(self) -> dict[str, Any]:
        self._suggested = self._optimizer.suggest(n_suggestions=1)
        return dict(self._suggested.iloc[0])

    def tell(self, loss: float) -> None:
        self._optimizer.observe(self._suggested, np.array([[loss]]))


ALL_PEERS = {
    **PEERS,
    "cma-es-optuna": OptunaPeer,
    "random-optuna": OptunaPeer,
    "hebo-original": Hebo,
}


def run(method: str, problem: Problem, seed: int, trials: int) -> dict[str, Any]:
    """The losses of all trials and the processor seconds of all proposals."""
    losses, seconds = [], 0.0
    with TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        peer = ALL_PEERS.get(method, Rankwise)(method, problem, seed, trials, folder)
        for _ in range(trials):
            start = time.process_time()
            configuration = peer.ask()
            seconds += time.process_time() - start
            losses.append(problem.objective(configuration))
            start = time.process_time()
            peer.tell(losses[-1])
            seconds += time.process_time() - start
    fallbacks = sum(str(warning.message).startswith(FALLBACK) for warning in caught)
    return {"losses": losses, "seconds": seconds, "fallbacks": fallbacks}


def run_cells(cells: Sequence[Cell], split: str, data: Path, out: Path) -> None:
    """Run the cells that have no result yet, one after the other."""
    todo = [cell for cell in cells if "error" in cell.read(out)]
    for done, cell in enumerate(todo):
        print(f"\r{done}/{len(todo)} {cell.problem} {cell.method}   ", end="", file=sys.stderr)
        try:
            problem = load(cell.problem, cell.seed, split, data)
            result = run(cell.method, problem, cell.seed, cell.trials)
        except Exception:  # one bad cell must not end the run; the report counts it as missing
            result = {"error": traceback.format_exc()}
            print(result["error"], file=sys.stderr)
        path = cell.path(out)
        unfinished = path.with_suffix(f".{os.getpid()}.tmp")
        unfinished.write_text(json.dumps(result))
        unfinished.replace(path)


# ---------------------------------------------------------------------- tables


def tabulate(cells: Sequence[Cell], split: str, data: Path, out: Path) -> pd.DataFrame:
    """A row per cell: the best loss after each of `MARKS` trials, and seconds per proposal."""
    rows = []
    for cell in cells:
        result = cell.read(out)
        losses = result.get("losses", [np.nan] * cell.trials)
        best = np.minimum.accumulate(losses)
        rows.append(
            {
                "problem": cell.problem,
                "method": cell.method,
                "seed": cell.seed,
                "group": group(cell.problem),
                **{mark: float(best[mark - 1]) for mark in MARKS if mark <= cell.trials},
                "seconds": result.get("seconds", np.nan) / cell.trials,
                "fallbacks": result.get("fallbacks", 0),
            }
        )
    return pd.DataFrame(rows)


def with_earlier(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Only the problems and seeds that all methods have run, here or in an earlier table."""
    methods, keys = set(frame["method"]), ["problem", "method", "seed"]
    marks = [mark for mark in MARKS if mark in frame]
    frame = frame[frame[marks[-1]].notna()]
    if path.exists():
        earlier = pd.read_csv(path).rename(columns={str(mark): mark for mark in MARKS})
        earlier = earlier[earlier["method"].isin(methods) & earlier[marks[-1]].notna()]
        known = pd.MultiIndex.from_frame(frame[keys])
        earlier = earlier[~pd.MultiIndex.from_frame(earlier[keys]).isin(known)]
        earlier = earlier.assign(group=earlier["problem"].map(group), fallbacks=0)
        frame = pd.concat([frame, earlier], ignore_index=True)
    return frame[frame.groupby(["problem", "seed"])["method"].transform("size") == len(methods)]


def ranks(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with ranks per problem and seed; ties share theirs, missing cells come last."""
    marks = [mark for mark in MARKS if mark in frame]
    # equal to eight digits is a tie: the optimum of a table, or a function solved by both
    rounded = frame[marks].map(lambda value: float(f"{value:.8g}"))
    grouped = rounded.groupby([frame["problem"], frame["seed"]])
    return frame.drop(columns=marks).join(grouped.rank(na_option="bottom"))


def rank_rows(frame: pd.DataFrame) -> list[list[Any]]:
    """Rows of (group, method, average rank with standard error per mark), all problems last.

    The standard error is over problems and seeds.
    """
    marks = [mark for mark in MARKS if mark in frame]
    ranked, rows = ranks(frame), []
    for name in [*(g for g in GROUPS if g in set(frame["group"])), "all"]:
        part = ranked if name == "all" else ranked[ranked["group"] == name]
        by_method = part.groupby("method")[marks]
        mean, error = by_method.mean(), by_method.sem()
        for method in frame["method"].unique():
            cells = [
                {"value": round(mean.at[method, m], 3), "se": round(error.at[method, m], 3)}
                if np.isfinite(error.at[method, m])
                else None
                for m in marks
            ]
            rows.append([name, method, *cells])
    return rows


def second_rows(frame: pd.DataFrame) -> list[list[Any]]:
    """Rows of (method, mean milliseconds of the processor per proposal in each group)."""
    table = 1e3 * frame.groupby(["method", "group"])["seconds"].mean().unstack()
    groups = [name for name in GROUPS if name in table]
    cells = table.round(1).astype(object).where(table.notna(), None)
    return [[m, *(cells.at[m, g] for g in groups)] for m in frame["method"].unique()]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def show(rows: Sequence[Sequence[Any]]) -> str:
    """Rows as text."""
    return "\n".join("  ".join(_text(cell) for cell in row) for row in rows)


def _text(cell: Any) -> str:
    if cell is None:
        return f"{'-':12}"
    if isinstance(cell, dict):
        return f"{cell['value']:5.2f} ± {cell['se']:.2f}"
    return f"{cell:8.1f}" if isinstance(cell, float) else f"{cell:22}"


def results(frame: pd.DataFrame, title: str, command: str, trials: int) -> dict[str, Any]:
    """The content of a results file."""
    marks = [mark for mark in MARKS if mark in frame]
    groups = [name for name in GROUPS if name in set(frame["group"])]
    after = [{"name": f"after {mark}", "digits": 2} for mark in marks]
    method = {"name": "method", "code": True}
    once = frame.drop_duplicates(["problem", "seed"])
    counts, seeds = once["group"].value_counts(), once.groupby("group")["seed"].nunique()
    sizes = ", ".join(
        f"{counts[name]} in {name} ({_count(seeds[name], 'seed')})" for name in groups
    )
    methods = set(frame["method"])
    others = [tool for peer, tool in OTHER_TOOLS.items() if peer in methods]
    packages = [*PACKAGES, *TO_INSTALL, *(name for name, _ in others)]
    views = {"question-alone": QUESTION} if title.startswith(PEERS_TITLE) else {}
    return {
        "title": title,
        "date": str(date.today()),
        "machine": f"{os.cpu_count()} cores, one thread per run, other work on the machine",
        "versions": ", ".join(
            [f"rankwise {rankwise.__version__}", *(f"{p} {version(p)}" for p in packages)]
        ),
        "command": [
            f"pip install {' '.join(TO_INSTALL)}",
            *(install for _, install in others),
            command,
        ],
        "protocol": f"{trials} trials; runs of each method: {sizes}. "
        "Peers run with their defaults. Losses that are equal to eight digits "
        f"share a rank. Missing runs: {int(frame[marks[0]].isna().sum())}. "
        f"Random proposals because a surrogate failed: {int(frame['fallbacks'].sum())}.",
        "tables": {
            "rank": {
                "about": "Average rank, ± its standard error over problems and seeds. Smaller is "
                "better.",
                "columns": [{"name": "problems"}, method, *after],
                "rows": rank_rows(frame),
            },
            "seconds": {
                "about": f"Milliseconds of the processor per proposal, mean over {trials} trials.",
                "columns": [method, *({"name": name, "digits": 1} for name in groups)],
                "rows": second_rows(frame),
            },
        },
        "views": views,
    }


# ---------------------------------------------------------------------- the command


def main() -> None:
    """Run what is missing, then report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--split", choices=SPLITS, default="report")
    parser.add_argument("--seeds", type=int, default=2, help="how many, from 0")
    parser.add_argument("--trials", type=int, default=50, help="trials per run")
    known = [*ALL_PEERS, *rankwise.methods.available()]
    parser.add_argument("--methods", type=partial(parse_methods, known=known), default=METHODS)
    parser.add_argument(
        "--problems", default="", help="only those that contain one of these texts"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/alone-peers"), help="folder of runs"
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="data folder")
    parser.add_argument("--results", type=Path, help="results file to write")
    parser.add_argument("--title", default=PEERS_TITLE, help="title of the results file")
    parser.add_argument("--partial", action="store_true", help="run nothing; see the docstring")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    if not arguments.data.is_dir():
        parser.error(f"there is no data folder {arguments.data}")
    data, out = arguments.data.resolve(), arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    wanted = arguments.problems.split(",")
    problems = [n for n in names(arguments.split, data) if any(text in n for text in wanted)]
    cells = [
        Cell(problem, method, seed, arguments.trials)
        for seed in range(arguments.seeds)
        for problem in problems
        for method in arguments.methods
    ]
    if not arguments.partial:
        run_cells(cells, arguments.split, data, out)
    frame = tabulate(cells, arguments.split, data, out)
    if arguments.partial and arguments.results:
        frame = with_earlier(frame, arguments.results.with_suffix("") / "runs.csv")
    print(show(rank_rows(frame)), show(second_rows(frame)), sep="\n\n")
    if arguments.results:
        words = f"--split {arguments.split} --seeds {arguments.seeds} --trials {arguments.trials}"
        words += f" --problems {arguments.problems}" if arguments.problems else ""
        given = ",".join(arguments.methods)
        words += f" --methods {given}" if given != METHODS else ""
        command = f"python benchmarks/alone_peers.py {words} --data ../shared/data"
        content = results(frame, arguments.title, command, arguments.trials)
        arguments.results.write_text(json.dumps(content, indent=1) + "\n")
        folder = arguments.results.with_suffix("")
        folder.mkdir(exist_ok=True)
        shown = frame.drop(columns=["group", "seconds", "fallbacks"])
        shown.to_csv(folder / "runs.csv", index=False, float_format="%.9g")


if __name__ == "__main__":
    main()
