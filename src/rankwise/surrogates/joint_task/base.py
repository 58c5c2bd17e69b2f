"""Base of the surrogates that use one Gaussian process over pairs of a configuration and a task.

The covariance of f(x, t) and f(x', t') is B[t, t'] k(x, x'): a covariance of tasks times a kernel
of configurations (the intrinsic coregionalisation model). This module selects the rows of the
source tasks, computes the evidence and its gradient, and computes the posterior of the target
task.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, lapack
from scipy.optimize import minimize
from typing_extensions import Self

from rankwise._core.progress_bar import steps_only, training_bar
from rankwise._core.threads import one_thread
from rankwise.history.task import Task, check_columns
from rankwise.surrogates.base import Posterior
from rankwise.surrogates.empirical_bayes.past_functions import (
    SourcePast,
    scores,
    sources_of,
    task_digest,
)
from rankwise.surrogates.numeric.exact_gp import (
    NOISE_PRIOR,
    cholesky,
    lengthscale_prior,
    matern52,
    spread_over,
    squared_distances,
)
from rankwise.surrogates.single_study.gp import GaussianProcess
from rankwise.surrogates.transfer_base import TransferSurrogate
from rankwise.types import Array

TASKS, ROWS = 15, 300  # maximum number of source tasks, and of their rows in total

_LENGTHSCALES = (math.log(0.025), math.log(1e3))
_NOISE = (math.log(1e-4), 1.0)
_SEARCH = {"maxiter": 60, "ftol": 1e-5, "gtol": 1e-4}

Index = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Rows:
    """Evaluations of T source tasks, in one table.

    Attributes:
        X: configurations (N, d).
        y: scores (N,) of the losses within each task, see `past_functions.scores`.
        task: index (N,) of each row's task, from 0.
        names: names of the T tasks.
        contexts: contexts of the T tasks.
    """

    X: Array
    y: Array
    task: Index
    names: tuple[str, ...]
    contexts: tuple[Mapping[str, float], ...]

    @classmethod
    def of(cls, tasks: Sequence[Task], progress: bool | None) -> Self:
        """Select at most `ROWS` rows of at most `TASKS` source tasks; duplicate tasks count once.

        If there are more tasks, the selected ones differ most from each other as functions. The
        rows of a task are spread evenly over the ranks of its losses. `y` has the scores of the
        losses (`past_functions.scores`).
        """
        by_digest = {task_digest(task): task for task in tasks}
        chosen = list(by_digest.values())
        if len(chosen) > TASKS:
            chosen = [by_digest[digest] for digest in _different(chosen, progress)]
        X, y = [], []
        for task in chosen:
            z = scores(task.losses)
            kept = spread_over(z, ROWS // len(chosen))
            X.append(task.X[kept])
            y.append(z[kept])
        return cls(
            np.concatenate(X),
            np.concatenate(y),
            np.repeat(np.arange(len(y)), [len(z) for z in y]),
            tuple(task.name for task in chosen),
            tuple(dict(task.context) for task in chosen),
        )

    def __len__(self) -> int:
        """Number of tasks T."""
        return len(self.names)

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return arrays and a JSON record, from which `from_parts` restores the object."""
        arrays: dict[str, Any] = {"X": self.X, "y": self.y, "task": self.task}
        labels = zip(self.names, self.contexts, strict=True)
        return arrays, {"tasks": [list(label) for label in labels]}

    @classmethod
    def from_parts(cls, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> Self:
        """Restore the object from the result of `parts`."""
        names, contexts = (tuple(part) for part in zip(*record["tasks"], strict=True))
        return cls(arrays["X"], arrays["y"], arrays["task"].astype(np.intp), names, contexts)


def _different(tasks: Sequence[Task], progress: bool | None) -> list[str]:
    """Return the sorted digests of the `TASKS` tasks that differ most as functions."""
    with training_bar(progress, len(tasks)) as bar:
        past = SourcePast(sources_of(tasks, tick=steps_only(bar)), remember=True)
    return sorted(source.digest for source in past.compact(TASKS, ROWS).sources)


@dataclass(frozen=True)
class Evidence:
    """Log evidence of rows, and its derivatives.

    Attributes:
        value: log evidence without its constant term.
        by_lengthscales: derivatives (d,) by the log length-scales.
        by_noise: derivative by the log noise variance.
        by_tasks: derivatives (T, T) by the entries of the covariance of tasks.
    """

    value: float
    by_lengthscales: Array
    by_noise: float
    by_tasks: Array


def evidence(rows: Rows, lengthscales: Array, noise: float, B: Array) -> Evidence:
    """Compute the log evidence of rows under a Gaussian process with mean zero.

    Args:
        rows: N rows of T tasks.
        lengthscales: length-scales (d,) of the configuration kernel.
        noise: noise variance.
        B: covariance of tasks (T, T).
    """
    X, y = rows.X, rows.y
    S = X / lengthscales
    k, slope = matern52(squared_distances(X, X, lengthscales))
    between = B[np.ix_(rows.task, rows.task)]
    K = between * k
    K[np.diag_indices_from(K)] += noise
    L = cholesky(K)
    inverse, _ = lapack.dpotri(L, lower=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    alpha = inverse @ y
    A = np.outer(alpha, alpha) - inverse  # 2 d(log evidence) / dK
    W = A * between * slope
    by_lengthscales = (S * S).T @ W.sum(axis=1) - (S * (W @ S)).sum(axis=0)
    member = np.eye(len(B))[rows.task]
    return Evidence(
        -0.5 * float(y @ alpha) - float(np.log(np.diag(L)).sum()),
        by_lengthscales,
        0.5 * noise * float(np.trace(A)),
        0.5 * (member.T @ (A * k) @ member),
    )


TaskPrior = Callable[[Array], tuple[Array, float, Callable[[Array], Array]]]
"""Parametrization of the covariance of tasks.

A function of parameters (q,). It returns the covariance of tasks B (T, T), the log prior density
of the parameters, and a function for the chain rule. That one takes the derivatives (T, T) of the
log evidence by B, and returns the derivatives (q,) of log evidence plus log prior density by the
parameters."""


def most_likely(
    rows: Rows, start: Array, covariance: TaskPrior, bounds: Sequence[tuple[float, float]]
) -> tuple[Array, float, Array]:
    """Fit the kernel and the covariance of tasks to rows, by maximum a posteriori.

    The length-scales and the noise have the priors of `exact_gp`.

    Args:
        rows: rows of source tasks.
        start: initial parameters (q,) of the covariance of tasks.
        covariance: function from these parameters to the covariance of tasks and their prior.
        bounds: lower and upper bound of each of the q parameters.

    Returns:
        Length-scales (d,), noise variance, and the parameters (q,).
    """
    n, d = rows.X.shape
    prior = lengthscale_prior(d)

    def objective(theta: Array) -> tuple[float, Array]:
        B, density, chain = covariance(theta[d + 1 :])
        found = evidence(rows, np.exp(theta[:d]), float(np.exp(theta[d])), B)
        scales, by_scales = prior.log_density(theta[:d])
        noise, by_noise = NOISE_PRIOR.log_density(theta[d : d + 1])
        value = found.value + float(scales.sum() + noise.sum()) + density
        gradient = np.concatenate(
            [
                found.by_lengthscales + by_scales,
                found.by_noise + by_noise,
                chain(found.by_tasks),
            ]
        )
        return -value / n, -gradient / n

    limits = [_LENGTHSCALES] * d + [_NOISE, *bounds]
    # Start with a smooth function and much noise. From there, the search rarely ends in an
    # optimum that interpolates every row without noise.
    first = np.concatenate([np.full(d, 0.5 * math.log(d)), [math.log(0.2)], start])
    found = minimize(objective, first, jac=True, method="L-BFGS-B", bounds=limits, options=_SEARCH)
    theta = found.x if np.isfinite(found.fun) and np.isfinite(found.x).all() else first
    return np.exp(theta[:d]), float(np.exp(theta[d])), theta[d + 1 :]


@dataclass(frozen=True)
class JointGP:
    """Posterior of the target task's function, given rows of all tasks.

    Attributes:
        X: configurations (N, d) of all tasks.
        lengthscales: length-scales (d,) of the configuration kernel.
        shares: covariance (N,) of each row's task with the target task.
        variance: prior variance of the target task.
        weights: (K + noise)^-1 y, shape (N,).
        whitener: L^-1 (N, N), where L L^T = K + noise.
    """

    X: Array
    lengthscales: Array
    shares: Array
    variance: float
    weights: Array
    whitener: Array

    @classmethod
    def given(
        cls,
        X: Array,
        y: Array,
        task: Index,
        B: Array,
        lengthscales: Array,
        noise: Array,
    ) -> JointGP:
        """Condition a Gaussian process with mean zero on rows; the last task is the target task.

        Args:
            X: configurations (N, d) of all tasks.
            y: observed values (N,).
            task: index (N,) of each row's task.
            B: covariance of tasks (T, T).
            lengthscales: length-scales (d,) of the configuration kernel.
            noise: noise variance (N,) of each row.
        """
        K = B[np.ix_(task, task)] * matern52(squared_distances(X, X, lengthscales))[0]
        K[np.diag_indices_from(K)] = np.diag(B)[task] + noise
        whitener, _ = lapack.dtrtri(cholesky(K), lower=1)
        weights = whitener.T @ (whitener @ y)
        return cls(X, lengthscales, B[-1, task], float(B[-1, -1]), weights, whitener)

    def posterior(self, Z: Array) -> tuple[Array, Array]:
        """Posterior mean (m,) and variance (m,) of the target task at Z (m, d), without noise."""
        cross = self._cross(Z)
        mean = cross @ self.weights
        half = self._whitened(cross)
        return mean, np.maximum(self.variance - np.einsum("nm,nm->m", half, half), 0.0)

    def covariance(self, Z: Array) -> Array:
        """Posterior covariance (m, m) of the target task at Z (m, d), without noise."""
        half = self._whitened(self._cross(Z))
        prior = matern52(squared_distances(Z, Z, self.lengthscales))[0]
        np.fill_diagonal(prior, 1.0)
        covariance: Array = self.variance * prior - half.T @ half
        return covariance

    def _cross(self, Z: Array) -> Array:
        return self.shares * matern52(squared_distances(Z, self.X, self.lengthscales))[0]

    def _whitened(self, cross: Array) -> Array:
        half: Array = blas.dtrmm(1.0, self.whitener, cross.T, lower=1, overwrite_b=1)
        return half


class JointSurrogate(TransferSurrogate):
    """Base of surrogates with one Gaussian process for the source tasks and the target task.

    Without source tasks, the surrogate is an ordinary Gaussian process.

    Attributes:
        rows: rows of the source tasks; None if there are no source tasks.
        lengthscales: length-scales (d,) of the configuration kernel.
        noise: noise variance of the source tasks.
    """

    rows: Rows | None = None
    lengthscales: Array
    noise: float
    revisits = True

    @property
    def meta_learned(self) -> bool:
        return self.rows is not None

    def _learn(
        self, tasks: Sequence[Task], validation: Sequence[Task], progress: bool | None
    ) -> None:
        rows = Rows.of(tasks, progress)
        self.learn(rows)
        self.rows = rows

    def fit(self, task: Task) -> Self:
        self._n = len(task)
        if self.rows is None:
            self._plain = GaussianProcess().fit(task)
            return self
        check_columns(task, self.rows.X.shape[1])
        with one_thread():
            self.observe(self.rows, task)
        return self

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        X = np.asarray(X, dtype=float)
        return (
            self._plain.predict(X, joint=joint) if self.rows is None else self.believed(X, joint)
        )

    def improvement(self, X: Array) -> Array | None:
        """Negative posterior mean (n,) before the first evaluation; None afterwards."""
        return None if self._n or self.rows is None else -self.predict(X).mean

    @abstractmethod
    def learn(self, rows: Rows) -> None:
        """Fit the kernel parameters to rows of source tasks."""

    @abstractmethod
    def observe(self, rows: Rows, task: Task) -> None:
        """Condition the process on rows of source tasks and on the target task.

        Args:
            rows: rows of the source tasks.
            task: target task, which can be empty.
        """

    @abstractmethod
    def believed(self, X: Array, joint: bool) -> Posterior:
        """Compute the posterior at X (n, d), with its covariance if `joint`."""

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        assert self.rows is not None
        arrays, record = self.rows.parts()
        learnt = {"lengthscales": self.lengthscales, "noise": np.array(self.noise)}
        return {**arrays, **learnt}, record

    def restore(self, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        self.rows = Rows.from_parts(arrays, record)
        self.lengthscales, self.noise = arrays["lengthscales"], float(arrays["noise"])
