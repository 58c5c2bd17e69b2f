"""Processor time of one proposal of `mbo` and of Optuna's GP sampler in six dimensions.

    python benchmarks/alone_speed.py --results benchmarks/results/alone-speed.json

measures after 50 to 2000 trials; three times up to 500 trials, once above. Also batches of `mbo`.
One process, one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")})

import numpy as np

import rankwise

SIZES = (50, 200, 500, 1000, 2000)
BATCHES = (1, 4, 8)
REPEATED = 500  # most trials after which a proposal is measured three times
PACKAGES = ("optuna", "torch", "greenlet")


def measure() -> list[list[Any]]:
    """Rows of (trials, milliseconds of mbo and of GPSampler per proposal, their ratio)."""
    rows = []
    of_mbo(SIZES[0], 0), of_optuna(SIZES[0], 0)  # warms up
    for n in SIZES:
        seeds = range(1, 4) if n <= REPEATED else range(1, 2)
        pairs = [(of_mbo(n, seed), of_optuna(n, seed)) for seed in seeds]
        ours, theirs = np.median(pairs, axis=0).tolist()
        rows.append([n, round(1e3 * ours, 1), round(1e3 * theirs, 1), round(ours / theirs, 3)])
        print(rows[-1], flush=True)
    return rows


def measure_batches() -> list[list[Any]]:
    """Rows of (trials, milliseconds of mbo for 1, 4 and 8 proposals at once)."""
    rows = []
    for n in SIZES[:2]:
        seconds = [[of_mbo(n, seed, q) for seed in range(1, 4)] for q in BATCHES]
        rows.append([n, *np.round(1e3 * np.median(seconds, axis=1), 1).tolist()])
        print(rows[-1], flush=True)
    return rows


def explored(n: int, seed: int) -> tuple[list[dict[str, float]], list[float]]:
    """Random configurations of six floats and the losses of a valley."""
    X = np.random.default_rng([seed, n]).uniform(-5.0, 5.0, (n, 6))
    losses = np.square(X[:, 1:] - 0.5 * X[:, :-1]).sum(axis=1) + np.square(X - 1).sum(axis=1)
    return [{f"x{j}": float(v) for j, v in enumerate(row)} for row in X], losses.tolist()


def of_mbo(n: int, seed: int, batch: int = 1) -> float:
    """Seconds of mbo for a batch of proposals after n trials."""
    space = {f"x{j}": (-5.0, 5.0) for j in range(6)}
    optimizer = rankwise.Optimizer(space, method="mbo", seed=seed)
    for configuration, loss in zip(*explored(n, seed), strict=True):
        optimizer.tell(configuration, loss)
    start = time.process_time()
    optimizer.ask(batch)
    return time.process_time() - start


def of_optuna(n: int, seed: int) -> float:
    """Seconds of a proposal of Optuna's GP sampler after n trials."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = {f"x{j}": optuna.distributions.FloatDistribution(-5.0, 5.0) for j in range(6)}
    study = optuna.create_study(sampler=optuna.samplers.GPSampler(seed=seed))
    trials = [
        optuna.trial.create_trial(params=configuration, distributions=space, value=loss)
        for configuration, loss in zip(*explored(n, seed), strict=True)
    ]
    study.add_trials(trials)
    start = time.process_time()
    study.ask(space)
    return time.process_time() - start


def _count(proposals: int) -> str:
    return "1 proposal" if proposals == 1 else f"{proposals} proposals"


def main() -> None:
    """Measure and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=Path, help="results file to write")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    rows, batches = measure(), measure_batches()
    if not arguments.results:
        return
    columns = [
        {"name": "trials"},
        {"name": "mbo", "digits": 1},
        {"name": "GPSampler", "digits": 1},
        {"name": "mbo : GPSampler", "significant": 2},
    ]
    content = {
        "title": "Processor time of a proposal of mbo and of Optuna's GP sampler",
        "date": str(date.today()),
        "machine": f"{os.cpu_count()} cores, one thread, much other work on the machine",
        "versions": ", ".join(
            [f"rankwise {rankwise.__version__}", *(f"{p} {version(p)}" for p in PACKAGES)]
        ),
        "command": ["python benchmarks/alone_speed.py"],
        "protocol": "Random trials of a valley in six floats; medians of three proposals up to "
        f"{REPEATED} trials, one proposal above. Both take turns in one run.",
        "tables": {
            "milliseconds": {
                "about": "Milliseconds of the processor per proposal, and their ratio.",
                "columns": columns,
                "rows": rows,
            },
            "batches": {
                "about": "Milliseconds of the processor for proposals of mbo that are asked for "
                "at once.",
                "columns": [
                    {"name": "trials"},
                    *({"name": _count(q), "digits": 1} for q in BATCHES),
                ],
                "rows": batches,
            },
        },
    }
    arguments.results.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
