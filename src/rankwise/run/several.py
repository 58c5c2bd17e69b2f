"""Several objectives of `minimize`: their names and directions, and the optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankwise import methods
from rankwise.errors import OptionError, check_name
from rankwise.history.task import Task, TaskSet
from rankwise.run.model_cache import learnt_optimizer
from rankwise.run.optimizer import Optimizer
from rankwise.space.encoder import Encoder
from rankwise.strategies.joint import BLIND, joint
from rankwise.types import sign_of

DIRECTIONS = ("minimize", "maximize")
MOST = 4
"""Largest number of objectives of a study."""
_PLAIN = "mbo"  # method of constraints that no source task has


@dataclass(frozen=True)
class Directions:
    """Directions of the objectives of a run, and the names of their metrics.

    Attributes:
        names: names of the metrics; empty if they are not given.
        each: "minimize" or "maximize" for each objective.
    """

    names: tuple[str, ...]
    each: tuple[str, ...]

    @classmethod
    def of(cls, direction: str | Sequence[str] | Mapping[str, str]) -> Directions:
        """Check the argument `direction` of `minimize`.

        Raises:
            UnknownNameError: a direction is neither "minimize" nor "maximize".
            OptionError: there is no direction, or there are too many.
        """
        names: tuple[str, ...] = ()
        if isinstance(direction, str):
            each: tuple[str, ...] = (direction,)
        elif isinstance(direction, Mapping):
            names, each = tuple(direction), tuple(direction.values())
        else:
            each = tuple(direction)
        if not 1 <= len(each) <= MOST:
            raise OptionError(f"a study has one to {MOST} objectives, not {len(each)}")
        for one in each:
            check_name("direction", one, DIRECTIONS)
        return cls(names, each)

    @property
    def several(self) -> bool:
        """True if there is more than one objective."""
        return len(self.each) > 1

    @property
    def signs(self) -> tuple[float, ...]:
        """For each objective 1 if smaller values are better, else -1."""
        return tuple(sign_of(one) for one in self.each)


def joint_optimizer(
    method: str,
    encoder: Encoder,
    past: TaskSet,
    folder: Path | None,
    objectives: int,
    **options: Any,
) -> Optimizer:
    """Make an optimizer of several objectives; each learns from the tasks that have them all.

    Args:
        method: name of a method with a surrogate, or "random" or "grid".
        encoder: encoder of the space.
        past: source tasks with several objectives.
        folder: folder of kept models, see `learnt_optimizer`.
        objectives: number of objectives.
        **options: options of the method.

    Raises:
        OptionError: the method has no surrogate, or a task has another number of objectives.
    """
    for task in past.everything:
        if task.objectives is None or task.objectives.shape[1] != objectives:
            n = 1 if task.objectives is None else task.objectives.shape[1]
            raise OptionError(
                f"past study {task.name!r} has {n} objective{'s' * (n > 1)} and this study has "
                f"{objectives}: leave it out"
            )
    learnt = [
        learnt_optimizer(method, encoder, _of(past, k), folder, **options)
        for k in range(objectives)
    ]
    return joined(learnt)


def joined(learnt: Sequence[Optimizer]) -> Optimizer:
    """Join optimizers of the same space and method, one for each objective.

    Raises:
        OptionError: the method has no surrogate.
    """
    if learnt[0].method in BLIND:
        return learnt[0]
    plain = methods.make(_PLAIN, learnt[0].encoder)
    return learnt[0].with_strategy(joint([one.strategy for one in learnt], plain))


def _of(past: TaskSet, k: int) -> TaskSet:
    """The source tasks of one objective."""

    def single(task: Task) -> Task:
        assert task.objectives is not None
        return task.single(task.objectives[:, k])

    tasks = tuple(single(task) for task in past.tasks)
    held_out = tuple(single(task) for task in past.validation)
    return TaskSet(tasks, held_out, past.fingerprint)
