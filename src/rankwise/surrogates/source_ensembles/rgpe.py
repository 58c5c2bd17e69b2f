"""RGPE: Gaussian processes of source tasks, weighted by how well they rank the observations.

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
from rankwise.surrogates.numeric.exact_gp import ExactGP
from rankwise.surrogates.source_ensembles.base import SourceGPs, SourceGPSurrogate, Stack
from rankwise.types import Array

DILUTIONS = ("percentile", "probabilistic", "none")
"""Rules that exclude bad source tasks, see `RankingWeightedGPs`."""

_PERCENTILE = 95.0  # percentile of the target's ranking losses for the rule "percentile"
_JITTER = 1e-8  # first value that is added to the diagonal of a covariance of unit scale


class RankingWeightedGPs(SourceGPSurrogate):
    """RGPE: an ensemble of the Gaussian processes of the source tasks and the target task.

    The ranking loss of a process is the number of pairs of target observations that a posterior
    sample orders wrongly. The weight of a process is the share of samples in which its ranking
    loss is the smallest of all processes. The target's process is evaluated by leave-one-out, on
    observations that it was not conditioned on. Processes with equal ranking losses share the
    sample equally, as in the later versions of the paper; in its first version the target's
    process wins ties.

    As in the paper, the ensemble is a weighted sum of independent processes: its mean is
    sum_i w_i mu_i and its variance is sum_i w_i^2 sigma_i^2. As long as all losses of the target
    task are equal, all source tasks have the same weight and the target's process has weight zero.

    Args:
        samples: Number of samples of each posterior.
        dilution: Rule that prevents many bad source tasks from outweighing a good one.
            "percentile" excludes a source task if the median of its ranking losses is above the
            95th percentile of the target's (first version of the paper). "probabilistic" keeps a
            source task with the probability that its ranking loss is below the target's (later
            version, without the factor that decreases to zero over a known budget). "none" keeps
            all.
        rows: Maximum number of rows of a source task that its process is conditioned on.
        active: Maximum number of source tasks that predictions use.
        seed: Seed of the posterior samples.
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
        return Posterior.unscaled(self._transform, mean, variance, covariance)


# ---------------------------------------------------------------------- ranking losses


def source_losses(
    stack: Stack, X: Array, y: Array, samples: int, rng: np.random.Generator
) -> Array:
    """Ranking losses (T, S) of S posterior samples of each of T processes.

    The ranking loss is the number of ordered pairs (i, j) of observations that a sample orders
    differently from their losses, so every pair counts twice. Pairs with equal losses are
    not counted.

    Args:
        stack: The T processes.
        X: Observed configurations of the target task (n, d).
        y: Their standardised losses (n,).
        samples: Number S of samples.
        rng: Random number generator.
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
    """Count the pairs (T, S) of observations that sampled functions order differently from y.

    Args:
        f: Function values (T, n, S). A pair with equal values counts as different.
        y: Losses (n,) in ascending order. Pairs with equal losses are not counted.
    """
    count = np.zeros((f.shape[0], f.shape[2]))
    for j, worse in enumerate(np.searchsorted(y, y, side="right")):
        count += (f[:, j : j + 1] >= f[:, worse:]).sum(axis=1, dtype=np.uint16)
    return count


def roots(covariance: Array) -> Array:
    """Cholesky factors (T, n, n) of covariances (T, n, n) of unit scale.

    The diagonal gets a jitter, which grows until all matrices are positive definite.
    """
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
    """The n leave-one-out posteriors of a process at its n observations.

    With noise variance s and A = (K + s I)^-1, the posterior without observation j has the
    covariance V + u_j u_j^T. Here V = s I - s^2 A is the posterior covariance with all
    observations, and u_j = (e_j - s A_j) / sqrt(A_jj) (Rasmussen and Williams, section 5.4.2, and
    the matrix inversion lemma). The constant prior mean is the most likely one without
    observation j.

    Attributes:
        mean: Posterior means (n, n): element (j, k) is the mean at observation k without
            observation j.
        covariance: V (n, n).
        extra: Vectors u (n, n): row j is u_j.
    """

    mean: Array
    covariance: Array
    extra: Array

    @classmethod
    def of(cls, gp: ExactGP, y: Array) -> LeaveOneOut:
        """Compute the posteriors of a process that is conditioned on y (n,), with n >= 2."""
        A = gp.whitener.T @ gp.whitener
        own, ones, target = np.diag(A), A.sum(axis=1), A @ y
        # Without observation j, the inverse is A - A_j A_j^T / A_jj. So the sums that the constant
        # needs follow from those of A, and no other matrix is inverted.
        constant = (target.sum() - ones * target / own) / (ones.sum() - ones * ones / own)
        alpha = target - constant[:, None] * ones  # (n, n): row j has the constant without j
        identity = np.eye(len(y))
        extra = (identity - gp.noise * A) / np.sqrt(own)[:, None]
        missing = np.diag(alpha) / np.sqrt(own)
        mean = y - gp.noise * alpha - extra * missing[:, None]
        return cls(mean, gp.noise * (identity - gp.noise * A), extra)


def target_losses(
    left_out: LeaveOneOut, y: Array, samples: int, rng: np.random.Generator
) -> Array:
    """Ranking losses (S,) of the target's process by leave-one-out.

    Each observation j is compared with all others, using samples of the posterior without
    observation j. Pairs with equal losses are not counted.

    Args:
        left_out: Leave-one-out posteriors of the target's process.
        y: Standardised losses (n,).
        samples: Number S of samples.
        rng: Random number generator.
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
    """Weights (T + 1,) of the T source processes and, last, the target's process.

    The weight is the share of samples in which the ranking loss of a process is the smallest.
    Processes with equal ranking losses share a sample.

    Args:
        losses: Ranking losses of all samples (T + 1, S); the target's are the last row.
        dilution: One of `DILUTIONS`.
        rng: Random number generator for "probabilistic".
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
