"""Adaptive Bayesian linear regression: one network for all tasks, one regression per task.

Perrone, Jenatton, Seeger, Archambeau: "Scalable Hyperparameter Transfer Learning", NeurIPS 2018.
The paper learns the network (3 layers of 50 units, tanh) and the precisions of all tasks with
L-BFGS on all data. This module uses Adam on minibatches of tasks and rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from rankwise.history.task import Task
from rankwise.history.transforms import Standardize
from rankwise.surrogates.base import Posterior
from rankwise.surrogates.numeric.bayesian_linear import (
    Belief,
    LinearPosterior,
    Spectrum,
    most_likely,
)
from rankwise.surrogates.numeric.exact_gp import spread_over
from rankwise.surrogates.numeric.mlp import Perceptron, initial, views
from rankwise.surrogates.ranking.meta_training import Record, Watch
from rankwise.surrogates.shared_features.base import NetworkSurrogate, descend
from rankwise.surrogates.shared_features.minibatches import Rows, Table
from rankwise.types import Array

_ROWS = 1000  # maximum number of rows of a source task in its regression
_CHECKS = 20  # maximum number of validation tasks
_START = (0.0, 3.0)  # initial log alpha and log beta
_NARROWEST = 1.0  # smallest prior standard deviation of log alpha and log beta
_LOG_2PI = math.log(2.0 * math.pi)


class AdaptiveBLR(NetworkSurrogate):
    """Bayesian linear regression on features that a network learns from source tasks.

    Each task has its own weights w ~ N(0, I / alpha) and noise variance 1 / beta. The features,
    alpha and beta maximize the sum of the tasks' log evidence. The features are the last layer of
    the network. `fit` trains nothing: it computes one regression, in time linear in the number of
    trials. The arguments are those of `NetworkSurrogate`.
    """

    file_kind = "adaptive bayesian linear regression"
    revisits = True

    @property
    def _network(self) -> Perceptron:
        return Perceptron((self.columns, *[self.width] * self.layers), tanh=True, bent=True)

    # ------------------------------------------------------------------ learning

    def _train(
        self,
        tasks: Sequence[Task],
        validation: Sequence[Task],
        record: Record,
        watch: Watch | None,
    ) -> tuple[Tensor, dict[str, Array]]:
        evidence = SharedEvidence(self._network, len(tasks), self.seed)
        table = Table(tasks, _standardized, self.rows)

        def learn(step: int) -> float:
            rng = np.random.default_rng([self.seed, step])
            which = rng.choice(len(table), min(self.batch, len(table)), replace=False)
            return evidence(table.draw(which.tolist(), rng), torch.from_numpy(which))

        kept = [(t, spread_over(t.losses, self.rows)) for t in validation[:_CHECKS]]
        checks = [(t.X[rows], _standardized(t.losses)[rows]) for t, rows in kept]
        best = descend(
            evidence.weights,
            evidence.gradient,
            learn,
            (lambda: self._unlikeliness(evidence, checks)) if checks else None,
            steps=self.steps,
            rate=self.meta_rate,
            record=record,
            watch=watch,
        )
        size = self._size()
        belief = _belief(best[size:].view(2, -1).numpy())
        return best[:size].clone(), self._regressions(best[:size], tasks, belief)

    def _unlikeliness(
        self, evidence: SharedEvidence, checks: Sequence[tuple[Array, Array]]
    ) -> float:
        """Mean negative log evidence per evaluation of validation tasks.

        alpha and beta are fitted to each validation task.

        Args:
            evidence: the network weights and the precisions of the source tasks.
            checks: configurations (n, d) and standardized losses (n,) of each validation task.
        """
        size = self._size()
        belief, total = _belief(evidence.weights[size:].view(2, -1).numpy()), 0.0
        for X, y in checks:
            spectrum = Spectrum.of(self._phi(evidence.weights[:size], X), y)
            total -= spectrum.log_evidence(most_likely(spectrum, belief))[0] / len(y)
        return float(total) / len(checks)

    def _regressions(
        self, weights: Tensor, tasks: Sequence[Task], belief: Belief
    ) -> dict[str, Array]:
        """Mean (f,) and covariance (f, f) of the source tasks' weights, and the belief (2, 2).

        Args:
            weights: weights of the network.
            tasks: source tasks.
            belief: prior of log alpha and log beta.
        """
        means, covariance = [], np.zeros((self.width + 1, self.width + 1))
        for task in tasks:
            rows = spread_over(task.losses, _ROWS)
            phi = self._phi(weights, task.X[rows])
            spectrum = Spectrum.of(phi, _standardized(task.losses)[rows])
            fitted = LinearPosterior.given(spectrum, most_likely(spectrum, belief))
            means.append(fitted.mean)
            covariance += fitted.covariance(np.eye(len(covariance))) / len(tasks)
        mean = np.mean(means, axis=0)
        covariance += (means - mean).T @ (means - mean) / len(tasks)
        return {
            "mean": mean,
            "covariance": covariance,
            "belief": np.stack([belief.mean, belief.std]),
        }

    def _settle(self, weights: Tensor, memory: Mapping[str, Array]) -> None:
        self._mean, self._covariance = memory["mean"], memory["covariance"]
        self._belief = Belief(*memory["belief"])

    def _observe(self, task: Task, weights: Tensor) -> None:
        self._transform = Standardize.fit(task.losses, task.fence)
        spectrum = Spectrum.of(self._phi(weights, task.X), self._transform(task.losses))
        self._posterior = LinearPosterior.given(spectrum, most_likely(spectrum, self._belief))

    # ------------------------------------------------------------------ predicting

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        """Predict the posterior at X (n, d).

        Without evaluations it has the mean and covariance of the source tasks' regressions.
        """
        assert self._weights is not None
        phi = self._phi(self._weights, X)
        if not self._seen:
            covariance = phi @ self._covariance @ phi.T if joint else None
            variance = np.einsum("nf,fg,ng->n", phi, self._covariance, phi, optimize=True)
            return Posterior(phi @ self._mean, np.sqrt(np.maximum(variance, 0.0)), covariance)
        mean, variance = self._posterior.moments(phi)
        covariance = self._posterior.covariance(phi) if joint else None
        return Posterior.unscaled(self._transform, mean, variance, covariance)

    def _past_mean(self, X: Array) -> Array:
        assert self._weights is not None
        mean: Array = self._phi(self._weights, X) @ self._mean
        return mean

    def _phi(self, weights: Tensor, X: Array) -> Array:
        """Features (n, f) of X (n, d); the last feature is the constant one."""
        network = self._network
        with torch.inference_mode():
            rows = torch.as_tensor(2.0 * np.asarray(X, dtype=float) - 1.0)
            phi = network.forward(views(weights, network.shapes), rows)[-1].numpy()
        return np.concatenate([phi, np.ones((len(phi), 1))], axis=1)


class SharedEvidence:
    """Negative log evidence of tasks with shared features, and its gradient.

    With A = alpha I + beta Phi^T Phi, m = beta A^-1 Phi^T y and e = y - Phi m,

        log p = (f log alpha + n log beta - beta |e|^2 - alpha |m|^2 - log |A| - n log 2 pi) / 2,
        d log p / dPhi = beta (e m^T - Phi A^-1).

    Args:
        network: network of the features; a constant feature is added.
        tasks: number of tasks T.
        seed: seed of the initial weights.

    Attributes:
        weights: weights of the network, then log alpha (T,) and log beta (T,) of the tasks.
        gradient: gradient of the loss, same shape as `weights`; each call adds to it.
    """

    def __init__(self, network: Perceptron, tasks: int, seed: int) -> None:
        self._network = network
        precisions = torch.tensor(_START, dtype=torch.float64).repeat_interleave(tasks)
        first = initial(network.shapes, torch.Generator().manual_seed(seed))
        self.weights = torch.cat([first, precisions])
        self.gradient = torch.zeros_like(self.weights)
        shapes = {**network.shapes, "alpha": (tasks,), "beta": (tasks,)}
        self._parts, self._slopes = views(self.weights, shapes), views(self.gradient, shapes)

    def __call__(self, rows: Rows, tasks: Tensor) -> float:
        """Compute the mean over tasks of the loss per evaluation, and add its gradient.

        Args:
            rows: rows of B tasks.
            tasks: indices (B,) of these tasks, all different.

        Returns:
            The loss; infinite if a matrix is singular. The gradient is not changed then.
        """
        B, n, _ = rows.X.shape
        kept = self._network.forward(self._parts, (2.0 * rows.X - 1.0).view(B * n, -1))
        phi = torch.cat([kept[-1].view(B, n, -1), torch.ones(B, n, 1, dtype=torch.float64)], -1)
        phi = phi * rows.mask.unsqueeze(2)
        alpha, beta = (self._parts[name][tasks].exp() for name in ("alpha", "beta"))
        f, sizes = phi.shape[2], rows.mask.sum(1)
        A = beta.view(-1, 1, 1) * torch.bmm(phi.mT, phi)
        A.diagonal(dim1=1, dim2=2).add_(alpha.unsqueeze(1))
        L, info = torch.linalg.cholesky_ex(A)
        if bool(info.any()):
            return math.inf
        inverse = torch.cholesky_inverse(L)
        m = beta.unsqueeze(1) * (inverse @ (phi.mT @ rows.y.unsqueeze(2))).squeeze(2)
        e = rows.y - (phi @ m.unsqueeze(2)).squeeze(2)
        error, length = e.square().sum(1), m.square().sum(1)
        trace = inverse.diagonal(dim1=1, dim2=2).sum(1)
        loss = beta * error + alpha * length - f * alpha.log() - sizes * beta.log()
        loss = 0.5 * (loss + sizes * _LOG_2PI) + L.diagonal(dim1=1, dim2=2).log().sum(1)
        share = 1.0 / (sizes * B)  # weight of each task's evidence in the loss
        by_alpha = 0.5 * (alpha * (length + trace) - f)
        by_beta = 0.5 * (beta * error + f - alpha * trace - sizes)
        self._slopes["alpha"][tasks] += share * by_alpha
        self._slopes["beta"][tasks] += share * by_beta
        dphi = torch.bmm(phi, inverse) - e.unsqueeze(2) * m.unsqueeze(1)
        dphi = dphi * (share * beta).view(-1, 1, 1) * rows.mask.unsqueeze(2)
        self._network.backward(self._parts, self._slopes, kept, dphi[:, :, :-1].reshape(B * n, -1))
        return float((loss * share).sum())


def _standardized(losses: Array) -> Array:
    return Standardize.fit(losses)(losses)


def _belief(log_precisions: Array) -> Belief:
    """Estimate the prior of log alpha and log beta from their values in source tasks (2, T)."""
    std = np.maximum(log_precisions.std(axis=1), _NARROWEST)
    return Belief(log_precisions.mean(axis=1), std)
