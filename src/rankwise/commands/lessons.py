"""What can be learnt from an archive: for each space its tasks, as later studies will ask."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from optuna.storages import BaseStorage

from rankwise.archive import Archive
from rankwise.archive.optuna_storage import uncached
from rankwise.cache import NotKept, learnt_optimizer
from rankwise.commands.places import optuna_at
from rankwise.errors import StorageError
from rankwise.searching.record import past_tasks
from rankwise.space import Encoder
from rankwise.study import StudyLog, quiet_optuna, storage_errors, without_password
from rankwise.task import TaskSet

_FINGERPRINT, _SPACE = "rankwise:fingerprint", "rankwise:space"


@dataclass(frozen=True)
class Lesson:
    """The past studies of one space.

    Attributes:
        what: the space, in words.
        encoder: of the space.
        tasks: the studies, encoded.
    """

    what: str
    encoder: Encoder
    tasks: TaskSet

    def learnt(self, method: str, folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
        """Learn, unless that was done before, and say what came of it.

        Args:
            method: its name.
            folder: where it is kept.
            options: of the method.

        Raises:
            StorageError: nothing can be written to the folder.
        """
        before = set(folder.glob("*.safetensors"))
        with warnings.catch_warnings():
            warnings.simplefilter("error", NotKept)
            try:
                optimizer = learnt_optimizer(method, self.encoder, self.tasks, folder, **options)
            except NotKept as error:
                raise StorageError(
                    f"what is learnt cannot be kept in {folder} ({error.__context__}); check the "
                    "permissions"
                ) from error
        made = sorted(set(folder.glob("*.safetensors")) - before)
        learner = getattr(optimizer.strategy, "learner", None)
        exam = getattr(learner, "exam", None)
        return {
            "what": self.what,
            "studies": len(self.tasks),
            "parameters": len(self.encoder.parameters),
            "useful": learner is not None,
            "new": bool(made),
            "model": str(made[0]) if made else None,
            "exam": exam if exam is not None and math.isfinite(exam) else None,
        }


def lessons_of(address: str, past: Archive) -> list[Lesson]:
    """What the studies of an archive that are wanted can teach.

    Searches learn from all studies of their own space, `RankwiseSampler` from the space that
    all studies of a pattern share.

    Args:
        address: of the archive.
        past: its studies that are wanted.
    """
    wanted = {study.name for study in past.studies}
    storage = optuna_at(address)
    found = [] if storage is None else _searches(uncached(storage), wanted, address)
    searches = {task.name for lesson in found for task in lesson.tasks.tasks}
    if wanted <= searches:
        return found
    together = Lesson("the space that all share", past.space.encoder, past.tasks)
    return [*found, together]


def _searches(storage: BaseStorage, wanted: set[str], address: str) -> list[Lesson]:
    """For each space that a wanted search has, all of its searches."""
    groups: dict[str, list[Any]] = {}
    with quiet_optuna(), storage_errors(without_password(address), "read"):
        for study in storage.get_all_studies():
            if "rankwise:search" in study.user_attrs and len(study.directions) == 1:
                groups.setdefault(study.user_attrs[_FINGERPRINT], []).append(study)
        return [
            _lesson(storage, group)
            for group in groups.values()
            if wanted & {study.study_name for study in group}
        ]


def _lesson(storage: BaseStorage, group: list[Any]) -> Lesson:
    from ConfigSpace import ConfigurationSpace

    described = {"name": None, "meta": None, **group[0].user_attrs[_SPACE]}
    encoder = Encoder(ConfigurationSpace.from_serialized_dict(described))
    what = group[0].user_attrs["rankwise:search"].get("space") or "a space of its own"
    return Lesson(what, encoder, past_tasks(cast(StudyLog, _Next(storage)), encoder))


class _Next:
    """A search that would begin now, as far as its past is concerned."""

    def __init__(self, storage: BaseStorage) -> None:
        self.study = SimpleNamespace(_storage=storage, study_name=None)

    def noted(self, key: str) -> str:
        return datetime.now().isoformat()
