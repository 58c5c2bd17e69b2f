"""Evaluated configurations: trials, tasks and transforms of their losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise._core.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.history.task import Task, TaskSet
    from rankwise.history.trial import Trial

__all__ = [
    "Task",
    "TaskSet",
    "Trial",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Task": "history.task",
        "TaskSet": "history.task",
        "Trial": "history.trial",
    },
)
