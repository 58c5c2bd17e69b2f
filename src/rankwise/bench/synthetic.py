"""Families of functions with known optima and a knob for how related their tasks are.

A task of a family is the family's function after a change of its inputs: the axes permuted and
mirrored, stretched, and moved so that the smallest value lies at a chosen place of the space. The
loss is stretched and moved as well. The knob, `relatedness`, says how large the changes are:

- 1: the same function up to small moves and stretches;
- 0: unrelated; the smallest value lies anywhere, axes are permuted and mirrored at random. What
  is left in common is the kind of function: of bowls, say, that corners tend to be bad;
- below 0: as related as the absolute value says, but past losses have the opposite sign, so that
  the best becomes the worst. At -1 the past is as misleading as can be.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from rankwise.bench.base import Benchmark, OpenProblem
from rankwise.bench.registry import Source
from rankwise.errors import OptionError, check_name
from rankwise.space import Encoder
from rankwise.task import Task
from rankwise.types import Array, Configuration

TASKS = {"train": 20, "validation": 4, "test": 5}
PAST = 40  # random evaluations of a past task

_MOVE = 0.05  # standard deviation of the place of the optimum where tasks are related
_MARGIN = 0.02  # distance of the optimum from the border of the unit cube, at least
_SAMPLE = 4096  # points whose largest loss counts as regret 1, besides the corners of the cube

# ---------------------------------------------------------------------- functions


def _sinusoids(U: Array) -> Array:
    return -np.cos(2 * np.pi * U[:, 0]) - 0.5 * np.cos(6 * np.pi * U[:, 0])


def _quadratics(U: Array) -> Array:
    values: Array = (U - _COMMON) ** 2 @ np.array([1.0, 2.0, 4.0])
    return values


_COMMON = np.array([0.25, 0.7, 0.4])


def _branin(U: Array) -> Array:
    a, b = 15 * U[:, 0] - 5, 15 * U[:, 1]
    valley = b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6
    return valley**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10


def _hartmann(U: Array) -> Array:
    distances = np.sum(_WIDTHS * (U[:, None] - _CENTRES) ** 2, axis=2)
    values: Array = -np.exp(-distances) @ np.array([1.0, 1.2, 3.0, 3.2])
    return values


_WIDTHS = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
_CENTRES = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


@dataclass(frozen=True)
class Function:
    """A function whose smallest value is known.

    Attributes:
        summary: what it is, in a line.
        box: the range of each of d inputs, as users see them.
        values: from points U (n, d), the unit cube for that box, to values (n,).
        minimum: the smallest value, inside of the cube and out.
        place: where in the cube it is taken.
    """

    summary: str
    box: tuple[tuple[float, float], ...]
    values: Callable[[Array], Array]
    minimum: float
    place: tuple[float, ...]


FUNCTIONS: dict[str, Function] = {
    "sinusoids": Function(
        "sums of two sinusoids of one input", ((0.0, 1.0),), _sinusoids, -1.5, (0.0,)
    ),
    "quadratics": Function(
        "quadratic bowls of three inputs", ((-5.0, 5.0),) * 3, _quadratics, 0.0, tuple(_COMMON)
    ),
    "branin": Function(
        "variants of the Branin function, two inputs",
        ((-5.0, 10.0), (0.0, 15.0)),
        _branin,
        10 / (8 * math.pi),
        ((math.pi + 5) / 15, 2.275 / 15),
    ),
    # Outside of the box of its centres each input is better moved back: no smaller value there.
    "hartmann": Function(
        "variants of the Hartmann function, six inputs",
        ((0.0, 1.0),) * 6,
        _hartmann,
        -3.3223680114155147,
        (
            0.20168951100670543,
            0.15001069182345797,
            0.47687397422189703,
            0.2753324304940561,
            0.31165161660011326,
            0.6573005340656204,
        ),
    ),
}

_TYPICAL = {"sinusoids": (0.3,)}  # where the optimum is moved to, if not where the function has it

# ---------------------------------------------------------------------- tasks


@dataclass(frozen=True)
class Loss:
    """The loss of one task, from a configuration.

    Attributes:
        family: name of the function.
        order: input number `order[j]` of the task is number j of the function.
        slopes: by how much each input of the function is stretched, negative where mirrored.
        centre: where in the task's unit cube the smallest loss is, in the function's order.
        height: by which the function is multiplied.
        offset: that is added then.
    """

    family: str
    order: tuple[int, ...]
    slopes: tuple[float, ...]
    centre: tuple[float, ...]
    height: float
    offset: float

    def __call__(self, configuration: Configuration) -> float:
        values = [float(configuration[f"x{j}"]) for j in range(len(self.order))]
        return float(self.at(np.array([values]))[0])

    def at(self, values: Array) -> Array:
        """Losses (n,) of values (n, d) in the function's box."""
        function = FUNCTIONS[self.family]
        low, high = np.array(function.box).T
        U = ((values - low) / (high - low))[:, self.order]
        moved = np.array(function.place) + np.array(self.slopes) * (U - np.array(self.centre))
        return self.offset + self.height * function.values(moved)

    @property
    def best(self) -> float:
        """The smallest loss of the space."""
        return self.offset + self.height * FUNCTIONS[self.family].minimum

    @property
    def worst(self) -> float:
        """The largest loss of the corners and a fixed sample of the space."""
        low, high = np.array(FUNCTIONS[self.family].box).T
        corners = np.array(list(itertools.product((0.0, 1.0), repeat=len(low))))
        sample = np.random.default_rng(0).random((_SAMPLE, len(low)))
        return float(self.at(low + np.concatenate([corners, sample]) * (high - low)).max())


def make_loss(family: str, task: str, relatedness: float) -> Loss:
    """The loss of a task; always the same for the same arguments."""
    function, related = FUNCTIONS[family], abs(relatedness)
    d = len(function.box)
    rng = np.random.default_rng([zlib.crc32(family.encode()), zlib.crc32(task.encode())])
    # The same numbers are drawn whatever the knob says: it moves a task, it does not replace it.
    order, keep = rng.permutation(d), rng.random() < related
    mirror = np.where(rng.random(d) < (1 - related) / 2, -1.0, 1.0)
    anywhere, move = rng.random(d), _MOVE * rng.standard_normal(d)
    spread = 1.0 + (1 - related)  # up to twice as wide or narrow, in powers of two
    stretch, height = 2.0 ** (0.15 * spread * rng.uniform(-1, 1, d)), 2.0 ** rng.uniform(-1, 1)
    typical = np.array(_TYPICAL.get(family, function.place))
    centre = related * (typical + move) + (1 - related) * anywhere
    return Loss(
        family,
        tuple(range(d)) if keep else tuple(order.tolist()),
        tuple((mirror * stretch).tolist()),
        tuple(np.clip(centre, _MARGIN, 1 - _MARGIN).tolist()),
        height,
        float(rng.uniform(-1, 1)),
    )


@lru_cache(maxsize=len(FUNCTIONS))
def _encoder(family: str) -> Encoder:
    return Encoder({f"x{j}": bounds for j, bounds in enumerate(FUNCTIONS[family].box)})


@dataclass(frozen=True)
class _Problems:
    family: str
    relatedness: float

    def __call__(self, name: str) -> OpenProblem:
        loss = make_loss(self.family, name, self.relatedness)
        return OpenProblem(name, loss.best, loss.worst, _encoder(self.family), loss)


@dataclass(frozen=True)
class _Histories:
    family: str
    relatedness: float

    def __call__(self, name: str) -> Task:
        encoder = _encoder(self.family)
        codes = encoder.sample_codes(PAST, np.random.default_rng(zlib.crc32(name.encode())))
        losses = make_loss(self.family, name, self.relatedness).at(codes)
        sign = -1.0 if self.relatedness < 0 else 1.0
        return Task.of(encoder.encode_codes(codes), sign * losses, name=name)


# ---------------------------------------------------------------------- the table

VARIANTS = {"": 1.0, "-unrelated": 0.0, "-adversarial": -1.0}
"""What may follow the name of a family, and the relatedness that it stands for."""


def family(name: str, *, relatedness: float = 1.0) -> Benchmark:
    """The benchmark of a family.

    Args:
        name: one of `FUNCTIONS`.
        relatedness: of its tasks and of the past, from -1 to 1 (see the module's text).
    """
    check_name("family", name, FUNCTIONS)
    if not -1 <= relatedness <= 1:
        raise OptionError(f"relatedness is a number from -1 to 1, not {relatedness!r}")
    suffixes = {number: suffix for suffix, number in VARIANTS.items()}
    train, validation, test = (tuple(f"{p}-{k}" for k in range(n)) for p, n in TASKS.items())
    return Benchmark(
        name + suffixes.get(relatedness, f"({relatedness:g})"),
        _encoder(name),
        train,
        validation,
        test,
        _Problems(name, relatedness),
        _Histories(name, relatedness),
    )


@dataclass(frozen=True)
class _Load:
    family: str
    relatedness: float

    def __call__(self, data: Path | None) -> Benchmark:
        return family(self.family, relatedness=self.relatedness)


_SUMMARIES = {
    "": "",
    "-unrelated": "; the past says nothing",
    "-adversarial": "; the past says the opposite",
}

SOURCES: tuple[Source, ...] = tuple(
    Source(name + suffix, function.summary + _SUMMARIES[suffix], _Load(name, relatedness))
    for name, function in FUNCTIONS.items()
    for suffix, relatedness in VARIANTS.items()
)
