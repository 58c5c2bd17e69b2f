"""Exact Gaussian processes on small data: kernels, evidence with its gradient, posterior.

The method `gp` and the models of the source tasks of `eb-gp` use this module. A fit computes the
evidence of tens of rows about a hundred times. A general library spends nearly all of that time
on overhead, so this module computes the gradient by hand. Tests compare it with BoTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import blas, lapack

from rankwise.types import Array, Mask

_SQRT5 = math.sqrt(5.0)
LENGTHSCALES = (math.log(0.025), math.log(1e4))  # bounds of the log length-scales
SEARCH = {"maxiter": 100, "ftol": 1e-6, "gtol": 1e-4}
# Options of L-BFGS-B. The loose tolerances stop it where the evidence is flat. Otherwise the
# length-scales of irrelevant columns would change for hundreds of steps without an effect on the
# predictions.


def rbf(r2: Array) -> tuple[Array, Array]:
    """Compute the squared-exponential kernel and its slope; see `Kernel`.

    Args:
        r2: Scaled squared distances, any shape; both results have the same shape.
    """
    k = np.exp(-0.5 * r2)
    return k, k


def matern52(r2: Array) -> tuple[Array, Array]:
    """Compute the Matérn-5/2 kernel and its slope; see `Kernel`.

    Args:
        r2: Scaled squared distances, any shape; both results have the same shape.
    """
    r = _SQRT5 * np.sqrt(r2)
    decay = np.exp(-r)
    linear = (1.0 + r) * decay
    return linear + (5.0 / 3.0) * r2 * decay, (5.0 / 3.0) * linear


Kernel = Callable[[Array], tuple[Array, Array]]
"""Function that maps r^2 = sum_j (x_j - x'_j)^2 / l_j^2 to the kernel k and its slope.

The slope is -2 dk / d(r^2). The derivative of k by log l_j is slope * (x_j - x'_j)^2 / l_j^2."""


def squared_distances(A: Array, B: Array, lengthscales: Array) -> Array:
    """Return scaled squared distances (n, m) between the rows of A (n, d) and of B (m, d).

    Args:
        A: Points (n, d).
        B: Points (m, d).
        lengthscales: Divisor of each column (d,).
    """
    A, B = A / lengthscales, B / lengthscales
    r2: Array = (-2.0 * A) @ B.T
    r2 += np.einsum("nd,nd->n", A, A)[:, None]
    r2 += np.einsum("md,md->m", B, B)
    return np.maximum(r2, 0.0, out=r2)


@dataclass(frozen=True)
class LogNormal:
    """Log-normal density of a positive number.

    Attributes:
        loc: Mean of the logarithm.
        scale: Standard deviation of the logarithm.
    """

    loc: float
    scale: float

    @property
    def mode(self) -> float:
        """Most likely value."""
        return math.exp(self.loc - self.scale**2)

    def log_density(self, log_x: Array) -> tuple[Array, Array]:
        """Compute the log density at x and its derivative by log x, elementwise.

        The constant that does not depend on x is left out.

        Args:
            log_x: Logarithms of x, any shape; both results have the same shape.
        """
        z = (log_x - self.loc) / self.scale
        return -0.5 * z**2 - log_x, -z / self.scale - 1.0


def lengthscale_prior(d: int) -> LogNormal:
    """Return the prior of a length-scale for d columns (Hvarfner et al., ICML 2024).

    Its median grows with the square root of d.
    """
    return LogNormal(math.sqrt(2.0) + 0.5 * math.log(d), math.sqrt(3.0))


NOISE_PRIOR = LogNormal(-4.0, 1.0)  # prior of the noise variance


def cholesky(K: Array) -> Array:
    """Return the lower Cholesky factor (n, n) of a covariance matrix K (n, n).

    If K is singular because of rounding errors, a small multiple of the identity is added.

    Raises:
        numpy.linalg.LinAlgError: K is not finite, or is not positive definite even with a jitter
            of a tenth of its mean variance.
    """
    jitter = 0.0
    while True:
        A = K if jitter == 0.0 else K + jitter * np.eye(len(K))
        L, info = lapack.dpotrf(A, lower=1, clean=1)
        # LAPACK reports no error for a NaN, but a NaN always spreads to the last element.
        if info == 0 and np.isfinite(L[-1, -1]):
            return np.asarray(L)
        scale = float(np.mean(np.diag(K)))
        jitter = max(1e-9 * scale, 10.0 * jitter)
        if not jitter < scale:
            raise np.linalg.LinAlgError("a covariance matrix is not finite or not positive")


@dataclass(frozen=True)
class ExactGP:
    """Gaussian process with unit prior variance and constant mean, conditioned on observations.

    Attributes:
        X: Observed points (n, d).
        kernel: Covariance function.
        lengthscales: One length-scale per column (d,).
        noise: Noise variance of the observations.
        constant: Prior mean.
        weights: (K + noise I)^-1 (y - constant), shape (n,).
        whitener: L^-1 (n, n), where L L^T = K + noise I.
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
        """Condition a process with fixed hyperparameters on observations.

        The prior mean is the constant that maximizes the likelihood.

        Args:
            X: Observed points (n, d).
            y: Observations (n,).
            kernel: Covariance function.
            lengthscales: One length-scale per column (d,).
            noise: Noise variance.
        """
        K = kernel(squared_distances(X, X, lengthscales))[0]
        K[np.diag_indices_from(K)] = 1.0 + noise
        whitener, _ = lapack.dtrtri(cholesky(K), lower=1)
        ones, target = whitener.sum(axis=1), whitener @ y
        constant = float(ones @ target) / float(ones @ ones)
        weights = whitener.T @ (target - constant * ones)
        return cls(X, kernel, lengthscales, noise, constant, weights, whitener)

    def mean(self, Z: Array) -> Array:
        """Return the posterior mean (m,) at points Z (m, d)."""
        return self.constant + self._cross(Z) @ self.weights

    def posterior(self, Z: Array) -> tuple[Array, Array]:
        """Return the posterior mean and variance (m,) at points Z (m, d), without noise."""
        cross = self._cross(Z)
        mean = self.constant + cross @ self.weights
        half = self._whitened(cross)
        return mean, np.maximum(1.0 - np.einsum("nm,nm->m", half, half), 0.0)

    def covariance(self, Z: Array) -> Array:
        """Return the posterior covariance (m, m) at points Z (m, d), without noise."""
        half = self._whitened(self._cross(Z))
        prior = self.kernel(squared_distances(Z, Z, self.lengthscales))[0]
        np.fill_diagonal(prior, 1.0)
        covariance: Array = prior - half.T @ half
        return covariance

    def _whitened(self, cross: Array) -> Array:
        """Return L^-1 cross^T (n, m) for cross-covariances cross (m, n), which are overwritten.

        This product takes most of the time of a prediction. The triangular BLAS routine does half
        the work of a general matrix product.
        """
        half: Array = blas.dtrmm(1.0, self.whitener, cross.T, lower=1, overwrite_b=1)
        return half

    def _cross(self, Z: Array) -> Array:
        """Return the prior covariances (m, n) between points Z (m, d) and the observed points."""
        return self.kernel(squared_distances(Z, self.X, self.lengthscales))[0]


def spread_over(y: Array, count: int) -> list[int]:
    """Choose at most `count` rows of y (n,) that are evenly spaced when y is sorted.

    Returns the row indices: all rows in their order if n <= count; otherwise sorted by y.
    """
    if len(y) <= count:
        return list(range(len(y)))
    positions = np.linspace(0, len(y) - 1, count).round().astype(int)
    rows: list[int] = np.argsort(y, kind="stable")[positions].tolist()
    return rows


def fit_hyperparameters(
    X: Array, y: Array, kernel: Kernel, noise_floor: float = 1e-6
) -> tuple[Array, float]:
    """Fit length-scales (d,) and the noise variance by maximum a posteriori.

    The result is the mode of each prior if there is only one observation or the optimizer fails.

    Args:
        X: Points (n, d).
        y: Standardized observations (n,).
        kernel: Covariance function.
        noise_floor: Smallest noise variance.
    """
    from scipy.optimize import minimize

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
    """Compute the negative log posterior density per observation and its gradient (d + 1,).

    Args:
        theta: Log length-scales and log noise variance (d + 1,).
        X: Points (n, d).
        y: Standardized observations (n,).
        kernel: Covariance function.
        prior: Prior of each length-scale.
    """
    n, d = X.shape
    S = X / np.exp(theta[:d])
    log_evidence, W, by_noise = evidence(S, y, kernel, float(np.exp(theta[d])))
    by_scale = (S * S).T @ W.sum(axis=1) - (S * (W @ S)).sum(axis=0)
    scale_prior, scale_slope = prior.log_density(theta[:d])
    noise_prior, noise_slope = NOISE_PRIOR.log_density(theta[d:])
    value = log_evidence + float(scale_prior.sum() + noise_prior.sum())
    gradient = np.concatenate([by_scale + scale_slope, by_noise + noise_slope])
    return -value / n, -gradient / n


@lru_cache(8)
def _lower_part(n: int) -> Mask:
    """Mask (n, n) of the lower triangle."""
    return np.tri(n, dtype=bool)


def evidence(S: Array, y: Array, kernel: Kernel, noise: float) -> tuple[float, Array, float]:
    """Compute the log evidence of y (n,), the matrix W (n, n) and d(log evidence) / d(log noise).

    The derivative of the log evidence by S is W S - S * (row sums of W). The constant prior mean
    maximizes the evidence, so it does not contribute to the derivatives. The log evidence is
    without its constant -n / 2 log(2 pi).

    Args:
        S: Points divided by the length-scales (n, d).
        y: Observations (n,).
        kernel: Covariance function.
        noise: Noise variance.
    """
    K, slope = kernel(squared_distances(S, S, np.ones(S.shape[1])))
    K = K.copy()
    K[np.diag_indices_from(K)] = 1.0 + noise
    L = cholesky(K)
    inverse, _ = lapack.dpotri(L, lower=1)
    inverse = np.where(_lower_part(len(inverse)), inverse, inverse.T)
    ones = inverse.sum(axis=1)
    constant = float(ones @ y) / float(ones.sum())
    alpha = inverse @ (y - constant)
    log_evidence = -0.5 * float((y - constant) @ alpha) - float(np.log(np.diag(L)).sum())
    A = np.outer(alpha, alpha) - inverse  # 2 * d(log evidence) / dK
    return log_evidence, A * slope, 0.5 * noise * float(np.trace(A))
