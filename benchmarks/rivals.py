"""What methods of one Gaussian process per past study cost as the past grows, and a cap on rows.

    python benchmarks/rivals.py scale
    python benchmarks/rivals.py cap
    python benchmarks/rivals.py published --results ../shared/data/hpob-results

- `scale`: up to 500 past studies of 200 trials of six floats. Seconds to learn them, milliseconds
  per proposal (`strategy.propose`) of a study with n observations, and the most memory that the
  process held, which learns and proposes.
- `cap`: regret on related synthetic tasks, after past studies of 200 trials of which a process is
  conditioned on so many rows at most. Nothing is given at the start: the past proposes first.
- `published`: how HPO-B's own runs rank methods, of which some are ours as well: 16 spaces, 86
  tasks, 5 seeds, 5 initial points. Mean rank over tasks and seeds, and mean regret.

One thread. Seconds are those of the processor; milliseconds are medians. `--quick` says little.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import zlib
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata
from transfer import (
    COLUMNS,
    FOLDER,
    SPACE,
    begin,
    learn,
    machine,
    markdown,
    megabytes,
    quadratic,
    seconds,
)

from rankwise.bench.base import OpenProblem
from rankwise.bench.published import MARK, read_published
from rankwise.bench.synthetic_families import family, make_loss
from rankwise.errors import check_name
from rankwise.history.task import Task, TaskSet
from rankwise.run.optimizer import Optimizer
from rankwise.space.encoder import Encoder

METHODS = ("rgpe", "tst", "taf")
PAST_TRIALS = 200

# ---------------------------------------------------------------------- scale

STUDIES, OBSERVATIONS, PROPOSALS = (10, 50, 200, 500), (5, 20, 50), 5
CHILD = "import sys, rivals; rivals.print_one(*sys.argv[1:])"


def scale(quick: bool) -> str:
    studies, proposals = (STUDIES[:2], 1) if quick else (STUDIES, PROPOSALS)
    rows = []
    for name, count in product(METHODS, studies):
        # Linux counts in the memory of a process what its parent held when it was started: here
        # nothing but the modules that it needs itself.
        command = [sys.executable, "-c", CHILD, name, str(count), str(proposals)]
        out = subprocess.run(
            command, cwd=FOLDER, check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        one = json.loads(out.splitlines()[-1])
        print(f"{name} with {count} studies: {one}", file=sys.stderr, flush=True)
        memory = round(one["imports"]), round(one["memory"])
        rows.append([name, count, one["learn"], *(1e3 * s for s in one["propose"]), *memory])
    note = (
        f"{COLUMNS} floats; past studies of {PAST_TRIALS} trials of shifted quadratics with "
        f"noise. Processor seconds of learning; processor milliseconds of a proposal, medians of "
        f"{proposals}, after n observations, the first of all proposals left out."
    )
    header = ["method", "studies", "learn s", *(f"n = {n} ms" for n in OBSERVATIONS)]
    return f"{note}\n\n{markdown([*header, 'MB with imports alone', 'MB at most'], rows)}"


def print_one(name: str, count: str, proposals: str) -> None:
    """Measure one size and print it as JSON; this is run in a process of its own."""
    begin()
    print(json.dumps(scale_one(name, int(count), int(proposals))))


def scale_one(name: str, count: int, proposals: int) -> dict[str, Any]:
    """Seconds and megabytes of a method with so many past studies."""
    imports, encoder, rng = megabytes(), Encoder(SPACE), np.random.default_rng(count)
    past = [quadratic(PAST_TRIALS, rng, f"past-{k}") for k in range(count)]
    start = time.process_time()
    strategy = learn(name, encoder, past)
    learnt = time.process_time() - start
    nothing = np.empty((0, COLUMNS))
    strategy.propose(quadratic(10, rng), nothing, rng)
    propose = [
        statistics.median(
            seconds(partial(strategy.propose, quadratic(n, rng, explored=True), nothing, rng))
            for _ in range(proposals)
        )
        for n in OBSERVATIONS
    ]
    return {"imports": imports, "memory": megabytes(), "learn": learnt, "propose": propose}


# ---------------------------------------------------------------------- cap

FAMILIES, CAPS, TRIALS, SEEDS = ("branin", "hartmann"), (20, 50, 100, 200), 20, 4


def cap(quick: bool, families: Sequence[str]) -> str:
    caps, trials, seeds, tasks = CAPS, TRIALS, SEEDS, None
    if quick:
        families, caps, trials, seeds, tasks = families[:1], CAPS[:2], 5, 1, 1
    rows = []
    for name in families:
        benchmark = family(name)
        past = long_past(name, benchmark.encoder, (*benchmark.train, *benchmark.validation))
        problems = [benchmark.problem(task) for task in benchmark.test[:tasks]]
        for method, count in product(METHODS, caps):
            optimizer = Optimizer(
                benchmark.encoder, method=method, tasks=past, seed=0, rows=count, progress=False
            )
            curves = np.array(
                [
                    regrets(optimizer.restarted(seed=seed), problem, trials)
                    for problem, seed in product(problems, range(seeds))
                ]
            )
            means, error = curves.mean(axis=1), curves.mean(axis=1).std() / len(curves) ** 0.5
            last = float(curves[:, -1].mean())
            rows.append([name, method, count, float(means.mean()), float(error), last])
            print(rows[-1], file=sys.stderr, flush=True)
    note = (
        f"Past studies of {PAST_TRIALS} trials, of which a process is conditioned on so many "
        f"rows. Normalised regret, mean over {len(problems)} tasks x {seeds} seeds: averaged over "
        f"{trials} trials, its standard error, and after the last one."
    )
    header = ["family", "method", "rows", f"mean of trials 1-{trials}", "+-", f"trial {trials}"]
    return f"{note}\n\n{markdown(header, rows)}"


def long_past(name: str, encoder: Encoder, tasks: Sequence[str]) -> TaskSet:
    """Past studies of a family with more random trials than its benchmark has."""
    histories = []
    for task in tasks:
        codes = encoder.sample_codes(PAST_TRIALS, np.random.default_rng(zlib.crc32(task.encode())))
        losses = make_loss(name, task, 1.0).at(codes)
        histories.append(Task.of(encoder.encode_codes(codes), losses, name=task))
    return TaskSet(tuple(histories), (), encoder.fingerprint)


def regrets(optimizer: Optimizer, problem: OpenProblem, trials: int) -> np.ndarray:
    """Normalised regret (trials,) of the best so far."""
    losses = []
    for _ in range(trials):
        [configuration] = optimizer.ask()
        losses.append(problem.evaluate(configuration))
        optimizer.tell(configuration, losses[-1])
    return problem.regrets(np.array(losses))


# ---------------------------------------------------------------------- published

MARKS = (1, 5, 10, 30, 50, 100)


def published(results: Path, methods: Sequence[str], spaces: Sequence[str] | None) -> str:
    """Mean ranks among each other and regrets of published methods, all if none is named."""
    runs = [run for run in read_published(results, spaces=spaces) if run.regrets is not None]
    names = sorted({run.method for run in runs})
    if not names:
        raise SystemExit(f"there are no published runs on spaces {', '.join(spaces or [])}")
    if methods:
        known = [name.removesuffix(MARK) for name in names]
        names = [check_name("published method", name, known) + MARK for name in methods]
    curves = {(run.method, run.benchmark, run.task, run.seed): run.regrets for run in runs}
    cases = sorted({key[1:] for key in curves})
    cases = [case for case in cases if all((name, *case) in curves for name in names)]
    regret = np.array([[curves[(name, *case)] for name in names] for case in cases])
    ranks = rankdata(regret[:, :, MARKS].round(9), axis=1).mean(axis=0)
    means = regret[:, :, MARKS].mean(axis=0)
    rows = [
        [names[k].removesuffix(MARK), *(f"{r:.2f}" for r in ranks[k]), *means[k].tolist()]
        for k in np.argsort(ranks[:, MARKS.index(30)])
    ]
    header = ["method", *(f"rank after {n}" for n in MARKS), *(f"regret after {n}" for n in MARKS)]
    return f"{len(cases)} pairs of task and seed.\n\n{markdown(header, rows)}"


# ---------------------------------------------------------------------- the command


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parts = parser.add_subparsers(dest="part", required=True)
    summaries = {
        "scale": "learning, proposals and memory as the past grows",
        "cap": "regret with fewer rows of each past study",
        "published": "the order of methods in HPO-B's own runs",
    }
    for name, summary in summaries.items():
        part = parts.add_parser(name, help=summary)
        if name == "published":
            part.add_argument("--results", type=Path, default=Path("../shared/data/hpob-results"))
            part.add_argument("--methods", nargs="+", default=[], help="only these")
            part.add_argument("--spaces", nargs="+", help="ids of the only search spaces")
        else:
            part.add_argument("--quick", action="store_true", help="a trial run that says little")
        if name == "cap":
            part.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES)
    arguments = parser.parse_args()
    begin()
    load = os.getloadavg()[0]
    if arguments.part == "published":
        text = published(arguments.results, arguments.methods, arguments.spaces)
    elif arguments.part == "cap":
        text = cap(arguments.quick, arguments.families)
    else:
        text = scale(arguments.quick)
    print(f"{machine(load, ('rankwise', 'numpy', 'scipy'))}\n\n{text}")


if __name__ == "__main__":
    main()
