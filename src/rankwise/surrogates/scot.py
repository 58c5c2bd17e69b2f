"""Joint ranking of past and new tasks, and a Gaussian process of what it says (SCoT).

Surrogate-based collaborative tuning (Bardenet et al., ICML 2013) in two steps. A ranker learns,
from pairs of evaluations of the same task, one latent value f(x, t) per evaluation, so that within
every task the better one has the lower value: losses of different tasks, which cannot be compared,
become values on one scale. Then a Gaussian process over configurations and tasks goes through
these values, and proposes for the new task.

It differs from the paper in three things. The ranker minimises the logistic loss of pairs, not the
hinge loss of a support vector machine (SVMRank), with the kernel of the process. The covariance of
two tasks is rho, times the similarity of their contexts where all tasks have one; the paper needs
features of the data sets. And the kernel's numbers are learnt once, by the evidence of the past
tasks' scores, not at every step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from rankwise.errors import OptionError, is_number
from rankwise.surrogates.base import Posterior
from rankwise.surrogates.exact import cholesky, matern52, spread_over, squared_distances
from rankwise.surrogates.joint import Index, JointGP, JointSurrogate, Rows, most_likely
from rankwise.surrogates.tst import shared_features
from rankwise.task import Task
from rankwise.types import Array

_ENOUGH = 100  # observations that are ranked
_NUGGET = 1e-4
_RHO = 2.0  # standard deviation of the logit of rho
_SEARCH = {"maxiter": 100, "ftol": 1e-7, "gtol": 1e-4}


class JointRankingGP(JointSurrogate):
    """A Gaussian process on the latent values of a ranker of all tasks together.

    What it predicts is in units of these values: only the order of the losses is used.

    Args:
        strength: how much the order of an evaluation among those of its task counts against the
            prior; the constant C of a support vector machine.
        seed: kept for the contract; nothing is drawn.
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
    """Of tasks (T, T), from 0 to 1; all 1 unless they have numbers in common that differ.

    A squared-exponential kernel of the standardised numbers, as wide as their median distance.
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
    """The covariance of tasks (T, T): rho times their similarity, and 1 of a task with itself."""
    return rho * alike + (1.0 - rho) * np.eye(len(alike))


def rho_covariance(theta: Array, alike: Array) -> Any:
    """The covariance of tasks for the logit (1,) of rho; see `joint.TaskPrior`."""
    rho, logit = float(expit(theta[0])), float(theta[0])
    by_rho = alike - np.eye(len(alike))

    def chain(by_B: Array) -> Array:
        return np.array([rho * (1.0 - rho) * float((by_B * by_rho).sum()) - logit / _RHO**2])

    return mixed(rho, alike), -0.5 * (logit / _RHO) ** 2, chain


def ranked(
    X: Array, y: Array, task: Index, B: Array, lengthscales: Array, strength: float
) -> Array:
    """Latent values (N,) of evaluations, lower for the better one of two of the same task.

    They minimise the pairwise logistic loss plus half the squared norm of their kernel. A pair of
    a task with m evaluations weighs strength / (m - 1), so that each of them counts the same.
    The values that are returned have a unit variance.

    Args:
        X: configurations (N, d).
        y: losses (N,), compared within a task only; equal ones make no pair.
        task: the number (N,) of each row's task.
        B: covariance of tasks.
        lengthscales: (d,) of the kernel.
        strength: of the loss.
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
    """The better and the worse row of each pair within a task, and the pair's weight."""
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
