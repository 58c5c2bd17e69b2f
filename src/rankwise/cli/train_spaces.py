"""Groups of an archive's studies from which `rankwise train` learns one model each."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optuna.storages import BaseStorage

from rankwise.archive import Archive
from rankwise.archive.past_tasks import past_tasks
from rankwise.cli.addresses import optuna_at
from rankwise.errors import OptionError, StorageError, UnknownNameError
from rankwise.history.task import TaskSet
from rankwise.run.model_cache import NotKept, learnt_optimizer, model_path
from rankwise.space.encoder import Encoder
from rankwise.storage.all_studies import all_studies
from rankwise.storage.optuna_private import FrozenStudy, uncached
from rankwise.storage.study_log import quiet_optuna, storage_errors, without_password

if TYPE_CHECKING:
    from rankwise.estimators.built_in import BuiltinPast

_FINGERPRINT, _SPACE, _SEARCH = "rankwise:fingerprint", "rankwise:space", "rankwise:search"
_PAST = "rankwise:past"


@dataclass(frozen=True)
class Lesson:
    """Past studies of one space.

    Attributes:
        what: description of the space for the user.
        encoder: encoder of the space.
        tasks: the studies as tasks.
        builtin: the built-in studies that searches of this space learn from too, if any.
    """

    what: str
    encoder: Encoder
    tasks: TaskSet
    builtin: BuiltinPast | None = None

    @property
    def everything(self) -> TaskSet:
        """The archive's studies and the built-in ones."""
        if self.builtin is None:
            return self.tasks
        return replace(self.tasks, tasks=(*self.tasks.tasks, *self.builtin.tasks))

    def learnt(self, method: str, folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
        """Learn and keep a model, unless it is already kept.

        Args:
            method: name of the method.
            folder: folder of the kept models.
            options: options of the method.

        Returns:
            Facts about the model, as JSON data.

        Raises:
            StorageError: the model cannot be written to the folder.
        """
        past = self.everything
        known = None if self.builtin is None else self.builtin.surrogate
        path = model_path(method, past, folder, options)
        new = path is not None and not path.exists()
        with warnings.catch_warnings():
            warnings.simplefilter("error", NotKept)
            try:
                optimizer = learnt_optimizer(method, self.encoder, past, folder, known, **options)
            except NotKept as error:
                raise StorageError(
                    f"the model cannot be written to {folder} ({error.__context__}); check the "
                    "permissions"
                ) from error
        made = path if path is not None and new and path.exists() else None
        learner = optimizer.strategy.learner
        exam = getattr(learner, "exam", None)
        return {
            "what": self.what,
            "studies": len(self.tasks),
            "builtin_studies": 0 if self.builtin is None else len(self.builtin.tasks),
            "parameters": len(self.encoder.parameters),
            "useful": learner is not None,
            "new": made is not None,
            "model": None if made is None else str(made),
            "exam": exam if exam is not None and math.isfinite(exam) else None,
        }


def lessons_of(address: str, past: Archive) -> list[Lesson]:
    """Group studies of an archive in the same way as later studies will use them.

    A search (`rankwise tune`, `RankwiseSearchCV`) learns from all searches with the same space
    and, in a ready-made space, from built-in studies. These depend on the metric, so there is one
    group per metric.
    `RankwiseSampler` learns from the common space of all studies that match its pattern.

    Args:
        address: address of the archive.
        past: studies to learn from.
    """
    wanted = {study.name for study in past.studies}
    storage = optuna_at(address)
    found = [] if storage is None else _searches(uncached(storage), wanted, address)
    searches = {task.name for lesson in found for task in lesson.tasks.tasks}
    if wanted <= searches:
        return found
    together = Lesson("the common space of all studies", past.space.encoder, past.tasks)
    return [*found, together]


def _searches(storage: BaseStorage, wanted: set[str], address: str) -> list[Lesson]:
    """Group all searches of a storage by space; leave out spaces without a search in `wanted`."""
    groups: dict[str, list[FrozenStudy]] = {}
    with quiet_optuna(), storage_errors(without_password(address), "read"):
        for study in all_studies(storage):
            if _SEARCH in study.user_attrs and len(study.directions) == 1:
                groups.setdefault(study.user_attrs[_FINGERPRINT], []).append(study)
        return [
            lesson
            for group in groups.values()
            if wanted & {study.study_name for study in group}
            for lesson in _lessons(storage, group)
        ]


def _lessons(storage: BaseStorage, group: list[FrozenStudy]) -> list[Lesson]:
    """The lessons of all searches of one space: one for each set of built-in studies."""
    from ConfigSpace import ConfigurationSpace

    described = {"name": None, "meta": None, **group[0].user_attrs[_SPACE]}
    encoder = Encoder(ConfigurationSpace.from_serialized_dict(described))
    what = group[0].user_attrs[_SEARCH].get("space") or "a space of its own"
    own = Lesson(what, encoder, past_tasks(storage, encoder))
    lessons = {}
    for study in group:
        builtin = None
        if study.user_attrs.get(_PAST, "auto") == "auto":
            builtin = _builtin(encoder, study.user_attrs[_SEARCH])
        lesson = replace(own, builtin=builtin)
        lessons[lesson.everything.digest] = lesson
    return list(lessons.values())


def _builtin(encoder: Encoder, search: Mapping[str, Any]) -> BuiltinPast | None:
    """The built-in studies that a search with these facts uses, if its space is ready-made."""
    from sklearn.pipeline import Pipeline

    from rankwise.estimators import make_estimator, space_of
    from rankwise.estimators.built_in import builtin_past

    kind = "regression" if search.get("classes") is None else "classification"
    try:
        estimator = make_estimator(search.get("space") or "", kind)
    except (UnknownNameError, OptionError):  # not ready-made, or not installed
        return None
    first = next(iter(space_of(estimator).space))
    steps = [name.removesuffix(first) for name in encoder.names if name.endswith(first)]
    for step in reversed(steps[0].split("__")[:-1] if steps else ()):  # "model__max_depth"
        estimator = Pipeline([(step, estimator)])
    space = space_of(estimator)
    if Encoder(space.space).fingerprint != encoder.fingerprint:
        return None
    return builtin_past(estimator, space, encoder, search["scoring"].partition(",")[0])
