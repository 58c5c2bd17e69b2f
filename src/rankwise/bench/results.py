"""What a benchmark run leaves behind, as the report sees it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rankwise.types import Array


@dataclass(frozen=True)
class Run:
    """One method on one task with one seed.

    Attributes:
        benchmark: its name, modifiers included.
        task: name of the task that was optimised.
        method: as it was written, options included.
        seed: of the run.
        initial: given points that it began with.
        trials: proposals that were to be evaluated after them.
        regrets: normalised regret (trials + 1,) of the best so far, after the initial points and
            after each trial; None if the run is missing.
        seconds: of each proposal that was made: fewer than `trials` if the optimum was found.
        fallbacks: proposals that were random because the surrogate failed.
        error: why the run is missing; "" if it is not.
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
