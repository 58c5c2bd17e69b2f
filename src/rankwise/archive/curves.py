"""Learning curves of past studies: which can teach a pruner, and what is said about the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rankwise._core.words import count
from rankwise.archive.past_study import PastStudy
from rankwise.history.early_ranks import FEWEST, full_curves
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


def curves_of(study: PastStudy) -> tuple[Any, str]:
    """The full curves of a past study (see `full_curves`), and the reason if they are no use."""
    rows = [k for k in range(len(study)) if study.ok[k] and not study.pruned[k]]
    curves: list[Mapping[int, float]] = [study.curves[k] if study.curves else {} for k in rows]
    found = full_curves(curves, study.values[rows].tolist(), sign_of(study.direction))
    if not any(curves):
        return found, "it has no intermediate values"
    if len(found[1]) < FEWEST:
        n = count(len(found[1]), "full learning curve")
        return found, f"it has {n}; at least {FEWEST} are needed"
    return found, ""
