"""A model of the study alone that leans on an order which is known before: that of the past."""

from __future__ import annotations

import numpy as np
from typing_extensions import Self

from rankwise.surrogates.base import Posterior, Surrogate
from rankwise.task import Task
from rankwise.transforms import Standardize
from rankwise.types import Array, Foresight

_TINY = 1e-12


class LeaningSurrogate(Surrogate):
    """Standardised losses are `lean` times the foreseen numbers plus what a surrogate learns.

    With the foreseen numbers f standardised over the observations, the surrogate is fitted to
    z - lean f, and lean f is added to its posterior mean.

    Args:
        base: learns the rest; it predicts in units of the loss.
        foresight: from configurations (n, d) to numbers (n,), the smallest is expected to be the
            best.
        lean: how far it is followed, in standard deviations of the loss per standard deviation
            of the foreseen numbers; below zero: backwards.
    """

    def __init__(self, base: Surrogate, foresight: Foresight, lean: float) -> None:
        self.base, self.foresight, self.lean = base, foresight, lean

    def fit(self, task: Task) -> Self:
        self._transform, foreseen = Standardize.fit(task.losses), self.foresight(task.X)
        self._center, self._spread = center_and_spread(foreseen)
        losses = self._transform(task.losses) - self._leant(foreseen)
        self.base.fit(Task.of(task.X, losses, context=task.context))
        return self

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        X = np.asarray(X, dtype=float)
        posterior = self.base.predict(X, joint=joint)
        mean = posterior.mean + self._leant(self.foresight(X))
        mean, std = self._transform.unscale(mean, posterior.std)
        covariance = posterior.covariance
        if covariance is not None:
            covariance = covariance * self._transform.scale * self._transform.scale
        return Posterior(mean, std, covariance)

    def _leant(self, foreseen: Array) -> Array:
        leant: Array = self.lean * (foreseen - self._center) / self._spread
        return leant


def center_and_spread(numbers: Array) -> tuple[float, float]:
    """The mean of numbers (n,) and their standard deviation; infinite if they are all the same."""
    center, spread = float(numbers.mean()), float(numbers.std())
    return center, spread if spread > _TINY * max(abs(center), _TINY) else np.inf


def places_among(reference: Array, surrogate: Surrogate, X: Array) -> Array:
    """The places (n,) of X (n, d) among other points (m, d), from 0, by a surrogate's ranks.

    Ranks depend on the set that is asked about; places among the same points do not.
    """
    ranks = surrogate.predict(np.concatenate([X, reference])).mean
    ours, theirs = ranks[: len(X)], np.sort(ranks[len(X) :])
    # The second part is below one place: it orders those before the first and after the last.
    places: Array = np.interp(ours, theirs, np.arange(len(theirs))) + ours / (10 * len(ranks))
    return places
