"""Base class and helpers of surrogates that are trained from scratch on one study.

They use no past studies. The networks start from random weights at every proposal.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from rankwise._core.threads import one_thread
from rankwise.history.task import Task
from rankwise.history.transforms import Standardize
from rankwise.surrogates.base import Moments, Posterior, Surrogate
from rankwise.surrogates.numeric.batched_networks import (
    Architecture,
    Buffers,
    Scorers,
    forwards,
    outputs_of,
)
from rankwise.surrogates.ranking.meta_training import Record
from rankwise.surrogates.shared_features.base import descend
from rankwise.types import Array


class StudySurrogate(Surrogate):
    """Surrogate that models standardized losses.

    Without trials, the posterior has mean 0 and standard deviation 1 everywhere. With trials of a
    space without columns, the mean is that of the losses, outliers clipped.
    """

    def __init__(self) -> None:
        self._transform: Standardize | None = None
        self._level = 0.0

    def fit(self, task: Task) -> Self:
        self._transform, self._level = None, 0.0
        if len(task):
            transform = Standardize.fit(task.losses, task.fence)
            self._level = transform.center
            if task.X.shape[1]:
                with one_thread():
                    self._learn(task.X, transform(task.losses))
                self._transform = transform
        return self

    @abstractmethod
    def _learn(self, X: Array, y: Array) -> None:
        """Train on standardized losses y (n,) at configurations X (n, d), n >= 1 and d >= 1."""

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        X = np.asarray(X, dtype=float)
        if self._transform is None:
            n = len(X)
            return Posterior(np.full(n, self._level), np.ones(n), np.eye(n) if joint else None)
        with one_thread():
            mean, variance, covariance = self._moments(X, joint)
        mean, std = self._transform.unscale(mean, np.sqrt(np.maximum(variance, 0.0)))
        if covariance is not None:
            covariance = covariance * self._transform.scale * self._transform.scale
        return Posterior(mean, std, covariance)

    @abstractmethod
    def _moments(self, X: Array, joint: bool) -> Moments:
        """Predict standardized losses at X (n, d).

        Args:
            X: Configurations (n, d).
            joint: Also compute the covariance.

        Returns:
            Mean (n,), variance (n,) and the covariance (n, n), or None if `joint` is False.
        """


class Networks:
    """Ensemble of networks on configurations, with all weights in one vector.

    The random generator is not stored, because some versions of PyTorch cannot pickle it.

    Args:
        architecture: Layer sizes of the ensemble, without a Deep Set.
        generator: Random numbers for the initial weights.
        dtype: Data type of the weights.
    """

    def __init__(
        self,
        architecture: Architecture,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.architecture = architecture
        self.weights = architecture.initial(generator, dtype)

    def rows(self, X: Array) -> Tensor:
        """Convert X (n, d) from [0, 1] to the input range [-1, 1] of the networks."""
        return torch.as_tensor(2.0 * X - 1.0, dtype=self.weights.dtype)

    def scorers(self, weights: Tensor, gradient: Tensor, n: int) -> Scorers:
        """Return the forward and backward pass of all members for n rows.

        Args:
            weights: Weights (size,), read by `forward`.
            gradient: Gradient (size,); `backward` adds to it.
            n: Number of rows.
        """
        shape = self.architecture
        buffers = Buffers(shape, shape.members, 1, n, weights.dtype)
        return Scorers(shape.views(weights), shape.views(gradient), slice(None), buffers)

    def outputs(self, X: Array) -> Array:
        """Return the o outputs of all M members at X (n, d), shape (M, o, n)."""
        with torch.inference_mode():
            parts = self.architecture.views(self.weights)
            outputs: Array = outputs_of(self.architecture, parts, self.rows(X)).double().numpy()
        return outputs

    def features(self, X: Array) -> Array:
        """Return the last hidden layer (M, n, h) at X (n, d)."""
        with torch.inference_mode():
            parts, M = self.architecture.views(self.weights), self.architecture.members
            chunks = [
                s.features.clone() for s, _ in forwards(self.architecture, parts, self.rows(X))
            ]
            empty = torch.empty(M, 0, self.architecture.width)
            features: Array = torch.cat(chunks or [empty], dim=1).double().numpy()
        return features


def seeded(seed: int) -> torch.Generator:
    """Return a PyTorch random generator with the given seed."""
    return torch.Generator().manual_seed(seed)


def train(
    weights: Tensor,
    gradient: Tensor,
    learn: Callable[[int], float],
    *,
    epochs: int,
    rate: float,
) -> Tensor:
    """Minimize a loss with Adam and return the final weights (size,).

    The learning rate is annealed to zero along half a cosine; see `shared_features.base.descend`.

    Args:
        weights: Initial weights (size,), changed in place.
        gradient: Gradient (size,), set to zero before each call of `learn`.
        learn: Adds the gradient for a given step number to `gradient` and returns the loss.
        epochs: Number of steps; each step uses all trials.
        rate: Initial learning rate.
    """
    return descend(weights, gradient, learn, None, steps=epochs, rate=rate, record=Record())


def moments_of_draws(values: Array, joint: bool, *, bessel: bool = False) -> Moments:
    """Compute mean (n,), variance (n,) and covariance (n, n) over sampled functions.

    Args:
        values: Values (S, n) of S sampled functions at n points.
        joint: Compute the covariance; otherwise it is None.
        bessel: Divide by S - 1 instead of S (Khazi's master's thesis, eq. 3.10).
    """
    count = max(len(values) - 1, 1) if bessel else len(values)
    mean = values.mean(axis=0)
    deviation = values - mean
    variance = np.square(deviation).sum(axis=0) / count
    return mean, variance, deviation.T @ deviation / count if joint else None
