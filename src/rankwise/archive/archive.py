"""Archive: past studies as tasks of one common space."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.distributions import BaseDistribution

from rankwise.archive.ageing import (
    LEARNT,
    SMALLEST,
    Ageing,
    aged,
    ageing_of,
    check_half_life,
)
from rankwise.archive.common_space import CommonSpace
from rankwise.archive.merge_distributions import unify
from rankwise.archive.objectives import Objective, as_objectives, matching, of_objective
from rankwise.archive.past_study import PastStudy
from rankwise.errors import ArchiveError, OptionError
from rankwise.history.task import FAILED, OK, Task, TaskSet
from rankwise.storage.locations import model_folder
from rankwise.storage.study_facts import full_context

if TYPE_CHECKING:
    from rankwise.archive.describe import Description


class Archive:
    """Past studies to learn from.

    Args:
        studies: the past studies. A repeated name gets a number.
        search_space: distributions of the target study. They are part of the common space, and
            they decide where past studies disagree.
        origin: URL or path of the studies, without passwords.
        left_out: reasons, by name, why other studies could not be read.
        notes: sentences about how the sources were read.
        own: parameters of the target study's trials; see `CommonSpace.of`.
        half_life: time after which the weight of a past study is halved: a number of days or a
            timedelta; "auto" learns it, None switches ageing off.
        objectives: objectives of a target study that has several, or a name for its only one;
            without them only studies with one objective are used.

    Attributes:
        given: all studies that were read.
        studies: the studies that are used.
        left_out: the reason, by name, why a study is not used.
        origin: URL or path of the studies.
        notes: what was recognised, dropped and left out when the sources were read.
        half_life: the given half-life: a timedelta, "auto" or None; see `ageing`.
    """

    def __init__(
        self,
        studies: Sequence[PastStudy],
        *,
        search_space: Mapping[str, BaseDistribution] | None = None,
        origin: str = "",
        left_out: Mapping[str, str] | None = None,
        notes: Sequence[str] = (),
        own: Sequence[Mapping[str, Any]] = (),
        half_life: float | timedelta | str | None = LEARNT,
        objectives: Mapping[str, str] | Sequence[Objective] = (),
    ) -> None:
        self.half_life = check_half_life(half_life)
        self.objectives = as_objectives(objectives)
        self.unread = dict(left_out or {})
        self.origin, self._own = origin, own
        self.notes = tuple(notes)
        self._search_space = dict(search_space or {})
        self.left_out = dict(left_out or {})
        usable = []
        self.given = tuple(_distinct(studies, self.left_out))
        for study in self.given:
            try:
                teaching = self._teaching(study)
            except OptionError as error:
                self.left_out[study.name] = str(error)
                continue
            if teaching.ok.any():
                usable.append(teaching)
            else:
                self.left_out[study.name] = "no finished trial has a value"
        _, clashing = unify(usable, self._search_space)
        self.left_out.update(clashing)
        self.studies = tuple(study for study in usable if study.name not in clashing)

    def __len__(self) -> int:
        return len(self.studies)

    @cached_property
    def space(self) -> CommonSpace:
        """The common space of the studies.

        Raises:
            ArchiveError: there is no study and no search space.
        """
        if not self.studies and not self._search_space:
            where = f" of {self.origin}" if self.origin else ""
            reasons = "".join(f"; {name!r}: {why}" for name, why in self.left_out.items())
            raise ArchiveError(
                f"no study{where} can be used, so there is no common space; check the address "
                f"and the filters{reasons}"
            )
        space, _ = CommonSpace.of(self.studies, self._search_space, own=self._own)
        return space

    @cached_property
    def tasks(self) -> TaskSet:
        """The studies as tasks; smaller losses are better.

        Trials that failed before all of their parameters were set are left out. The context of a
        task has the numbers among the study's facts and attributes, and the rows of its data set
        if they were stored (`attach_rows`). Of several objectives it is the first one.
        """
        if len(self.objectives) > 1:
            return self.tasks_of(0)
        return self._weighted(self._everything, self.studies)

    def tasks_of(self, objective: int) -> TaskSet:
        """The tasks that teach one of several objectives, see `tasks`."""
        studies, tasks = [], []
        for study, task in zip(self.studies, self._everything, strict=True):
            column = matching(study, self.objectives)[objective]
            if column is not None and task.objectives is not None:
                task = task.single(task.objectives[:, column])
            if column is not None and task.ok.any():
                studies.append(study)
                tasks.append(task)
        return self._weighted(tasks, studies)

    @property
    def constraint_tasks(self) -> dict[str, TaskSet]:
        """For each constraint by name, the tasks whose losses are its values."""
        found: dict[str, list[tuple[Task, PastStudy]]] = {}
        for study, task in zip(self.studies, self._everything, strict=True):
            for name, values in task.constraints.items():
                known = task.single(values).rows(np.flatnonzero(np.isfinite(values)).tolist())
                if len(known):
                    known = replace(known, status=(OK,) * len(known))
                    found.setdefault(name, []).append((known, study))
        return {
            name: self._weighted([t for t, _ in pairs], [s for _, s in pairs])
            for name, pairs in found.items()
        }

    def _weighted(self, tasks: Sequence[Task], studies: Sequence[PastStudy]) -> TaskSet:
        """Tasks of some studies, with weights that fall with the age of the study."""
        if not tasks:
            return TaskSet(())
        if self.ageing.half_life is not None:
            moments = np.array([study.age for study in studies])
            tasks = aged(tasks, self.ageing.weights(moments))
        return TaskSet(tuple(tasks), (), self.space.encoder.fingerprint)

    def _teaching(self, study: PastStudy) -> PastStudy:
        """The study, of one objective if one is wanted.

        Raises:
            OptionError: it teaches none of the objectives.
        """
        if self.objectives:
            columns = matching(study, self.objectives)
            return of_objective(study, columns[0] or 0) if len(columns) == 1 else study
        if not study.several:
            return of_objective(study, 0)
        assert study.objectives is not None
        kinds = study.objectives.kinds
        names = ", ".join(str(kind) for kind in kinds)
        raise OptionError(f"it has {len(kinds)} objectives ({names}); one is wanted here")

    @cached_property
    def ageing(self) -> Ageing:
        """How the weight of a study falls with its age, learnt or given."""
        return ageing_of(self.half_life, self.studies, self._everything)

    @property
    def too_old(self) -> tuple[str, ...]:
        """Names of the studies that are not used because of their age."""
        if self.ageing.half_life is None:
            return ()
        weights = self.ageing.weights(np.array([study.age for study in self.studies]))
        pairs = zip(self.studies, weights.tolist(), strict=True)
        return tuple(study.name for study, weight in pairs if weight < SMALLEST)

    @cached_property
    def _everything(self) -> tuple[Task, ...]:
        """The tasks of all studies, whatever their age."""
        return tuple(self._task(study) for study in self.studies)

    def _task(self, study: PastStudy) -> Task:
        kept = np.ones(len(study), dtype=bool)
        failed = np.array([s == FAILED for s in study.status], dtype=bool)
        if failed.any():
            some = [study.params[k] for k in np.flatnonzero(failed).tolist()]
            kept[failed] = self.space.complete(some)
        rows = np.flatnonzero(kept).tolist()
        X = self.space.encode([study.params[k] for k in rows])
        return study.task(X, rows, full_context(study.context, self.folder, study.name))

    @property
    def folder(self) -> Path | None:
        """Folder for models learnt from the archive; None if the archive is only in memory."""
        return model_folder(self.origin)

    def describe(self) -> Description:
        """Describe the studies, those left out with reasons, and how much their rankings agree."""
        from rankwise.archive.describe import describe

        return describe(self)


def _distinct(studies: Sequence[PastStudy], taken: Collection[str]) -> list[PastStudy]:
    """Studies with unique names; the second "a" becomes "a (2)"."""
    names = set(taken)
    found = []
    for study in studies:
        name, k = study.name, 1
        while name in names:
            k += 1
            name = f"{study.name} ({k})"
        names.add(name)
        found.append(study if k == 1 else replace(study, name=name))
    return found
