"""build_task: a study's trials as a task, with one rule for pruned trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rankwise.history.task import OK, Task
from rankwise.types import Array, Mask, sign_of


def build_task(
    X: Array,
    values: Array | Sequence[float],
    *,
    direction: str = "minimize",
    costs: Array | Sequence[float] | None = None,
    statuses: Sequence[str] | None = None,
    pruned: Mask | Sequence[bool] | None = None,
    shared: Mask | Sequence[bool] | None = None,
    name: str = "",
    context: Mapping[str, float] | None = None,
    objectives: Array | None = None,
    directions: Sequence[str] = (),
    constraints: Mapping[str, Array] | None = None,
) -> Task:
    """Convert the trials of a study to a task.

    `rankwise.minimize`, `RankwiseSampler`, `RankwiseSearchCV` and archives all use this function,
    so they see the same task for the same trials.

    Args:
        X: encoded configurations (n, d).
        values: values (n,) in the direction of the study; NaN where a trial has none.
        direction: "minimize" or "maximize".
        costs: seconds (n,) of each evaluation; NaN where unknown.
        statuses: status of each trial, one of `rankwise.history.task.STATUSES`.
        pruned: mask (n,) of the trials that were stopped early; their loss follows `lift_pruned`.
        shared: mask (n,), see `Task.shared`.
        name: name of the task.
        context: facts about the data set.
        objectives: values (n, m) of a study with several objectives; `values` is the first one.
        directions: "minimize" or "maximize" for each of them.
        constraints: values (n,) of each constraint by name, see `Task.constraints`.
    """
    losses = sign_of(direction) * np.asarray(values, dtype=float).reshape(-1)
    if pruned is not None:
        if statuses is not None:  # a failed trial has no loss to compare with
            losses = np.where([status == OK for status in statuses], losses, np.nan)
        losses = lift_pruned(losses, pruned)
    task = Task.of(X, losses, costs, statuses, name, context, shared)
    if objectives is None and not constraints:
        return task
    several = None
    if objectives is not None:
        several = objectives * np.array([sign_of(direction) for direction in directions])
        several = np.where(task.ok[:, None], several, np.nan)
    return replace(task, objectives=several, constraints=dict(constraints or {}))


def lift_pruned(losses: Array, pruned: Mask | Sequence[bool]) -> Array:
    """Raise the losses of pruned trials to at least the best loss of the other trials.

    The last value that a pruned trial reported is a lower bound of its final loss: it may look
    good by chance, because it used less data or fewer steps, but the trial was stopped because it
    was not among the best. If no other trial has a loss, the reported values are kept.

    Args:
        losses: losses (n,), smaller is better; NaN where a trial has none.
        pruned: mask (n,) of the trials that were stopped early.

    Returns:
        Losses (n,), a copy if anything changes.
    """
    stopped = np.asarray(pruned, dtype=bool)
    others = losses[~stopped & np.isfinite(losses)]
    if not stopped.any() or not len(others):
        return losses
    lifted: Array = np.where(stopped, np.maximum(losses, others.min()), losses)
    return lifted
