"""EarlyRanks: how well the rank of a trial early in its training foretells its final rank.

Training curves of complete studies are compared at fractions of their length. For random sets of
trials of a study, the rank of a trial at a fraction is known, and whether it ended among the best
of the set. The share of the latter is the probability that a trial with this early rank is worth
going on with. Only ranks are used, so studies with different scales are pooled.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence

import numpy as np

from rankwise.types import Array, Counts

FRACTIONS = np.array([0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 0.9])
"""Fractions of the longest curve at which ranks are compared (f,)."""
FEWEST = 5
"""Full curves below which a study says nothing."""
FULL = 0.9
"""A curve of at least this share of the longest one is full."""

_SIZES = (2, 3, 4, 6, 9, 14, 22, 40)  # sizes of the random sets
_SETS = 1600  # random sets for each size, over all studies
_FEWEST_SETS = 20  # of one study
_WALKS = 400  # simulated curves where there is no study
_OWN = 30  # full curves of a study that count as much as all simulated ones


def at_step(curve: Mapping[int, float], step: float) -> float | None:
    """Last value of a curve at or before a step; None if there is none."""
    value = curve.get(int(step)) if float(step).is_integer() else None
    if value is not None:
        return value
    steps = sorted(curve)
    place = bisect_right(steps, step)
    return None if place == 0 else curve[steps[place - 1]]


def fraction_index(fraction: float) -> int:
    """Index of the last of `FRACTIONS` that is not above a fraction; -1 if there is none."""
    return int(np.searchsorted(FRACTIONS, fraction + 1e-9, side="right")) - 1


def full_curves(
    curves: Sequence[Mapping[int, float]], finals: Sequence[float], sign: float = 1.0
) -> tuple[Array, Array]:
    """Losses of the full curves of a study at `FRACTIONS` (n, f), and their final losses (n,).

    A value that is not a number is the worst one. A gap has the value before it.

    Args:
        curves: values by step of each trial that was not stopped.
        finals: final value of each trial.
        sign: 1 if smaller values are better, else -1.
    """
    longest = max((max(curve) for curve in curves if curve), default=0)
    rows, ends = [], []
    for curve, final in zip(curves, finals, strict=True):
        if not curve or max(curve) < FULL * longest or longest < 1:
            continue
        values = [at_step(curve, fraction * longest) for fraction in FRACTIONS]
        rows.append([math.nan if v is None else loss(v, sign) for v in values])
        ends.append(loss(final, sign))
    return np.array(rows, dtype=float).reshape(len(rows), len(FRACTIONS)), np.array(ends)


def loss(value: float, sign: float) -> float:
    """A value as a loss; infinite if it is not a number."""
    return math.inf if math.isnan(value) else sign * value


class EarlyRanks:
    """Probabilities that a trial ends among the best, given its rank at a fraction of training.

    Args:
        studies: for each study, losses of full curves (n, f) and final losses (n,), as
            `full_curves` returns them.
        best: share of trials that are "the best"; at least one trial is.
        weights: weight of each study; equal by default.
    """

    def __init__(
        self,
        studies: Sequence[tuple[Array, Array]],
        best: float = 0.1,
        weights: Sequence[float] | None = None,
    ) -> None:
        self._studies = list(studies)
        self._best = best
        self._weights = [1.0] * len(self._studies) if weights is None else list(weights)
        self._tables: dict[tuple[int, int], Array] = {}
        self._picks: dict[tuple[int, int], Counts] = {}  # random sets by number and size

    def probability(self, fraction: float, better: float, others: int) -> float:
        """Probability that a trial ends among the best; 1 if nothing is known.

        Args:
            fraction: share of the training that the trial has done.
            better: number of other trials that are better at this point; ties count a half.
            others: number of other trials.
        """
        index = fraction_index(fraction)
        if index < 0 or others < 1 or not self._studies:
            return 1.0
        size = max(s for s in _SIZES if s <= others + 1)
        place = better / others * (size - 1)  # the rank in a set of that size
        table = self._table(index, size)
        return float(np.interp(place, np.arange(size), table))

    def _table(self, index: int, size: int) -> Array:
        """Probability (size,) of ending among the best, by early rank in a set of `size`."""
        if (index, size) not in self._tables:
            found, total = np.zeros(size), 0.0
            for (early, final), weight in zip(self._studies, self._weights, strict=True):
                known = ~np.isnan(early[:, index])
                if known.sum() < max(2, min(size, FEWEST)) or weight <= 0:
                    continue
                found += weight * self._shares(early[known, index], final[known], size)
                total += weight
            table = found / total if total else np.ones(size)
            self._tables[index, size] = never_rising(table)
        return self._tables[index, size]

    def _shares(self, early: Array, final: Array, size: int) -> Array:
        """For each early rank, the share (size,) of trials of one study that end among the best.

        If the study has fewer trials than `size`, the shares are interpolated.
        """
        n, mine = len(early), min(size, len(early))
        if (n, mine) not in self._picks:
            sets = max(_FEWEST_SETS, _SETS // len(self._studies))
            draws = np.random.default_rng(size).random((sets, n))
            self._picks[n, mine] = draws.argpartition(mine - 1, axis=1)[:, :mine]
        rng, picks = np.random.default_rng(size), self._picks[n, mine]
        # Ranks in the whole study, with ties broken at random, order every set.
        place = np.lexsort((rng.random(n), early)).argsort()
        end = np.lexsort((rng.random(n), final)).argsort()[picks]
        top = max(1, round(self._best * mine))
        among = end <= np.partition(end, top - 1, axis=1)[:, [top - 1]]
        order = place[picks].argsort(axis=1)
        hit = np.take_along_axis(among, order, axis=1).mean(axis=0)
        if mine == size:
            shares: Array = hit
        else:
            shares = np.interp(np.linspace(0, mine - 1, size), np.arange(mine), hit)
        return shares


def never_rising(values: Array) -> Array:
    """The sequence (n,) without a rise that is nearest to the values (n,), by least squares."""
    blocks: list[tuple[float, int]] = []  # mean and size of each block of equal values
    for value in values.tolist():
        mean, size = value, 1
        while blocks and blocks[-1][0] < mean:
            last, count = blocks.pop()
            mean = (mean * size + last * count) / (size + count)
            size += count
        blocks.append((mean, size))
    return np.repeat([mean for mean, _ in blocks], [size for _, size in blocks])


def with_past(studies: Sequence[tuple[Array, Array]], best: float) -> EarlyRanks:
    """Early ranks of past studies; random walks count as half a study, because few studies err.

    Args:
        studies: full curves of each study, as `full_curves` returns them.
        best: see `EarlyRanks`.
    """
    return EarlyRanks([*studies, random_walks()], best, [1.0] * len(studies) + [0.5])


def without_past(own: tuple[Array, Array], best: float) -> EarlyRanks:
    """Early ranks of a study without past studies: random walks, then its own full curves.

    Args:
        own: full curves of the study itself, as `full_curves` returns them.
        best: see `EarlyRanks`.
    """
    share = min(1.0, len(own[1]) / _OWN) if len(own[1]) >= FEWEST else 0.0
    return EarlyRanks([random_walks(), own], best, [1.0 - 0.9 * share, share])


def random_walks() -> tuple[Array, Array]:
    """Simulated curves: after a tenth of the training the correlation with the end is 0.3."""
    rng = np.random.default_rng(0)
    parts = np.sqrt(np.diff([0.0, *FRACTIONS, 1.0]))
    walks = np.cumsum(rng.normal(size=(_WALKS, len(parts))) * parts, axis=1)
    return walks[:, :-1], walks[:, -1]
