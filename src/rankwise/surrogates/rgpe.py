"""RGPE: Gaussian processes of past tasks, weighted by how well they rank the observations.

Feurer, Letham, Hutter, Bakshy: "Practical Transfer Learning for Bayesian Optimization",
arXiv:1802.02219; its first version is "Scalable Meta-Learning for Bayesian Optimization using
Ranking-Weighted Gaussian Process Ensembles".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rankwise.errors import check_count, check_name
from rankwise.surrogates.base import Posterior
from rankwise.surrogates.exact import ExactGP
from rankwise.surrogates.source_gps import SourceGPs, SourceGPSurrogate, Stack
from rankwise.types import Array

DILUTIONS = ("percentile", "probabilistic", "none")

_PERCENTILE = 95.0  # of the target's losses, above which a past task is left out
_JITTER = 1e-8  # first one of covariances of unit variance


class RankingWeightedGPs(SourceGPSurrogate):
    """An ensemble of the Gaussian processes of past tasks and of the target.

    The weight of a process is the share of samples of the posteriors in which it orders the
    target's observations best; the target's own process is judged on observations it has not
    seen (leave-one-out). Those that are equally good share a sample, as in the paper's later
    versions; in the first one the target took it. The ensemble is the weighted sum of
    independent processes, as in the paper: the mean is sum_i w_i mu_i, and the variance is
    sum_i w_i^2 sigma_i^2, variances and not standard deviations. Before there are two different
    losses, all past tasks have the same weight and the target has none.

    Args:
        samples: of each posterior.
        dilution: what keeps many bad past tasks from outweighing a good one: "percentile" leaves
            a task out if the median of its losses is above the 95th percentile of the target's
            (the paper's first version), "probabilistic" keeps it with the probability that its
            loss is below the target's (the later one, without the factor that falls to zero
            at the end of a budget that is known in advance), "none" does nothing.
        rows: of a past task that its process is conditioned on, at most.
        active: past tasks that predictions are made of, at most.
        seed: of the samples.
    """

    file_kind = "ranking-weighted GPs"

    def __init__(
        self,
        *,
        samples: int = 256,
        dilution: str = "percentile",
        rows: int = 100,
        active: int = 16,
        seed: int = 0,
    ) -> None:
        super().__init__(rows, active, seed)
        self.samples = check_count("samples", samples)
        self.dilution = check_name("dilution", dilution, DILUTIONS)

    def weigh(
        self,
        past: SourceGPs,
        X: Array,
        y: Array,
        context: Mapping[str, float],
        rng: np.random.Generator,
    ) -> tuple[Array, float]:
        model = self._target.model
        if model is None or np.unique(y).size < 2:
            return np.full(len(past), 1.0 / len(past)), 0.0
        own = ExactGP.given(X, y, model.kernel, model.lengthscales, model.noise)
        losses = np.concatenate(
            [
                source_losses(past.stack, X, y, self.samples, rng),
                target_losses(LeaveOneOut.of(own, y), y, self.samples, rng)[None],
            ]
        )
        weights = ranking_weights(losses, self.dilution, rng)
        return weights[:-1], float(weights[-1])

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        if self.past is None:
            return self._target.predict(X, joint=joint)
        X = np.asarray(X, dtype=float)
        means, variances = self._lead.posterior(X)
        mean, variance = self._share @ means, np.square(self._share) @ variances
        covariance = np.zeros((len(X), len(X))) if joint else None
        if covariance is not None:
            for k, weight in enumerate(self._share):
                own = self._lead.some(slice(k, k + 1)).joint(X)[1][0]
                covariance += weight**2 * own
        model = self._target.model
        if self._own and model is not None:
            own_mean, own_variance = model.posterior(X)
            mean, variance = mean + self._own * own_mean, variance + self._own**2 * own_variance
            if covariance is not None:
                covariance += self._own**2 * model.covariance(X)
        return self.unscaled(mean, variance, covariance)


# ---------------------------------------------------------------------- ranking losses


def source_losses(
    stack: Stack, X: Array, y: Array, samples: int, rng: np.random.Generator
) -> Array:
    """Ranking losses (T, S) of S samples of each of T posteriors at X (n, d).

    The loss is the number of ordered pairs of observations that are in another order than their
    losses y (n,); pairs of equal losses do not count.
    """
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    found = []
    for part in stack.chunks(len(X), samples):
        mean, covariance = part.joint(X)
        z = rng.standard_normal((len(part), len(X), samples))
        found.append(discordant(mean[:, :, None] + roots(covariance) @ z, y))
    losses: Array = 2.0 * np.concatenate(found)
    return losses


def discordant(f: Array, y: Array) -> Array:
    """Pairs (T, S) of n observations that functions f (T, n, S) order otherwise than y (n,).

    The losses y are sorted; pairs of equal ones do not count.
    """
    count = np.zeros((f.shape[0], f.shape[2]))
    for j, worse in enumerate(np.searchsorted(y, y, side="right")):
        count += (f[:, j : j + 1] >= f[:, worse:]).sum(axis=1, dtype=np.uint16)
    return count


def roots(covariance: Array) -> Array:
    """Lower factors (T, n, n) of covariances of unit scale, whatever rounding made of them."""
    jitter, identity = _JITTER, np.eye(covariance.shape[1])
    while True:
        try:
            return np.asarray(np.linalg.cholesky(covariance + jitter * identity), dtype=float)
        except np.linalg.LinAlgError:
            if not jitter < 1.0:
                raise
            jitter *= 100.0


@dataclass(frozen=True)
class LeaveOneOut:
    """What a process believes of its n observations without one of them, for each of them.

    With A = (K + s I)^-1, s the noise, the posterior without observation j has the covariance
    V + u_j u_j^T, where V = s I - s^2 A is the one with all of them and
    u_j = (e_j - s A_j) / sqrt(A_jj) (Rasmussen and Williams, section 5.4.2, and the matrix
    inversion lemma). The constant mean is the most likely one without the observation.

    Attributes:
        mean: (n, n): of observation k, without observation j, in row j and column k.
        covariance: V, (n, n).
        extra: u, (n, n), in row j that of observation j.
    """

    mean: Array
    covariance: Array
    extra: Array

    @classmethod
    def of(cls, gp: ExactGP, y: Array) -> LeaveOneOut:
        """Of a process given y (n,), n at least 2."""
        A = gp.whitener.T @ gp.whitener
        own, ones, target = np.diag(A), A.sum(axis=1), A @ y
        # A without row and column j is A - A_j A_j^T / A_jj, so its sums need no new inverse.
        constant = (target.sum() - ones * target / own) / (ones.sum() - ones * ones / own)
        alpha = target - constant[:, None] * ones  # (n, n), in row j with the constant without j
        identity = np.eye(len(y))
        extra = (identity - gp.noise * A) / np.sqrt(own)[:, None]
        missing = np.diag(alpha) / np.sqrt(own)
        mean = y - gp.noise * alpha - extra * missing[:, None]
        return cls(mean, gp.noise * (identity - gp.noise * A), extra)


def target_losses(
    left_out: LeaveOneOut, y: Array, samples: int, rng: np.random.Generator
) -> Array:
    """Ranking losses (S,) of the target's own process: pairs with an observation it has not seen.

    Each observation is compared with all others by a sample of what is believed without it.
    """
    values, vectors = np.linalg.eigh(left_out.covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    losses = np.zeros(samples)
    for j in range(len(y)):
        z = rng.standard_normal((len(y) + 1, samples))
        f = left_out.mean[j][:, None] + root @ z[:-1] + np.outer(left_out.extra[j], z[-1])
        losses += ((f[j] < f) != (y[j] < y)[:, None])[y != y[j]].sum(axis=0)
    return losses


def ranking_weights(losses: Array, dilution: str, rng: np.random.Generator) -> Array:
    """Weights (T + 1,) of processes by their losses (T + 1, S), the target's being the last.

    A weight is the share of samples in which the loss is the smallest; equal ones share it.

    Args:
        losses: of all samples.
        dilution: one of `DILUTIONS`.
        rng: for "probabilistic".
    """
    sources, target = losses[:-1], losses[-1]
    keep = np.ones(len(losses), dtype=bool)
    if dilution == "percentile":
        keep[:-1] = np.median(sources, axis=1) <= np.percentile(target, _PERCENTILE)
    elif dilution == "probabilistic":
        keep[:-1] = rng.random(len(sources)) < (sources < target).mean(axis=1)
    losses = np.where(keep[:, None], losses, np.inf)
    best = losses == losses.min(axis=0)
    weights: Array = (best / best.sum(axis=0)).mean(axis=1)
    return weights
