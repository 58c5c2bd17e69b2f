"""Several objectives of a search: scores and seconds, and what teaches each of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.errors import OptionError, check_name
from rankwise.history.task import INVALID, OK, Task, TaskSet
from rankwise.integrations.sklearn.cv_results import Row
from rankwise.integrations.sklearn.search_study import DIRECTION
from rankwise.run.result import COMPROMISE
from rankwise.run.several import MOST, Directions
from rankwise.surrogates.cost import known_seconds, log_seconds

if TYPE_CHECKING:
    from rankwise.integrations.sklearn.dataset import Data
    from rankwise.integrations.sklearn.search_cv import RankwiseSearchCV

SECONDS: Mapping[str, str] = {"fit_seconds": "fit_time", "score_seconds": "score_time"}
"""Objectives that are no scores, with the key of scikit-learn's result of one fit."""


@dataclass(frozen=True)
class SearchObjectives:
    """The objectives of a search.

    Attributes:
        names: their names: scorers, "fit_seconds" and "score_seconds"; empty for one objective,
            which is the metric of the search.
        metrics: for each name the key in the scores of a fold; None for the only score.
    """

    names: tuple[str, ...] = ()
    metrics: Mapping[str, str | None] | None = None

    @classmethod
    def of(cls, search: RankwiseSearchCV, data: Data) -> SearchObjectives:
        """Check the arguments `objectives`, `choose` and `successive` of a search.

        Raises:
            UnknownNameError: an objective or the choice does not exist; the message lists them.
            OptionError: there are too few or too many objectives, or they cannot be combined.
        """
        if search.objectives is None:
            if search.choose is not None:
                raise OptionError("choose= needs several objectives=")
            return cls()
        if isinstance(search.objectives, str):
            raise OptionError(f"objectives= is a list of names, not {search.objectives!r}")
        names = tuple(search.objectives)
        metrics = _metrics(search.scoring, data.scoring_name(search.scoring))
        for name in names:
            check_name("objective", name, [*metrics, *SECONDS])
        if not 2 <= len(names) <= MOST or len(set(names)) < len(names):
            raise OptionError(
                f"objectives= has two to {MOST} different names, not {', '.join(names) or 'none'}"
            )
        if set(names) <= set(SECONDS):
            raise OptionError("at least one objective is a score, such as 'accuracy'")
        if search.successive:
            raise OptionError("successive=True needs a search with one objective")
        if search.choose is not None:
            check_name("choice", search.choose, [*names, COMPROMISE])
        return cls(names, metrics)

    @property
    def several(self) -> bool:
        """True if there is more than one objective."""
        return bool(self.names)

    @property
    def directions(self) -> Directions:
        """Their directions: scores are maximized, seconds are minimized."""
        if not self.several:
            return Directions.of(DIRECTION)
        each = tuple("minimize" if name in SECONDS else DIRECTION for name in self.names)
        return Directions(self.names, each)

    @property
    def scores(self) -> list[str]:
        """The objectives that are scores."""
        return [name for name in self.names if name not in SECONDS]

    def values(self, row: Row) -> tuple[float, ...]:
        """The value of each objective: means over the folds."""
        found = []
        for name in self.names:
            if name in SECONDS:
                found.append(float(np.mean([fold[SECONDS[name]] for fold in row.folds])))
            else:
                found.append(float(np.mean(row.scores((self.metrics or {})[name]))))
        return tuple(found)


def _metrics(scoring: Any, name: str) -> dict[str, str | None]:
    """The names of the scores of a search, with the keys that they have in its results."""
    if isinstance(scoring, Mapping | list | tuple | set | frozenset):
        return {str(one): str(one) for one in scoring}
    return {name: None}


def seconds_of(past: TaskSet) -> TaskSet:
    """The seconds of source tasks as source tasks; those without are left out."""

    def turned(task: Task) -> Task:
        known = known_seconds(task)
        seconds = np.where(known, log_seconds(np.where(known, task.cost, 1.0)), math.nan)
        status = tuple(OK if there else INVALID for there in known)
        return replace(task, y=seconds, status=status, objectives=None)

    def all_of(tasks: Sequence[Task]) -> tuple[Task, ...]:
        return tuple(turned(task) for task in tasks if known_seconds(task).any())

    return TaskSet(all_of(past.tasks), all_of(past.validation), past.fingerprint)
