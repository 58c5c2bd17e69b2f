"""Multi-task Gaussian process: the intrinsic coregionalisation model over past and new task.

The covariance of f(x, t) and f(x', t') is B[t, t'] k(x, x') with B = W W^T + diag(v) (Bonilla et
al., 2008; Swersky et al., 2013): a task is a sum of R latent functions u_r, weighted by its row
of W, and of something of its own,

    f_t(x) = sum_r W[t, r] u_r(x) + sqrt(v_t) g_t(x).

Offline, W, v and the kernel are learnt from rows of past tasks. Online only the numbers of the
new task are: its weights w, whose prior are the rows of W, its variance v, the noise, and the
unknown level and scale of its losses. Given the past, the latent functions are a Gaussian process
with known mean and covariance, so that takes small matrices only.
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
from rankwise.surrogates.base import Posterior
from rankwise.surrogates.exact import (
    LogNormal,
    cholesky,
    matern52,
    spread_over,
    squared_distances,
)
from rankwise.surrogates.joint import JointGP, JointSurrogate, Rows, most_likely
from rankwise.task import Task
from rankwise.transforms import Standardize
from rankwise.types import Array

OWN_PRIOR = LogNormal(math.log(0.3), 1.0)  # of v

_ENOUGH = 100  # observations from which the numbers of the new task are fitted
_LOADINGS, _OWN = (-3.0, 3.0), (math.log(1e-3), math.log(10.0))  # bounds
_NOISE, _SCALE = (math.log(1e-6), 1.0), (math.log(0.02), math.log(50.0))
_SPREAD = 0.3  # smallest standard deviation of a new task's weights
_SEARCH = {"maxiter": 50, "ftol": 1e-6, "gtol": 1e-4}


class MultiTaskGP(JointSurrogate):
    """A Gaussian process of all tasks at once (ICM).

    Losses of past tasks count by their scores, half ranks and half standardised losses.

    Args:
        rank: R, the number of latent functions that tasks share.
        seed: of the start of the search for W.
    """

    file_kind = "multi-task-gp"

    def __init__(self, *, rank: int = 1, seed: int = 0) -> None:
        self.rank = check_count("rank", rank)
        self.seed = seed

    def learn(self, rows: Rows) -> None:
        count, rank = len(rows), self.rank
        loadings = 0.1 * np.random.default_rng(self.seed).normal(size=(count, rank))
        loadings[:, 0] += 0.8  # tasks have something in common, until the rows deny it
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
        self._transform = Standardize.fit(task.losses) if n else Standardize(0.0, 1.0, np.inf)
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
        """What the past says of the latent functions at X (n, d)."""
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
                f"the file was learnt with rank={rank}, not {self.rank}: learn the past again"
            )
        super().restore(arrays, record)
        self.W, self.v = arrays["W"], arrays["v"]


@dataclass(frozen=True)
class Latents:
    """The R latent functions at n configurations, given the past.

    Attributes:
        mean: (R, n).
        kernel: of the configurations (n, n), the covariance of each function without the past.
        known: (R, R, n, n), by how much the past lowers the covariance.
    """

    mean: Array
    kernel: Array
    known: Array


@dataclass(frozen=True)
class Target:
    """The numbers of a new task.

    Attributes:
        w: weights (R,) of the latent functions.
        v: variance of what is its own.
        noise: variance of its noise.
        scale: of its losses in units of the past's.
        level: mean of its losses, in these units.
    """

    w: Array
    v: float
    noise: float
    scale: float
    level: float

    @classmethod
    def of(cls, latents: Latents, y: Array, W: Array, v: Array, noise: float) -> Target:
        """The most probable ones, given observations.

        Args:
            latents: at the n observations.
            y: standardised losses (n,).
            W: weights of past tasks (T, R), which are the prior of the new one's.
            v: variances of past tasks (T,).
            noise: variance of their noise.
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
    """The prior of a new task's numbers.

    Attributes:
        mean: of its weights (R,).
        precision: of its weights (R, R).
        own: density of its own variance.
        noise: density of its noise.
    """

    mean: Array
    precision: Array
    own: LogNormal
    noise: LogNormal

    @classmethod
    def of(cls, W: Array, own: float, noise: float) -> TargetPrior:
        """By the weights W (T, R) of past tasks, their typical own variance and their noise."""
        deviation = W - W.mean(axis=0)
        covariance = deviation.T @ deviation / max(len(W) - 1, 1)
        covariance += _SPREAD**2 * np.eye(W.shape[1])
        densities = (LogNormal(math.log(typical) + 1.0, 1.0) for typical in (own, noise))
        return cls(W.mean(axis=0), np.linalg.inv(covariance), *densities)

    def log_density(self, theta: Array) -> tuple[float, Array]:
        """Its logarithm at theta (R + 3,), see `negative_log_posterior`, and the gradient."""
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
    """Of w (R,), log v, log noise and log scale, its gradient (R + 3,), and the best level.

    In units of the past the observations y / scale have the mean level + w M and the covariance
    (w w + v) k - sum_rs w_r w_s C_rs + noise. The level has a flat prior and is integrated out.
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
    A = np.outer(alpha, alpha) - inverse + np.outer(ones, ones) / total  # dvalue / dK, twice
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
