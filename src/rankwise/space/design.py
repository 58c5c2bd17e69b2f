"""Initial designs: the configurations to evaluate before a model is used."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from rankwise.errors import OptionError, SpaceError, check_name
from rankwise.space.encoder import Encoder
from rankwise.types import Array

_MISSES = 100  # draws of 256 random configurations in a row without a new one
_FEWEST, _MOST = 4, 10  # bounds of the size "few"
_TRIES = 20  # Latin hypercubes that are drawn; the one with the largest minimum distance is kept


def random_design(encoder: Encoder, n: int, rng: np.random.Generator) -> Array:
    """n configurations (n, d) drawn at random."""
    return encoder.sample(n, rng)


def lhs_design(encoder: Encoder, n: int, rng: np.random.Generator) -> Array:
    """n configurations (n, d) from a maximin Latin hypercube over all hyperparameters.

    Each hyperparameter's range is cut into n parts and each part is used once. Forbidden rows are
    left out, so there may be fewer than n; `initial_design` adds the missing ones.
    """
    from scipy.spatial.distance import pdist
    from scipy.stats import qmc

    sampler = qmc.LatinHypercube(len(encoder.names), rng=rng)
    best, widest = None, -1.0
    for _ in range(_TRIES if n > 1 else 1):
        codes = encoder.from_unit(sampler.random(n))
        X = encoder.encode_codes(codes[encoder.allowed(codes)])
        gap = float(np.min(pdist(X))) if len(X) > 1 else 0.0
        if best is None or (len(X), gap) > (len(best), widest):
            best, widest = X, gap
    assert best is not None
    return best


def sobol_design(encoder: Encoder, n: int, rng: np.random.Generator) -> Array:
    """The first n configurations (n, d) of a scrambled Sobol sequence."""
    from scipy.stats import qmc

    sampler = qmc.Sobol(len(encoder.names), rng=rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # balance at powers of two is not needed here
        codes = encoder.from_unit(sampler.random(n))
    return encoder.encode_codes(codes[encoder.allowed(codes)])


def grid_design(encoder: Encoder, n: int, rng: np.random.Generator) -> Array:
    """n configurations (n, d) drawn from the coarsest grid that has at least n points."""
    levels = 2
    while True:
        try:
            X = encoder.grid(levels)
        except SpaceError:  # too many hyperparameters even for two levels each
            return sobol_design(encoder, n, rng)
        if len(X) >= n or levels > max(n, ENOUGH_LEVELS):
            return X[rng.permutation(len(X))[:n]]
        levels += 1


def default_design(encoder: Encoder, n: int, rng: np.random.Generator) -> Array:
    """The space's default configuration, then a Latin hypercube: (n, d)."""
    default = encoder.encode([encoder.default])
    return np.concatenate([default, lhs_design(encoder, n - 1, rng)]) if n > 1 else default


ENOUGH_LEVELS = 64  # values per hyperparameter above which the grid is not refined

_KINDS: dict[str, Callable[[Encoder, int, np.random.Generator], Array]] = {
    "default": default_design,
    "grid": grid_design,
    "lhs": lhs_design,
    "random": random_design,
    "sobol": sobol_design,
}


@dataclass(frozen=True)
class Design:
    """A kind of initial design and its size.

    Attributes:
        kind: "lhs" (Latin hypercube, maximin), "sobol", "random", "grid", or "default" (the
            space's default configuration first).
        size: a number, or "2d", "4d", ...: a multiple of the number d of tuned hyperparameters,
            or "few": from 4 to 10, growing slowly with d.
    """

    kind: str = "lhs"
    size: int | str = "4d"

    def __post_init__(self) -> None:
        check_name("design", self.kind, _KINDS)
        if self.size != "few" and not re.fullmatch(r"[1-9]\d*d?", str(self.size)):
            raise OptionError(
                "a design's size is at least one, a multiple such as '4d', or 'few', "
                f"not {self.size!r}"
            )

    @classmethod
    def parse(cls, text: str | int | Design, base: Design | None = None) -> Design:
        """Parse a design such as "lhs", "sobol-2d", "random-10" or a size alone.

        A kind or a size that the text omits is taken from `base`.
        """
        base = base or cls()
        if isinstance(text, Design):
            return text
        if isinstance(text, int):
            return replace(base, size=text)
        kind, _, size = text.partition("-")
        return cls(kind, size or base.size)

    def n(self, encoder: Encoder) -> int:
        """The number of configurations of the design; at most the size of a finite space."""
        text, tuned = str(self.size), max(encoder.n_tuned, 1)
        if text == "few":
            wanted = min(_FEWEST + tuned // 4, _MOST)
        else:
            wanted = int(text[:-1]) * tuned if text.endswith("d") else int(text)
        return max(1, wanted if math.isinf(encoder.size) else min(wanted, int(encoder.size)))

    def make(self, encoder: Encoder, rng: np.random.Generator) -> Array:
        """The configurations (n, d), all valid and different from one another.

        There are fewer if no more are found, as in a space of which nearly all is forbidden.
        """
        return _found(encoder, self.n(encoder), self.kind, rng)


def initial_design(encoder: Encoder, n: int, kind: str, rng: np.random.Generator) -> Array:
    """Exactly n different valid configurations (n, d).

    If the design has fewer (forbidden ones are left out, and rounding can make two of them equal),
    random configurations are added one by one, each time the one farthest from those chosen.

    Raises:
        SpaceError: the space has fewer than n configurations.
    """
    check_name("design", kind, _KINDS)
    if n > encoder.size:
        raise SpaceError(
            f"a design of {n} was asked for, but the space has {int(encoder.size)} configurations"
        )
    X = _found(encoder, n, kind, rng)
    if len(X) < n:
        raise SpaceError(f"only {len(X)} different configurations were found, not {n}")
    return X


def _found(encoder: Encoder, n: int, kind: str, rng: np.random.Generator) -> Array:
    """At most n different valid configurations, fewer if random ones bring nothing new."""
    from scipy.spatial.distance import cdist

    X, misses = _distinct(_KINDS[kind](encoder, n, rng)), 0
    while len(X) < n and misses < _MISSES:
        pool = encoder.points if encoder.points is not None else encoder.sample(256, rng)
        far = np.min(cdist(pool, X), axis=1) if len(X) else None
        choice = int(np.argmax(far)) if far is not None else int(rng.integers(len(pool)))
        before, X = len(X), _distinct(np.concatenate([X, pool[[choice]]]))
        misses = 0 if len(X) > before else misses + 1
    return X[:n]


def _distinct(X: Array) -> Array:
    """The rows of X (n, d) without duplicates, in their original order."""
    _, first = np.unique(X, axis=0, return_index=True)
    return X[np.sort(first)]
