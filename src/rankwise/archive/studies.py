"""PastStudy: one study as it was run, whatever it was read from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution

from rankwise.errors import OptionError, check_name
from rankwise.task import OK
from rankwise.types import Array, Mask

DIRECTIONS = ("minimize", "maximize")


@dataclass(frozen=True)
class PastStudy:
    """One study as it was run, a column per fact; trials that never ended are not in it.

    Configurations that were evaluated several times are in it as often: each evaluation says
    something.

    Attributes:
        name: of the study.
        direction: "minimize" or "maximize".
        params: for each of n trials the values of the parameters that were active in it; of a
            categorical one the choice itself.
        distributions: the range or the choices of each parameter, over all trials.
        values: (n,) in the study's own direction; NaN where there is none.
        status: of each trial, one of `rankwise.task.STATUSES`; a pruned trial that had reported a
            value is `OK`.
        pruned: (n,) which trials were stopped early; their value is the last that was reported.
        seconds: (n,) that each trial took; NaN where unknown.
        context: what is known about the study, such as facts about its data set.
        started: when its first trial began; None if unknown.
        shared: (n,) which trials were begun beside others, or given; None: unknown.
    """

    name: str
    direction: str
    params: Sequence[Mapping[str, Any]]
    distributions: Mapping[str, BaseDistribution]
    values: Array
    status: tuple[str, ...]
    pruned: Mask
    seconds: Array
    context: Mapping[str, Any] = field(default_factory=dict)
    started: datetime | None = None
    shared: Mask | None = None

    def __post_init__(self) -> None:
        check_name("direction", self.direction, DIRECTIONS)
        n = len(self.params)
        for what in ("values", "status", "pruned", "seconds"):
            if len(getattr(self, what)) != n:
                raise OptionError(
                    f"study {self.name!r} has {n} trials and {len(getattr(self, what))} {what}"
                )

    def __len__(self) -> int:
        return len(self.params)

    @property
    def losses(self) -> Array:
        """The values (n,) so that smaller is better."""
        return self.values if self.direction == "minimize" else -self.values

    @property
    def ok(self) -> Mask:
        """Which trials (n,) have a value."""
        return np.array([s == OK for s in self.status], dtype=bool)

    @property
    def age(self) -> float:
        """A number that is larger the later the study began; studies of unknown age come first."""
        return -np.inf if self.started is None else self.started.timestamp()
