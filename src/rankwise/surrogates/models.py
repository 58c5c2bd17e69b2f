"""The models that an empirical-Bayes transfer GP averages over, and their evidence.

A model h says how the losses y of a study come about (notation of docs/prior.md):

    y / u = m_h mu(x) + g(x) + noise,   Cov g = a_h^2 C(x, x') + b_h^2 k(x, x') + kappa     (1)

mu and C are mean and covariance of the sources' functions, k is a Matérn-5/2 kernel with the
sources' typical length-scales times f_h, kappa a large constant (the offset between the study
and the past is unknown), and u the unknown scale of the study's losses. With v = 1 / u,
S = y' K^-1 y + 1, where the 1 is a pseudo-observation of one standard deviation, and
T = y' K^-1 mu, the evidence is largest at

    v = (T + sqrt(T^2 + 4 S (n + 1))) / (2 S)                                                (2)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import product

import numpy as np
from scipy.linalg import lapack

from rankwise.surrogates.exact import cholesky, matern52, squared_distances
from rankwise.types import Array, Mask

KAPPA = 100.0
MEANS = (0.0, 1.0)
SOURCE_WEIGHTS = (0.0, 0.5, 1.0)
RESIDUAL_WEIGHTS = (0.2, 0.5, 1.0)
FACTORS = (0.5, 1.0, 2.0)
_HALVINGS = (2, 1, 0)  # by which they come from the last
NOISES = (0.05, 0.2)  # standard deviations
_LARGE = 1e12  # above the squared length of any whitened vector


@dataclass(frozen=True)
class Models:
    """H models and how probable they are beforehand.

    Attributes:
        mean: m_h, whether the sources' mean is used (H,).
        source: a_h, weight of the sources' covariance (H,).
        residual: b_h, weight of the residual kernel (H,).
        factor: which of `FACTORS` multiplies the length-scales (H,).
        noise: standard deviation (H,).
        prior: (H,), sums to one.
    """

    mean: Array
    source: Array
    residual: Array
    factor: np.ndarray
    noise: Array
    prior: Array

    @classmethod
    def grid(cls) -> Models:
        """All combinations, equally probable."""
        table = np.array(
            list(product(MEANS, SOURCE_WEIGHTS, RESIDUAL_WEIGHTS, range(len(FACTORS)), NOISES))
        )
        mean, source, residual, factor, noise = table.T
        prior = np.full(len(table), 1.0 / len(table))
        return cls(mean, source, residual, factor.astype(int), noise, prior)

    def __len__(self) -> int:
        return len(self.prior)

    @cached_property
    def plain(self) -> Mask:
        """Which models (H,) use nothing of the past but its length-scales."""
        plain: Mask = (self.mean == 0) & (self.source == 0)
        return plain

    def some(self, which: np.ndarray) -> Models:
        """Those models, in that order; their prior is made to sum to one."""
        prior = self.prior[which]
        return Models(
            self.mean[which],
            self.source[which],
            self.residual[which],
            self.factor[which],
            self.noise[which],
            prior / prior.sum(),
        )

    def with_prior(self, prior: Array) -> Models:
        """The same models with another prior (H,)."""
        return Models(self.mean, self.source, self.residual, self.factor, self.noise, prior)


MODEL_FIELDS = tuple(field.name for field in fields(Models))


@dataclass(frozen=True)
class Fit:
    """Models given n observations.

    Attributes:
        log_evidence: (H,), up to a constant that all models share.
        v: inverse scale of the losses (H,), eq. 2.
        L: Cholesky factors (H, n, n) of the covariances.
        target: L^-1 (v y - m mu), (H, n).
    """

    log_evidence: Array
    v: Array
    L: Array
    target: Array

    def some(self, which: np.ndarray) -> Fit:
        """Of those models, in that order."""
        return Fit(self.log_evidence[which], self.v[which], self.L[which], self.target[which])


def residual_kernels(
    A: Array, B: Array, lengthscales: Array, which: Sequence[int] = range(len(FACTORS))
) -> Array:
    """Matérn-5/2 kernels (F, n, m) between A (n, d) and B (m, d), one per factor asked for."""
    root = np.sqrt(5.0 * squared_distances(A, B, lengthscales))  # all factors share it,
    widest = np.exp(root / -FACTORS[-1])  # and exponentials are powers of one another
    kernels = np.empty((len(which), *root.shape))
    for kernel, k in zip(kernels, which, strict=True):
        r, decay = root / FACTORS[k], widest
        for _ in range(_HALVINGS[k]):
            decay = decay * decay
        np.multiply(1.0 + r * (1.0 + r / 3.0), decay, out=kernel)
    return kernels


def residual_slopes(x: Array, B: Array, lengthscales: Array, which: Sequence[int]) -> Array:
    """Gradients (F, n, d) by x (d,) of those kernels between it and B (n, d)."""
    r2 = squared_distances(x[None], B, lengthscales)[0]
    away = (x - B) / np.square(lengthscales)
    f2 = [FACTORS[k] ** 2 for k in which]
    return np.stack([-matern52(r2 / f)[1][:, None] * away / f for f in f2])


def fit_models(models: Models, mean: Array, spread: Array, kernels: Array, y: Array) -> Fit:
    """Evidence of each model, the scale at its optimum.

    Args:
        models: H of them.
        mean: of the sources at the observations (n,).
        spread: of the sources there (n, r).
        kernels: residual kernels there (F, n, n).
        y: standardised losses (n,).
    """
    n = len(y)
    L, whitened = factors(models, spread, kernels, np.stack([y, mean]))
    wy, wm = whitened[:, 0], whitened[:, 1] * models.mean[:, None]
    S, T, D = (wy * wy).sum(axis=1) + 1.0, (wy * wm).sum(axis=1), (wm * wm).sum(axis=1)
    v = (T + np.sqrt(T * T + 4.0 * S * (n + 1))) / (2.0 * S)
    log_det = np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)
    evidence = (n + 1) * np.log(v) - 0.5 * (v * v * S - 2.0 * v * T + D) - log_det
    return Fit(evidence, v, L, v[:, None] * wy - wm)


def factors(
    models: Models, spread: Array, kernels: Array, rows: Array | None = None
) -> tuple[Array, Array]:
    """Cholesky factors L (H, n, n) of the covariances of n observations, and L^-1 rows (H, k, n).

    Args:
        models: H of them.
        spread: of the sources at the observations (n, r).
        kernels: residual kernels there (F, n, n).
        rows: vectors (k, n) that are whitened along with them; by default none.
    """
    n, rows = len(spread), np.empty((0, len(spread))) if rows is None else rows
    # The factor of [[K, r'], [r, c]] has L^-1 r as its last rows, whatever c is: one call for all.
    end = n + len(rows)
    bordered = np.zeros((len(models), end, end))
    K = bordered[:, :n, :n]
    np.multiply(np.square(models.residual)[:, None, None], kernels[models.factor], out=K)
    K += np.square(models.source)[:, None, None] * (spread @ spread.T)
    K += KAPPA
    K[:, np.arange(n), np.arange(n)] += np.square(models.noise)[:, None]
    bordered[:, n:, :n] = rows
    bordered[:, np.arange(n, end), np.arange(n, end)] = _LARGE
    try:
        whole = np.asarray(np.linalg.cholesky(bordered))
    except np.linalg.LinAlgError:  # rounding; each gets the jitter that it needs
        L = np.stack([cholesky(k) for k in K])
        return L, np.stack([lapack.dtrtrs(f, rows.T, lower=1)[0].T for f in L])
    return whole[:, :n, :n], whole[:, n:, :n]


def weights(models: Models, log_evidence: Array) -> Array:
    """Posterior probabilities (H,)."""
    log_weight = log_evidence + np.log(models.prior)
    w = np.exp(log_weight - log_weight.max())
    normalised: Array = w / w.sum()
    return normalised


def learn_prior(log_evidence: Array, *, temper: float, floor: float, rounds: int = 200) -> Array:
    """The prior (H,) under which some data sets are most probable, by EM.

    Args:
        log_evidence: of each model on each data set (N, H).
        temper: power of the evidence: parts of one past study are not independent data.
        floor: share of the prior that is the same for all models.
        rounds: of EM.
    """
    n, h = log_evidence.shape
    likelihood = np.exp(temper * (log_evidence - log_evidence.max(axis=1, keepdims=True)))
    prior = np.full(h, 1.0 / h)
    for _ in range(rounds):
        share = likelihood * prior
        share /= share.sum(axis=1, keepdims=True)
        prior = (share.sum(axis=0) + 0.5 / h) / (n + 0.5)
    smoothed: Array = (1.0 - floor) * prior + floor / h
    return smoothed
