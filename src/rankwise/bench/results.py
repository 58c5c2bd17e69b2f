"""`Run`: the result of one method on one task with one seed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rankwise.types import Array


@dataclass(frozen=True)
class Run:
    """Result of one method on one task with one seed.

    Attributes:
        benchmark: name of the benchmark, with modifiers.
        task: name of the task that was optimized.
        method: name of the method, with options.
        seed: seed of the run.
        initial: number of given initial points.
        trials: number of proposals after the initial points.
        regrets: normalized regret (trials + 1,) of the best loss so far, after the initial points
            and after each trial; None if the run is missing.
        seconds: seconds of each proposal; fewer than `trials` if the optimum was found.
        fallbacks: number of random proposals made because the surrogate failed.
        error: reason if the run is missing, else "".
    """

    benchmark: str
    task: str
    method: str
    seed: int
    initial: int
    trials: int
    regrets: Array | None
    seconds: Array = field(default_factory=lambda: np.empty(0))
    fallbacks: int = 0
    error: str = ""
