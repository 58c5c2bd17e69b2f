"""PastStudy: one past study, independent of the source that it was read from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution

from rankwise.acquisition.functions import times_dominated
from rankwise.archive.objectives import Objective
from rankwise.errors import OptionError, check_name
from rankwise.history.build import build_task, lift_pruned
from rankwise.history.task import OK, Task
from rankwise.types import Array, Mask, sign_of

DIRECTIONS = ("minimize", "maximize")


@dataclass(frozen=True)
class Outcomes:
    """The values of a study with several objectives, or with a name for its only one.

    Attributes:
        kinds: the m objectives.
        values: (n, m) values in the study's own directions; NaN where a trial has none.
    """

    kinds: tuple[Objective, ...]
    values: Array

    @property
    def losses(self) -> Array:
        """Losses (n, m), smaller is better."""
        losses: Array = self.values * np.array([sign_of(kind.direction) for kind in self.kinds])
        return losses


@dataclass(frozen=True)
class PastStudy:
    """One past study with its n finished trials, stored as columns.

    A configuration that was evaluated several times has several trials.

    Attributes:
        name: name of the study.
        direction: "minimize" or "maximize"; that of the first objective.
        params: for each trial the values of its active parameters; a categorical value is the
            choice itself.
        distributions: range or choices of each parameter over all trials.
        values: (n,) values in the study's own direction; NaN if a trial has none. Of several
            objectives the first.
        status: status of each trial, one of `rankwise.history.task.STATUSES`; a pruned trial that
            reported a value is `OK`.
        pruned: (n,) True for pruned trials; their value is the last reported one.
        seconds: (n,) duration of each trial; NaN if unknown.
        context: facts about the study, for instance about its data set.
        started: start of the first trial; None if unknown.
        shared: (n,) True for trials that ran in parallel or were given; None if unknown.
        curves: for each trial its intermediate values by step; None if there are none.
        objectives: several objectives, or the name of the only one; None if neither is known.
        constraints: (n,) values of each constraint by name; NaN if unknown. A trial is feasible
            if all of them are zero or less.
        proposals: for each trial the values that were proposed; None if unknown.
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
    curves: Sequence[Mapping[int, float]] | None = None
    objectives: Outcomes | None = None
    constraints: Mapping[str, Array] = field(default_factory=dict)
    proposals: Sequence[Mapping[str, Any]] | None = None

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
        """Losses (n,), smaller is better; those of pruned trials follow `lift_pruned`."""
        return lift_pruned(sign_of(self.direction) * self.values, self.pruned)

    @property
    def ranking(self) -> list[int]:
        """Indices (n,) of the trials, best first.

        Feasible trials come first, trials without a value last. Several objectives are ordered by
        how many trials dominate a trial. Of equal losses, a trial that was not pruned comes first.
        """
        losses = self.losses
        if self.several:
            assert self.objectives is not None
            losses = np.where(self.ok, times_dominated(-self.objectives.losses), np.nan)
        order: list[int] = np.lexsort((self.pruned, losses, ~self.feasible, ~self.ok)).tolist()
        return order

    @property
    def several(self) -> bool:
        """True if the study has more than one objective."""
        return self.objectives is not None and len(self.objectives.kinds) > 1

    @property
    def feasible(self) -> Mask:
        """Mask (n,) of the trials with a value that violate no known constraint."""
        found = self.ok
        for values in self.constraints.values():
            found = found & ~(values > 0.0)
        return found

    def task(
        self,
        X: Array,
        kept: Sequence[int],
        context: Mapping[str, float],
        *,
        shared: Mask | None = None,
    ) -> Task:
        """Convert some trials of the study to a task.

        Args:
            X: their encoded configurations (m, d).
            kept: their indices (m,) among the n trials.
            context: facts about the data set, numbers only.
            shared: mask (n,) over all trials, see `Task.shared`.
        """
        rows, several = list(kept), self.objectives
        return build_task(
            X,
            self.values[rows],
            direction=self.direction,
            costs=self.seconds[rows],
            statuses=[self.status[k] for k in rows],
            pruned=self.pruned[rows],
            shared=None if shared is None else shared[rows],
            name=self.name,
            context=context,
            objectives=several.values[rows] if self.several and several else None,
            directions=[kind.direction for kind in several.kinds] if several else (),
            constraints={name: values[rows] for name, values in self.constraints.items()},
        )

    @property
    def ok(self) -> Mask:
        """Mask (n,) of the trials that have a value."""
        return np.array([s == OK for s in self.status], dtype=bool)

    @property
    def age(self) -> float:
        """Start time in seconds; minus infinity if unknown, so that such studies sort first."""
        return -np.inf if self.started is None else self.started.timestamp()
