"""Gaussian copula process: normal scores, a network as the prior, a process of what it misses.

Salinas, Shen, Perrone: "A Quantile-based Approach for Hyperparameter Transfer Learning", ICML
2020. There scores come from a winsorised empirical distribution; here from ranks,
(rank - 1/2) / n, which stays away from 0 and 1 as well and is known for a single loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor

from rankwise.errors import OptionError
from rankwise.losses import gaussian_nll
from rankwise.surrogates.base import Posterior
from rankwise.surrogates.exact import (
    ExactGP,
    fit_hyperparameters,
    lengthscale_prior,
    matern52,
    spread_over,
    squared_distances,
)
from rankwise.surrogates.meta import Record, Watch
from rankwise.surrogates.mlp import Perceptron, initial, views
from rankwise.surrogates.neural import NetworkSurrogate, descend_on_rows
from rankwise.surrogates.rows import Rows, Table
from rankwise.task import Task
from rankwise.transforms import Copula
from rankwise.types import Array

_ENOUGH = 150  # rows from which hyperparameters are fitted; more change little and cost n^3
_VARIANCE_FLOOR = 0.05  # of a network that is sure: where few tasks agree by chance, it is not
_BEFORE = 5.0  # residuals of the expected size that are taken for granted


@dataclass(frozen=True)
class NormalQuantiles:
    """From normal scores back to losses: the inverse of `Copula`, linear between losses seen.

    Attributes:
        scores: of the different losses, ascending (k,).
        losses: (k,).
    """

    scores: Array
    losses: Array

    @classmethod
    def of(cls, losses: Array) -> NormalQuantiles:
        """Of losses (n,), at least one."""
        distinct, first = np.unique(losses, return_index=True)
        return cls(Copula()(losses)[first], distinct)

    def __call__(self, z: Array) -> Array:
        """Losses (m,) of scores (m,); beyond the scores seen, the best or the worst loss."""
        losses: Array = np.interp(z, self.scores, self.losses)
        return losses


def amplitude(residual: Array) -> float:
    """The scale of residuals (n,), which is one where the network knows how much it misses.

    As if a few of size one had been seen before: a network that is too sure of itself must not be
    followed for long, and two residuals say little.
    """
    return math.sqrt((_BEFORE + float(residual @ residual)) / (_BEFORE + len(residual)))


class CopulaProcess(NetworkSurrogate):
    """Normal scores of the losses, predicted by past tasks and corrected by the study's own.

    Scores of different tasks have one scale, so one network learns them all: z ~ N(mu(x),
    sigma(x)^2). A Gaussian process is fitted to what it misses in a study, (z - mu(x)) / sigma(x).
    The posterior is in units of scores; `quantile` gives losses. Arguments are those of
    `NetworkSurrogate`.
    """

    file_kind = "gaussian copula process"

    @property
    def _network(self) -> Perceptron:
        return Perceptron((self.columns, *[self.width] * self.layers, 2))

    # ------------------------------------------------------------------ learning

    def _learn(
        self,
        tasks: Sequence[Task],
        validation: Sequence[Task],
        record: Record,
        watch: Watch | None,
    ) -> tuple[Tensor, dict[str, Array]]:
        generator = torch.Generator().manual_seed(self.seed)
        likelihood = ScoreLikelihood(self._network, initial(self._network.shapes, generator))
        best = descend_on_rows(
            likelihood,
            Table(tasks, Copula(), self.rows),
            Table(validation, Copula(), self.rows) if validation else None,
            batch=self.batch,
            seed=self.seed,
            steps=self.steps,
            rate=self.meta_rate,
            record=record,
            watch=watch,
        )
        return best, {}

    def _settle(self, weights: Tensor, memory: Mapping[str, Array]) -> None:
        """The network is all there is."""

    def _observe(self, task: Task, weights: Tensor) -> None:
        z = Copula()(task.losses)
        mean, std = self._expected(task.X)
        residual = (z - mean) / std
        self._amplitude = amplitude(residual)
        residual = residual / self._amplitude
        rows = spread_over(z, _ENOUGH)
        found = fit_hyperparameters(task.X[rows], residual[rows], matern52)
        self._gp = ExactGP.given(task.X, residual, matern52, *found)
        self._quantiles = NormalQuantiles.of(task.losses)

    # ------------------------------------------------------------------ predicting

    @property
    def in_losses(self) -> bool:
        return False

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        """The posterior (n,) of normal scores at X (n, d): mu + sigma N(m, v) of the residuals."""
        X = np.asarray(X, dtype=float)
        mean, std = self._expected(X)
        covariance = None
        if self._seen:
            shift, variance = self._gp.posterior(X)
            inner = self._gp.covariance(X) if joint else None
            std = std * self._amplitude
            mean, spread = mean + std * shift, std * np.sqrt(variance)
        else:
            mode = np.full(self.columns, lengthscale_prior(self.columns).mode)
            inner = matern52(squared_distances(X, X, mode))[0] if joint else None
            spread = std
        if inner is not None:
            covariance = std[:, None] * inner * std
        return Posterior(mean, spread, covariance)

    def quantile(self, X: Array, level: float = 0.5) -> Array:
        """Losses (n,) that X (n, d) stays below with probability `level`; 0.5: the median.

        Scores are a monotone function of losses, so that their quantiles are those of the losses.
        """
        if not self._seen:
            raise OptionError("without an evaluation the scale of the losses is not known")
        if not 0 < level < 1:
            raise OptionError(f"a level is a probability within (0, 1), not {level!r}")
        posterior = self.predict(X)
        return self._quantiles(posterior.mean + float(ndtri(level)) * posterior.std)

    def _past_mean(self, X: Array) -> Array:
        return self._expected(X)[0]

    def _expected(self, X: Array) -> tuple[Array, Array]:
        """What the past expects at X (n, d): mu (n,) and sigma (n,)."""
        assert self._weights is not None
        network = self._network
        with torch.inference_mode():
            rows = torch.as_tensor(2.0 * np.asarray(X, dtype=float) - 1.0)
            mean, raw = network.forward(views(self._weights, network.shapes), rows)[-1].T.numpy()
        return mean, np.sqrt(_VARIANCE_FLOOR + np.exp(raw))


class ScoreLikelihood:
    """Minus the Gaussian log-likelihood of scores per evaluation, and its gradient.

    Args:
        network: from a configuration to the mean and the logarithm of the variance above a floor.
        weights: (size,).

    Attributes:
        weights: (size,).
        gradient: (size,), added to by calls.
    """

    def __init__(self, network: Perceptron, weights: Tensor) -> None:
        self._network, self.weights = network, weights
        self.gradient = torch.zeros_like(weights)
        self._parts, self._slopes = (views(w, network.shapes) for w in (weights, self.gradient))

    def __call__(self, rows: Rows, *, backward: bool = True) -> float:
        """The mean over tasks; every task weighs the same.

        Args:
            rows: of B tasks.
            backward: add the gradient.
        """
        B, n, _ = rows.X.shape
        kept = self._network.forward(self._parts, (2.0 * rows.X - 1.0).view(B * n, -1))
        mean, raw = (kept[-1][:, k].view(B, n) for k in (0, 1))
        above = raw.exp()
        variance = above + _VARIANCE_FLOOR
        sizes = rows.mask.sum(1)
        nll = gaussian_nll(mean, variance.log(), rows.y, rows.mask > 0)
        if backward:
            share = rows.mask / (sizes * B).unsqueeze(1)
            gap = mean - rows.y
            by_raw = 0.5 * (1.0 - gap.square() / variance) / variance * above
            d = torch.stack([share * gap / variance, share * by_raw], dim=-1)
            self._network.backward(self._parts, self._slopes, kept, d.view(B * n, 2))
        return float((nll / sizes).mean()) + 0.5 * math.log(2.0 * math.pi)
