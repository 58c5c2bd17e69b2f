"""Bayesian linear regression on given features: evidence, gradient of the evidence, posterior.

The model is y = Phi w + noise with w ~ N(0, I / alpha) and noise ~ N(0, I / beta). It is a
Gaussian process with the kernel phi(x)^T phi(x') / alpha whose cost is linear in the number n of
observations. All results are computed from the singular value decomposition of Phi (n, f), which
has r = min(n, f) singular values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from rankwise.types import Array

_BOUNDS = (-12.0, 12.0)  # bounds of log alpha and of log beta
_LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Spectrum:
    """Singular value decomposition Phi = U S V^T of the features and projections of y.

    Attributes:
        squares: Squared singular values of Phi (r,).
        turned: U^T y (r,).
        rest: |y|^2 - |U^T y|^2, the part of y that Phi cannot express.
        basis: V^T (r, f).
        n: Number of observations.
    """

    squares: Array
    turned: Array
    rest: float
    basis: Array
    n: int

    @classmethod
    def of(cls, phi: Array, y: Array) -> Spectrum:
        """Decompose features phi (n, f) with observations y (n,)."""
        U, s, V = np.linalg.svd(phi, full_matrices=False)
        turned = U.T @ y
        return cls(s * s, turned, max(float(y @ y - turned @ turned), 0.0), V, len(y))

    def log_evidence(self, log_precisions: Array) -> tuple[float, Array]:
        """Compute log p(y | alpha, beta) and its gradient (2,) by (log alpha, log beta).

        Args:
            log_precisions: (log alpha, log beta), shape (2,).
        """
        alpha, beta = np.exp(log_precisions)
        signal, noise = self.squares / alpha, 1.0 / beta
        variance, null_size = signal + noise, self.n - len(signal)
        square = np.square(self.turned)
        quadratic = float((square / variance).sum()) + beta * self.rest
        log_determinant = float(np.log(variance).sum()) - null_size * float(log_precisions[1])
        by_variance = 0.5 * (square / variance - 1.0) / variance
        gradient = np.array(
            [
                -float(by_variance @ signal),
                -noise * float(by_variance.sum()) + 0.5 * (null_size - beta * self.rest),
            ]
        )
        return -0.5 * (quadratic + log_determinant + self.n * _LOG_2PI), gradient


@dataclass(frozen=True)
class Belief:
    """Independent normal priors of log alpha and log beta.

    Attributes:
        mean: Prior means (2,).
        std: Prior standard deviations (2,).
    """

    mean: Array
    std: Array


def most_likely(spectrum: Spectrum, belief: Belief) -> Array:
    """Return the maximum a posteriori estimate (2,) of log alpha and log beta.

    It maximizes the log evidence plus the log density of the prior, within fixed bounds.

    Args:
        spectrum: Decomposed features and observations.
        belief: Prior of log alpha and log beta.
    """

    def cost(theta: Array) -> tuple[float, Array]:
        value, gradient = spectrum.log_evidence(theta)
        z = (theta - belief.mean) / belief.std
        return 0.5 * float(z @ z) - value, z / belief.std - gradient

    start = np.clip(belief.mean, *_BOUNDS)
    found = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=[_BOUNDS] * 2)
    return found.x if np.isfinite(found.x).all() else start


@dataclass(frozen=True)
class LinearPosterior:
    """Posterior N(mean, A^-1) of the weights, with A = alpha I + beta Phi^T Phi.

    Attributes:
        mean: Posterior mean of the weights (f,).
        basis: Orthonormal rows (r, f): the right singular vectors of Phi.
        variances: Posterior variances (r,) of the weights along the rows of `basis`.
        prior: Variance 1 / alpha in all directions orthogonal to `basis`.
    """

    mean: Array
    basis: Array
    variances: Array
    prior: float

    @classmethod
    def given(cls, spectrum: Spectrum, log_precisions: Array) -> LinearPosterior:
        """Compute the posterior for fixed precisions.

        Args:
            spectrum: Decomposed features and observations.
            log_precisions: (log alpha, log beta), shape (2,).
        """
        alpha, beta = np.exp(log_precisions)
        variances = 1.0 / (alpha + beta * spectrum.squares)
        along = beta * np.sqrt(spectrum.squares) * spectrum.turned * variances
        return cls(spectrum.basis.T @ along, spectrum.basis, variances, 1.0 / alpha)

    def moments(self, phi: Array) -> tuple[Array, Array]:
        """Return the posterior mean and variance (m,) at features phi (m, f), without noise."""
        inside = np.square(phi @ self.basis.T)
        outside = np.maximum(np.square(phi).sum(axis=1) - inside.sum(axis=1), 0.0)
        return phi @ self.mean, inside @ self.variances + self.prior * outside

    def covariance(self, phi: Array) -> Array:
        """Return the posterior covariance (m, m) at features phi (m, f), without noise."""
        inside = phi @ self.basis.T
        change = self.variances - self.prior
        covariance: Array = self.prior * (phi @ phi.T) + (inside * change) @ inside.T
        return covariance
