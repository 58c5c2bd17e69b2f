"""Maximum a posteriori fit of a kernel in which groups of columns share a length-scale."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from rankwise.surrogates.numeric.exact_gp import (
    LENGTHSCALES,
    SEARCH,
    LogNormal,
    evidence,
    lengthscale_prior,
    matern52,
)
from rankwise.types import Array

NOISE_PRIOR = LogNormal(-6.0, 3.0)
"""Prior of the noise variance: wide, because many losses are exact and others are noisy."""


def start_of(groups: npt.NDArray[np.intp], noise_floor: float) -> Array:
    """Return log length-scales and log noise variance (g + 1,) at which a fit can start."""
    g = int(groups.max()) + 1
    noise = max(math.log(noise_floor), NOISE_PRIOR.loc)
    return np.append(np.full(g, math.log(lengthscale_prior(g).mode)), noise)


def fit_groups(
    X: Array, y: Array, groups: npt.NDArray[np.intp], start: Array, noise_floor: float
) -> tuple[Array, float]:
    """Fit one log length-scale per group of columns and the log noise variance, Matérn-5/2.

    Args:
        X: Inputs of the kernel (n, d).
        y: Standardized observations (n,).
        groups: Group (d,) of each column, from 0 to g - 1.
        start: Where the search starts (g + 1,).
        noise_floor: Smallest noise variance.

    Returns:
        Log length-scales followed by the log noise variance (g + 1,), and the log posterior
        density there, without constants. The start, if there is only one observation or the
        search fails.
    """
    from scipy.optimize import minimize

    g = len(start) - 1
    prior = lengthscale_prior(g)

    def cost(theta: Array) -> tuple[float, Array]:
        return negative_log_posterior(theta, X, y, groups, prior)

    if len(y) < 2:
        return start, 0.0
    bounds = [LENGTHSCALES] * g + [(math.log(noise_floor), 2.0)]
    found = minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds, options=SEARCH)
    if not (np.isfinite(found.fun) and np.isfinite(found.x).all()):
        return start, -math.inf
    return found.x, -float(found.fun) * len(y)


def negative_log_posterior(
    theta: Array, X: Array, y: Array, groups: npt.NDArray[np.intp], prior: LogNormal
) -> tuple[float, Array]:
    """Compute the negative log posterior density per observation and its gradient (g + 1,).

    Args:
        theta: Log length-scales of the groups and log noise variance (g + 1,).
        X: Inputs of the kernel (n, d).
        y: Standardized observations (n,).
        groups: Group (d,) of each column.
        prior: Prior of each length-scale.
    """
    n, g = len(y), len(theta) - 1
    S = X / np.exp(theta[groups])
    log_evidence, W, by_noise = evidence(S, y, matern52, float(np.exp(theta[g])))
    by_column = (S * S).T @ W.sum(axis=1) - (S * (W @ S)).sum(axis=0)
    by_group = np.bincount(groups, by_column, g)
    scale_prior, scale_slope = prior.log_density(theta[:g])
    noise_prior, noise_slope = NOISE_PRIOR.log_density(theta[g:])
    value = log_evidence + float(scale_prior.sum() + noise_prior.sum())
    gradient = np.concatenate([by_group + scale_slope, by_noise + noise_slope])
    return -value / n, -gradient / n
