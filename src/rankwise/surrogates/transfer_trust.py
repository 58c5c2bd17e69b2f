"""Transfer trust: the probability that past studies predict the order of a study's trials.

Past studies predict a score for every configuration before it is evaluated. The evidence is the
rank correlation r of these predictions with the values: the correlation with the normal scores of
their ranks. Three hypotheses explain it:

- related: r is what past studies reach for each other at the same configurations;
- chance: the predictions say nothing about this study, so r is around zero;
- opposite: r is what past studies reach for each other, with the opposite sign.

The transfer trust is the posterior probability of the first one. docs/transfer.md explains it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from rankwise._core.numerics import rankdata
from rankwise.surrogates.empirical_bayes.past_functions import View
from rankwise.types import Array

RELATED, CHANCE = 0.6, 0.2
"""Prior probabilities of a related study and of chance; the rest is for the opposite order."""

_LEAST = 0.5  # smallest correlation that is expected of a related study
_NOISE = 0.9  # trials are noisy, unlike the functions of past studies
_SPREAD = 0.1  # standard deviation of a related study's correlation, apart from chance
_TINY = 1e-12


@dataclass(frozen=True)
class Evidence:
    """Agreement between the predictions of past studies and the trials of a study.

    Attributes:
        trials: number of compared trials.
        correlation: rank correlation of predictions and values, from -1 to 1; 0 if all
            predictions or all values are equal.
        trust: transfer trust, from 0 to 1.
    """

    trials: int
    correlation: float
    trust: float

    def __str__(self) -> str:
        if self.trials < 2:
            return "too few trials to compare with past studies"
        return (
            f"past studies ordered the {self.trials} trials with rank correlation "
            f"{self.correlation:.2f}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The evidence as a dict for JSON."""
        return {"trials": self.trials, "correlation": self.correlation, "trust": self.trust}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Evidence:
        """The evidence from what `to_dict` returned."""
        return cls(int(facts["trials"]), float(facts["correlation"]), float(facts["trust"]))


NO_EVIDENCE = Evidence(0, 0.0, RELATED)
"""Evidence before the first trial: the trust has its prior value."""


def compare(predicted: Array, losses: Array, expected: Array, counts: Array) -> Evidence:
    """Compare the predictions of past studies with losses.

    Args:
        predicted: predictions (n,); the smallest is predicted to be the best.
        losses: losses (n,).
        expected: correlations (p,) that are expected of a related study, see `between_sources`.
        counts: weight of each of them (p,).
    """
    n = len(losses)
    if n < 2 or not np.ptp(losses) > 0 or not np.ptp(predicted) > 0:
        return Evidence(n, 0.0, RELATED)
    r = float(_correlation(predicted, _normal_scores(losses)))
    # Under chance the variance of r is 1 / (n - 1), whatever the predictions.
    error = 1.0 / math.sqrt(n - 1)
    width, weights = math.hypot(error, _SPREAD), counts / counts.sum()
    related = RELATED * float(weights @ _density(r, expected, width))
    opposite = (1.0 - RELATED - CHANCE) * float(weights @ _density(r, -expected, width))
    chance = CHANCE * float(_density(r, 0.0, error))
    return Evidence(n, r, related / max(related + opposite + chance, _TINY))


def compare_view(view: View, losses: Array) -> Evidence:
    """Compare the mean of source tasks' functions at n configurations with losses (n,)."""
    return compare(view.mean, losses, between_sources(view), view.counts)


def between_sources(view: View) -> Array:
    """Correlations (p,) that source tasks reach for each other at the same configurations.

    Each function is predicted by the mean of the others. Optimized trials are similar to each
    other, so their order is harder to predict than that of random ones; the comparison at the same
    configurations takes that into account. Correlations below `_LEAST` are raised to it.
    """
    votes, counts = view.votes, view.counts
    total = counts.sum()
    if total <= 1.0 or len(votes) < 2:
        return np.full(len(counts), _LEAST)
    others = ((votes @ counts)[:, None] - votes) / (total - 1.0)
    found: Array = np.maximum(_NOISE * _correlation(others, _normal_scores(votes)), _LEAST)
    return found


def unknown_agreement() -> tuple[Array, Array]:
    """The arguments `expected` and `counts` of `compare` if source tasks cannot be compared."""
    return np.array([_LEAST]), np.ones(1)


def _normal_scores(values: Array) -> Array:
    """Normal scores of the ranks along the first axis; equal values have the mean rank."""
    scores: Array = ndtri((rankdata(values, axis=0) - 0.5) / len(values))
    return scores


def _correlation(a: Array, b: Array) -> Array:
    """Pearson's correlation along the first axis; 0 if one of the two is constant."""
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    scale = np.sqrt(np.square(a).sum(axis=0) * np.square(b).sum(axis=0))
    found: Array = np.where(scale > _TINY, (a * b).sum(axis=0) / np.maximum(scale, _TINY), 0.0)
    return found


def _density(x: float, centre: Array | float, width: float) -> Array:
    """Density of a normal distribution, up to a constant factor."""
    z = (x - np.asarray(centre)) / width
    density: Array = np.exp(-0.5 * z * z) / width
    return density
