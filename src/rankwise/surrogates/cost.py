"""Predicts how long an evaluation takes, with a surrogate of log seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import Self

from rankwise.history.task import Task
from rankwise.surrogates.base import Surrogate
from rankwise.types import Array, Mask

_SHORTEST = 1e-4  # seconds; shorter times are mostly overhead
_FEWEST = 3  # seconds that a source task needs
_MOST_ROWS = 2000  # evaluations of source tasks that are used
_FEWEST_OWN = 5  # seconds of this study from which its own differences are modelled


@dataclass(frozen=True)
class CostPrior:
    """What source tasks say about the seconds of configurations, relative to each other.

    Machines and data sets differ, so each task's log seconds are relative to their mean. The mean
    of the target task follows from its own first evaluations.

    Attributes:
        surrogate: model of relative log seconds.
    """

    surrogate: Surrogate

    @classmethod
    def of(cls, tasks: Sequence[Task], make_surrogate: Callable[[], Surrogate]) -> Self | None:
        """Learn the prior; None if no source task has enough evaluations with seconds."""
        X, seconds = [], []
        for task in tasks:
            known = known_seconds(task)
            if known.sum() >= _FEWEST:
                found = log_seconds(task.cost[known])
                X.append(task.X[known])
                seconds.append(found - found.mean())
        if not X:
            return None
        rows, values = np.concatenate(X), np.concatenate(seconds)
        some = np.linspace(0, len(rows) - 1, min(len(rows), _MOST_ROWS)).astype(int)
        return cls(make_surrogate().fit(Task.of(rows[some], values[some])))


class CostModel:
    """Predicts the cost of a configuration from the seconds of all evaluations, also failed ones.

    Args:
        make_surrogate: function that makes the surrogate of log seconds.
        prior: what source tasks say, if there is something.
    """

    def __init__(
        self, make_surrogate: Callable[[], Surrogate], prior: CostPrior | None = None
    ) -> None:
        self._make_surrogate = make_surrogate
        self._prior = prior
        self._surrogate: Surrogate | None = None
        self._mean = 0.0  # of this study's log seconds relative to the prior

    def fit(self, task: Task) -> CostModel:
        """Fit the model to the evaluations whose seconds are known."""
        known = known_seconds(task)
        self._surrogate, self._mean = None, 0.0
        X, seconds = task.X[known], log_seconds(task.cost[known])
        if self._prior is not None and len(seconds):
            seconds = seconds - self._prior.surrogate.predict(X).mean
            self._mean = float(seconds.mean())
        if len(seconds) >= (2 if self._prior is None else _FEWEST_OWN):
            self._surrogate = self._make_surrogate().fit(Task.of(X, seconds))
        return self

    def predict(self, X: Array) -> Array:
        """-log E[1 / seconds] (n,) at X (n, d), up to a constant before the first evaluation.

        It is zero if too few seconds are known: two, or none with a prior. If log seconds are
        normal, E[1 / seconds] = exp(-mean + variance / 2).
        """
        total = np.full(len(X), 0.0 if self._surrogate is not None else self._mean)
        variance = np.zeros(len(X))
        if self._prior is not None:
            prior = self._prior.surrogate.predict(X)
            total, variance = total + prior.mean, prior.std**2
        if self._surrogate is not None:
            own = self._surrogate.predict(X)
            total, variance = total + own.mean, own.std**2
        return total - 0.5 * variance


def known_seconds(task: Task) -> Mask:
    """Mask (n,) of the evaluations whose seconds are known."""
    known: Mask = np.isfinite(task.cost) & (task.cost >= 0)
    return known


def log_seconds(seconds: Array) -> Array:
    """Logarithm of seconds (n,); very short ones count as the same."""
    return np.log(np.maximum(seconds, _SHORTEST))
