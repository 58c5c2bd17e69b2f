"""learnt_jointly: what an archive teaches about several objectives and about constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise import methods
from rankwise.history.task import Task
from rankwise.history.transforms import Standardize
from rankwise.run.model_cache import learnt_optimizer
from rankwise.strategies.joint import JointStrategy, joint

if TYPE_CHECKING:
    from rankwise.archive.archive import Archive

PLAIN = "mbo"
"""Method that models objectives and constraints that no past study has."""


def learnt_jointly(
    archive: Archive, method: str, options: Mapping[str, Any], constrained: bool
) -> JointStrategy:
    """Learn each objective, and each constraint, from the past studies that have it.

    Args:
        archive: the past studies, and the objectives that are wanted.
        method: name of a transfer method with a surrogate.
        options: options of the method.
        constrained: learn constraints, too.

    Raises:
        OptionError: the method has no surrogate.
    """
    encoder, folder = archive.space.encoder, archive.folder
    wanted = [archive.tasks]
    if len(archive.objectives) > 1:
        wanted = [archive.tasks_of(k) for k in range(len(archive.objectives))]
    limited = archive.constraint_tasks if constrained else {}
    learnt = [learnt_optimizer(method, encoder, t, folder, **options).strategy for t in wanted]
    constraints = {
        name: learnt_optimizer(method, encoder, tasks, folder, **options).strategy
        for name, tasks in limited.items()
    }
    limits = {name: usual_limit(tasks.everything) for name, tasks in limited.items()}
    return joint(learnt, methods.make(PLAIN, encoder), constraints, limits)


def usual_limit(tasks: Sequence[Task]) -> float:
    """Mean over tasks of a constraint's limit, zero, in units of its standardized values."""
    places = []
    for task in tasks:
        transform = Standardize.fit(task.losses)
        places.append(-transform.center / transform.scale)
    return float(np.clip(np.mean(places), -3.0, 3.0)) if places else 0.0
