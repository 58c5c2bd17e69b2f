"""The vote of past studies: those that rank the observations well say what would be better."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwise.surrogates.exact import spread_over
from rankwise.surrogates.sources import View
from rankwise.types import Array

_ENOUGH = 100  # observations whose pairs are compared
_BLOCK = 1_000_000  # comparisons at once


@dataclass(frozen=True)
class Ballot:
    """How much each of p votes counts.

    Attributes:
        share: of each vote (p,), sums to one, or to zero if none of them is better than chance.
        weight: of what it promises (p,).
        bar: the best vote of each so far (p,).
    """

    share: Array
    weight: Array
    bar: Array

    @classmethod
    def of(cls, view: View, y: Array, strength: float) -> Ballot:
        """A past study counts by the share of pairs that it orders as they turned out to be.

        That is, by what it has above one half; before there is a pair, all count the same.

        Args:
            view: what the past says of the n observations.
            y: their losses (n,), or those of the first of them: the others are only believed.
            strength: of all promises together, after one observation.
        """
        votes = view.votes
        some, told = votes[: len(y)], y
        if len(y) > _ENOUGH:
            rows = spread_over(y, _ENOUGH)
            some, told = votes[rows], y[rows]
        agree, pairs = pair_agreement(some, told)
        skill = np.maximum((agree + 1.0) / (pairs + 2.0) - 0.5, 0.0) if pairs else 1.0
        weight = view.counts * skill
        total = weight.sum()
        share = weight / total if total > 0 else np.zeros(len(weight))
        if not len(votes):
            return cls(share, np.zeros(len(share)), np.zeros(len(share)))
        return cls(share, strength / len(votes) * share, votes.min(axis=0))

    def promise(self, votes: Array) -> Array:
        """What the past studies say would be gained (m,), from their votes (m, p)."""
        promise: Array = np.maximum(self.bar - votes, 0.0) @ self.weight
        return promise

    def slope(self, votes: Array, slopes: Array) -> Array:
        """The gradient (d,) of the promise where the votes are (p,) and have slopes (p, d)."""
        gradient: Array = -(self.weight * (votes < self.bar)) @ slopes
        return gradient


def pair_agreement(votes: Array, y: Array) -> tuple[Array, int]:
    """How many pairs of observations each vote orders as they are, (p,), and how many there are.

    Args:
        votes: of p sources at the observations (n, p).
        y: losses (n,); pairs of equal ones do not count.
    """
    below = (y[:, None] < y).ravel()
    n, p = votes.shape
    agree, step = np.empty(p), max(1, _BLOCK // max(len(below), 1))
    for k in range(0, p, step):
        some = votes[:, k : k + step]
        alike = (some[:, None] < some).reshape(n * n, some.shape[1])
        # As a product, in numbers that count pairs exactly
        agree[k : k + step] = below.astype(np.float32) @ alike.astype(np.float32)
    return agree, int(np.count_nonzero(below))
