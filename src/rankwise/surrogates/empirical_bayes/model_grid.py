"""The grid of Gaussian-process models that `eb-gp` averages over, and their evidence.

Model h describes the standardised losses y of the target task (notation of docs/prior.md):

    y / u = m_h mu(x) + g(x) + noise,   Cov g = a_h^2 C(x, x') + b_h^2 k(x, x') + kappa     (1)

- mu and C are the mean and the covariance of the source tasks' functions F_t.
- k is a Matérn-5/2 kernel. Its length-scales are typical ones of the source tasks times f_h.
- m_h is 0 or 1. Models with m_h = -1, the opposites, are added to the grid for a target task whose
  order may be the reverse of the source tasks' (`Models.with_opposites`).
- kappa is a large constant variance. It makes the models insensitive to a constant offset between
  the target task's losses and the source tasks' scores.
- u is the unknown scale of the target task's losses.

K is the covariance (n, n) of g plus noise at the n observations. With v = 1 / u,
S = y' K^-1 y + 1 and T = m_h y' K^-1 mu, the evidence is largest at

    v = (T + sqrt(T^2 + 4 S (n + 1))) / (2 S)                                                (2)

The 1 in S and in n + 1 is a pseudo-observation that keeps v near one when n is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import product

import numpy as np
from scipy.linalg import lapack

from rankwise.surrogates.numeric.exact_gp import cholesky, matern52, squared_distances
from rankwise.types import Array, Mask

KAPPA = 100.0  # kappa of eq. 1: prior variance of the constant offset
MEANS = (0.0, 1.0)  # values of m_h
SOURCE_WEIGHTS = (0.0, 0.5, 1.0)  # values of a_h
RESIDUAL_WEIGHTS = (0.2, 0.5, 1.0)  # values of b_h
FACTORS = (0.5, 1.0, 2.0)  # values of f_h
_SQUARINGS = (2, 1, 0)  # FACTORS[k] = FACTORS[-1] / 2**_SQUARINGS[k]
NOISES = (0.05, 0.2)  # standard deviations of the noise
OPPOSITE = 0.1  # prior probability of an opposite, relative to that of its model
_BELIEVED = 5.0  # opposites count if they are so many times as probable as their models
_FEWEST = 3  # different losses without which opposites cannot be told from their models
_ROOT5 = 5.0**0.5
_LARGE = 1e12  # larger than the squared norm of any whitened vector


@dataclass(frozen=True)
class Models:
    """H models of eq. 1 and their prior probabilities.

    Attributes:
        mean: m_h (H,): 1 if the model uses the source tasks' mean, -1 if it uses the opposite of
            it, else 0.
        source: a_h (H,), weight of the source tasks' covariance.
        residual: b_h (H,), weight of the residual kernel k.
        factor: Index into `FACTORS` (H,) of the factor f_h of k's length-scales.
        noise: Standard deviation of the noise (H,).
        prior: Prior probabilities (H,), which sum to one.
    """

    mean: Array
    source: Array
    residual: Array
    factor: np.ndarray
    noise: Array
    prior: Array

    @classmethod
    def grid(cls) -> Models:
        """Return all 108 combinations of the values above, with equal prior probabilities."""
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
        """True for models (H,) that use only the length-scales of the source tasks.

        These models have m_h = a_h = 0.
        """
        plain: Mask = (self.mean == 0) & (self.source == 0)
        return plain

    @cached_property
    def groups(self) -> tuple[list[int], list[int]]:
        """Indices of the models that are not plain, and indices of the plain models."""
        return np.flatnonzero(~self.plain).tolist(), np.flatnonzero(self.plain).tolist()

    @cached_property
    def covariances(self) -> tuple[Models, np.ndarray]:
        """G models with distinct covariances, and the index (H,) of each model's covariance.

        Models that differ only in m_h share a covariance, so it is factorised once.
        """
        table = np.stack([self.source, self.residual, self.factor, self.noise])
        _, first, which = np.unique(table, axis=1, return_index=True, return_inverse=True)
        return self.some(first), which.ravel()

    @cached_property
    def with_opposites(self) -> Models:
        """Return these models and the opposite (m_h = -1) of each model with m_h = 1.

        An opposite has `OPPOSITE` times the prior probability of its model.
        """
        up = self.mean > 0
        opposites = {"mean": -self.mean[up], "prior": OPPOSITE * self.prior[up]}
        both = {
            name: np.concatenate([own := getattr(self, name), opposites.get(name, own[up])])
            for name in MODEL_FIELDS
        }
        return Models(**both | {"prior": both["prior"] / both["prior"].sum()})

    def some(self, which: np.ndarray) -> Models:
        """Return the models with the given indices (H',); the prior is normalised again."""
        prior = self.prior[which]
        return Models(
            self.mean[which],
            self.source[which],
            self.residual[which],
            self.factor[which],
            self.noise[which],
            prior / prior.sum(),
        )

    def for_new_columns(self) -> Models:
        """Return the whole grid for a target task with columns that no source task varies.

        The source tasks know nothing about the size and the smoothness of an effect of these
        columns. So the prior is even over b_h and f_h, and the learnt one over m_h, a_h and noise.
        """
        grid, prior = Models.grid(), []
        for h in range(len(grid)):
            alike = (self.mean == grid.mean[h]) & (self.source == grid.source[h])
            prior.append(self.prior[alike & (self.noise == grid.noise[h])].sum())
        even = np.array(prior) + 1e-6
        return grid.with_prior(even / even.sum())

    def with_prior(self, prior: Array) -> Models:
        """Return the same models with the given prior (H,)."""
        return Models(self.mean, self.source, self.residual, self.factor, self.noise, prior)


MODEL_FIELDS = tuple(field.name for field in fields(Models))


@dataclass(frozen=True)
class Fit:
    """H models fitted to n observations.

    Attributes:
        log_evidence: Log evidence (H,), up to a constant that is the same for all models.
        v: Inverse scale of the losses (H,), eq. 2.
        target: Whitened residuals L^-1 (v y - m mu), (H, n).
        factors: Cholesky factors (G, n, n) of the distinct covariances.
        kind: Index (H,) of each model's covariance in `factors`.
    """

    log_evidence: Array
    v: Array
    target: Array
    factors: Array
    kind: np.ndarray

    def some(self, which: np.ndarray) -> Fit:
        """Return the fit of the models with the given indices (H',)."""
        kind = self.kind[which]
        return Fit(self.log_evidence[which], self.v[which], self.target[which], self.factors, kind)

    @property
    def L(self) -> Array:
        """Cholesky factor of each model's covariance (H, n, n)."""
        each: Array = self.factors[self.kind]
        return each


def residual_kernels(
    A: Array, B: Array, lengthscales: Array, which: Sequence[int] = range(len(FACTORS))
) -> Array:
    """Matérn-5/2 kernels (F, n, m) between A (n, d) and B (m, d).

    Args:
        A: First points (n, d).
        B: Second points (m, d).
        lengthscales: Length-scales (d,) before they are multiplied by a factor.
        which: Indices into `FACTORS` of the F factors; by default all.
    """
    root = squared_distances(A, B, lengthscales / _ROOT5)
    np.sqrt(root, out=root)  # sqrt(5) times the scaled distance for a factor of one
    widest = root / -FACTORS[-1]
    # The factors are FACTORS[-1] divided by powers of two. So the exponential of every factor is
    # that of the last one, squared repeatedly, and exp is computed only once.
    np.exp(widest, out=widest)
    kernels = np.empty((len(which), *root.shape))
    for kernel, k in zip(kernels, which, strict=True):
        # Compute 1 + r + r^2 / 3 with r = root / FACTORS[k] in place.
        np.multiply(root, 1.0 / (3.0 * FACTORS[k] ** 2), out=kernel)
        kernel += 1.0 / FACTORS[k]
        kernel *= root
        kernel += 1.0
        decay = widest
        for _ in range(_SQUARINGS[k]):
            decay = decay * decay
        kernel *= decay
    return kernels


def residual_slopes(x: Array, B: Array, lengthscales: Array, which: Sequence[int]) -> Array:
    """Gradients (F, n, d) with respect to x (d,) of `residual_kernels` between x and B (n, d).

    Args:
        x: One point (d,).
        B: Second points (n, d).
        lengthscales: Length-scales (d,) before they are multiplied by a factor.
        which: Indices into `FACTORS` of the F factors.
    """
    r2 = squared_distances(x[None], B, lengthscales)[0]
    away = (x - B) / np.square(lengthscales)
    f2 = [FACTORS[k] ** 2 for k in which]
    return np.stack([-matern52(r2 / f)[1][:, None] * away / f for f in f2])


def fit_models(models: Models, mean: Array, spread: Array, kernels: Array, y: Array) -> Fit:
    """Fit the scale v of each model to the observations and compute the log evidence.

    Args:
        models: The H models.
        mean: Mean mu of the source tasks' functions at the observations (n,).
        spread: Factor of their covariance there (n, r): C = spread @ spread.T.
        kernels: Residual kernels at the observations (F, n, n), indexed by `models.factor`.
        y: Standardised losses (n,).
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
    """Cholesky factors L (H, n, n) of K at n observations, and whitened vectors (H, k, n).

    Args:
        models: The H models.
        spread: Factor of the source tasks' covariance at the observations (n, r).
        kernels: Residual kernels there (F, n, n), indexed by `models.factor`.
        rows: Vectors (k, n) that are multiplied by L^-1; by default none.
    """
    n, rows = len(spread), np.empty((0, len(spread))) if rows is None else rows
    # The last rows of the Cholesky factor of [[K, r'], [r, c]] are (L^-1 r')', for any large
    # enough c. So one call factorises all covariances and whitens all vectors.
    end = n + len(rows)
    bordered = np.zeros((len(models), end, end))
    K = bordered[:, :n, :n]
    np.multiply(np.square(models.residual)[:, None, None], kernels[models.factor], out=K)
    K += np.square(models.source)[:, None, None] * (spread @ spread.T) + KAPPA
    diagonal = np.einsum("hii->hi", bordered)  # a writable NumPy view
    diagonal[:, :n] += np.square(models.noise)[:, None]
    diagonal[:, n:] = _LARGE
    bordered[:, n:, :n] = rows
    try:
        whole = np.asarray(np.linalg.cholesky(bordered))
    except np.linalg.LinAlgError:  # singular by rounding: factorise one by one, with jitter
        L = np.stack([cholesky(k) for k in K])
        return L, np.stack([lapack.dtrtrs(f, rows.T, lower=1)[0].T for f in L])
    return whole[:, :n, :n], whole[:, n:, :n]


def weights(models: Models, log_evidence: Array) -> Array:
    """Posterior probabilities (H,) of the models: prior times evidence, normalised."""
    log_weight = log_evidence + np.log(models.prior)
    w = np.exp(log_weight - log_weight.max())
    normalised: Array = w / w.sum()
    return normalised


def weights_with_opposites(models: Models, log_evidence: Array, y: Array) -> Array:
    """Posterior probabilities (H,) of models of which the last may be opposites (m_h = -1).

    The opposites expect a large gain where source tasks were worst, so even a small weight of
    them would decide the next trial. Therefore they have no weight until there are several
    different losses and the opposites are much more probable than the models with m_h = 1.

    Args:
        models: The H models.
        log_evidence: Their log evidence (H,).
        y: Losses (n,).
    """
    up, down = models.mean > 0, models.mean < 0
    found = weights(models, log_evidence)
    if len(set(y.tolist())) >= _FEWEST and found[down].sum() >= _BELIEVED * found[up].sum():
        return found
    return weights(models, np.where(down, -np.inf, log_evidence))


def learn_prior(log_evidence: Array, *, temper: float, floor: float, rounds: int = 200) -> Array:
    """Estimate prior probabilities (H,) of the models from N data sets by EM.

    The result maximises the marginal likelihood of the data sets under a mixture of the models,
    up to smoothing.

    Args:
        log_evidence: Log evidence of each model on each data set (N, H).
        temper: Power of the evidence. Below one it allows for dependent data sets, such as
            several subsets of one source task.
        floor: Share of the prior that is distributed evenly over all models.
        rounds: Number of EM iterations.
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
