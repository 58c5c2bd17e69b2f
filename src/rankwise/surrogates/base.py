"""The contract between surrogates and everything else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from typing_extensions import Self

from rankwise.errors import OptionError
from rankwise.task import Task
from rankwise.types import Array

Moments: TypeAlias = tuple[Array, Array, Array | None]
"""Mean and variance (n,), and the covariance (n, n) if it was asked for."""


@dataclass(frozen=True)
class Posterior:
    """What a surrogate believes about the thing to minimise at n points.

    Attributes:
        mean: (n,), lower is better.
        std: (n,), never negative.
        covariance: (n, n) if it was asked for and the surrogate knows it.
    """

    mean: Array
    std: Array
    covariance: Array | None = None

    def draw(self, rng: np.random.Generator) -> Array:
        """One sample (n,); independent between points when the covariance is unknown."""
        if self.covariance is None:
            return self.mean + self.std * rng.normal(size=len(self.mean))
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        sample: Array = self.mean + root @ rng.normal(size=len(values))
        return sample


def moments_of_mixture(
    parts: Sequence[tuple[Array, Array]], covariances: Sequence[Array] | None = None
) -> Moments:
    """Of the equal mixture of distributions.

    Args:
        parts: mean (n,) and variance (n,) of each.
        covariances: (n, n) of each; without them the mixture has none.
    """
    means, variances = (np.stack(moments) for moments in zip(*parts, strict=True))
    mean, covariance = means.mean(axis=0), None
    if covariances is not None:
        deviation = means - mean
        covariance = np.mean(covariances, axis=0) + deviation.T @ deviation / len(means)
    return mean, variances.mean(axis=0) + means.var(axis=0), covariance


class Surrogate(ABC):
    """Learns from tasks, predicts a posterior.

    A surrogate knows nothing of spaces, storages or acquisitions: matrices in, numbers out.
    """

    relative = False
    """Whether what is predicted of a point depends on the others that are asked about with it,
    as ranks do. Predictions of two calls cannot be compared then."""

    @property
    def foresees(self) -> bool:
        """Whether it says more, before any evaluation, than the mean of past tasks' functions.

        By how much configurations differ, that is, or how that depends on the data.
        """
        return not self.relative

    revisits = False
    """Whether it may promise an improvement next to what was evaluated again and again, as a model
    does that takes differences for noise."""

    @property
    def in_losses(self) -> bool:
        """Whether predictions are in units of the loss, not of a score made of losses."""
        return True

    @property
    def believes(self) -> bool:
        """Whether it has `believing`."""
        return type(self).believing is not Surrogate.believing

    def meta_fit(self, tasks: Sequence[Task], validation: Sequence[Task] = ()) -> Self:
        """Learn from past tasks. A surrogate without transfer has nothing to do."""
        return self

    @abstractmethod
    def fit(self, task: Task) -> Self:
        """Learn from the target's history so far; it may be empty."""

    trust: float | None = None
    """How probable it is that the past applies to the task; None: there is no telling."""

    sources: dict[str, float] | None = None
    """The share that each past task has in what is believed, by name, from most to least; None:
    there is no telling."""

    similarities: dict[str, float] | None = None
    """How similar each past task is held to be, from 0 to 1, by name, from most to least; None: it
    is not compared as such, and `sources` says how much it counts."""

    def improvement(self, X: Array) -> Array | None:
        """Logarithm of the expected improvement (n,) at X (n, d), up to a constant.

        None if it follows from the posterior's mean and standard deviation, as it does for a
        surrogate that is one model.
        """
        return None

    def slope(self, x: Array) -> tuple[float, Array] | None:
        """The value of `improvement` at x (d,) and its gradient (d,), if it is known."""
        return None

    def believing(self, X: Array) -> Self:
        """This surrogate as if its posterior mean had been observed at X (m, d)."""
        raise OptionError(f"{type(self).__name__} cannot believe: choose another liar")

    @abstractmethod
    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        """The posterior at X (n, d).

        Args:
            X: points in the unit cube.
            joint: fill in the covariance, if the surrogate has one.
        """
