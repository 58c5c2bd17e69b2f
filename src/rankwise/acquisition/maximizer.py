"""Maximizer: finds a new configuration with a large utility.

A small finite space is enumerated, a larger one is searched (`acquisition/search.py`). Evaluated
and pending configurations are not proposed again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from rankwise.acquisition.ascent import AscentSearch
from rankwise.acquisition.search import FocusSearch, LocalSearch, Slope, Tournament, Utility, climb
from rankwise.errors import SpaceExhausted
from rankwise.space.encoder import Encoder
from rankwise.types import Array, Mask

NEAR_EVALUATED = 1e-5  # distance, in every column of the unit cube, that counts as equal
_STALLED = 2  # evaluations without improvement after which proposals keep a distance
EVERYWHERE = 2
"""Value of `stalled` if all losses are equal: explore away from evaluated points."""
_NEAR_PENDING = 1e-3
_CROWDED = 0.01  # distance in all columns below which a point nearly repeats another
_APART = 0.1  # distance in at least one column between points of the first batch


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
        """Mask (n,) of the rows of X (n, d) that are new."""
        return np.array([row.tobytes() not in self._keys for row in np.ascontiguousarray(X)], bool)

    def __len__(self) -> int:
        return len(self._rows)

    def far(self, X: Array, spacing: float = 0.0) -> Mask:
        """Mask (n,) of the rows of X (n, d) that are far enough from all seen rows.

        A utility that peaks at a corner or beside a pending point would otherwise lead to many
        nearly equal proposals.

        Args:
            X: the rows.
            spacing: smallest distance in units of the cube.
        """
        if not len(self._rows):
            return np.ones(len(X), dtype=bool)
        from scipy.spatial.distance import cdist

        radius = np.maximum(self._radius, spacing)
        apart: Mask = (cdist(X, self._rows, "chebyshev") > radius).all(axis=1)
        return apart


def crowded(X: Array) -> bool:
    """True if the last two of n evaluations (n, d) nearly repeat earlier ones."""
    last = range(max(1, len(X) - _STALLED), len(X))
    return len(last) == _STALLED and all(
        np.abs(X[:k] - X[k]).max(axis=1).min() < _CROWDED for k in last
    )


def best_of_set(utility: Utility, X: Array, seen: Seen) -> Array:
    """The unseen point (d,) of a finite set X (n, d) with the largest utility.

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
    """Finds a new configuration with a large utility.

    A small finite space is enumerated. A larger one is searched by focus search, followed by local
    search from its best points and from the best evaluated configurations; if utilities can be
    compared within one call only, by a tournament.

    Attributes:
        focus: global search for a good region.
        local: local search.
        tournament: search for relative utilities.
        spacing: smallest distance to all other points after evaluations without improvement, in
            units of n^(-1/d), the spacing of n evenly spread points in d dimensions. A model of
            ranks does not know that close neighbours have nearly equal losses.
        climbs: number of points from which gradient ascent starts, if there is a gradient.
        ascent: search that takes the place of focus search and local search if there is a
            gradient; None to use these and `climbs`.
    """

    focus: FocusSearch = field(default_factory=FocusSearch)
    local: LocalSearch = field(default_factory=LocalSearch)
    tournament: Tournament = field(default_factory=Tournament)
    spacing: float = 0.5
    climbs: int = 2
    ascent: AscentSearch | None = None

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
        """Find the best new point (d,).

        Args:
            utility: function to maximize.
            encoder: encoder of the space.
            rng: random generator.
            seen: configurations that must not be proposed.
            elite: best evaluated configurations (k, d), further starts of local search.
            relative: True if utilities are comparable within one call of `utility` only.
            once: True to call `utility` only once, because it draws a new function each time.
            stalled: number of evaluations since the best one; 0 if the surrogate handles that.
            blind: True if nothing is evaluated yet; points of a batch are then kept apart.
            slope: utility and gradient at a point; without `ascent` it is used only if all
                hyperparameters are numbers.
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
        elif self.ascent is not None and slope is not None and not apart:
            codes, values = self.ascent(utility, slope, encoder, rng, elite)
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
                if len(tops):
                    codes = np.concatenate([codes, tops])
                    values = np.concatenate([values, utility(encoder.encode_codes(tops))])
        codes, values = codes[values > -np.inf], values[values > -np.inf]
        return self._best_new(encoder, rng, seen, codes, values)

    def _apart(self, encoder: Encoder, seen: Seen, stalled: int, blind: bool) -> float:
        """Return the smallest distance of the next proposal from all seen configurations.

        It is 0 in general. It is positive before the first evaluation (`blind`), so that the
        points of a batch differ, and at every second proposal of a search without progress.
        """
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
