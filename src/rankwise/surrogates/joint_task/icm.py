"""Multi-task Gaussian process: the intrinsic coregionalisation model (ICM).

The covariance of f(x, t) and f(x', t') is B[t, t'] k(x, x') with B = W W^T + diag(v) (Bonilla et
al., 2008; Swersky et al., 2013). The function of task t is a weighted sum of R latent functions
u_r that all tasks share, plus a function g_t that belongs to the task alone:

    f_t(x) = sum_r W[t, r] u_r(x) + sqrt(v_t) g_t(x).

`meta_fit` learns W, v and the kernel from rows of source tasks. `fit` learns only the parameters
of the target task: its weights w (with a prior estimated from the rows of W), its variance v, its
noise, and the level and scale of its losses. Given the source tasks, the latent functions are a
Gaussian process with known mean and covariance. So `fit` needs only small matrices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import minimize

from rankwise.errors import ModelFileError, check_count
from rankwise.history.task import Task
from rankwise.history.transforms import Standardize
from rankwise.surrogates.base import Posterior
from rankwise.surrogates.joint_task.base import JointGP, JointSurrogate, Rows, most_likely
from rankwise.surrogates.numeric.exact_gp import (
    LogNormal,
    cholesky,
    matern52,
    spread_over,
    squared_distances,
)
from rankwise.types import Array

OWN_PRIOR = LogNormal(math.log(0.3), 1.0)  # prior of each entry of v

_ENOUGH = 100  # maximum number of observations to which the target task's parameters are fitted
_LOADINGS, _OWN = (-3.0, 3.0), (math.log(1e-3), math.log(10.0))  # bounds of W and of log v
_NOISE, _SCALE = (math.log(1e-6), 1.0), (math.log(0.02), math.log(50.0))  # bounds, logarithms
_SPREAD = 0.3  # smallest prior standard deviation of the target task's weights
_SEARCH = {"maxiter": 50, "ftol": 1e-6, "gtol": 1e-4}


class MultiTaskGP(JointSurrogate):
    """Multi-task Gaussian process (ICM) over the source tasks and the target task.

    Losses of source tasks are replaced by scores, which average their ranks and their
    standardized values.

    Args:
        rank: number R of latent functions that the tasks share.
        seed: seed of the initial value of W.
    """

    file_kind = "multi-task-gp"

    def __init__(self, *, rank: int = 1, seed: int = 0) -> None:
        self.rank = check_count("rank", rank)
        self.seed = seed

    def learn(self, rows: Rows) -> None:
        count, rank = len(rows), self.rank
        loadings = 0.1 * np.random.default_rng(self.seed).normal(size=(count, rank))
        loadings[:, 0] += 0.8  # start with positively correlated tasks
        start = np.concatenate([loadings.ravel(), np.full(count, math.log(0.3))])
        bounds = [_LOADINGS] * (count * rank) + [_OWN] * count

        def covariance(theta: Array) -> Any:
            W, log_v = theta[: count * rank].reshape(count, rank), theta[count * rank :]
            density, by_v = OWN_PRIOR.log_density(log_v)
            value = float(density.sum()) - 0.5 * float(np.square(W).sum())

            def chain(by_B: Array) -> Array:
                by_W = 2.0 * by_B @ W - W
                return np.concatenate([by_W.ravel(), np.diag(by_B) * np.exp(log_v) + by_v])

            return W @ W.T + np.diag(np.exp(log_v)), value, chain

        self.lengthscales, self.noise, theta = most_likely(rows, start, covariance, bounds)
        self.W, self.v = theta[: count * rank].reshape(count, rank), np.exp(theta[count * rank :])

    def observe(self, rows: Rows, task: Task) -> None:
        n = len(task)
        X = task.X if n else np.empty((0, rows.X.shape[1]))
        self._transform = (
            Standardize.fit(task.losses, task.fence) if n else Standardize(0.0, 1.0, np.inf)
        )
        y = self._transform(task.losses)
        used = spread_over(y, _ENOUGH)
        target = Target.of(self.latents(rows, X[used]), y[used], self.W, self.v, self.noise)
        self._level, self._scale = target.level, target.scale
        W = np.vstack([self.W, target.w])
        B = W @ W.T + np.diag(np.append(self.v, target.v))
        self.model = JointGP.given(
            np.concatenate([rows.X, X]),
            np.concatenate([rows.y, y / target.scale - target.level]),
            np.concatenate([rows.task, np.full(n, len(rows))]),
            B,
            self.lengthscales,
            np.repeat([self.noise, target.noise], [len(rows.y), n]),
        )

    def latents(self, rows: Rows, X: Array) -> Latents:
        """Compute the posterior of the latent functions at X (n, d), given the source tasks."""
        B = self.W @ self.W.T + np.diag(self.v)
        K = matern52(squared_distances(rows.X, rows.X, self.lengthscales))[0]
        K = K * B[np.ix_(rows.task, rows.task)]
        K[np.diag_indices_from(K)] += self.noise
        L = cholesky(K)
        cross = matern52(squared_distances(rows.X, X, self.lengthscales))[0]
        loaded = self.W[rows.task].T[:, :, None] * cross
        half = np.array([lapack.dtrtrs(L, c, lower=1)[0] for c in loaded])
        y, _ = lapack.dtrtrs(L, rows.y, lower=1)
        own = matern52(squared_distances(X, X, self.lengthscales))[0]
        return Latents(
            np.einsum("rNn,N->rn", half, y), own, np.einsum("rNn,sNm->rsnm", half, half)
        )

    def believed(self, X: Array, joint: bool) -> Posterior:
        mean, variance = self.model.posterior(X)
        unit = self._scale * self._transform.scale
        centre, std = self._transform.unscale(
            self._scale * (mean + self._level), self._scale * np.sqrt(variance)
        )
        return Posterior(centre, std, self.model.covariance(X) * unit * unit if joint else None)

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        arrays, record = super().parts()
        return {**arrays, "W": self.W, "v": self.v}, record

    def restore(self, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        rank = arrays["W"].shape[1]
        if self.rank != rank:
            raise ModelFileError(
                f"the model was learnt with rank={rank}, not {self.rank}: learn it again"
            )
        super().restore(arrays, record)
        self.W, self.v = arrays["W"], arrays["v"]


@dataclass(frozen=True)
class Latents:
    """Posterior of the R latent functions at n configurations, given the source tasks.

    Attributes:
        mean: posterior mean (R, n).
        kernel: prior covariance (n, n) of each latent function.
        known: prior minus posterior covariance (R, R, n, n) of the latent functions.
    """

    mean: Array
    kernel: Array
    known: Array


@dataclass(frozen=True)
class Target:
    """Parameters of the target task.

    Attributes:
        w: weights (R,) of the latent functions.
        v: variance of the function that belongs to the task alone.
        noise: noise variance.
        scale: size of one unit of the source tasks' scores, in standardized losses of the target
            task.
        level: mean of the target task's losses, in units of the source tasks' scores.
    """

    w: Array
    v: float
    noise: float
    scale: float
    level: float

    @classmethod
    def of(cls, latents: Latents, y: Array, W: Array, v: Array, noise: float) -> Target:
        """Estimate the parameters from observations, by maximum a posteriori.

        Args:
            latents: posterior of the latent functions at the n observed configurations.
            y: standardized losses (n,).
            W: weights of the source tasks (T, R); their mean and covariance give the prior of w.
            v: variances (T,) of the functions that belong to one source task alone.
            noise: noise variance of the source tasks.
        """
        rank, own = W.shape[1], float(np.median(v))
        theta = np.concatenate([W.mean(axis=0), [math.log(own), math.log(noise), 0.0]])
        prior = TargetPrior.of(W, own, noise)
        if len(y) > 1:
            bounds = [_LOADINGS] * rank + [_OWN, _NOISE, _SCALE]
            found = minimize(
                lambda theta: negative_log_posterior(theta, latents, y, prior)[:2],
                np.clip(theta, *np.array(bounds).T),
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options=_SEARCH,
            )
            theta = found.x if np.isfinite(found.fun) else theta
        level = negative_log_posterior(theta, latents, y, prior)[2] if len(y) else 0.0
        log_v, log_noise, log_scale = theta[rank:].tolist()
        return cls(theta[:rank], math.exp(log_v), math.exp(log_noise), math.exp(log_scale), level)


@dataclass(frozen=True)
class TargetPrior:
    """Prior of the target task's parameters.

    Attributes:
        mean: prior mean (R,) of the weights w.
        precision: prior precision (R, R) of the weights w.
        own: prior density of the variance v.
        noise: prior density of the noise variance.
    """

    mean: Array
    precision: Array
    own: LogNormal
    noise: LogNormal

    @classmethod
    def of(cls, W: Array, own: float, noise: float) -> TargetPrior:
        """Estimate the prior from source tasks.

        Args:
            W: weights (T, R) of the source tasks.
            own: typical variance v of a source task.
            noise: noise variance of the source tasks.
        """
        deviation = W - W.mean(axis=0)
        covariance = deviation.T @ deviation / max(len(W) - 1, 1)
        covariance += _SPREAD**2 * np.eye(W.shape[1])
        densities = (LogNormal(math.log(typical) + 1.0, 1.0) for typical in (own, noise))
        return cls(W.mean(axis=0), np.linalg.inv(covariance), *densities)

    def log_density(self, theta: Array) -> tuple[float, Array]:
        """Log prior density at theta (R + 3,), and its gradient (R + 3,).

        `negative_log_posterior` says what theta contains.
        """
        rank = len(self.mean)
        off = self.precision @ (theta[:rank] - self.mean)
        own, by_own = self.own.log_density(theta[rank : rank + 1])
        noise, by_noise = self.noise.log_density(theta[rank + 1 : rank + 2])
        log_scale = float(theta[rank + 2])
        quadratic = float((theta[:rank] - self.mean) @ off) + log_scale**2
        value = float(own[0] + noise[0]) - 0.5 * quadratic
        return value, np.concatenate([-off, by_own, by_noise, [-log_scale]])


def negative_log_posterior(
    theta: Array, latents: Latents, y: Array, prior: TargetPrior
) -> tuple[float, Array, float]:
    """Negative log posterior density of the target task's parameters.

    y / scale has the mean level + w M and the covariance
    (w w + v) k - sum_rs w_r w_s C_rs + noise, where M, k and C are `mean`, `kernel` and `known`
    of the latent functions. The level has a flat prior and is integrated out.

    Args:
        theta: w (R,), log v, log noise and log scale, in one array (R + 3,).
        latents: posterior of the latent functions at the n observed configurations.
        y: standardized losses (n,).
        prior: prior of theta.

    Returns:
        The value, its gradient (R + 3,) by theta, and the posterior mean of the level.
    """
    n, rank = len(y), len(theta) - 3
    w, (v, noise, scale) = theta[:rank], np.exp(theta[rank:])
    K = (w @ w + v) * latents.kernel - np.einsum("r,s,rsnm->nm", w, w, latents.known)
    K[np.diag_indices_from(K)] += noise
    L = cholesky(K)
    inverse, _ = lapack.dpotri(L, lower=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    ones = inverse.sum(axis=1)
    total = float(ones.sum())
    residual = y / scale - w @ latents.mean
    level = float(ones @ residual) / total
    alpha = inverse @ (residual - level)
    value = -0.5 * float((residual - level) @ alpha) - float(np.log(np.diag(L)).sum())
    value -= 0.5 * math.log(total) + (n - 1) * float(theta[-1])
    A = np.outer(alpha, alpha) - inverse + np.outer(ones, ones) / total  # 2 d(value) / dK
    by_kernel = float((A * latents.kernel).sum())
    by_known = np.einsum("nm,rsnm->rs", A, latents.known)
    gradient = np.concatenate(
        [
            by_kernel * w - by_known @ w + latents.mean @ alpha,
            [0.5 * v * by_kernel, 0.5 * noise * np.trace(A), alpha @ y / scale - (n - 1)],
        ]
    )
    density, by_theta = prior.log_density(theta)
    return -(value + density), -(gradient + by_theta), level
