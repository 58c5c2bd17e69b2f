"""Methods without a past: what proposals cost, how far they can be believed, where they go.

    python benchmarks/alone.py cost
    python benchmarks/alone.py calibration
    python benchmarks/alone.py plateau --repeats 100
    python benchmarks/alone.py edges --out runs/alone --on hpobench-mlp

- `cost`: a proposal (`strategy.propose`) in a space of six floats after 50 and after 200
  evaluations, for every method, in units of the forest's. Methods with a past learnt ten studies
  of 50 trials before, for a few steps only: how long a proposal takes does not depend on it. All
  methods take turns, so that other work on the machine hits all of them.
- `calibration`: surrogates that learn one study alone on three functions without noise. Of other
  points, the share within the central 50 % and 90 % of what is predicted, the correlation of
  mean and truth, and minus the log density per point, the truth having variance one. Medians over
  draws of the evaluated points.
- `plateau`: tables of 288 configurations of six floats, of which some, those nearest to a random
  one, are good and all others are equally bad, as in small data sets of real tables. The share of
  tables in which a method finds a good one in 30 trials, after five bad ones.
- `edges`: of the runs of `rankwise bench run` in a folder, the share of values in the trials 1 to
  5 and 16 to 30 that are the smallest or the largest of their column, and the mean share of the
  table that is better than a trial. Runs that end before are left out.

One thread. Seconds are those of the processor. `--quick` says little.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm
from transfer import COLUMNS, SPACE, begin, machine, markdown, quadratic, seconds

from rankwise import methods
from rankwise.bench import benchmarks as registry
from rankwise.bench import protocol
from rankwise.bench.base import INITIAL, TableProblem
from rankwise.bench.cells import stored_cells
from rankwise.bench.synthetic_families import family
from rankwise.errors import check_name
from rankwise.history.task import Task, TaskSet
from rankwise.run.optimizer import Optimizer
from rankwise.space.encoder import Encoder
from rankwise.strategies.base import Strategy
from rankwise.strategies.model_based import ModelStrategy

# ---------------------------------------------------------------------- cost

OBSERVATIONS, STUDIES, PAST_TRIALS = (50, 200), 10, 50
RANKING, NETWORK, DIST = {"training": {"steps": 20}}, {"steps": 20}, {"steps": 5}
SHORT: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("dre", "dre-data"), RANKING),
    **dict.fromkeys(("fsbo", "dklm", "ablr", "multi-blr", "gcp"), NETWORK),
    **dict.fromkeys(("dist-gp", "dist-blr", "manual-gp", "manual-blr", "multi-gp"), DIST),
}
"""Options with which a method learns the past for a few steps."""


def cost(names: Sequence[str], repeats: int) -> str:
    rng = np.random.default_rng(0)
    past = [quadratic(PAST_TRIALS, rng, f"past-{k}") for k in range(STUDIES)]
    strategies = {name: learnt(name, past) for name in names}
    histories = {
        n: [quadratic(n, rng, explored=True) for _ in range(repeats)] for n in OBSERVATIONS
    }
    nothing, warm_up = np.empty((0, COLUMNS)), quadratic(8, rng)
    times: dict[tuple[str, int], list[float]] = {}
    for strategy in strategies.values():
        strategy.propose(warm_up, nothing, np.random.default_rng(0))  # imports
    for k, n, name in product(range(repeats), OBSERVATIONS, names):
        ask = partial(
            strategies[name].propose, histories[n][k], nothing, np.random.default_rng([k, n])
        )
        times.setdefault((name, n), []).append(seconds(ask))
        print(f"{name}, {n} evaluations: {times[name, n][-1]:.3f} s", file=sys.stderr, flush=True)
    median = {key: statistics.median(values) for key, values in times.items()}
    rows = [
        [
            f"`{name}`",
            *(ratio(median[name, n], median["forest", n]) for n in OBSERVATIONS),
            *(1e3 * median[name, n] for n in OBSERVATIONS),
        ]
        for name in names
    ]
    sizes = [f"{n} evaluations" for n in OBSERVATIONS]
    header = ["method", *(f"{size}, forests" for size in sizes), *(f"{s}, ms" for s in sizes)]
    note = f"{COLUMNS} floats, medians of {repeats} proposals; 1 is the time of `forest`."
    return f"{note}\n\n{markdown(header, rows)}"


def ratio(a: float, b: float) -> str:
    """With two digits; nothing is zero."""
    value = a / b
    return "< 0.01" if value < 0.01 else f"{float(f'{value:.2g}'):g}"


def learnt(name: str, past: Sequence[Task]) -> Strategy:
    """The strategy of a method with its past, if it learns from one."""
    encoder, method = Encoder(SPACE), methods.get(name)
    options = dict(SHORT.get(name, {}))
    if "progress" in method.options:
        options["progress"] = False
    tasks = TaskSet(tuple(past), (), encoder.fingerprint) if method.transfer else ()
    return methods.make(name, encoder, tasks, **options)


# ---------------------------------------------------------------------- calibration

ALONE: dict[str, dict[str, Any]] = {
    "gp": {},
    "forest": {},
    "hebo": {"transform": "standardize"},  # in whose units the truth is known
    "dkgp": {},
    "none-blr": {},
    "dngo": {},
    "bohamiann": {},
    "deep-ensemble": {},
    "mc-dropout": {},
}
FAMILIES, SIZES, OTHERS = ("sinusoids", "branin", "hartmann"), (10, 40), 500


def calibration(names: Sequence[str], repeats: int) -> str:
    rows = []
    for function, n, name in product(FAMILIES, SIZES, names):
        found = [believed(name, function, n, seed) for seed in range(repeats)]
        numbers = (statistics.median(column) for column in zip(*found, strict=True))
        rows.append([function, n, f"`{name}`", *(f"{number:.2f}" for number in numbers)])
        print(rows[-1], file=sys.stderr, flush=True)
    note = f"Medians over {repeats} draws of n points; {OTHERS} others are predicted."
    header = ["function", "n", "method", "within 50 %", "within 90 %", "correlation", "-log p"]
    return f"{note}\n\n{markdown(header, rows)}"


def believed(name: str, function: str, n: int, seed: int) -> tuple[float, ...]:
    """Shares within 50 % and 90 %, correlation, minus the log density, of one draw."""
    benchmark = family(function)
    problem = benchmark.problem(benchmark.validation[0])
    encoder, rng = benchmark.encoder, np.random.default_rng([seed, n])
    X = encoder.sample(n + OTHERS, rng)
    y = np.array([problem.evaluate(configuration) for configuration in encoder.decode(X)])
    strategy = methods.make(name, encoder, **ALONE[name])
    assert isinstance(strategy, ModelStrategy)
    fitted = strategy.make_surrogate(seed).fit(Task.of(X[:n], y[:n]))
    posterior, truth = fitted.predict(X[n:]), y[n:]
    std = np.maximum(posterior.std, 1e-9 * truth.std())
    z = np.abs(truth - posterior.mean) / std
    within = [float(np.mean(z < norm.ppf(0.5 + share / 2))) for share in (0.5, 0.9)]
    varies = posterior.mean.std() > 0
    correlation = float(np.corrcoef(posterior.mean, truth)[0, 1]) if varies else 0.0
    density = norm(posterior.mean / truth.std(), std / truth.std()).logpdf(truth / truth.std())
    return *within, correlation, -float(density.mean())


# ---------------------------------------------------------------------- plateau

SEARCHERS = ("random", "gp", "hebo", "forest", "tpe", "cma-es")
ROWS, TRIALS, GOOD = 288, 30, (0.02, 0.05, 0.2)


def plateau(names: Sequence[str], repeats: int) -> str:
    rows = []
    for name in names:
        optimizer = Optimizer(SPACE, method=name)
        found = [[escaped(optimizer, share, seed) for seed in range(repeats)] for share in GOOD]
        rows.append([f"`{name}`", *(f"{statistics.mean(column):.2f}" for column in found)])
        print(rows[-1], file=sys.stderr, flush=True)
    header = ["method", *(f"{100 * share:g} % good" for share in GOOD)]
    note = f"Share of {repeats} tables in which a good configuration is found in {TRIALS} trials."
    return f"{note}\n\n{markdown(header, rows)}"


def escaped(optimizer: Optimizer, share: float, seed: int) -> bool:
    """Whether a good configuration is found in a table of so many."""
    rng = np.random.default_rng([seed, round(100 * share)])
    X = Encoder(SPACE).sample(ROWS, rng)
    good = np.argsort(np.linalg.norm(X - X[0], axis=1))[: round(share * ROWS)]
    losses = np.ones(ROWS)
    losses[good] = 0.0
    bad = np.flatnonzero(losses)
    first = rng.choice(bad, size=INITIAL, replace=False)
    problem = TableProblem.of(f"plateau-{seed}", X, losses, {seed: first})
    trace = protocol.run(problem, optimizer, seed=seed, initial=INITIAL, trials=TRIALS)
    return trace.regrets[-1] == 0.0


# ---------------------------------------------------------------------- edges

SPANS = (slice(0, 5), slice(15, 30))


def edges(names: Sequence[str] | None, benchmark_name: str, out: Path) -> str:
    benchmark = registry.load(benchmark_name)
    problems = {task: benchmark.problem(task) for task in benchmark.test}
    found: dict[str, list[list[float]]] = {}
    for cell in stored_cells(out):
        if cell.benchmark != benchmark_name or not cell.is_done(out):
            continue
        problem = problems[cell.task]
        assert isinstance(problem, TableProblem)
        points = json.loads(cell.path(out).read_text())["points"]
        rows = np.array(points[cell.initial :], dtype=int)
        if len(rows) == cell.trials >= SPANS[-1].stop:
            found.setdefault(cell.method, []).append(whereabouts(problem, rows))
    rows = [
        [f"`{name}`", len(found[name]), *(f"{number:.2f}" for number in np.mean(found[name], 0))]
        for name in (check_name("method with runs", name, found) for name in names or found)
    ]
    header = ["method", "runs"]
    for span in SPANS:
        header += [f"at an edge, trials {span.start + 1} to {span.stop}", "rows that are better"]
    return markdown(header, rows)


def whereabouts(problem: TableProblem, rows: np.ndarray) -> list[float]:
    """Share of values at an edge and of better rows of the table, for each of `SPANS`."""
    X, losses = problem.X, problem.losses
    at_edge = (X.min(axis=0) >= X) | (X.max(axis=0) <= X)
    better = np.searchsorted(np.sort(losses), losses) / len(losses)
    return [float(part[rows[span]].mean()) for span in SPANS for part in (at_edge, better)]


# ---------------------------------------------------------------------- the command


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parts = parser.add_subparsers(dest="part", required=True)
    summaries = {
        "cost": "seconds per proposal",
        "calibration": "how far predictions hold",
        "plateau": "who leaves a plateau",
        "edges": "where runs of a benchmark went",
    }
    for name, summary in summaries.items():
        part = parts.add_parser(name, help=summary)
        part.add_argument("--methods", help="separated by commas; by default all")
        if name == "edges":
            part.add_argument("--out", type=Path, default=Path("runs/alone"))
            part.add_argument("--on", default="hpobench-mlp", help="a benchmark of tables")
            continue
        part.add_argument("--repeats", type=int, default=5)
        part.add_argument("--quick", action="store_true", help="a trial run that says little")
    arguments = parser.parse_args()
    begin()
    warnings.filterwarnings("ignore", message="no past task")
    load = os.getloadavg()[0]
    named = arguments.methods.split(",") if arguments.methods else None
    if arguments.part == "edges":
        print(edges(named, arguments.on, arguments.out))
        return
    repeats = 1 if arguments.quick else arguments.repeats
    if arguments.part == "cost":
        text = cost(list(dict.fromkeys([*(named or methods.available()), "forest"])), repeats)
    elif arguments.part == "calibration":
        text = calibration(named or list(ALONE), repeats)
    else:
        text = plateau(named or SEARCHERS, repeats)
    print(f"{machine(load, ('rankwise', 'torch', 'numpy', 'scipy', 'scikit-learn'))}\n\n{text}")


if __name__ == "__main__":
    main()
