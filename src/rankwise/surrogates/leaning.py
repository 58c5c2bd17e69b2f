"""A model of the study alone that leans on an order which is known before: that of the past."""

from __future__ import annotations

import copy

import numpy as np
from typing_extensions import Self

from rankwise.surrogates.base import Posterior, Surrogate
from rankwise.task import Task
from rankwise.types import Array, Foresight


class LeaningSurrogate(Surrogate):
    """Losses are `lean` times the foreseen numbers plus what a surrogate learns of the rest.

    Args:
        base: learns the rest; it predicts in units of the loss.
        foresight: from configurations (n, d) to numbers (n,), the smallest is expected to be the
            best.
        lean: how far it is followed, in units of the loss for one of the foreseen numbers; below
            zero: backwards.
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
    """The places (n,) of X (n, d) among other points (m, d), from 0, by a surrogate's mean ranks.

    Ranks depend on the set that is asked about. How many of the same points are better does not:
    it is the rank among all less the rank among X alone, for each ranker of an ensemble.
    """
    alone = surrogate.predict(X).mean
    together = surrogate.predict(np.concatenate([X, reference])).mean[: len(X)]
    # The second part is below one place: it orders those before the first and after the last.
    places: Array = together - alone + alone / (10 * len(X))
    return places
