"""past_tasks: the past studies of one space in an Optuna storage, as tasks."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from pathlib import Path

import numpy as np
from optuna.storages import BaseStorage

from rankwise.archive.objectives import objectives_of, of_objective
from rankwise.archive.past_study import PastStudy
from rankwise.archive.sources.optuna_storage import columns_of_trials, storage_origin
from rankwise.errors import ConfigurationError
from rankwise.history.task import Task, TaskSet
from rankwise.space.encoder import Encoder
from rankwise.storage.all_studies import all_studies
from rankwise.storage.locations import model_folder
from rankwise.storage.optuna_private import id_of_study, uncached
from rankwise.storage.study_facts import TWIN, context_of, full_context
from rankwise.storage.study_log import configuration_of, quiet_optuna, storage_errors

_FINGERPRINT = "rankwise:fingerprint"


def past_tasks(
    storage: BaseStorage,
    encoder: Encoder,
    *,
    before: datetime | None = None,
    exclude: Collection[str] = (),
    metric: str = "",
) -> TaskSet:
    """Read the studies of a storage that have the same space.

    Of a study with several objectives, the one with the name of the metric is used.

    Args:
        storage: an Optuna storage.
        encoder: the encoder of the space.
        before: use only trials that had ended by then. A resumed study gives the time at which it
            began, and so sees the same past studies again.
        exclude: names of studies that are not used, such as the target study.
        metric: name of the metric, for studies with several objectives.

    Raises:
        StorageError: the storage cannot be read.
    """
    origin = storage_origin(storage)
    storage, folder, tasks = uncached(storage), model_folder(origin), []
    with quiet_optuna(), storage_errors(origin or storage, "read"):
        for study in all_studies(storage):
            same = study.user_attrs.get(_FINGERPRINT) == encoder.fingerprint
            left_out = study.study_name in exclude or TWIN in study.user_attrs
            kinds = objectives_of(study.directions, study.system_attrs)
            names = [kind.name for kind in kinds]
            if not same or left_out or (len(kinds) > 1 and metric not in names):
                continue
            ended = [
                trial
                for trial in storage.get_all_trials(id_of_study(study), deepcopy=False)
                if trial.datetime_complete and (not before or trial.datetime_complete <= before)
            ]
            context = context_of(study.user_attrs)
            past = columns_of_trials(study.study_name, kinds, ended, context)
            column = names.index(metric) if len(kinds) > 1 else 0
            tasks.append(_task(encoder, of_objective(past, column), folder))
    return TaskSet(tuple(task for task in tasks if task.ok.any()), (), encoder.fingerprint)


def _task(encoder: Encoder, past: PastStudy, folder: Path | None) -> Task:
    """Convert a study to a task; trials that do not belong to the space are left out."""
    rows, kept = [], []
    for k, params in enumerate(past.params):
        try:
            rows.append(encoder.encode([configuration_of(encoder, params)])[0])
        except (KeyError, ConfigurationError):
            continue
        kept.append(k)
    X = np.array(rows, dtype=float).reshape(len(kept), encoder.n_columns)
    return past.task(X, kept, full_context(past.context, folder, past.name))
