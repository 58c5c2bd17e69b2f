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
_ROOT5 = 5.0**0.5
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

    @cached_property
    def groups(self) -> tuple[list[int], list[int]]:
        """The numbers of the models with and of those without the past."""
        return np.flatnonzero(~self.plain).tolist(), np.flatnonzero(self.plain).tolist()

    @cached_property
    def covariances(self) -> tuple[Models, np.ndarray]:
        """G models that have all the different covariances, and which of these each has (H,)."""
        table = np.stack([self.source, self.residual, self.factor, self.noise])
        _, first, which = np.unique(table, axis=1, return_index=True, return_inverse=True)
        return self.some(first), which.ravel()

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
        target: L^-1 (v y - m mu), (H, n).
        factors: Cholesky factors (G, n, n) of the different covariances.
        kind: which of them is that of each model (H,).
    """

    log_evidence: Array
    v: Array
    target: Array
    factors: Array
    kind: np.ndarray

    def some(self, which: np.ndarray) -> Fit:
        """Of those models, in that order."""
        kind = self.kind[which]
        return Fit(self.log_evidence[which], self.v[which], self.target[which], self.factors, kind)

    @property
    def L(self) -> Array:
        """Cholesky factors (H, n, n) of the models' covariances."""
        each: Array = self.factors[self.kind]
        return each


def residual_kernels(
    A: Array, B: Array, lengthscales: Array, which: Sequence[int] = range(len(FACTORS))
) -> Array:
    """Matérn-5/2 kernels (F, n, m) between A (n, d) and B (m, d), one per factor asked for."""
    root = squared_distances(A, B, lengthscales / _ROOT5)  # all factors share it,
    np.sqrt(root, out=root)
    widest = root / -FACTORS[-1]
    np.exp(widest, out=widest)  # and exponentials are powers of one another
    kernels = np.empty((len(which), *root.shape))
    for kernel, k in zip(kernels, which, strict=True):
        # 1 + r + r^2 / 3 with r = root / factor, in place
        np.multiply(root, 1.0 / (3.0 * FACTORS[k] ** 2), out=kernel)
        kernel += 1.0 / FACTORS[k]
        kernel *= root
        kernel += 1.0
        decay = widest
        for _ in range(_HALVINGS[k]):
            decay = decay * decay
        kernel *= decay
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
    different, kind = models.covariances
    L, whitened = factors(different, spread, kernels, np.stack([y, mean]))
    log_det = np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)[kind]
    wy, wm = whitened[kind, 0], whitened[kind, 1] * models.mean[:, None]
    S, T, D = (np.einsum("hn,hn->h", a, b) for a, b in ((wy, wy), (wy, wm), (wm, wm)))
    S += 1.0
    v = (T + np.sqrt(T * T + 4.0 * S * (n + 1))) / (2.0 * S)
    evidence = (n + 1) * np.log(v) - 0.5 * (v * v * S - 2.0 * v * T + D) - log_det
    return Fit(evidence, v, v[:, None] * wy - wm, L, kind)


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
    K += np.square(models.source)[:, None, None] * (spread @ spread.T) + KAPPA
    diagonal = np.einsum("hii->hi", bordered)  # a view
    diagonal[:, :n] += np.square(models.noise)[:, None]
    diagonal[:, n:] = _LARGE
    bordered[:, n:, :n] = rows
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
