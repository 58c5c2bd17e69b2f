"""Gaussian process with warped inputs and transformed losses: the model of HEBO.

Cowen-Rivers et al.: "HEBO: Pushing the Limits of Sample-Efficient Hyper-parameter Optimisation",
JAIR 2022. Losses are transformed by a power transform (`transforms.Power`). Each column is warped
by the Kumaraswamy distribution function 1 - (1 - x^a)^b, whose parameters a and b are fitted
together with the kernel. So the modelled function may vary faster in one part of the cube than in
another.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize

from rankwise.surrogates.numeric.exact_gp import (
    LENGTHSCALES,
    NOISE_PRIOR,
    SEARCH,
    evidence,
    fit_hyperparameters,
    lengthscale_prior,
    matern52,
)
from rankwise.surrogates.single_study.gp import GaussianProcess
from rankwise.types import Array

_WARP_STD = 0.75  # prior standard deviation of log a and log b; the prior mean 0 is the identity
_WARP_BOUNDS = (-2.5, 2.5)  # bounds of log a and log b
_EDGE = 1e-6  # inputs are clipped to [_EDGE, 1 - _EDGE] to keep the derivatives finite


class WarpedGP(GaussianProcess):
    """Gaussian process whose input columns are warped before the kernel is applied.

    Args:
        transform: Transform of the losses; see `GaussianProcess`.
        noise_floor: Smallest noise variance, relative to the variance of the transformed losses.
        seed: Ignored, because the fit is deterministic; accepted like by the other surrogates of
            single studies.
    """

    def __init__(
        self, *, transform: str = "power", noise_floor: float = 1e-6, seed: int = 0
    ) -> None:
        super().__init__(transform=transform, noise_floor=noise_floor)
        self._log_ab = np.zeros((2, 0))

    def _hyperparameters(self, X: Array, y: Array) -> tuple[Array, float]:
        n, d = X.shape
        lengthscales, noise = fit_hyperparameters(X, y, matern52, self.noise_floor)
        self._log_ab = np.zeros((2, d))
        if n < 2:
            return lengthscales, noise
        start = np.concatenate([np.log(lengthscales), [math.log(noise)], np.zeros(2 * d)])
        noise_bounds = (math.log(self.noise_floor), 10.0)
        bounds = [LENGTHSCALES] * d + [noise_bounds] + [_WARP_BOUNDS] * (2 * d)
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
        self._log_ab = found.x[d + 1 :].reshape(2, d)
        return np.exp(found.x[:d]), float(np.exp(found.x[d]))

    def _inputs(self, X: Array) -> Array:
        return bent(X, self._log_ab)[0]


def bent(X: Array, log_ab: Array) -> tuple[Array, Array, Array]:
    """Warp X (n, d) by the Kumaraswamy distribution function.

    Args:
        X: Points in the unit cube (n, d).
        log_ab: log a and log b of each column (2, d).

    Returns:
        Warped points (n, d) and their elementwise derivatives (n, d) by log a and by log b.
    """
    a, b = np.exp(log_ab)
    X = np.clip(X, _EDGE, 1.0 - _EDGE)
    log_x = np.log(X)
    power = np.exp(a * log_x)
    log_rest = np.log1p(-power)  # log(1 - x^a)
    rest = np.exp(b * log_rest)
    by_a = b * np.exp((b - 1.0) * log_rest) * power * log_x * a
    return 1.0 - rest, by_a, -rest * log_rest * b


def negative_log_posterior(theta: Array, X: Array, y: Array) -> tuple[float, Array]:
    """Compute the negative log posterior density per trial and its gradient (3 d + 1,).

    Args:
        theta: Log length-scales (d,), log noise variance, log a (d,) and log b (d,), joined to
            one vector (3 d + 1,).
        X: Configurations (n, d).
        y: Transformed losses (n,).
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
    warp_prior = -0.5 * float(np.square(log_ab / _WARP_STD).sum())
    value = log_evidence + float(scale_prior.sum() + noise_prior.sum()) + warp_prior
    gradient = np.concatenate(
        [
            scale_slope - (by_S * S).sum(axis=0),
            by_noise + noise_slope,
            (by_Z * by_a).sum(axis=0) - log_ab[0] / _WARP_STD**2,
            (by_Z * by_b).sum(axis=0) - log_ab[1] / _WARP_STD**2,
        ]
    )
    return -value / n, -gradient / n
