"""Surrogate of the target task that uses the predictions of source tasks as a trend."""

from __future__ import annotations

import copy

import numpy as np
from typing_extensions import Self

from rankwise.history.task import Task
from rankwise.surrogates.base import Posterior, Surrogate
from rankwise.types import Array, Foresight


class LeaningSurrogate(Surrogate):
    """Models losses as `lean` times a trend plus a surrogate of the residuals.

    Args:
        base: surrogate of the residuals; it predicts in units of the loss.
        foresight: the trend, a function that maps configurations (n, d) to predictions (n,) of
            the source tasks; the smallest is predicted to be the best.
        lean: slope of the trend in units of the loss; negative if source tasks have the opposite
            order.
    """

    def __init__(self, base: Surrogate, foresight: Foresight, lean: float) -> None:
        self.base, self.foresight, self.lean = base, foresight, lean

    def fit(self, task: Task) -> Self:
        rest = task.losses - self.lean * self.foresight(task.X)
        self.base.fit(Task.of(task.X, rest, context=task.context))
        return self

    def believing(self, X: Array) -> Self:
        twin = copy.copy(self)
        twin.base = self.base.believing(X)
        return twin

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        X = np.asarray(X, dtype=float)
        rest = self.base.predict(X, joint=joint)
        return Posterior(rest.mean + self.lean * self.foresight(X), rest.std, rest.covariance)


def places_among(reference: Array, surrogate: Surrogate, X: Array) -> Array:
    """Return the mean number (n,) of reference points that rank better than each row of X.

    Ranks depend on the other points of a prediction; the number of better reference points does
    not. It is the rank among all points minus the rank among X alone. The mean is over the members
    of the surrogate's ensemble.

    Args:
        reference: reference points (m, d).
        surrogate: fitted surrogate that predicts ranks.
        X: configurations (n, d).
    """
    alone = surrogate.predict(X).mean
    together = surrogate.predict(np.concatenate([X, reference])).mean[: len(X)]
    # The second term is smaller than one and breaks ties before the first and after the last.
    places: Array = together - alone + alone / (10 * len(X))
    return places
