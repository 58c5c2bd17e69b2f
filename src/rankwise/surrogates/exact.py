"""Exact Gaussian processes on small data: kernels, evidence with its gradient, posterior.

The models of `gp` and of the sources of `eb-gp`. A fit makes a hundred evaluations of the
evidence of tens of rows; through a general library nearly all the time of such an evaluation is
spent around the arithmetic, so the gradient is written out here (tests compare with BoTorch).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack
from scipy.optimize import minimize

from rankwise.types import Array

_SQRT5 = math.sqrt(5.0)
LENGTHSCALES = (math.log(0.025), math.log(1e4))  # bounds, beyond which nothing changes
SEARCH = {"maxiter": 100, "ftol": 1e-6, "gtol": 1e-4}
# The search ends where the evidence is flat: length-scales of columns that do not matter would
# otherwise wander on for hundreds of steps without changing a prediction.


def rbf(r2: Array) -> tuple[Array, Array]:
    """Squared-exponential kernel of scaled squared distances, and its slope; see `Kernel`."""
    k = np.exp(-0.5 * r2)
    return k, k


def matern52(r2: Array) -> tuple[Array, Array]:
    """Matérn-5/2 kernel of scaled squared distances, and its slope; see `Kernel`."""
    r = _SQRT5 * np.sqrt(r2)
    decay = np.exp(-r)
    linear = (1.0 + r) * decay
    return linear + (5.0 / 3.0) * r2 * decay, (5.0 / 3.0) * linear


Kernel = Callable[[Array], tuple[Array, Array]]
"""From squared distances r^2 = sum_j (x_j - x'_j)^2 / l_j^2 to k and its slope -2 dk / d(r^2):
the derivative of k by log l_j is the slope times (x_j - x'_j)^2 / l_j^2."""


def squared_distances(A: Array, B: Array, lengthscales: Array) -> Array:
    """Scaled squared distances (n, m) between the rows of A (n, d) and of B (m, d)."""
    A, B = A / lengthscales, B / lengthscales
    r2: Array = (-2.0 * A) @ B.T
    r2 += np.einsum("nd,nd->n", A, A)[:, None]
    r2 += np.einsum("md,md->m", B, B)
    return np.maximum(r2, 0.0, out=r2)


@dataclass(frozen=True)
class LogNormal:
    """A log-normal density of a positive number."""

    loc: float
    scale: float

    @property
    def mode(self) -> float:
        return math.exp(self.loc - self.scale**2)

    def log_density(self, log_x: Array) -> tuple[Array, Array]:
        """Its logarithm at x, without the constant, and the derivative by log x; elementwise."""
        z = (log_x - self.loc) / self.scale
        return -0.5 * z**2 - log_x, -z / self.scale - 1.0


def lengthscale_prior(d: int) -> LogNormal:
    """The prior that grows with the dimension (Hvarfner et al., ICML 2024)."""
    return LogNormal(math.sqrt(2.0) + 0.5 * math.log(d), math.sqrt(3.0))


NOISE_PRIOR = LogNormal(-4.0, 1.0)


def cholesky(K: Array) -> Array:
    """Lower factor (n, n) of a covariance; a matrix that is singular by rounding gets a jitter."""
    jitter = 0.0
    while True:
        A = K if jitter == 0.0 else K + jitter * np.eye(len(K))
        L, info = lapack.dpotrf(A, lower=1, clean=1)
        if info == 0 and np.isfinite(L[-1, -1]):  # a NaN reaches the last row, without an error
            return np.asarray(L)
        scale = float(np.mean(np.diag(K)))
        jitter = max(1e-9 * scale, 10.0 * jitter)
        if not jitter < scale:
            raise np.linalg.LinAlgError("a covariance matrix is not finite or not positive")


@dataclass(frozen=True)
class ExactGP:
    """A Gaussian process with unit variance and a constant mean, given observations.

    Attributes:
        X: observed points (n, d).
        kernel: of its covariance.
        lengthscales: one per column (d,).
        noise: variance of the observations' noise.
        constant: the mean.
        weights: (K + noise)^-1 (y - constant), (n,).
        whitener: L^-1 (n, n), where L L^T = K + noise.
    """

    X: Array
    kernel: Kernel
    lengthscales: Array
    noise: float
    constant: float
    weights: Array
    whitener: Array

    @classmethod
    def given(
        cls, X: Array, y: Array, kernel: Kernel, lengthscales: Array, noise: float
    ) -> ExactGP:
        """The process of those hyperparameters, with the most likely constant mean."""
        K = kernel(squared_distances(X, X, lengthscales))[0]
        K[np.diag_indices_from(K)] = 1.0 + noise
        whitener, _ = lapack.dtrtri(cholesky(K), lower=1)
        ones, target = whitener.sum(axis=1), whitener @ y
        constant = float(ones @ target) / float(ones @ ones)
        weights = whitener.T @ (target - constant * ones)
        return cls(X, kernel, lengthscales, noise, constant, weights, whitener)

    def mean(self, Z: Array) -> Array:
        """Posterior mean (m,) at Z (m, d)."""
        return self.constant + self._cross(Z) @ self.weights

    def posterior(self, Z: Array) -> tuple[Array, Array]:
        """Posterior mean and variance (m,) at Z (m, d), without the noise."""
        cross = self._cross(Z)
        mean = self.constant + cross @ self.weights
        half = self._whitened(cross)
        return mean, np.maximum(1.0 - np.einsum("nm,nm->m", half, half), 0.0)

    def covariance(self, Z: Array) -> Array:
        """Posterior covariance (m, m) at Z (m, d), without the noise."""
        half = self._whitened(self._cross(Z))
        prior = self.kernel(squared_distances(Z, Z, self.lengthscales))[0]
        np.fill_diagonal(prior, 1.0)
        covariance: Array = prior - half.T @ half
        return covariance

    def _whitened(self, cross: Array) -> Array:
        """L^-1 times the transpose of cross (m, n), which is overwritten: (n, m).

        The triangular product is half the work of a general one, and most of a prediction's.
        """
        half: Array = blas.dtrmm(1.0, self.whitener, cross.T, lower=1, overwrite_b=1)
        return half

    def _cross(self, Z: Array) -> Array:
        return self.kernel(squared_distances(Z, self.X, self.lengthscales))[0]


def spread_over(y: Array, count: int) -> list[int]:
    """At most `count` rows that stand for all of y (n,), evenly over its order."""
    if len(y) <= count:
        return list(range(len(y)))
    chosen = np.linspace(0, len(y) - 1, count).round().astype(int)
    rows: list[int] = np.argsort(y, kind="stable")[chosen].tolist()
    return rows


def fit_hyperparameters(
    X: Array, y: Array, kernel: Kernel, noise_floor: float = 1e-6
) -> tuple[Array, float]:
    """Length-scales (d,) and noise, by maximum a posteriori.

    Args:
        X: points (n, d).
        y: standardised observations (n,).
        kernel: of the covariance.
        noise_floor: smallest noise variance.
    """
    n, d = X.shape
    prior = lengthscale_prior(d)
    start = np.log([prior.mode] * d + [max(NOISE_PRIOR.mode, noise_floor)])
    if n > 1:
        bounds = [LENGTHSCALES] * d + [(math.log(noise_floor), 10.0)]
        found = minimize(
            lambda theta: _negative_log_posterior(theta, X, y, kernel, prior),
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options=SEARCH,
        )
        if np.isfinite(found.fun) and np.isfinite(found.x).all():
            start = found.x
    return np.exp(start[:d]), float(np.exp(start[d]))


def _negative_log_posterior(
    theta: Array, X: Array, y: Array, kernel: Kernel, prior: LogNormal
) -> tuple[float, Array]:
    """Of log length-scales and log noise theta (d + 1,), per observation, and its gradient."""
    n, d = X.shape
    S = X / np.exp(theta[:d])
    log_evidence, W, by_noise = evidence(S, y, kernel, float(np.exp(theta[d])))
    by_scale = (S * S).T @ W.sum(axis=1) - (S * (W @ S)).sum(axis=0)
    scale_prior, scale_slope = prior.log_density(theta[:d])
    noise_prior, noise_slope = NOISE_PRIOR.log_density(theta[d:])
    value = log_evidence + float(scale_prior.sum() + noise_prior.sum())
    gradient = np.concatenate([by_scale + scale_slope, by_noise + noise_slope])
    return -value / n, -gradient / n


def evidence(S: Array, y: Array, kernel: Kernel, noise: float) -> tuple[float, Array, float]:
    """Of y (n,) at scaled points S (n, d): its logarithm, W (n, n) and the slope by log noise.

    The derivative by S is W S - S * (row sums of W). The constant mean is at its optimum, so
    its derivative plays no part.
    """
    K, slope = kernel(squared_distances(S, S, np.ones(S.shape[1])))
    K = K.copy()
    K[np.diag_indices_from(K)] = 1.0 + noise
    L = cholesky(K)
    inverse, _ = lapack.dpotri(L, lower=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    ones = inverse.sum(axis=1)
    constant = float(ones @ y) / float(ones.sum())
    alpha = inverse @ (y - constant)
    log_evidence = -0.5 * float((y - constant) @ alpha) - float(np.log(np.diag(L)).sum())
    A = np.outer(alpha, alpha) - inverse  # d log evidence / dK, twice
    return log_evidence, A * slope, 0.5 * noise * float(np.trace(A))
