"""Gaussian copula process: a network predicts normal scores, a Gaussian process its residuals.

Salinas, Shen, Perrone: "A Quantile-based Approach for Hyperparameter Transfer Learning", ICML
2020. The paper computes scores from a winsorized empirical distribution. This module uses ranks,
(rank - 1/2) / n, which also excludes 0 and 1 and is defined for a single loss.
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
from rankwise.history.task import Task
from rankwise.history.transforms import Copula
from rankwise.surrogates.base import Posterior
from rankwise.surrogates.numeric.exact_gp import (
    ExactGP,
    fit_hyperparameters,
    lengthscale_prior,
    matern52,
    spread_over,
    squared_distances,
)
from rankwise.surrogates.numeric.mlp import Perceptron, initial, views
from rankwise.surrogates.ranking.losses import gaussian_nll
from rankwise.surrogates.ranking.meta_training import Record, Watch
from rankwise.surrogates.shared_features.base import NetworkSurrogate, descend_on_rows
from rankwise.surrogates.shared_features.minibatches import Rows, Table
from rankwise.types import Array

_ENOUGH = 150  # maximum number of rows to fit hyperparameters to; more change little and cost n^3
_VARIANCE_FLOOR = 0.05  # smallest predicted variance, because few tasks can agree by chance
_BEFORE = 5.0  # number of pseudo-residuals of size one in `amplitude`


@dataclass(frozen=True)
class NormalQuantiles:
    """Inverse of `Copula`: maps normal scores to losses, linear between observed losses.

    Attributes:
        scores: normal scores (k,) of the distinct losses, ascending.
        losses: distinct losses (k,), ascending.
    """

    scores: Array
    losses: Array

    @classmethod
    def of(cls, losses: Array) -> NormalQuantiles:
        """Make the inverse from observed losses (n,), at least one."""
        distinct, first = np.unique(losses, return_index=True)
        return cls(Copula()(losses)[first], distinct)

    def __call__(self, z: Array) -> Array:
        """Losses (m,) of scores z (m,), clipped to the best and the worst observed loss."""
        losses: Array = np.interp(z, self.scores, self.losses)
        return losses


def amplitude(residual: Array) -> float:
    """Estimate the scale of residuals (n,), as the root of their mean square.

    The scale is one if the network predicts its own errors correctly. It grows if the network is
    overconfident. `_BEFORE` residuals of size one are added, because two residuals alone are a
    poor estimate.
    """
    return math.sqrt((_BEFORE + float(residual @ residual)) / (_BEFORE + len(residual)))


class CopulaProcess(NetworkSurrogate):
    """Gaussian copula process: predicts normal scores of losses.

    Scores of different tasks have the same scale, so one network learns all source tasks:
    z ~ N(mu(x), sigma(x)^2). `fit` fits a Gaussian process to the residuals
    (z - mu(x)) / sigma(x) of the target task. The posterior is in units of scores; `quantile`
    returns losses. The arguments are those of `NetworkSurrogate`.
    """

    file_kind = "gaussian copula process"

    @property
    def _network(self) -> Perceptron:
        return Perceptron((self.columns, *[self.width] * self.layers, 2))

    # ------------------------------------------------------------------ learning

    def _train(
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
        """Nothing to precompute."""

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
        """Predict the posterior of normal scores at X (n, d).

        It is mu + sigma r, where r ~ N(m, v) is the posterior of the residuals.
        """
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
        """Quantiles (n,) of the losses at X (n, d).

        Scores are a monotone function of losses, so quantiles of scores give those of losses.

        Args:
            X: configurations (n, d).
            level: probability of a loss below the quantile; 0.5 gives the median.

        Raises:
            OptionError: the target task has no evaluations, or the level is not within (0, 1).
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
        """Predict the mean mu (n,) and the standard deviation sigma (n,) of scores at X (n, d).

        Only the network is used, not the target task.
        """
        assert self._weights is not None
        network = self._network
        with torch.inference_mode():
            rows = torch.as_tensor(2.0 * np.asarray(X, dtype=float) - 1.0)
            mean, raw = network.forward(views(self._weights, network.shapes), rows)[-1].T.numpy()
        return mean, np.sqrt(_VARIANCE_FLOOR + np.exp(raw))


class ScoreLikelihood:
    """Negative Gaussian log-likelihood of scores per evaluation, and its gradient.

    Args:
        network: network with a configuration as input and two outputs: the mean, and the logarithm
            of the variance above `_VARIANCE_FLOOR`.
        weights: weights (size,) of the network.

    Attributes:
        weights: weights (size,) of the network.
        gradient: gradient of the loss (size,); each call adds to it.
    """

    def __init__(self, network: Perceptron, weights: Tensor) -> None:
        self._network, self.weights = network, weights
        self.gradient = torch.zeros_like(weights)
        self._parts, self._slopes = (views(w, network.shapes) for w in (weights, self.gradient))

    def __call__(self, rows: Rows, *, backward: bool = True) -> float:
        """Compute the mean over tasks; every task has the same weight.

        Args:
            rows: rows of B tasks.
            backward: add the gradient of the result to `gradient`.
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
