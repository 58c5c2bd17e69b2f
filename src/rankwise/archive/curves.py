"""Learning curves of past studies: which can teach a pruner, and what is said about the others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rankwise._core.words import count
from rankwise.archive.past_study import PastStudy
from rankwise.history.early_ranks import FEWEST, FullCurves
from rankwise.types import sign_of


@dataclass(frozen=True)
class CurveFacts:
    """Intermediate values of a study.

    Attributes:
        trials: number of trials that have some.
        longest: last step of the longest curve.
        gaps: number of curves without a value at a step that other trials report.
        not_numbers: number of curves with a value that is not a number.
    """

    trials: int
    longest: int
    gaps: int
    not_numbers: int

    @classmethod
    def of(cls, study: PastStudy) -> CurveFacts | None:
        """The facts about a study; None if it has no intermediate values."""
        curves = [curve for curve in study.curves or () if curve]
        if not curves:
            return None
        steps = sorted({step for curve in curves for step in curve})
        gaps = sum(len(curve) < sum(s <= max(curve) for s in steps) for curve in curves)
        broken = sum(not all(map(math.isfinite, curve.values())) for curve in curves)
        return cls(len(curves), steps[-1], gaps, broken)

    def __str__(self) -> str:
        found = [f"{self.gaps} with gaps"] * bool(self.gaps)
        found += [f"{self.not_numbers} with values that are not numbers"] * bool(self.not_numbers)
        more = f" ({', '.join(found)})" if found else ""
        return f"{self.trials} with a curve, up to step {self.longest}{more}"


def curves_of(study: PastStudy) -> tuple[FullCurves, str]:
    """The full curves of a past study, and the reason if they are no use.

    A trial that was stopped or has failed has one if it ends with a value that is not a number.
    """
    curves: Sequence[Mapping[int, float]] = study.curves or [{}] * len(study)
    ended = study.ok & ~study.pruned
    values = np.where(ended, study.values, math.nan).tolist()
    found = FullCurves.of(curves, values, sign_of(study.direction))
    if not any(curves):
        return found, "it has no intermediate values"
    if len(found) < FEWEST:
        n = count(len(found), "full learning curve")
        return found, f"it has {n}; at least {FEWEST} are needed"
    return found, ""
