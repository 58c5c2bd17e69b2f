"""TST: a kernel regression over tasks, of the Gaussian processes of past tasks and the target's.

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
from rankwise.surrogates.source_gps import SourceGPs, SourceGPSurrogate
from rankwise.surrogates.votes import pair_agreement
from rankwise.types import Array

BANDWIDTHS = {"ranking": 0.1, "metafeatures": 1.0}
"""By default, for each kind of similarity."""

_PEAK = 0.75  # of the Epanechnikov kernel


class TwoStageTransfer(SourceGPSurrogate):
    """A Gaussian process of the target whose mean is drawn to those of similar past tasks.

    A task at distance t of the target has the weight 3/4 (1 - (t / bandwidth)^2), or none beyond
    the bandwidth; the target itself has 3/4. The mean is the weighted mean of the processes'
    means; the variance is that of the target's process alone. Losses are standardised, where the
    paper puts them between 0 and 1. Before there are two different losses to compare, all tasks
    are at distance 0.

    Args:
        bandwidth: of the kernel. By default 0.1 for "ranking", which the paper's authors used for
            their SVM tasks (0.9 for those of Weka), and 1 for "metafeatures".
        similarity: "ranking" (TST-R): the distance is the share of pairs of observations that the
            past task's process orders otherwise than they are; "metafeatures" (TST-M): the root
            mean square difference of the contexts' numbers, in standard deviations over the past
            tasks. A target without them is compared by ranking.
        rows: of a past task that its process is conditioned on, at most.
        active: past tasks that predictions are made of, at most.
        seed: of the choice among equally similar tasks.
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
                "similarity='metafeatures' compares the contexts of tasks, and the past tasks "
                "have no number in common in theirs: give each a context, or choose 'ranking'"
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
                    "the study has no number in its context that all past tasks have in theirs: "
                    "they are compared by ranking; give it one, or choose similarity='ranking'",
                    RunWarning,
                    stacklevel=2,
                )
        if distance is None:
            distance = discordance(past.stack.mean(X).T, y)
        weights = epanechnikov(distance / (self.bandwidth or BANDWIDTHS[similarity]))
        own = _PEAK if len(y) else 0.0
        total = own + float(weights.sum())
        if not total:  # nothing is known of the target and nothing is like it
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
            return self.unscaled(mean, np.ones(n), np.eye(n) if joint else None)
        own, variance = model.posterior(X)
        return self.unscaled(
            mean + self._own * own, variance, model.covariance(X) if joint else None
        )


def epanechnikov(t: Array) -> Array:
    """The kernel 3/4 (1 - t^2) of distances t (T,), zero beyond 1."""
    weights: Array = _PEAK * np.maximum(1.0 - np.square(t), 0.0)
    return weights


def discordance(means: Array, y: Array) -> Array:
    """The share of pairs of n observations that each of T processes orders otherwise, (T,).

    Args:
        means: of the processes at the observations (n, T).
        y: losses (n,); pairs of equal ones do not count. Without any pair the share is zero.
    """
    agree, pairs = pair_agreement(means, y)
    return 1.0 - agree / pairs if pairs else np.zeros(means.shape[1])


def shared_features(contexts: Sequence[Mapping[str, float]]) -> list[str]:
    """Names of the numbers that all contexts have."""
    return [
        name
        for name in sorted(contexts[0])
        if all(math.isfinite(context.get(name, math.nan)) for context in contexts)
    ]


def context_distances(
    contexts: Sequence[Mapping[str, float]], target: Mapping[str, float]
) -> Array | None:
    """Root mean square differences (T,) of contexts to a target's; None if nothing is shared.

    Each number counts in units of its standard deviation over the T contexts; one that is the same
    in all of them tells nothing.
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
