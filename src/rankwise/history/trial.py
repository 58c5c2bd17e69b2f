"""Trial: one configuration and the result of its evaluation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rankwise.types import Configuration

PENDING = "pending"


@dataclass(frozen=True)
class Trial:
    """One configuration and the result of its evaluation.

    Attributes:
        number: trials are numbered from 0 in the order in which they were proposed.
        configuration: the active hyperparameters.
        status: "pending", "ok", "failed", "invalid" or "timeout".
        value: the loss, smaller is better; NaN unless the status is "ok". Where a result or
            a callback shows a trial, it is in the user's own direction.
        cost: seconds of the evaluation; NaN if unknown.
        error: error message; "" if there was none.
        proposal_seconds: seconds that the proposal took.
        shared: True if the method did not propose the trial alone with all earlier trials known:
            it belongs to an initial design or a batch, or was told without being asked for.
        values: losses of all objectives, of which `value` is the first; empty with one objective.
    """

    number: int
    configuration: Configuration
    status: str = PENDING
    value: float = math.nan
    cost: float = math.nan
    error: str = ""
    proposal_seconds: float = math.nan
    shared: bool = False
    values: tuple[float, ...] = ()

    def turned(self, signs: Sequence[float]) -> Trial:
        """The trial with its values times a sign for each objective."""
        values = tuple(s * v for s, v in zip(signs, self.values, strict=False))
        return replace(self, value=signs[0] * self.value, values=values)
