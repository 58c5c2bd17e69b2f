"""TST: kernel-weighted mean of the Gaussian processes of similar source tasks and the target task.

Wistuba, Schilling, Schmidt-Thieme: "Two-Stage Transfer Surrogate Model for Automatic
Hyperparameter Optimization", ECML PKDD 2016, and "Scalable Gaussian Process-Based Transfer
Surrogates for Hyperparameter Optimization", Machine Learning 107, 2018.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from rankwise.errors import OptionError, RunWarning, check_name, is_number
from rankwise.surrogates.base import Posterior
from rankwise.surrogates.empirical_bayes.source_votes import pair_agreement
from rankwise.surrogates.source_ensembles.base import SourceGPs, SourceGPSurrogate
from rankwise.types import Array

BANDWIDTHS = {"ranking": 0.1, "metafeatures": 1.0}
"""Default bandwidth of the kernel for each kind of similarity."""

_PEAK = 0.75  # value of the Epanechnikov kernel at distance zero


class TwoStageTransfer(SourceGPSurrogate):
    """TST: the target's Gaussian process with a mean that also uses similar source tasks.

    A source task at distance t from the target task has the weight
    3/4 max(1 - (t / bandwidth)^2, 0). The target's process has the weight 3/4, or 0 without
    observations. The posterior mean is the weighted mean of the processes' means. The variance is
    that of the target's process alone. Losses are standardised; the paper scales them to [0, 1].

    Args:
        bandwidth: Bandwidth of the kernel. By default 0.1 for "ranking", which the paper's authors
            used for their SVM tasks (0.9 for the Weka tasks), and 1 for "metafeatures".
        similarity: How the distance between tasks is computed. "ranking" (TST-R): the share of
            pairs of observations that the source task's process orders wrongly; 0 as long as all
            losses are equal. "metafeatures" (TST-M): the root mean square difference of the
            contexts' numbers, in standard deviations over the source tasks. If the target's
            context has none of these numbers, "ranking" is used and a warning is issued.
        rows: Maximum number of rows of a source task that its process is conditioned on.
        active: Maximum number of source tasks that predictions use.
        seed: Seed of the choice between equally similar source tasks.
    """

    file_kind = "two-stage transfer"

    def __init__(
        self,
        *,
        bandwidth: float | None = None,
        similarity: str = "ranking",
        rows: int = 100,
        active: int = 16,
        seed: int = 0,
    ) -> None:
        super().__init__(rows, active, seed)
        self.similarity = check_name("similarity", similarity, BANDWIDTHS)
        if bandwidth is not None and not (is_number(bandwidth) and bandwidth > 0):
            raise OptionError(f"bandwidth must be a positive number, not {bandwidth!r}")
        self.bandwidth = bandwidth

    def check_past(self, past: SourceGPs) -> None:
        if self.similarity == "metafeatures" and not shared_features(past.contexts):
            raise OptionError(
                "similarity='metafeatures' compares the contexts of studies, but the contexts of "
                "the past studies have no meta-feature in common: give each past study a context, "
                "or choose similarity='ranking'"
            )

    def weigh(
        self,
        past: SourceGPs,
        X: Array,
        y: Array,
        context: Mapping[str, float],
        rng: np.random.Generator,
    ) -> tuple[Array, float]:
        similarity, distance = self.similarity, None
        if similarity == "metafeatures":
            distance = context_distances(past.contexts, context)
            if distance is None:
                similarity = "ranking"
                warnings.warn(
                    "the context of the target study has no meta-feature that all past studies "
                    "have, so that studies are compared by ranking: give the target study a "
                    "context, or choose similarity='ranking'",
                    RunWarning,
                    stacklevel=2,
                )
        if distance is None:
            distance = discordance(past.stack.mean(X).T, y)
        weights = epanechnikov(distance / (self.bandwidth or BANDWIDTHS[similarity]))
        own = _PEAK if len(y) else 0.0
        total = own + float(weights.sum())
        if not total:  # no observation and no source task within the bandwidth: equal weights
            return np.full(len(past), 1.0 / len(past)), 0.0
        return weights / total, own / total

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        model = self._target.model
        if self.past is None:
            return self._target.predict(X, joint=joint)
        X = np.asarray(X, dtype=float)
        mean = self._share @ self._lead.mean(X)
        if model is None:
            n = len(X)
            return Posterior.unscaled(
                self._transform, mean, np.ones(n), np.eye(n) if joint else None
            )
        own, variance = model.posterior(X)
        covariance = model.covariance(X) if joint else None
        return Posterior.unscaled(self._transform, mean + self._own * own, variance, covariance)


def epanechnikov(t: Array) -> Array:
    """Epanechnikov kernel 3/4 max(1 - t^2, 0) of distances t (T,)."""
    weights: Array = _PEAK * np.maximum(1.0 - np.square(t), 0.0)
    return weights


def discordance(means: Array, y: Array) -> Array:
    """Share of pairs of observations (T,) that each of T processes orders wrongly.

    Args:
        means: Posterior means of the processes at the observations (n, T).
        y: Losses (n,). Pairs with equal losses are not counted. If all losses are equal, the
            result is zero.
    """
    agree, pairs = pair_agreement(means, y)
    return 1.0 - agree / pairs if pairs else np.zeros(means.shape[1])


def shared_features(contexts: Sequence[Mapping[str, float]]) -> list[str]:
    """Sorted names of the numbers that are finite in all contexts."""
    return [
        name
        for name in sorted(contexts[0])
        if all(math.isfinite(context.get(name, math.nan)) for context in contexts)
    ]


def context_distances(
    contexts: Sequence[Mapping[str, float]], target: Mapping[str, float]
) -> Array | None:
    """Distances (T,) of the source tasks' contexts from the target's context.

    The distance is the root mean square difference of the numbers that all contexts have. Each
    number is divided by its standard deviation over the T source tasks. Numbers that are equal in
    all source tasks are ignored; if there are no others, all distances are zero.

    Args:
        contexts: Contexts of the T source tasks.
        target: Context of the target task.

    Returns:
        The distances, or None if the contexts have no number in common.
    """
    names = shared_features([*contexts, target])
    if not names:
        return None
    features = np.array([[context[name] for name in names] for context in contexts], dtype=float)
    wanted, scale = np.array([target[name] for name in names], dtype=float), features.std(axis=0)
    varied = scale > 0
    if not varied.any():
        return np.zeros(len(contexts))
    difference = (features - wanted)[:, varied] / scale[varied]
    distances: Array = np.sqrt(np.square(difference).mean(axis=1))
    return distances
