"""Joint ranking of source tasks and target task, followed by a Gaussian process (SCoT).

Surrogate-based collaborative tuning (Bardenet et al., ICML 2013) has two steps. First, a ranker
learns one latent value f(x, t) per evaluation from pairs of evaluations of the same task: within
a task, the better evaluation gets the lower value. Losses of different tasks cannot be compared;
the latent values can. Second, a Gaussian process over configurations and tasks is fitted to the
latent values and predicts the target task.

There are three differences to the paper:

- The ranker minimizes the logistic loss of pairs, with the kernel of the Gaussian process. The
  paper uses the hinge loss of a support vector machine (SVMRank).
- The covariance of two tasks is rho, multiplied by the similarity of their contexts if all tasks
  have a context. The paper requires features of the data sets.
- The kernel parameters are learnt once, from the evidence of the source tasks' scores. The paper
  learns them at every step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from rankwise.errors import OptionError, is_number
from rankwise.history.task import Task
from rankwise.surrogates.base import Posterior
from rankwise.surrogates.joint_task.base import Index, JointGP, JointSurrogate, Rows, most_likely
from rankwise.surrogates.numeric.exact_gp import cholesky, matern52, spread_over, squared_distances
from rankwise.surrogates.source_ensembles.tst import shared_features
from rankwise.types import Array

_ENOUGH = 100  # maximum number of observations of the target task that are ranked
_NUGGET = 1e-4  # added to the diagonal of the ranker's kernel matrix
_RHO = 2.0  # prior standard deviation of the logit of rho
_SEARCH = {"maxiter": 100, "ftol": 1e-7, "gtol": 1e-4}


class JointRankingGP(JointSurrogate):
    """Gaussian process on the latent values of a ranker of all tasks (SCoT).

    Predictions are in units of the latent values. Only the order of the losses is used.

    Args:
        strength: weight of the ranking loss relative to the prior, like the constant C of a
            support vector machine.
        seed: not used; part of the interface of all surrogates.
    """

    file_kind = "joint-ranking-gp"

    def __init__(self, *, strength: float = 50.0, seed: int = 0) -> None:
        if not (is_number(strength) and strength > 0):
            raise OptionError(f"strength must be a positive number, not {strength!r}")
        self.strength = float(strength)
        self.seed = seed

    @property
    def in_losses(self) -> bool:
        return False

    def learn(self, rows: Rows) -> None:
        alike = similarity(rows.contexts)
        self.lengthscales, self.noise, [logit] = most_likely(
            rows, np.array([1.0]), lambda theta: rho_covariance(theta, alike), [(-5.0, 5.0)]
        )
        self.rho = float(expit(logit))

    def observe(self, rows: Rows, task: Task) -> None:
        used = spread_over(task.losses, _ENOUGH)
        X = np.concatenate([rows.X, task.X[used]]) if used else rows.X
        numbers = np.concatenate([rows.task, np.full(len(used), len(rows))])
        losses = np.concatenate([rows.y, task.losses[used]])
        B = mixed(self.rho, similarity([*rows.contexts, task.context]))
        values = ranked(X, losses, numbers, B, self.lengthscales, self.strength)
        noise = np.full(len(X), self.noise)
        self.model = JointGP.given(X, values, numbers, B, self.lengthscales, noise)

    def believed(self, X: Array, joint: bool) -> Posterior:
        mean, variance = self.model.posterior(X)
        return Posterior(mean, np.sqrt(variance), self.model.covariance(X) if joint else None)

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        arrays, record = super().parts()
        return arrays, {**record, "rho": self.rho}

    def restore(self, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        super().restore(arrays, record)
        self.rho = record["rho"]


def similarity(contexts: Sequence[Mapping[str, float]]) -> Array:
    """Compute the similarity (T, T) of tasks from their contexts, from 0 to 1.

    It is a squared-exponential kernel of the standardized meta-features that all contexts have;
    the width is their median distance. All similarities are 1 if there is no such meta-feature or
    if none differs between tasks.

    Args:
        contexts: context of each of the T tasks.
    """
    ones, names = np.ones((len(contexts), len(contexts))), shared_features(contexts)
    if not names:
        return ones
    table = np.array([[context[name] for name in names] for context in contexts], dtype=float)
    spread = table.std(axis=0)
    table = table[:, spread > 0] / spread[spread > 0]
    distances = squared_distances(table, table, np.ones(table.shape[1]))
    typical = np.median(distances[np.triu_indices(len(table), 1)]) if len(table) > 1 else 0.0
    return np.exp(-0.5 * distances / typical) if typical > 0 else ones


def mixed(rho: float, alike: Array) -> Array:
    """Return the covariance of tasks (T, T): 1 on the diagonal, rho times `alike` elsewhere.

    Args:
        rho: covariance of two tasks with similarity 1.
        alike: similarity of tasks (T, T), with ones on the diagonal.
    """
    return rho * alike + (1.0 - rho) * np.eye(len(alike))


def rho_covariance(theta: Array, alike: Array) -> Any:
    """Parametrize the covariance of tasks by rho; see `TaskPrior` for the results.

    Args:
        theta: logit (1,) of rho.
        alike: similarity of tasks (T, T).
    """
    rho, logit = float(expit(theta[0])), float(theta[0])
    by_rho = alike - np.eye(len(alike))

    def chain(by_B: Array) -> Array:
        return np.array([rho * (1.0 - rho) * float((by_B * by_rho).sum()) - logit / _RHO**2])

    return mixed(rho, alike), -0.5 * (logit / _RHO) ** 2, chain


def ranked(
    X: Array, y: Array, task: Index, B: Array, lengthscales: Array, strength: float
) -> Array:
    """Compute latent values (N,) that rank the evaluations of each task; lower is better.

    They minimize the pairwise logistic loss plus half their squared norm under the kernel. A pair
    of a task with m evaluations has the weight strength / (m - 1), so that all evaluations have
    the same total weight. The values are scaled to unit variance.

    Args:
        X: configurations (N, d).
        y: losses (N,), compared within a task only; equal losses make no pair.
        task: index (N,) of each row's task.
        B: covariance of tasks (T, T).
        lengthscales: length-scales (d,) of the configuration kernel.
        strength: weight of the ranking loss.
    """
    better, worse, weight = _pairs(y, task)
    K = B[np.ix_(task, task)] * matern52(squared_distances(X, X, lengthscales))[0]
    K[np.diag_indices_from(K)] = np.diag(B)[task] + _NUGGET
    L = cholesky(K)

    def objective(z: Array) -> tuple[float, Array]:
        f = L @ z
        gap = f[worse] - f[better]
        loss = strength * float(weight @ np.logaddexp(0.0, -gap)) + 0.5 * float(z @ z)
        push = strength * weight * expit(-gap)
        by_f = np.bincount(better, push, len(f)) - np.bincount(worse, push, len(f))
        return loss, L.T @ by_f + z

    found = minimize(objective, np.zeros(len(y)), jac=True, method="L-BFGS-B", options=_SEARCH)
    values: Array = L @ found.x
    spread = float(values.std())
    return values / spread if spread > 0 else values


def _pairs(y: Array, task: Index) -> tuple[Index, Index, Array]:
    """Pair all rows of the same task with different losses.

    Args:
        y: losses (N,).
        task: index (N,) of each row's task.

    Returns:
        Index of the better row, index of the worse row, and weight of each pair, shape (pairs,).
    """
    better, worse, weights = [], [], []
    for t in np.unique(task):
        rows = np.flatnonzero(task == t)
        i, j = np.triu_indices(len(rows), 1)
        i, j = rows[i], rows[j]
        first = y[i] < y[j]
        i, j = np.where(first, i, j), np.where(first, j, i)
        apart = y[i] < y[j]
        better.append(i[apart])
        worse.append(j[apart])
        weights.append(np.full(int(apart.sum()), 1.0 / max(len(rows) - 1, 1)))
    return np.concatenate(better), np.concatenate(worse), np.concatenate(weights)
