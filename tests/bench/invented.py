"""Invented runs that look like real ones, for the tests of statistics and reports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankwise.bench.results import Run

METHODS = ("random", "portfolio", "gp", "dre")


def run(method: str, task: str, seed: int, regrets: Sequence[float] | None, **facts) -> Run:
    """A run with regrets written out, or a missing one; `trials` is needed only for the latter."""
    trials = facts.pop("trials", None) if regrets is None else len(regrets) - 1
    curve = None if regrets is None else np.array(regrets, dtype=float)
    fixed = {"benchmark": "made", "initial": 5, **facts}
    return Run(task=task, method=method, seed=seed, trials=trials, regrets=curve, **fixed)


def invented(
    methods: Sequence[str] = METHODS,
    *,
    benchmark: str = "made",
    tasks: int = 6,
    seeds: int = 2,
    initial: int = 5,
    trials: int = 30,
) -> list[Run]:
    """Runs in which later methods are better, on average, and find the optimum more often."""
    rng = np.random.default_rng([tasks, seeds, initial, trials, len(benchmark)])
    runs = []
    for task in range(tasks):
        ease = rng.lognormal(0, 0.5)
        for seed in range(seeds):
            start = rng.uniform(0.2, 0.5) if initial else 1.0
            for quality, method in enumerate(methods):
                pace = (0.02 + 0.03 * quality * rng.lognormal(0, 0.5)) * ease
                drops = rng.exponential(2 * pace, trials) * (rng.random(trials) < 0.4)
                regrets = start * np.exp(-np.r_[0.0, np.cumsum(drops)])
                regrets[regrets < 0.02] = 0.0
                seconds = rng.lognormal(-3 + quality, 0.3, trials)
                facts = (f"task {task}", method, seed, initial, trials)
                runs.append(Run(benchmark, *facts, regrets, seconds))
    return runs
