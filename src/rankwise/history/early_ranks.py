"""Learning curves of a study, compared at fractions of their length."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rankwise.types import Array

FEWEST = 5
"""Full curves below which a study says nothing."""
FULL = 0.9
"""A curve of at least this share of the longest one is full."""

_FINEST = 0.002  # smallest fraction of the training after which trials are compared
_RATIO = 1.25  # of two neighbouring steps at which they are
_WALKS = 400  # simulated curves


@dataclass(frozen=True)
class FullCurves:
    """The full learning curves of a study, as losses; a value that is not a number is infinite.

    The curve of a trial without a final value is full if it ends with a value that is not a
    number, because the trial has diverged.

    Attributes:
        curves: losses by step of each trial (n of them).
        losses: final losses (n,).
        longest: last step of the longest curve.
    """

    curves: tuple[Mapping[int, float], ...]
    losses: Array
    longest: int

    @classmethod
    def of(
        cls, curves: Sequence[Mapping[int, float]], finals: Sequence[float], sign: float = 1.0
    ) -> FullCurves:
        """Select the full curves of a study.

        Args:
            curves: values by step of each trial.
            finals: final value of each trial; NaN if it was stopped or has failed.
            sign: 1 if smaller values are better, else -1.
        """
        longest = max((max(curve) for curve in curves if curve), default=0)
        kept, ends = [], []
        for curve, final in zip(curves, finals, strict=True):
            if not curve or longest < 1:
                continue
            last = max(curve)
            ended = last >= FULL * longest and not math.isnan(final)
            diverged = math.isnan(final) and math.isnan(curve[last])
            if ended or diverged:
                kept.append({step: loss(value, sign) for step, value in curve.items()})
                ends.append(loss(final, sign))
        return cls(tuple(kept), np.array(ends), longest)

    def __len__(self) -> int:
        return len(self.curves)

    def at(self, fractions: Array) -> Array:
        """Losses (n, f) at fractions (f,) of the longest curve; NaN before the first step.

        A step without a value has the value before it.
        """
        steps = [fraction * self.longest + 1e-9 for fraction in fractions.tolist()]
        rows = [[at_step(curve, step) for step in steps] for curve in self.curves]
        found = [[math.nan if value is None else value for value in row] for row in rows]
        return np.array(found, dtype=float).reshape(len(self), len(steps))


def at_step(curve: Mapping[int, float], step: float) -> float | None:
    """Last value of a curve at or before a step; None if there is none."""
    value = curve.get(int(step)) if float(step).is_integer() else None
    if value is not None:
        return value
    steps = sorted(curve)
    place = bisect_right(steps, step)
    return None if place == 0 else curve[steps[place - 1]]


def loss(value: float, sign: float) -> float:
    """A value as a loss; infinite if it is not a number."""
    return math.inf if math.isnan(value) else sign * value


def fractions_of(longest: int) -> Array:
    """Fractions (f,) of a training of some steps after which its trials are compared.

    They are those of single steps. The first one is 0, for steps that are counted from 0.
    """
    steps, step = [0], max(1, int(_FINEST * longest))
    while step < longest:
        steps.append(step)
        step = max(step + 1, round(_RATIO * step))
    return np.array(steps) / max(longest, 1)


def random_walks(fractions: Array) -> tuple[Array, Array]:
    """Simulated curves: their losses (n, f) at fractions (f,) and their final losses (n,).

    They are random walks in the square root of time, so that most is decided early: after a tenth
    of the training the correlation with the last value is 0.56.
    """
    parts = np.sqrt(np.diff(np.sqrt([0.0, *fractions, 1.0])))
    walks = np.cumsum(np.random.default_rng(0).normal(size=(_WALKS, len(parts))) * parts, axis=1)
    return walks[:, :-1], walks[:, -1]
