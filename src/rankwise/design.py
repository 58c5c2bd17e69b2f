"""Initial designs: the configurations to evaluate before there is anything to model."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.distance import cdist, pdist
from scipy.stats import qmc

from rankwise.errors import OptionError, SpaceError, check_name
from rankwise.space import Encoder
from rankwise.types import Array

_TRIES = 20  # Latin hypercubes among which the one with the largest smallest distance is kept


def random_design(encoder: Encoder, n: int, rng: np.random.Generator) -> Array:
    """n configurations (n, d) drawn at random."""
    return encoder.sample(n, rng)


def lhs_design(encoder: Encoder, n: int, rng: np.random.Generator) -> Array:
    """n configurations (n, d) from a maximin Latin hypercube over all hyperparameters.

    Each hyperparameter's range is cut into n parts and each part is used once. Rows that a
    forbidden clause excludes are filled up by `initial_design`.
    """
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


ENOUGH_LEVELS = 64  # a finer grid gives no new points that matter

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
        size: a number, or a multiple of the number of tuned hyperparameters as "2d", "4d".
    """

    kind: str = "lhs"
    size: int | str = "4d"

    def __post_init__(self) -> None:
        check_name("design", self.kind, _KINDS)
        if not re.fullmatch(r"[1-9]\d*d?", str(self.size)):
            raise OptionError(
                f"a design's size is at least one, or a multiple such as '4d', not {self.size!r}"
            )

    @classmethod
    def parse(cls, text: str | int | Design, base: Design | None = None) -> Design:
        """A design from "lhs", "sobol-2d", "random-10" or just a size.

        What the text does not say is taken from `base`.
        """
        base = base or cls()
        if isinstance(text, Design):
            return text
        if isinstance(text, int):
            return replace(base, size=text)
        kind, _, size = text.partition("-")
        return cls(kind, size or base.size)

    def n(self, encoder: Encoder) -> int:
        """The number of configurations in this space; at most all of a finite one."""
        text = str(self.size)
        wanted = int(text[:-1]) * max(encoder.n_tuned, 1) if text.endswith("d") else int(text)
        return max(1, wanted if math.isinf(encoder.size) else min(wanted, int(encoder.size)))

    def make(self, encoder: Encoder, rng: np.random.Generator) -> Array:
        """The configurations (n, d), different from one another and valid."""
        return initial_design(encoder, self.n(encoder), self.kind, rng)


def initial_design(encoder: Encoder, n: int, kind: str, rng: np.random.Generator) -> Array:
    """Exactly n different valid configurations (n, d).

    Where a design of the kind has fewer (clauses forbid some, or rounding makes two the same),
    the rest is chosen one by one from random configurations, the farthest from all others first.

    Raises:
        SpaceError: the space has fewer than n configurations.
    """
    check_name("design", kind, _KINDS)
    if n > encoder.size:
        raise SpaceError(
            f"a design of {n} was asked for, but the space has {int(encoder.size)} configurations"
        )
    X = _distinct(_KINDS[kind](encoder, n, rng))
    attempts = 0
    while len(X) < n:
        pool = encoder.points if encoder.points is not None else encoder.sample(256, rng)
        far = np.min(cdist(pool, X), axis=1) if len(X) else None
        choice = int(np.argmax(far)) if far is not None else int(rng.integers(len(pool)))
        X = _distinct(np.concatenate([X, pool[[choice]]]))
        attempts += 1
        if attempts > 100 * n:
            raise SpaceError(f"only {len(X)} different configurations were found, not {n}")
    return X[:n]


def _distinct(X: Array) -> Array:
    """The rows of X (n, d) without repetitions, in their order."""
    _, first = np.unique(X, axis=0, return_index=True)
    return X[np.sort(first)]
