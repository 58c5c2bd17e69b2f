"""How far the past is trusted to put a study's evaluations in order.

Two things tell it: how well past tasks put each other in order, which is known before the first
evaluation, and how well they put the evaluations in order. The first says what to expect of a
study like the past ones, the second whether this is one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from scipy.special import ndtr
from typing_extensions import Self

from rankwise.surrogates.sources import Lesson, SourcePast
from rankwise.surrogates.votes import pair_agreement
from rankwise.types import Array

USEFUL = 0.5
"""Kendall's agreement from which on an order is of use: three pairs of four are right."""

_TURNED = 0.1  # how probable it is that a study is like past ones upside down
_OTHERS = 0.1  # how probable it is that it is unlike them, so that any agreement is as probable
_LEAST_SPREAD = 0.05  # of the agreement, from task to task
_TINY = 1e-9


@dataclass(frozen=True)
class Agreement:
    """How far a foreseen order agrees with losses, beside chance.

    Attributes:
        surplus: pairs in the same order less those in the opposite one, Kendall's S.
        pairs: those that have different losses.
        deviation: standard deviation of S if all orders are as probable.
    """

    surplus: float
    pairs: float
    deviation: float

    @property
    def tau(self) -> float:
        """Kendall's agreement, from -1 to 1."""
        return self.surplus / max(self.pairs, 1.0)

    @property
    def error(self) -> float:
        """Standard deviation of `tau` if all orders are as probable."""
        return self.deviation / max(self.pairs, 1.0)

    @property
    def score(self) -> float:
        """By how many standard deviations the order is better than chance."""
        return self.surplus / self.deviation


@dataclass(frozen=True)
class Expectation:
    """What agreement a study will have with the past, before it is seen.

    It is normal, with the sign changed if the study is like past ones upside down; if it is unlike
    them any agreement from -1 to 1 is as probable.

    Attributes:
        mean: of the agreement of past tasks with the others.
        spread: its standard deviation from task to task; infinite: nothing is known, and any
            agreement is as probable.
    """

    mean: float = 0.0
    spread: float = math.inf

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and self.spread > 0):
            raise ValueError(f"an expectation has a mean and a positive spread, not {self}")

    @classmethod
    def of(cls, lessons: Iterable[Lesson]) -> Self:
        """By how past tasks are put in order by the others.

        With variance v of their T agreements, of which the finite number of their evaluations
        explains e, that of the next one is max(v - e, 0) + max(v, e) / T, and a little more. Tasks
        of two opposite kinds are put in the wrong order, each kind being in the minority without
        the task: a mean below zero says that they differ, and adds to the spread.
        """
        found = [agreement(lesson.view.mean, lesson.scores) for lesson in lessons]
        if not found:
            return cls()
        taus = np.array([one.tau for one in found])
        error = float(np.mean([one.error**2 for one in found]))
        variance = float(taus.var(ddof=1)) if len(taus) > 1 else error
        next_one = max(variance - error, 0.0) + max(variance, error) / len(taus)
        mean = float(taus.mean())
        spread = math.sqrt(next_one + _LEAST_SPREAD**2)
        return cls(max(mean, 0.0), math.hypot(spread, min(mean, 0.0)))

    def trust(self, found: Agreement, *, opposite: bool = False) -> float:
        """How sure it is, after the evaluations, that the order puts three pairs of four right.

        Args:
            found: how far the order agrees with the evaluations.
            opposite: of the opposite order.
        """
        tau, error = (-found.tau if opposite else found.tau), found.error
        inside = _between(-1.0, 1.0, tau, error)
        anything = _between(USEFUL, 1.0, tau, error) / inside
        if math.isinf(self.spread):
            return anything
        mean = -self.mean if opposite else self.mean
        width = math.hypot(self.spread, error)
        # What speaks for each kind of study, and how sure a useful order is if it is of that kind
        weights, shares = [_OTHERS * inside / 2.0], [anything]
        for probability, center in ((1.0 - _TURNED - _OTHERS, mean), (_TURNED, -mean)):
            weights.append(probability * _density(tau, center, width))
            settled = (center * error**2 + tau * self.spread**2) / width**2
            shares.append(float(ndtr((settled - USEFUL) / (self.spread * error / width))))
        return float(np.average(shares, weights=weights))


def _between(low: float, high: float, center: float, width: float) -> float:
    """The probability of an interval of a normal distribution."""
    return float(ndtr((high - center) / width) - ndtr((low - center) / width))


def _density(x: float, center: float, width: float) -> float:
    """Of a normal distribution."""
    return math.exp(-0.5 * ((x - center) / width) ** 2) / (width * math.sqrt(2.0 * math.pi))


NOTHING_EXPECTED = Expectation()
"""Of a past of which nothing can be said: any agreement is as probable."""


@dataclass(frozen=True)
class Witnesses:
    """What past tasks say of a study without a model that has learnt them.

    Attributes:
        functions: a few that stand for all past tasks; their mean says how configurations compare.
            None: there are none.
        expectation: how far they are expected to put a study's evaluations in order.
    """

    file_kind: ClassVar[str] = "witnesses"

    functions: SourcePast | None = None
    expectation: Expectation = NOTHING_EXPECTED

    def save(self, path: Path) -> None:
        """Write them to a file.

        Raises:
            ModelFileError: the file cannot be written.
        """
        import torch

        from rankwise.surrogates.files import write_model

        arrays, record = ({}, {}) if self.functions is None else self.functions.parts()
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        expectation = asdict(self.expectation)
        write_model(path, self.file_kind, tensors, {**record, "expectation": expectation})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read them from a file.

        Raises:
            ModelFileError: there is no such file, it is damaged, or it holds something else.
        """
        from rankwise.surrogates.files import read_model

        tensors, record = read_model(path, cls.file_kind)
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        functions = SourcePast.from_parts(arrays, record).compact() if arrays else None
        return cls(functions, Expectation(**record["expectation"]))


def agreement(foresight: Array, losses: Array) -> Agreement:
    """How far a foreseen order agrees with losses, beside chance.

    S, the number of pairs in the same order less that of pairs in the opposite one, has mean 0 and
    variance (1) if all orders are as probable, with groups of t equal losses and of u equal
    numbers foreseen (Kendall, Rank Correlation Methods, chapter 4):

        (n(n-1)(2n+5) - sum t(t-1)(2t+5) - sum u(u-1)(2u+5)) / 18
        + sum t(t-1) sum u(u-1) / (2n(n-1))
        + sum t(t-1)(t-2) sum u(u-1)(u-2) / (9n(n-1)(n-2))                                      (1)

    Where all are equal nothing speaks for the past: that counts as S = 0 among different losses.

    Args:
        foresight: numbers (n,), the smallest is expected to be the best.
        losses: what came out (n,).
    """
    both = np.stack([foresight, -foresight], axis=1)
    (same, opposite), pairs = pair_agreement(both, losses)
    n = len(losses)
    t, u = (
        np.unique(values, return_counts=True)[1].astype(float) for values in (losses, foresight)
    )
    twos = [float((g * (g - 1)).sum()) for g in (t, u)]
    threes = [float((g * (g - 1) * (g - 2)).sum()) for g in (t, u)]
    ties = sum(float((g * (g - 1) * (2 * g + 5)).sum()) for g in (t, u))
    untied = n * (n - 1) * (2 * n + 5) / 18.0
    variance = untied - ties / 18.0
    variance += twos[0] * twos[1] / (2.0 * n * (n - 1)) if n > 1 else 0.0
    variance += threes[0] * threes[1] / (9.0 * n * (n - 1) * (n - 2)) if n > 2 else 0.0
    if variance <= _TINY:
        return Agreement(0.0, n * (n - 1) / 2.0, math.sqrt(untied) or 1.0)
    return Agreement(float(same - opposite), float(pairs), math.sqrt(variance))
