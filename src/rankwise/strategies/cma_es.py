"""CMA-ES, started from the middle of the space or from the best configurations of source tasks.

It samples points of the unit cube. Choices are one-hot columns, and inactive hyperparameters have
a constant value. Each point is replaced by the nearest valid configuration, and CMA-ES learns from
that configuration. So it works best in spaces whose columns are mostly numeric.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise._core.extras import missing
from rankwise._core.numerics import rankdata
from rankwise.acquisition.maximizer import Seen, random_unseen
from rankwise.history.task import Task
from rankwise.strategies.base import Strategy
from rankwise.types import Array

SIGMA = 1.0 / 6.0
"""Initial standard deviation of a start in the middle of the cube, as in Optuna."""

_MOST_COLUMNS = 100
"""Columns up to which the covariance is a full matrix; its decomposition is cubic in them."""
_TRIES = 20  # forbidden or repeated samples before a random configuration is proposed


@dataclass(frozen=True)
class Gaussian:
    """The initial normal distribution of CMA-ES on the unit cube.

    Attributes:
        mean: mean (d,).
        sigma: step size.
        covariance: matrix (d, d) with determinant one. The covariance of the distribution is
            sigma^2 times this matrix.
    """

    mean: Array
    sigma: float
    covariance: Array

    @classmethod
    def middle(cls, d: int) -> Gaussian:
        """Make the distribution around the middle of the cube."""
        return cls(np.full(d, 0.5), SIGMA, np.eye(d))

    @classmethod
    def promising(cls, tasks: Sequence[Task], gamma: float, alpha: float) -> Gaussian:
        """Make the distribution around the best configurations of source tasks.

        It is eq. 8 of Nomura et al., AAAI 2021. The paper has one source task. With several, the
        best configurations of each task are used, and all have equal weights.

        Args:
            tasks: one or more tasks with evaluations.
            gamma: share of a task's evaluations that are promising; at least one is used.
            alpha: standard deviation of the distribution around each promising configuration.
        """
        best = np.concatenate([_top(task, gamma) for task in tasks])
        d = best.shape[1]
        covariance = alpha**2 * np.eye(d) + np.cov(best, rowvar=False, bias=True).reshape(d, d)
        _, log_det = np.linalg.slogdet(covariance)
        scale = math.exp(log_det / d)
        return cls(best.mean(axis=0), math.sqrt(scale), covariance / scale)


def _top(task: Task, gamma: float) -> Array:
    """Return the best configurations (k, d) of a task without failed ones, a share of `gamma`."""
    X, losses = task.X[task.ok], task.y[task.ok]
    count = max(1, math.floor(gamma * len(X)))
    return X[np.argsort(losses, kind="stable")[:count]]


@dataclass(frozen=True)
class CmaStrategy(Strategy):
    """Strategy that uses CMA-ES of the package `cmaes`.

    All trials of the study, in their order, are divided into populations, also those that another
    strategy proposed. An incomplete last population is not used yet. The state of CMA-ES is
    rebuilt for every proposal, because strategies keep no state.

    Attributes:
        start: initial distribution.
        mean_first: True if the first proposal of a study is the mean of `start`.
    """

    start: Gaussian
    mean_first: bool = False

    @property
    def informed(self) -> bool:
        return self.mean_first  # the start comes from source tasks

    def propose(self, history: Task, pending: Array, rng: np.random.Generator) -> Array:
        seen = Seen(history.X, pending)
        if not self.encoder.n_columns:
            return random_unseen(self.encoder, seen, rng)
        optimizer = self.evolved(history, int(rng.integers(2**31)))
        for k in range(_TRIES):
            first = self.mean_first and not len(seen) and k == 0
            x = self.start.mean if first else optimizer.ask()
            if not np.isfinite(x).all():  # the covariance has degenerated
                break
            codes = self.encoder.decode_codes(x)
            row = self.encoder.encode_codes(codes)
            if self.encoder.allowed(codes)[0] and seen.new(row)[0]:
                proposed: Array = row[0]
                return proposed
        return random_unseen(self.encoder, seen, rng)

    def evolved(self, history: Task, seed: int) -> Any:
        """Make the optimizer of `cmaes` and update it with the trials so far.

        Args:
            history: evaluations so far.
            seed: seed of the optimizer.
        """
        d = self.encoder.n_columns
        given = {"bounds": np.tile([0.0, 1.0], (d, 1)), "seed": seed}
        if d > _MOST_COLUMNS:  # choices with hundreds of values have as many columns
            optimizer = import_cmaes().SepCMA(self.start.mean, self.start.sigma, **given)
        else:
            covariance = self.start.covariance.copy()
            optimizer = import_cmaes().CMA(
                self.start.mean, self.start.sigma, cov=covariance, **given
            )
        size = optimizer.population_size
        # CMA-ES uses only the order, and ranks do not overflow.
        ranks = rankdata(history.losses)
        for end in range(size, len(history) + 1, size):
            rows = range(end - size, end)
            optimizer.tell([(history.X[k], float(ranks[k])) for k in rows])
        return optimizer


def import_cmaes() -> Any:
    """Import the package `cmaes`.

    Raises:
        MissingPackageError: the package is not installed.
    """
    try:
        import cmaes
    except ImportError as error:
        raise missing("CMA-ES", "cmaes", "bench") from error
    return cmaes
