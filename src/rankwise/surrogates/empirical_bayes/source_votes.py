"""The portfolio term of `eb-gp` (eq. 5 of docs/prior.md).

A configuration gets a bonus if source tasks that rank the observations of the target task
correctly predict that it is better than all configurations observed so far.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwise.surrogates.empirical_bayes.past_functions import View
from rankwise.surrogates.numeric.exact_gp import spread_over
from rankwise.types import Array

_MAX_ROWS_TO_COMPARE = 100  # observations whose pairs are compared
_BLOCK = 1_000_000  # maximum number of comparisons that are held in memory


@dataclass(frozen=True)
class Ballot:
    """Weights of p source tasks in the portfolio term.

    Attributes:
        share: omega_t of eq. 5 (p,). It sums to one, or to zero if no source task ranks the
            observations better than chance.
        weight: Factor of each source task's predicted gain (p,): `share` times the strength of
            the portfolio term, divided by the number of observations.
        bar: Lowest value of each source task's function at an observed or pending
            configuration (p,).
    """

    share: Array
    weight: Array
    bar: Array

    @classmethod
    def of(cls, view: View, y: Array, strength: float) -> Ballot:
        """Compute the weights from how well each source task ranks the observations.

        The weight of a source task is proportional to its smoothed share of correctly ordered
        pairs minus one half, or zero if that is negative. If no two losses differ, all source
        tasks have equal weight.

        Args:
            view: The source tasks' functions at n observed and pending configurations.
            y: Losses (k,) of the first k of them; the other n - k are pending.
            strength: Weight rho of the portfolio term after one observation, in standardised
                losses per unit of score.
        """
        votes = view.votes
        predicted, observed = votes[: len(y)], y
        if len(y) > _MAX_ROWS_TO_COMPARE:
            rows = spread_over(y, _MAX_ROWS_TO_COMPARE)
            predicted, observed = votes[rows], y[rows]
        agree, pairs = pair_agreement(predicted, observed)
        skill = np.maximum((agree + 1.0) / (pairs + 2.0) - 0.5, 0.0) if pairs else 1.0
        weight = view.counts * skill
        total = weight.sum()
        share = weight / total if total > 0 else np.zeros(len(weight))
        if not len(votes):
            return cls(share, np.zeros(len(share)), np.zeros(len(share)))
        return cls(share, strength / len(votes) * share, votes.min(axis=0))

    def promise(self, votes: Array) -> Array:
        """Portfolio term (m,) from the source tasks' function values (m, p).

        It is the weighted sum of each source task's predicted gain over `bar`, if positive.
        """
        promise: Array = np.maximum(self.bar - votes, 0.0) @ self.weight
        return promise

    def slope(self, votes: Array, slopes: Array) -> Array:
        """Gradient (d,) of `promise` at one configuration.

        Args:
            votes: values (p,) of the source tasks' functions at the configuration.
            slopes: gradients (p, d) of these functions there.
        """
        gradient: Array = -(self.weight * (votes < self.bar)) @ slopes
        return gradient


def pair_agreement(votes: Array, y: Array) -> tuple[Array, int]:
    """Count the pairs of observations that each of p functions orders like the losses.

    Args:
        votes: Values of the p functions at the observations (n, p). A pair with equal values is
            not in agreement.
        y: Losses (n,). Pairs with equal losses are not counted.

    Returns:
        Number of pairs in agreement (p,), and the number of pairs with different losses.
    """
    below = (y[:, None] < y).ravel()
    n, p = votes.shape
    agree, step = np.empty(p), max(1, _BLOCK // max(len(below), 1))
    for k in range(0, p, step):
        some = votes[:, k : k + step]
        alike = (some[:, None] < some).reshape(n * n, some.shape[1])
        # A matrix product is faster than a boolean sum; float32 is exact for these counts.
        agree[k : k + step] = below.astype(np.float32) @ alike.astype(np.float32)
    return agree, int(np.count_nonzero(below))
