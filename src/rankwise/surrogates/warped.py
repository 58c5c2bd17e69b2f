"""A Gaussian process whose inputs and outputs are bent first: the model of HEBO.

Cowen-Rivers et al.: "HEBO: Pushing the Limits of Sample-Efficient Hyper-parameter Optimisation",
JAIR 2022. Losses go through a power (`transforms.Power`), each column through the distribution
function of Kumaraswamy, 1 - (1 - x^a)^b, whose a and b are learnt with the kernel, so that the
process may change faster in one part of the cube than in another.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize

from rankwise.surrogates.exact import (
    LENGTHSCALES,
    NOISE_PRIOR,
    SEARCH,
    evidence,
    fit_hyperparameters,
    lengthscale_prior,
    matern52,
)
from rankwise.surrogates.gp import GaussianProcess
from rankwise.types import Array

_SPREAD = 0.75  # standard deviation of log a and log b, whose prior mean is 0: no bending
_BEND = (-2.5, 2.5)  # bounds of both
_EDGE = 1e-6  # distance from the borders of the cube within which nothing changes


class WarpedGP(GaussianProcess):
    """A Gaussian process on bent columns.

    Args:
        transform: of the losses, as for `GaussianProcess`.
        noise_floor: smallest noise variance, relative to the variance of the losses.
        seed: of nothing; there for all surrogates that learn a study alone.
    """

    def __init__(
        self, *, transform: str = "power", noise_floor: float = 1e-6, seed: int = 0
    ) -> None:
        super().__init__(transform=transform, noise_floor=noise_floor)
        self._bend = np.zeros((2, 0))

    def _hyperparameters(self, X: Array, y: Array) -> tuple[Array, float]:
        n, d = X.shape
        lengthscales, noise = fit_hyperparameters(X, y, matern52, self.noise_floor)
        self._bend = np.zeros((2, d))
        if n < 2:
            return lengthscales, noise
        start = np.concatenate([np.log(lengthscales), [math.log(noise)], np.zeros(2 * d)])
        bounds = [LENGTHSCALES] * d + [(math.log(self.noise_floor), 10.0)] + [_BEND] * (2 * d)
        found = minimize(
            lambda theta: negative_log_posterior(theta, X, y),
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options=SEARCH,
        )
        if not (np.isfinite(found.fun) and np.isfinite(found.x).all()):
            return lengthscales, noise
        self._bend = found.x[d + 1 :].reshape(2, d)
        return np.exp(found.x[:d]), float(np.exp(found.x[d]))

    def _inputs(self, X: Array) -> Array:
        return bent(X, self._bend)[0]


def bent(X: Array, log_ab: Array) -> tuple[Array, Array, Array]:
    """Kumaraswamy's distribution function of X (n, d), and its derivatives by log a and log b.

    Args:
        X: within the unit cube.
        log_ab: (2, d).
    """
    a, b = np.exp(log_ab)
    X = np.clip(X, _EDGE, 1.0 - _EDGE)
    log_x = np.log(X)
    power = np.exp(a * log_x)
    log_rest = np.log1p(-power)  # of 1 - x^a
    rest = np.exp(b * log_rest)
    by_a = b * np.exp((b - 1.0) * log_rest) * power * log_x * a
    return 1.0 - rest, by_a, -rest * log_rest * b


def negative_log_posterior(theta: Array, X: Array, y: Array) -> tuple[float, Array]:
    """Per observation, and its gradient.

    Args:
        theta: log length-scales (d,), log noise, log a (d,) and log b (d,).
        X: (n, d).
        y: transformed losses (n,).
    """
    n, d = X.shape
    scales, log_ab = np.exp(theta[:d]), theta[d + 1 :].reshape(2, d)
    Z, by_a, by_b = bent(X, log_ab)
    S = Z / scales
    log_evidence, W, by_noise = evidence(S, y, matern52, float(np.exp(theta[d])))
    by_S = W @ S - S * W.sum(axis=1)[:, None]
    by_Z = by_S / scales
    scale_prior, scale_slope = lengthscale_prior(d).log_density(theta[:d])
    noise_prior, noise_slope = NOISE_PRIOR.log_density(theta[d : d + 1])
    bend_prior = -0.5 * float(np.square(log_ab / _SPREAD).sum())
    value = log_evidence + float(scale_prior.sum() + noise_prior.sum()) + bend_prior
    gradient = np.concatenate(
        [
            scale_slope - (by_S * S).sum(axis=0),
            by_noise + noise_slope,
            (by_Z * by_a).sum(axis=0) - log_ab[0] / _SPREAD**2,
            (by_Z * by_b).sum(axis=0) - log_ab[1] / _SPREAD**2,
        ]
    )
    return -value / n, -gradient / n
