"""CMA-ES, from the middle of the space or from where past tasks had their best configurations.

It works on the columns of the unit cube: choices by their one-hot columns, what is inactive by its
place holder. What it draws becomes the nearest valid configuration, and that is what it learns
from; so it is at home where most columns are numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from rankwise.errors import OptionError
from rankwise.proposal import Seen, random_unseen
from rankwise.strategy import Strategy
from rankwise.task import Task
from rankwise.types import Array

SIGMA = 1.0 / 6.0
"""Standard deviation of a start in the middle of the cube, as in Optuna."""

_TRIES = 20  # draws that may be forbidden or repeat an evaluation, before a random one is made


@dataclass(frozen=True)
class Gaussian:
    """Where configurations are drawn from at first: a normal distribution on the unit cube.

    Attributes:
        mean: (d,).
        sigma: step size.
        covariance: (d, d), of determinant one; the distribution's is sigma^2 times it.
    """

    mean: Array
    sigma: float
    covariance: Array

    @classmethod
    def middle(cls, d: int) -> Gaussian:
        """Around the middle of the cube."""
        return cls(np.full(d, 0.5), SIGMA, np.eye(d))

    @classmethod
    def promising(cls, tasks: Sequence[Task], gamma: float, alpha: float) -> Gaussian:
        """Around the best configurations of past tasks (Nomura et al., AAAI 2021, eq. 8).

        The paper has one past task. Of several, the best share of each counts, and each of these
        configurations the same.

        Args:
            tasks: one or more, with evaluations.
            gamma: share of a task's evaluations that are promising; one of them at least.
            alpha: standard deviation of the distribution around each promising configuration.
        """
        best = np.concatenate([_top(task, gamma) for task in tasks])
        d = best.shape[1]
        covariance = alpha**2 * np.eye(d) + np.cov(best, rowvar=False, bias=True).reshape(d, d)
        _, log_det = np.linalg.slogdet(covariance)
        scale = math.exp(log_det / d)
        return cls(best.mean(axis=0), math.sqrt(scale), covariance / scale)


def _top(task: Task, gamma: float) -> Array:
    """The best share of a task's configurations (k, d), none that failed."""
    X, losses = task.X[task.ok], task.y[task.ok]
    count = max(1, math.floor(gamma * len(X)))
    return X[np.argsort(losses, kind="stable")[:count]]


@dataclass(frozen=True)
class CmaStrategy(Strategy):
    """CMA-ES of the package `cmaes`, which learns from one population after the other.

    Evaluations are populations in the order of their trials, whoever proposed them; those after
    the last full population are not learnt from yet. The state is built anew for every proposal,
    as strategies keep none.

    Attributes:
        start: the distribution at first.
        mean_first: whether the first configuration of a study is the mean of `start`.
    """

    start: Gaussian
    mean_first: bool = False

    @property
    def informed(self) -> bool:
        return self.mean_first  # where a study begins is known from past tasks

    def propose(self, history: Task, pending: Array, rng: np.random.Generator) -> Array:
        seen = Seen(history.X, pending)
        if not self.encoder.n_columns:
            return random_unseen(self.encoder, seen, rng)
        optimizer = self.evolved(history, int(rng.integers(2**31)))
        for k in range(_TRIES):
            first = self.mean_first and not len(seen) and k == 0
            x = self.start.mean if first else optimizer.ask()
            if not np.isfinite(x).all():  # the covariance is gone
                break
            codes = self.encoder.decode_codes(x)
            row = self.encoder.encode_codes(codes)
            if self.encoder.allowed(codes)[0] and seen.new(row)[0]:
                proposed: Array = row[0]
                return proposed
        return random_unseen(self.encoder, seen, rng)

    def evolved(self, history: Task, seed: int) -> Any:
        """The optimizer of `cmaes` after the evaluations so far."""
        d = self.encoder.n_columns
        optimizer = import_cmaes().CMA(
            mean=self.start.mean,
            sigma=self.start.sigma,
            cov=self.start.covariance.copy(),
            bounds=np.tile([0.0, 1.0], (d, 1)),
            seed=seed,
        )
        size = optimizer.population_size
        # Only the order counts, and ranks do not overflow.
        ranks = rankdata(history.losses)
        for end in range(size, len(history) + 1, size):
            rows = range(end - size, end)
            optimizer.tell([(history.X[k], float(ranks[k])) for k in rows])
        return optimizer


def import_cmaes() -> Any:
    """The package `cmaes`.

    Raises:
        OptionError: it is not installed.
    """
    try:
        import cmaes
    except ImportError as error:
        raise OptionError(
            'CMA-ES needs the package cmaes, which is not installed: pip install "rankwise[bench]"'
        ) from error
    return cmaes
