"""Objectives that decide what to ask for while they run, without past studies.

    python benchmarks/define_by_run.py --results benchmarks/results/define-by-run.json

Two synthetic objectives, one like the tuning of boosted trees and one like that of a network: a
choice or a number decides which hyperparameters are asked for. A sampler sees only what is asked.
The smallest value of both is 0. Samplers have their defaults; `RankwiseSampler` has no archive.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import warnings
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")})

import numpy as np
import optuna

from rankwise import RankwiseSampler

MARKS = (10, 20, 30, 60)
SAMPLERS: dict[str, Callable[[int], optuna.samplers.BaseSampler]] = {
    "RankwiseSampler": lambda seed: RankwiseSampler(seed=seed),
    "TPESampler": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "TPESampler, multivariate and grouped": lambda seed: optuna.samplers.TPESampler(
        seed=seed, multivariate=True, group=True
    ),
    "GPSampler": lambda seed: optuna.samplers.GPSampler(seed=seed),
    "RandomSampler": lambda seed: optuna.samplers.RandomSampler(seed=seed),
}


def boosted_trees(trial: optuna.Trial) -> float:
    """A choice of three boosters; two have hyperparameters of their own."""
    booster = trial.suggest_categorical("booster", ["gbtree", "gblinear", "dart"])
    loss = 0.1 * (math.log10(trial.suggest_float("lambda", 1e-8, 1.0, log=True)) + 3) ** 2 / 9
    loss += 0.05 * (math.log10(trial.suggest_float("alpha", 1e-8, 1.0, log=True)) + 6) ** 2 / 36
    if booster == "gblinear":
        return loss + 0.25
    depth = trial.suggest_int("max_depth", 1, 12)
    eta = math.log10(trial.suggest_float("eta", 1e-4, 1.0, log=True))
    rounds = math.log10(trial.suggest_int("rounds", 20, 2000, log=True))
    gamma = math.log10(trial.suggest_float("gamma", 1e-8, 1.0, log=True))
    loss += 0.3 * ((depth - 6) / 11) ** 2 + 0.15 * (eta + rounds - 1.3) ** 2 / 4
    loss += 0.1 * (eta + 1.2) ** 2 / 4 + 0.02 * (gamma + 4) ** 2 / 16
    if booster == "gbtree":
        return loss + 0.03
    rate_drop = trial.suggest_float("rate_drop", 0.0, 1.0)
    skip_drop = trial.suggest_float("skip_drop", 0.0, 1.0)
    return loss + 0.2 * (rate_drop - 0.15) ** 2 + 0.1 * (skip_drop - 0.5) ** 2


def network(trial: optuna.Trial) -> float:
    """A number of layers, each with a width and a dropout, and one of two optimizers."""
    layers = trial.suggest_int("layers", 1, 4)
    loss = 0.05 * (layers - 3) ** 2
    for layer in range(layers):
        width = math.log2(trial.suggest_int(f"width_{layer}", 4, 512, log=True))
        dropout = trial.suggest_float(f"dropout_{layer}", 0.0, 0.7)
        loss += (0.2 * (width - 7 + layer) ** 2 / 12 + 0.2 * (dropout - 0.2) ** 2) / layers
    rate = math.log10(trial.suggest_float("rate", 1e-5, 1e-1, log=True))
    if trial.suggest_categorical("optimizer", ["adam", "sgd"]) == "adam":
        return loss + 0.15 * (rate + 3) ** 2 / 4
    momentum = trial.suggest_float("momentum", 0.0, 0.99)
    return loss + 0.05 + 0.15 * (rate + 1.5) ** 2 / 4 + 0.1 * (momentum - 0.9) ** 2


OBJECTIVES = {"boosted trees": boosted_trees, "network": network}


def run(objective: Callable[[optuna.Trial], float], sampler: str, seed: int) -> list[float]:
    """The smallest value so far after each of `MARKS` trials, and processor seconds in all."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = optuna.create_study(sampler=SAMPLERS[sampler](seed))
        start = time.process_time()
        study.optimize(objective, n_trials=MARKS[-1])
    best = np.minimum.accumulate([trial.value for trial in study.trials])
    return [*(float(best[mark - 1]) for mark in MARKS), time.process_time() - start]


def measure(seeds: int) -> list[list[Any]]:
    """Rows of (objective, sampler, mean and standard error per mark, seconds of a study)."""
    rows: list[list[Any]] = []
    for title, objective in OBJECTIVES.items():
        for sampler in SAMPLERS:
            found = np.array([run(objective, sampler, seed) for seed in range(seeds)])
            mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / math.sqrt(seeds)
            cells = [
                {"value": round(m, 4), "se": round(e, 4)}
                for m, e in zip(mean[:-1].tolist(), error[:-1].tolist(), strict=True)
            ]
            rows.append([title, sampler, *cells, round(float(mean[-1]), 1)])
            print(title, sampler, *np.round(mean, 4), flush=True)
    return rows


def main() -> None:
    """Run everything and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--results", type=Path, help="results file to write")
    arguments = parser.parse_args()
    rows = measure(arguments.seeds)
    if not arguments.results:
        return
    marks = [{"name": f"after {mark}", "digits": 3} for mark in MARKS]
    content = {
        "title": "Objectives that decide what to ask for while they run",
        "date": str(date.today()),
        "machine": f"{os.cpu_count()} cores, one thread, other work on the machine",
        "versions": f"rankwise {version('rankwise')}, optuna {version('optuna')}",
        "command": [f"python benchmarks/define_by_run.py --seeds {arguments.seeds}"],
        "protocol": f"{MARKS[-1]} trials, {arguments.seeds} seeds; no past studies.",
        "tables": {
            "value": {
                "about": "Smallest value so far (0 is the optimum), mean ± standard error, and "
                "processor seconds of a whole study.",
                "columns": [
                    {"name": "objective"},
                    {"name": "sampler"},
                    *marks,
                    {"name": "seconds", "digits": 1},
                ],
                "rows": rows,
            }
        },
    }
    arguments.results.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
