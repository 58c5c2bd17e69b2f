"""Proposals: where is the utility largest?

A finite set of points is looked at whole, a larger space by the `searches`; what was evaluated
or is being evaluated is not proposed again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.spatial.distance import cdist

from rankwise.errors import SpaceExhausted
from rankwise.searches import FocusSearch, LocalSearch, Slope, Tournament, Utility, climb
from rankwise.space import Encoder
from rankwise.types import Array, Mask

NEAR_EVALUATED = 1e-5  # in units of the cube, along every column
_STALLED = 2  # evaluations without a better one after which others are looked for
EVERYWHERE = 2
"""As `stalled` of a `Maximizer`: there is nothing to choose by, the next one is farther away."""
_NEAR_PENDING = 1e-3
_CROWDED = 0.01  # along all columns
_APART = 0.1  # of the first batch's points, along one column at least


class Seen:
    """The configurations that must not be proposed again.

    Args:
        evaluated: configurations (n, d).
        pending: configurations (m, d) that are being evaluated.
    """

    def __init__(self, evaluated: Array, pending: Array | None = None) -> None:
        pending = np.empty((0, evaluated.shape[1])) if pending is None else pending
        self._rows = np.concatenate([evaluated, pending])
        self._radius = np.repeat([NEAR_EVALUATED, _NEAR_PENDING], [len(evaluated), len(pending)])
        self._keys = {row.tobytes() for row in self._rows}

    def new(self, X: Array) -> Mask:
        """Which rows of X (n, d) were not seen."""
        return np.array([row.tobytes() not in self._keys for row in np.ascontiguousarray(X)], bool)

    def __len__(self) -> int:
        return len(self._rows)

    def far(self, X: Array, spacing: float = 0.0) -> Mask:
        """Which rows of X (n, d) are so far from all seen ones that they tell something new.

        Where the utility peaks at a corner or next to a pending point, its maximum is
        approached again and again without ever being the same configuration.

        Args:
            X: the rows.
            spacing: how far they must be at least, in units of the cube.
        """
        if not len(self._rows):
            return np.ones(len(X), dtype=bool)
        radius = np.maximum(self._radius, spacing)
        apart: Mask = (cdist(X, self._rows, "chebyshev") > radius).all(axis=1)
        return apart


def crowded(X: Array) -> bool:
    """Whether the last two of n evaluations (n, d) are as good as repetitions of earlier ones."""
    last = range(max(1, len(X) - _STALLED), len(X))
    return len(last) == _STALLED and all(
        np.abs(X[:k] - X[k]).max(axis=1).min() < _CROWDED for k in last
    )


def best_of_set(utility: Utility, X: Array, seen: Seen) -> Array:
    """The point (d,) of a finite set X (n, d) with the largest utility, unseen ones only.

    Raises:
        SpaceExhausted: all points were seen.
    """
    fresh = X[seen.new(X)]
    if not len(fresh):
        raise SpaceExhausted(f"all {len(X)} configurations of the space were proposed")
    best: Array = fresh[np.argmax(utility(fresh))]
    return best


def random_unseen(encoder: Encoder, seen: Seen, rng: np.random.Generator) -> Array:
    """A random configuration (d,) that was not seen.

    Raises:
        SpaceExhausted: there is none.
    """
    if encoder.points is not None:
        return best_of_set(lambda X: rng.random(len(X)), encoder.points, seen)
    for _ in range(100):
        X = encoder.sample(64, rng)
        fresh = X[seen.new(X)]
        if len(fresh):
            point: Array = fresh[0]
            return point
    raise SpaceExhausted("no new configuration was found in 6400 random ones")


@dataclass(frozen=True)
class Maximizer:
    """Finds a new configuration of large utility.

    A small finite space is looked at whole; a larger one by focus search followed by local
    search from its best points and from the best configurations evaluated so far, or, if utilities
    of two sets cannot be compared, by a tournament.

    Attributes:
        focus: finds a region.
        local: refines.
        tournament: for utilities that are relative.
        spacing: how far from all others a point must be when the last ones brought nothing, in
            units of n^(-1/d), the spacing of n evenly spread points of d numbers. Ranks do not
            know that the neighbours of an evaluated configuration are as good as evaluated.
        climbs: points from which the gradient is followed, if there is one.
    """

    focus: FocusSearch = field(default_factory=FocusSearch)
    local: LocalSearch = field(default_factory=LocalSearch)
    tournament: Tournament = field(default_factory=Tournament)
    spacing: float = 0.5
    climbs: int = 2

    def __call__(
        self,
        utility: Utility,
        encoder: Encoder,
        rng: np.random.Generator,
        seen: Seen,
        elite: Array,
        *,
        relative: bool = False,
        once: bool = False,
        stalled: int = 0,
        blind: bool = False,
        slope: Slope | None = None,
    ) -> Array:
        """The best new point (d,).

        Args:
            utility: to be maximised.
            encoder: of the space.
            rng: source of randomness.
            seen: what must not be proposed.
            elite: the best evaluated configurations (k, d), from where local search starts too.
            relative: utilities are comparable within one call of `utility` only.
            once: call `utility` once only, because it draws a new function each time.
            stalled: evaluations since the best one; 0 if the surrogate knows what to make of them.
            blind: nothing is evaluated yet, so points of a batch are kept apart.
            slope: utility and gradient at a point; used where all is numbers.
        """
        if encoder.points is not None:
            return best_of_set(utility, encoder.points, seen)
        apart = self._apart(encoder, seen, stalled, blind)
        if apart:
            wanted = utility
            utility = lambda X: np.where(seen.far(X, apart), wanted(X), -np.inf)  # noqa: E731
        if relative or once:
            tournament = replace(self.tournament, rounds=1) if once else self.tournament
            codes, values = tournament(utility, encoder, rng, elite)
        else:
            codes, values = self.focus(utility, encoder, rng)
            if len(elite):
                start = encoder.decode_codes(elite)
                codes = np.concatenate([codes, start])
                values = np.concatenate([values, utility(elite)])
            codes, values = self.local(utility, encoder, rng, codes, values)
            if slope is not None and not apart and encoder.n_numbers == encoder.n_columns:
                top = codes[np.argsort(-values, kind="stable")[: self.climbs]]
                tops = climb(slope, encoder, encoder.encode_codes(top))
                codes = np.concatenate([codes, tops])
                values = np.concatenate([values, utility(encoder.encode_codes(tops))])
        codes, values = codes[values > -np.inf], values[values > -np.inf]
        return self._best_new(encoder, rng, seen, codes, values)

    def _apart(self, encoder: Encoder, seen: Seen, stalled: int, blind: bool) -> float:
        """While evaluations bring nothing, every second one is farther away."""
        if not (encoder.n_numbers and len(seen)):
            return 0.0
        even = float(self.spacing * len(seen) ** (-1.0 / encoder.n_numbers))
        if blind:
            return min(even, _APART)
        return even if stalled >= _STALLED and stalled % 2 == 0 else 0.0

    def _best_new(
        self, encoder: Encoder, rng: np.random.Generator, seen: Seen, codes: Array, values: Array
    ) -> Array:
        order = np.argsort(-values, kind="stable")
        for start in range(0, len(order), 200):
            X = encoder.encode_codes(codes[order[start : start + 200]])
            fresh = X[seen.far(X)]
            if len(fresh):
                point: Array = fresh[0]
                return point
        return random_unseen(encoder, seen, rng)
