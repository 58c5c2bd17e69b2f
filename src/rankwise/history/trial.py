"""Trial: one configuration and the result of its evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rankwise.types import Configuration

PENDING = "pending"
PRUNED = "pruned"
"""Status of a trial that was stopped early; its last reported value is in its curve."""


@dataclass(frozen=True)
class Trial:
    """One configuration and the result of its evaluation.

    Attributes:
        number: trials are numbered from 0 in the order in which they were proposed.
        configuration: the active hyperparameters.
        status: "pending", "ok", "failed", "invalid", "timeout" or "pruned".
        value: the loss, smaller is better; NaN unless the status is "ok". Where a result or
            a callback shows a trial, it is in the user's own direction.
        cost: seconds of the evaluation; NaN if unknown.
        error: error message; "" if there was none.
        proposal_seconds: seconds that the proposal took.
        shared: True if the method did not propose the trial alone with all earlier trials known:
            it belongs to an initial design or a batch, or was told without being asked for.
        values: losses of all objectives, of which `value` is the first; empty with one objective.
        curve: intermediate values by step that the objective reported; turned like the value.
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
    curve: Mapping[int, float] = field(default_factory=dict)

    @property
    def pruned(self) -> bool:
        """True if the trial was stopped early after it had reported a number."""
        return self.status == PRUNED and math.isfinite(self.last)

    @property
    def last(self) -> float:
        """The value; of a pruned trial the last reported one, NaN if there is none."""
        if self.status != PRUNED or not self.curve:
            return self.value
        return self.curve[max(self.curve)]

    def turned(self, signs: Sequence[float]) -> Trial:
        """The trial with its values times a sign for each objective."""
        values = tuple(s * v for s, v in zip(signs, self.values, strict=False))
        curve = {step: signs[0] * value for step, value in self.curve.items()}
        return replace(self, value=signs[0] * self.value, values=values, curve=curve)
