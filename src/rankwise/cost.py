"""How long will an evaluation take? A surrogate of the logarithm of the seconds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rankwise.surrogates.base import Surrogate
from rankwise.task import Task
from rankwise.types import Array

_SHORTEST = 1e-4  # seconds; below it, clocks and overheads say more than the configuration


class CostModel:
    """Predicts cost from the seconds of the evaluations so far, failed ones included.

    Args:
        make_surrogate: makes the surrogate that is fitted to log seconds.
    """

    def __init__(self, make_surrogate: Callable[[], Surrogate]) -> None:
        self._make_surrogate = make_surrogate
        self._surrogate: Surrogate | None = None

    def fit(self, task: Task) -> CostModel:
        """Learn from the evaluations of a task whose seconds are known."""
        known = np.isfinite(task.cost) & (task.cost >= 0)
        self._surrogate = None
        if known.sum() >= 2:
            log_seconds = np.log(np.maximum(task.cost[known], _SHORTEST))
            self._surrogate = self._make_surrogate().fit(Task.of(task.X[known], log_seconds))
        return self

    def predict(self, X: Array) -> Array:
        """-log E[1 / seconds] (n,) at X (n, d); zeros while too little is known.

        With log seconds normal, E[1 / seconds] = exp(-mean + variance / 2).
        """
        if self._surrogate is None:
            return np.zeros(len(X))
        posterior = self._surrogate.predict(X)
        return posterior.mean - 0.5 * posterior.std**2
