"""StoppingRule: which trials to stop, by their ranks early in their training.

In a random set of trials with full curves, each trial has a rank at every step, and some are the
best of the set in the end. A rule that stops trials by their early ranks finds some of the best,
and spends a number of steps. This one finds the most of the best per step: a trial goes on if what
is found by going on is worth its steps. The price of a step is such that a new trial is just worth
its own, and the rule is computed backwards from the last step. It is a problem of optimal stopping
with a renewal: a trial that is stopped makes room for a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankwise.history.early_ranks import random_walks
from rankwise.types import Array, Counts, Mask

_SIZES = (2, 3, 4, 6, 9, 14, 22, 40, 70, 120, 200)  # sizes of the random sets
_LARGEST = 0.8  # largest set, as a share of the trials of its study
_TRIALS = 16_000  # trials in all random sets of one size, over all studies
_FEWEST_SETS = 5  # of one study
_ROUNDS = 12  # at most, of the search for the price of a step
_PRECISION = 1e-3  # of the price


@dataclass(frozen=True)
class _Draws:
    """Trials (n,) of random sets of one size.

    Attributes:
        places: rank (n, f) of each trial in its set at each fraction, from 0.
        known: (n, f) False where a trial has no value yet.
        wins: (n,) 1 for a trial that is among the best of its set in the end, else 0.
        weights: (n,), with the sum 1.
    """

    places: Counts
    known: Mask
    wins: Array
    weights: Array


class StoppingRule:
    """Stops trials that are worth less than the price of their further steps.

    Only ranks are used, so studies with different scales are pooled.

    Args:
        fractions: increasing fractions (f,) of the training at which trials are compared.
        studies: for each study, losses of its full curves (n, f) at the fractions, NaN before the
            first step, and their final losses (n,).
        best: share of the trials of a set that are the best; at least one trial is.
        threshold: share of the price of a step that a trial must be worth, from 0 (nothing is
            stopped) to 1 (the most of the best per step, if the studies are like this one).
        prior: weight of simulated curves, relative to one study. They are random walks.
    """

    def __init__(
        self,
        fractions: Array,
        studies: Sequence[tuple[Array, Array]],
        *,
        best: float = 0.1,
        threshold: float = 0.7,
        prior: float = 0.5,
    ) -> None:
        self._fractions, self._best, self._threshold = fractions, best, threshold
        self._studies = [*studies, random_walks(fractions)]
        self._weights = [1.0] * len(studies) + [prior if studies else 1.0]
        self._real = len(studies) or 1  # where none of these is known, nothing is stopped
        most = max(len(final) for _, final in self._studies[: self._real])
        self._sizes = [size for size in _SIZES if size <= max(2, int(_LARGEST * most))]
        steps = np.diff([*fractions.tolist(), 1.0])
        self._steps = np.array([fractions[0] or steps[0], *steps])
        self._gains: dict[int, Array] = {}

    def stops(self, fraction: float, better: float, others: int) -> bool:
        """True if a trial is not worth its further steps.

        Args:
            fraction: share of the training that the trial has done.
            better: number of other trials that are better at this point; ties count a half.
            others: number of other trials.
        """
        index = int(np.searchsorted(self._fractions, fraction + 1e-9, side="right")) - 1
        if index < 0 or others < 1:
            return False
        size = max((s for s in self._sizes if s <= others + 1), default=2)
        if size not in self._gains:
            self._gains[size] = self._gain(size)
        place = better / others * (size - 1)
        return bool(np.interp(place, np.arange(size), self._gains[size][index]) < 0)

    def _gain(self, size: int) -> Array:
        """What going on is worth (f, size), by fraction and rank in a set; infinite if unknown.

        The price of a step is the share of wins per share of the training that the rule itself
        achieves (Dinkelbach's method).
        """
        draws = self._draws(size)
        price = float(draws.weights @ draws.wins)
        for _ in range(_ROUNDS):
            gain, achieved = self._backwards(draws, size, self._threshold * price)
            if abs(achieved - price) <= _PRECISION * price:
                break
            price = achieved
        return gain

    def _backwards(self, draws: _Draws, size: int, price: float) -> tuple[Array, float]:
        """What going on is worth (f, size) at a price of the training, and wins per training."""
        gain = np.full((len(self._fractions), size), np.inf)
        worth = draws.wins - price * self._steps[-1]
        wins, spent = draws.wins, np.full(len(worth), self._steps[-1])
        for k in range(len(gain) - 1, -1, -1):
            known = draws.known[:, k]
            if known.any():
                places, weights = draws.places[known, k], draws.weights[known]
                total = np.bincount(places, weights, size).astype(float)
                value = np.bincount(places, weights * worth[known], size)
                gain[k] = never_rising(value / np.maximum(total, 1e-300), total)
                on = np.ones(len(worth), dtype=bool)
                on[known] = gain[k][places] >= 0
                worth, wins, spent = on * worth, on * wins, on * spent
            worth, spent = worth - price * self._steps[k], spent + self._steps[k]
        return gain, float(draws.weights @ wins / (draws.weights @ spent))

    def _draws(self, size: int) -> _Draws:
        """Random sets of all studies; of a study with fewer trials, ranks are stretched."""
        rng = np.random.default_rng(size)
        parts: list[tuple[Counts, Mask, Mask, float]] = []
        for (early, final), weight in zip(self._studies, self._weights, strict=True):
            n = len(final)
            mine = min(size, max(2, int(_LARGEST * n)))
            sets = max(_FEWEST_SETS, _TRIALS // len(self._studies) // mine)
            picks = rng.random((sets, n)).argpartition(mine - 1, axis=1)[:, :mine]
            wins = _places(final, picks, rng) < max(1, round(self._best * mine))
            columns = [_places(early[:, k], picks, rng).ravel() for k in range(early.shape[1])]
            stretched = np.stack(columns, axis=1) * (size - 1) / (mine - 1)
            known = ~np.isnan(early)[picks.ravel()]
            parts.append((stretched.round().astype(int), known, wins.ravel(), weight))
        weights = [np.full(len(wins), weight / len(wins)) for _, _, wins, weight in parts]
        places = np.concatenate([part[0] for part in parts])
        known = np.concatenate([part[1] for part in parts])
        wins = np.concatenate([part[2] for part in parts])
        real = sum(len(part[2]) for part in parts[: self._real])
        known &= known[:real].any(axis=0)
        return _Draws(
            places, known, wins.astype(float), np.concatenate(weights) / sum(self._weights)
        )


def _places(losses: Array, picks: Counts, rng: np.random.Generator) -> Counts:
    """Ranks (sets, m) of the losses (n,) within sets of trials (sets, m); ties at random."""
    order = np.lexsort((rng.random(len(losses)), losses)).argsort()
    found: Counts = order[picks].argsort(axis=1).argsort(axis=1)
    return found


def never_rising(values: Array, weights: Array) -> Array:
    """The sequence (n,) without a rise that is nearest to the values (n,), by least squares.

    Args:
        values: (n,).
        weights: weight (n,) of each value, 0 or more.
    """
    blocks: list[tuple[float, float, int]] = []  # mean, weight and size of blocks of equal values
    for value, mass in zip(values.tolist(), (weights + 1e-12).tolist(), strict=True):
        mean, size = value, 1
        while blocks and blocks[-1][0] < mean:
            last, other, count = blocks.pop()
            mean = (mean * mass + last * other) / (mass + other)
            mass, size = mass + other, size + count
        blocks.append((mean, mass, size))
    return np.repeat([mean for mean, _, _ in blocks], [size for _, _, size in blocks])
