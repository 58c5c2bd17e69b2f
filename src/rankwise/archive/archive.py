"""Archive: past studies as tasks of the space that they share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from optuna.distributions import BaseDistribution

from rankwise.archive.common import CommonSpace
from rankwise.archive.context import full_context
from rankwise.archive.places import model_folder
from rankwise.archive.studies import PastStudy
from rankwise.archive.unify import unify
from rankwise.errors import ArchiveError
from rankwise.task import FAILED, Task, TaskSet

if TYPE_CHECKING:
    from rankwise.archive.describe import Description


class Archive:
    """Past studies that can be learnt from.

    Args:
        studies: as they were run. Two of the same name are told apart by a number.
        search_space: distributions of a study to come; they take part in the common space, and
            where past studies disagree they are right.
        origin: where the studies come from, as a URL or a path; passwords must not be in it.
        left_out: by name the reasons why other studies could not be read.

    Attributes:
        studies: those that are used.
        left_out: by name the reason why a study is not used.
        origin: as given.
    """

    def __init__(
        self,
        studies: Sequence[PastStudy],
        *,
        search_space: Mapping[str, BaseDistribution] | None = None,
        origin: str = "",
        left_out: Mapping[str, str] | None = None,
    ) -> None:
        self.origin = origin
        self._search_space = dict(search_space or {})
        self.left_out = dict(left_out or {})
        usable = []
        for study in _distinct(studies, self.left_out):
            if study.ok.any():
                usable.append(study)
            else:
                self.left_out[study.name] = "no finished trial has a value"
        _, clashing = unify(usable, self._search_space)
        self.left_out.update(clashing)
        self.studies = tuple(study for study in usable if study.name not in clashing)

    def __len__(self) -> int:
        return len(self.studies)

    @cached_property
    def space(self) -> CommonSpace:
        """The space that the studies share.

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
        space, _ = CommonSpace.of(self.studies, self._search_space)
        return space

    @cached_property
    def tasks(self) -> TaskSet:
        """The studies, encoded; smaller losses are better.

        Trials that failed before they had all of their parameters are not in it. The context of a
        task are the numbers that the study has as facts or attributes, and the rows of its data
        set if they were kept (`attach_rows`).
        """
        if not self.studies:
            return TaskSet(())
        tasks = tuple(self._task(study) for study in self.studies)
        return TaskSet(tasks, (), self.space.encoder.fingerprint)

    def _task(self, study: PastStudy) -> Task:
        kept = np.ones(len(study), dtype=bool)
        failed = np.array([s == FAILED for s in study.status], dtype=bool)
        if failed.any():
            some = [study.params[k] for k in np.flatnonzero(failed).tolist()]
            kept[failed] = self.space.complete(some)
        rows = np.flatnonzero(kept).tolist()
        return Task.of(
            self.space.encode([study.params[k] for k in rows]),
            study.losses[rows],
            study.seconds[rows],
            [study.status[k] for k in rows],
            study.name,
            full_context(study.context, self.folder, study.name),
        )

    @property
    def folder(self) -> Path | None:
        """Where models learnt from the archive can be kept; None if it is only in memory."""
        return model_folder(self.origin)

    def describe(self) -> Description:
        """What is in the archive, what is not and why, and how much its studies agree."""
        from rankwise.archive.describe import describe

        return describe(self)


def _distinct(studies: Sequence[PastStudy], taken: Collection[str]) -> list[PastStudy]:
    """Studies with names of their own; the second "a" becomes "a (2)"."""
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
