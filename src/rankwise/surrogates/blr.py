"""Bayesian linear regression on given features: evidence, its gradient, posterior.

y = Phi w + noise, w ~ N(0, I / alpha), noise ~ N(0, I / beta): a Gaussian process with the kernel
phi(x) phi(x') / alpha, whose cost is linear in the number n of observations. Everything goes by
the singular values of Phi (n, f), of which there are min(n, f).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from rankwise.types import Array

_BOUNDS = (-12.0, 12.0)  # of log alpha and log beta
_LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Spectrum:
    """What the evidence needs of n observations.

    Attributes:
        squares: singular values of Phi, squared (r,).
        turned: U^T y (r,), where Phi = U S V^T.
        rest: |y|^2 - |U^T y|^2.
        basis: V^T (r, f).
        n: the number of observations.
    """

    squares: Array
    turned: Array
    rest: float
    basis: Array
    n: int

    @classmethod
    def of(cls, phi: Array, y: Array) -> Spectrum:
        """Of features (n, f) and observations (n,)."""
        U, s, V = np.linalg.svd(phi, full_matrices=False)
        turned = U.T @ y
        return cls(s * s, turned, max(float(y @ y - turned @ turned), 0.0), V, len(y))

    def log_evidence(self, log_precisions: Array) -> tuple[float, Array]:
        """log p(y | alpha, beta) and its gradient by (log alpha, log beta)."""
        alpha, beta = np.exp(log_precisions)
        signal, noise = self.squares / alpha, 1.0 / beta
        variance, more = signal + noise, self.n - len(signal)
        square = np.square(self.turned)
        fit = float((square / variance).sum()) + beta * self.rest
        size = float(np.log(variance).sum()) - more * float(log_precisions[1])
        by_variance = 0.5 * (square / variance - 1.0) / variance
        gradient = np.array(
            [
                -float(by_variance @ signal),
                -noise * float(by_variance.sum()) + 0.5 * (more - beta * self.rest),
            ]
        )
        return -0.5 * (fit + size + self.n * _LOG_2PI), gradient


@dataclass(frozen=True)
class Belief:
    """A normal belief in log alpha and log beta.

    Attributes:
        mean: (2,).
        std: (2,).
    """

    mean: Array
    std: Array


def most_likely(spectrum: Spectrum, belief: Belief) -> Array:
    """log alpha and log beta (2,): by the evidence, and by a belief where that says little."""

    def cost(theta: Array) -> tuple[float, Array]:
        value, gradient = spectrum.log_evidence(theta)
        z = (theta - belief.mean) / belief.std
        return 0.5 * float(z @ z) - value, z / belief.std - gradient

    start = np.clip(belief.mean, *_BOUNDS)
    found = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=[_BOUNDS] * 2)
    return found.x if np.isfinite(found.x).all() else start


@dataclass(frozen=True)
class LinearPosterior:
    """Weights given observations: N(mean, A^-1) with A = alpha I + beta Phi^T Phi.

    Attributes:
        mean: (f,).
        basis: (r, f), orthonormal rows.
        variances: (r,) of the weights along them.
        prior: variance in all other directions, 1 / alpha.
    """

    mean: Array
    basis: Array
    variances: Array
    prior: float

    @classmethod
    def given(cls, spectrum: Spectrum, log_precisions: Array) -> LinearPosterior:
        alpha, beta = np.exp(log_precisions)
        variances = 1.0 / (alpha + beta * spectrum.squares)
        along = beta * np.sqrt(spectrum.squares) * spectrum.turned * variances
        return cls(spectrum.basis.T @ along, spectrum.basis, variances, 1.0 / alpha)

    def moments(self, phi: Array) -> tuple[Array, Array]:
        """Posterior mean and variance (m,) at features (m, f), without the noise."""
        inside = np.square(phi @ self.basis.T)
        outside = np.maximum(np.square(phi).sum(axis=1) - inside.sum(axis=1), 0.0)
        return phi @ self.mean, inside @ self.variances + self.prior * outside

    def covariance(self, phi: Array) -> Array:
        """Posterior covariance (m, m) at features (m, f), without the noise."""
        inside = phi @ self.basis.T
        less = self.variances - self.prior
        covariance: Array = self.prior * (phi @ phi.T) + (inside * less) @ inside.T
        return covariance
