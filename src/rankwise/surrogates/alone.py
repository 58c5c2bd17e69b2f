"""What surrogates share that learn one study alone, from random weights, at every proposal."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from rankwise.surrogates.base import Moments, Posterior, Surrogate
from rankwise.surrogates.meta import Record
from rankwise.surrogates.nets import Architecture, Buffers, Scorers, forwards, outputs_of
from rankwise.surrogates.neural import descend
from rankwise.surrogates.threads import one_thread
from rankwise.task import Task
from rankwise.transforms import Standardize
from rankwise.types import Array


class StudySurrogate(Surrogate):
    """A model of standardised losses; without evaluations or columns, mean 0 and variance 1."""

    def __init__(self) -> None:
        self._transform: Standardize | None = None
        self._level = 0.0

    def fit(self, task: Task) -> Self:
        self._transform, self._level = None, 0.0
        if len(task):
            transform = Standardize.fit(task.losses)
            self._level = transform.center
            if task.X.shape[1]:
                with one_thread():
                    self._learn(task.X, transform(task.losses))
                self._transform = transform
        return self

    @abstractmethod
    def _learn(self, X: Array, y: Array) -> None:
        """Learn standardised losses y (n,) at X (n, d), n >= 1."""

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
        """Of what was learnt, at X (n, d)."""


class Networks:
    """Networks that say something of configurations: all members at once, on one vector.

    They keep no generator, which cannot be pickled everywhere.

    Args:
        architecture: of the ensemble, without a Deep Set.
        generator: of the first weights.
        dtype: of all numbers.
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
        """X (n, d) as the networks see it: from -1 to 1."""
        return torch.as_tensor(2.0 * X - 1.0, dtype=self.weights.dtype)

    def scorers(self, weights: Tensor, gradient: Tensor, n: int) -> Scorers:
        """The members on n rows, with weights and gradient (size,)."""
        shape = self.architecture
        buffers = Buffers(shape, shape.members, 1, n, weights.dtype)
        return Scorers(shape.views(weights), shape.views(gradient), slice(None), buffers)

    def outputs(self, X: Array) -> Array:
        """What they say (M, o, n) of X (n, d)."""
        with torch.inference_mode():
            parts = self.architecture.views(self.weights)
            outputs: Array = outputs_of(self.architecture, parts, self.rows(X)).double().numpy()
        return outputs

    def features(self, X: Array) -> Array:
        """The last hidden layer (M, n, h) at X (n, d)."""
        with torch.inference_mode():
            parts, M = self.architecture.views(self.weights), self.architecture.members
            found = [
                s.features.clone() for s, _ in forwards(self.architecture, parts, self.rows(X))
            ]
            empty = torch.empty(M, 0, self.architecture.width)
            features: Array = torch.cat(found or [empty], dim=1).double().numpy()
        return features


def seeded(seed: int) -> torch.Generator:
    """A generator of random numbers."""
    return torch.Generator().manual_seed(seed)


def train(
    weights: Tensor,
    gradient: Tensor,
    learn: Callable[[int], float],
    *,
    epochs: int,
    rate: float,
) -> Tensor:
    """Weights (size,) after so many steps of Adam on all evaluations; see `neural.descend`."""
    return descend(weights, gradient, learn, None, steps=epochs, rate=rate, record=Record())


def moments_of_draws(values: Array, joint: bool, *, bessel: bool = False) -> Moments:
    """Mean, variance and covariance over draws of functions.

    Args:
        values: (S, n), what each of S draws says of n points.
        joint: fill in the covariance.
        bessel: divide by S - 1 instead of S (thesis, eq. 3.10).
    """
    count = max(len(values) - 1, 1) if bessel else len(values)
    mean = values.mean(axis=0)
    deviation = values - mean
    variance = np.square(deviation).sum(axis=0) / count
    return mean, variance, deviation.T @ deviation / count if joint else None
