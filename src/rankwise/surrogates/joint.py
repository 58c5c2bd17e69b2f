"""One Gaussian process over pairs of a configuration and a task.

The covariance of f(x, t) and f(x', t') is B[t, t'] k(x, x'): a covariance of tasks times a kernel
of configurations (the intrinsic coregionalisation model). What the surrogates that use it share:
the rows of the past that it goes through, its evidence with the gradient, and its posterior.
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

from rankwise.errors import OptionError
from rankwise.progress import training_bar
from rankwise.surrogates.base import Posterior
from rankwise.surrogates.exact import (
    NOISE_PRIOR,
    cholesky,
    lengthscale_prior,
    matern52,
    spread_over,
    squared_distances,
)
from rankwise.surrogates.gp import GaussianProcess
from rankwise.surrogates.sources import SourcePast, scores, sources_of, task_digest, teaches
from rankwise.surrogates.threads import one_thread
from rankwise.surrogates.transfer import TransferSurrogate
from rankwise.task import Task, check_one_width
from rankwise.types import Array

TASKS, ROWS = 15, 300  # past tasks that are kept at most, and rows of all of them together

_LENGTHSCALES = (math.log(0.025), math.log(1e3))
_NOISE = (math.log(1e-4), 1.0)
_SEARCH = {"maxiter": 60, "ftol": 1e-5, "gtol": 1e-4}

Index = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Rows:
    """Evaluations of several tasks.

    Attributes:
        X: configurations (N, d).
        y: (N,), of zero mean and unit variance in each task.
        task: the number (N,) of each row's task, from 0.
        names: of the T tasks.
        contexts: what is known about their data sets.
    """

    X: Array
    y: Array
    task: Index
    names: tuple[str, ...]
    contexts: tuple[Mapping[str, float], ...]

    @classmethod
    def of(cls, tasks: Sequence[Task], progress: bool | None) -> Self | None:
        """At most `ROWS` rows of at most `TASKS` past tasks; None if they have no order.

        Of many tasks those are kept that are far from each other as functions, and of each of
        them rows evenly over the order of its losses. What `y` holds are the scores of `sources`.
        """
        check_one_width(tasks)
        useful = {task_digest(t): t for t in tasks if teaches(t) and t.X.shape[1]}
        if not useful:
            return None
        chosen = [useful[digest] for digest in sorted(useful)]  # in whatever order they are given
        if len(chosen) > TASKS:
            chosen = [useful[digest] for digest in _different(chosen, progress)]
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
        """T, the number of tasks."""
        return len(self.names)

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Arrays and a JSON record from which `from_parts` makes it again."""
        arrays: dict[str, Any] = {"X": self.X, "y": self.y, "task": self.task}
        labels = zip(self.names, self.contexts, strict=True)
        return arrays, {"tasks": [list(label) for label in labels]}

    @classmethod
    def from_parts(cls, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> Self:
        """What `parts` was asked of."""
        names, contexts = (tuple(part) for part in zip(*record["tasks"], strict=True))
        return cls(arrays["X"], arrays["y"], arrays["task"].astype(np.intp), names, contexts)


def _different(tasks: Sequence[Task], progress: bool | None) -> list[str]:
    """The digests of `TASKS` tasks that are far from each other as functions, sorted."""
    with training_bar(progress, len(tasks)) as bar:
        tick = None if bar is None else lambda k: bar(k, math.nan, math.nan)
        past = SourcePast(sources_of(tasks, tick=tick), remember=True)
    return sorted(source.digest for source in past.compact(TASKS, ROWS).sources)


@dataclass(frozen=True)
class Evidence:
    """The logarithm of the evidence of rows, and its derivatives.

    Attributes:
        value: without the constant.
        by_lengthscales: by the logarithms of the length-scales (d,).
        by_noise: by the logarithm of the noise.
        by_tasks: by the entries of the covariance of tasks (T, T).
    """

    value: float
    by_lengthscales: Array
    by_noise: float
    by_tasks: Array


def evidence(rows: Rows, lengthscales: Array, noise: float, B: Array) -> Evidence:
    """Of rows (N, d) under a mean of zero.

    Args:
        rows: of T tasks.
        lengthscales: (d,).
        noise: variance.
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
    A = np.outer(alpha, alpha) - inverse  # d log evidence / dK, twice
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
"""From numbers (q,) to the covariance of tasks B (T, T) that they stand for, the logarithm of
their prior density, and a function from the evidence's derivatives by B (T, T) to the derivatives
of evidence and prior by the numbers (q,)."""


def most_likely(
    rows: Rows, start: Array, covariance: TaskPrior, bounds: Sequence[tuple[float, float]]
) -> tuple[Array, float, Array]:
    """Length-scales (d,), noise, and the numbers (q,) of a covariance of tasks.

    By maximum a posteriori, with the priors of `exact`.

    Args:
        rows: of past tasks.
        start: of the numbers (q,).
        covariance: what they mean.
        bounds: of each number.
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
    # Smooth and noisy: from there the search seldom ends where every row is its own truth.
    first = np.concatenate([np.full(d, 0.5 * math.log(d)), [math.log(0.2)], start])
    found = minimize(objective, first, jac=True, method="L-BFGS-B", bounds=limits, options=_SEARCH)
    theta = found.x if np.isfinite(found.fun) and np.isfinite(found.x).all() else first
    return np.exp(theta[:d]), float(np.exp(theta[d])), theta[d + 1 :]


@dataclass(frozen=True)
class JointGP:
    """The process given rows of all tasks, seen from one of them: the target.

    Attributes:
        X: configurations (N, d).
        lengthscales: (d,).
        shares: covariance (N,) of each row's task with the target.
        variance: of the target.
        weights: (K + noise)^-1 y, (N,).
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
        """Of a mean of zero; the target is the last task.

        Args:
            X: configurations (N, d) of all tasks.
            y: (N,).
            task: the number (N,) of each row's task.
            B: covariance of tasks (T, T).
            lengthscales: (d,).
            noise: variance (N,) of each row's noise.
        """
        K = B[np.ix_(task, task)] * matern52(squared_distances(X, X, lengthscales))[0]
        K[np.diag_indices_from(K)] = np.diag(B)[task] + noise
        whitener, _ = lapack.dtrtri(cholesky(K), lower=1)
        weights = whitener.T @ (whitener @ y)
        return cls(X, lengthscales, B[-1, task], float(B[-1, -1]), weights, whitener)

    def posterior(self, Z: Array) -> tuple[Array, Array]:
        """Mean and variance (m,) of the target at Z (m, d), without the noise."""
        cross = self._cross(Z)
        mean = cross @ self.weights
        half = self._whitened(cross)
        return mean, np.maximum(self.variance - np.einsum("nm,nm->m", half, half), 0.0)

    def covariance(self, Z: Array) -> Array:
        """Posterior covariance (m, m) of the target at Z (m, d), without the noise."""
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
    """A surrogate that is one Gaussian process of the past tasks and the new one.

    Without past tasks it is an ordinary Gaussian process.

    Attributes:
        rows: of past tasks, if any were learnt.
        lengthscales: (d,) of the kernel of configurations.
        noise: variance of the past tasks' noise.
    """

    rows: Rows | None = None
    lengthscales: Array
    noise: float
    revisits = True

    @property
    def meta_learned(self) -> bool:
        return self.rows is not None

    def meta_fit(
        self,
        tasks: Sequence[Task],
        validation: Sequence[Task] = (),
        *,
        progress: bool | None = None,
    ) -> Self:
        """Learn from past tasks; without any that has an order, nothing happens.

        Args:
            tasks: to learn from.
            validation: more of them: there is nothing to stop early here.
            progress: show a bar; by default if standard error is a terminal.
        """
        with one_thread():
            rows = Rows.of([*tasks, *validation], progress)
            if rows is not None:
                self.learn(rows)
                self.rows = rows
        return self

    def fit(self, task: Task) -> Self:
        self._n = len(task)
        if self.rows is None:
            self._plain = GaussianProcess().fit(task)
            return self
        columns = self.rows.X.shape[1]
        if len(task) and task.X.shape[1] != columns:
            raise OptionError(
                f"the past has configurations of {columns} columns and the task has "
                f"{task.X.shape[1]}"
            )
        with one_thread():
            self.observe(self.rows, task)
        return self

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        X = np.asarray(X, dtype=float)
        return (
            self._plain.predict(X, joint=joint) if self.rows is None else self.believed(X, joint)
        )

    def improvement(self, X: Array) -> Array | None:
        """Before the first evaluation the utility (n,) is what past tasks say alone."""
        return None if self._n or self.rows is None else -self.predict(X).mean

    @abstractmethod
    def learn(self, rows: Rows) -> None:
        """Learn what rows of past tasks say of the kernels."""

    @abstractmethod
    def observe(self, rows: Rows, task: Task) -> None:
        """Fit the process to rows of the past and to a task, which may be empty."""

    @abstractmethod
    def believed(self, X: Array, joint: bool) -> Posterior:
        """The posterior at X (n, d), with its covariance if it is asked for."""

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        assert self.rows is not None
        arrays, record = self.rows.parts()
        learnt = {"lengthscales": self.lengthscales, "noise": np.array(self.noise)}
        return {**arrays, **learnt}, record

    def restore(self, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        self.rows = Rows.from_parts(arrays, record)
        self.lengthscales, self.noise = arrays["lengthscales"], float(arrays["noise"])
