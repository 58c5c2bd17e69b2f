"""Families of functions with known optima and adjustable relatedness of their tasks.

A task is the function of its family with changed inputs: axes are permuted, mirrored and
stretched, and moved so that the optimum is at a chosen point of the space. The loss is also scaled
and shifted. The parameter `relatedness` sets the size of the changes:

- 1: all tasks are the same function, except for small shifts and scalings;
- 0: tasks are unrelated. The optimum can be anywhere, and axes are permuted and mirrored at
  random. Tasks still share the kind of function; for bowls, corners tend to be bad;
- below 0: tasks are as related as with the absolute value, but the losses of source tasks have
  the opposite sign, so that the best configuration becomes the worst. -1 is the most misleading
  value.
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
from rankwise.bench.benchmarks import Source
from rankwise.errors import OptionError, check_name
from rankwise.history.task import Task
from rankwise.space.encoder import Encoder
from rankwise.types import Array, Configuration

TASKS = {"train": 20, "validation": 4, "test": 5}
PAST = 40  # number of random evaluations of a source task

_MOVE = 0.05  # standard deviation of the position of the optimum between related tasks
_MARGIN = 0.02  # smallest distance of the optimum from the border of the unit cube
_SAMPLE = 4096  # number of random points that, with the corners, determine the worst loss

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
    """A function with a known minimum.

    Attributes:
        summary: one-line description.
        box: range of each of the d inputs.
        values: function that maps points (n, d), scaled so that the box is the unit cube, to
            values (n,). It is also defined outside the cube.
        minimum: smallest value, inside and outside the cube.
        place: point (d,) of the unit cube with the smallest value.
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
    # Outside the box of the centres, moving an input towards the box lowers the value. So there
    # is no smaller value outside.
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

_TYPICAL = {"sinusoids": (0.3,)}  # typical position of the optimum, if it is not `place`

# ---------------------------------------------------------------------- tasks


@dataclass(frozen=True)
class Loss:
    """Loss function of one task.

    Attributes:
        family: name of the function.
        order: permutation (d,) of the inputs: input `order[j]` of the task is input j of the
            function.
        slopes: factor of each input of the function; a negative factor mirrors the input.
        centre: position of the optimum in the task's unit cube, in the function's order of inputs.
        height: factor of the function's value.
        offset: constant that is added to the value.
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
        """Compute losses (n,) at points (n, d) of the function's box."""
        function = FUNCTIONS[self.family]
        low, high = np.array(function.box).T
        U = ((values - low) / (high - low))[:, self.order]
        moved = np.array(function.place) + np.array(self.slopes) * (U - np.array(self.centre))
        return self.offset + self.height * function.values(moved)

    @property
    def best(self) -> float:
        """Smallest loss in the space."""
        return self.offset + self.height * FUNCTIONS[self.family].minimum

    @property
    def worst(self) -> float:
        """Largest loss of the corners and of a fixed random sample of the space."""
        low, high = np.array(FUNCTIONS[self.family].box).T
        corners = np.array(list(itertools.product((0.0, 1.0), repeat=len(low))))
        sample = np.random.default_rng(0).random((_SAMPLE, len(low)))
        return float(self.at(low + np.concatenate([corners, sample]) * (high - low)).max())


def make_loss(family: str, task: str, relatedness: float) -> Loss:
    """Make the loss function of a task; equal arguments give equal functions.

    Args:
        family: one of `FUNCTIONS`.
        task: name of the task, which is the seed.
        relatedness: relatedness of the tasks, from -1 to 1 (see the module).
    """
    function, related = FUNCTIONS[family], abs(relatedness)
    d = len(function.box)
    rng = np.random.default_rng([zlib.crc32(family.encode()), zlib.crc32(task.encode())])
    # The random numbers do not depend on the relatedness, so a task changes continuously with it.
    order, keep = rng.permutation(d), rng.random() < related
    mirror = np.where(rng.random(d) < (1 - related) / 2, -1.0, 1.0)
    anywhere, move = rng.random(d), _MOVE * rng.standard_normal(d)
    spread = 1.0 + (1 - related)  # from 1 (related) to 2 (unrelated)
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
"""Relatedness by the suffix of a benchmark's name."""


def family(name: str, *, relatedness: float = 1.0) -> Benchmark:
    """Make the benchmark of a family.

    Args:
        name: one of `FUNCTIONS`.
        relatedness: relatedness of source tasks and target tasks, from -1 to 1 (see the module).
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
    "-unrelated": "; source tasks are unrelated",
    "-adversarial": "; source tasks have the opposite order",
}

SOURCES: tuple[Source, ...] = tuple(
    Source(name + suffix, function.summary + _SUMMARIES[suffix], _Load(name, relatedness))
    for name, function in FUNCTIONS.items()
    for suffix, relatedness in VARIANTS.items()
)
