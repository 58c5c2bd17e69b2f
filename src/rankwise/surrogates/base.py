"""`Surrogate` and `Posterior`: the interface of all surrogates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from typing_extensions import Self

from rankwise.errors import OptionError
from rankwise.history.task import Task
from rankwise.history.transforms import Standardize
from rankwise.types import Array

if TYPE_CHECKING:
    from rankwise.surrogates.transfer_trust import Evidence

Moments: TypeAlias = tuple[Array, Array, Array | None]
"""Mean (n,), variance (n,), and the covariance (n, n) or None."""


@dataclass(frozen=True)
class Posterior:
    """Prediction of a surrogate at n points.

    Attributes:
        mean: mean (n,), lower is better.
        std: standard deviation (n,), never negative.
        covariance: covariance (n, n); None if it was not requested or is not known.
    """

    mean: Array
    std: Array
    covariance: Array | None = None

    @classmethod
    def unscaled(
        cls, transform: Standardize, mean: Array, variance: Array, covariance: Array | None = None
    ) -> Posterior:
        """Convert a posterior of standardized losses to units of the loss.

        Args:
            transform: transform that standardized the losses.
            mean: mean (n,).
            variance: variance (n,).
            covariance: covariance (n, n) or None.
        """
        if covariance is not None:
            covariance = covariance * transform.scale * transform.scale
        return cls(*transform.unscale(mean, np.sqrt(variance)), covariance)

    def draw(self, rng: np.random.Generator) -> Array:
        """Draw a sample (n,); points are independent if the covariance is None."""
        if self.covariance is None:
            return self.mean + self.std * rng.normal(size=len(self.mean))
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        sample: Array = self.mean + root @ rng.normal(size=len(values))
        return sample


def moments_of_mixture(
    parts: Sequence[tuple[Array, Array]], covariances: Sequence[Array] | None = None
) -> Moments:
    """Mean, variance and covariance of a mixture of distributions with equal weights.

    Args:
        parts: mean (n,) and variance (n,) of each distribution.
        covariances: covariance (n, n) of each distribution; without them that of the mixture is
            None.
    """
    means, variances = (np.stack(moments) for moments in zip(*parts, strict=True))
    mean, covariance = means.mean(axis=0), None
    if covariances is not None:
        deviation = means - mean
        covariance = np.mean(covariances, axis=0) + deviation.T @ deviation / len(means)
    return mean, variances.mean(axis=0) + means.var(axis=0), covariance


class Surrogate(ABC):
    """Model of the losses (or ranks) of a task, which predicts a posterior.

    Surrogates work on arrays. They do not depend on search spaces, storages or acquisition
    functions.
    """

    relative = False
    """True if the prediction at a point depends on the other points of the same call, as ranks do.
    Predictions of different calls cannot be compared then."""

    @property
    def foresees(self) -> bool:
        """True if predictions before the first evaluation use more than the mean of source tasks.

        For example, they use how much configurations differ in source tasks, or the context of
        the target task.
        """
        return not self.relative

    revisits = False
    """True if it may predict improvements next to evaluated points again and again, as a model
    does that explains differences by noise."""

    @property
    def in_losses(self) -> bool:
        """True if predictions are in units of the loss, False if they are transformed losses."""
        return True

    @property
    def believes(self) -> bool:
        """True if the surrogate supports `believing`."""
        return type(self).believing is not Surrogate.believing

    def meta_fit(self, tasks: Sequence[Task], validation: Sequence[Task] = ()) -> Self:
        """Learn from source tasks; a no-op for surrogates without transfer."""
        return self

    @abstractmethod
    def fit(self, task: Task) -> Self:
        """Fit the model to the evaluations of the target task, which can be empty."""

    def evidence(self, task: Task) -> Evidence | None:
        """How well source tasks alone predict the order of the target task's trials.

        It needs no `fit`. None if the surrogate has no such prediction.
        """
        return None

    sources: dict[str, float] | None = None
    """Weight of each source task in the prediction by name, largest first; None if unknown."""

    similarities: dict[str, float] | None = None
    """Similarity of each source task to the target task, from 0 to 1, by name, largest first. None
    if the surrogate does not compare tasks; `sources` may have weights then."""

    def improvement(self, X: Array) -> Array | None:
        """Logarithm of the expected improvement (n,) at X (n, d), up to a constant.

        None if it follows from the mean and the standard deviation of the posterior. Mixtures of
        several models return their own.
        """
        return None

    def slope(self, x: Array) -> tuple[float, Array] | None:
        """Value and gradient (d,) of `improvement` at x (d,); None if it is not known."""
        return None

    def believing(self, X: Array) -> Self:
        """A copy that treats its posterior mean at X (m, d) as observed losses."""
        raise OptionError(f"{type(self).__name__} cannot believe: choose another liar")

    @abstractmethod
    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        """Predict the posterior at X (n, d).

        Args:
            X: points (n, d) in the unit cube.
            joint: also compute the covariance, if the surrogate can.
        """
