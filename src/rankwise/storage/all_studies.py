"""all_studies: the studies of an Optuna storage, also of storages that cannot list them."""

from __future__ import annotations

from typing import Any

from optuna.storages import BaseStorage
from optuna.study import StudyDirection

from rankwise.storage.optuna_private import FrozenStudy

_DIRECTION = "optuna.study_direction"


def all_studies(storage: BaseStorage) -> list[FrozenStudy]:
    """List the studies of a storage.

    MLflow's `MlflowStorage.get_all_studies` raises KeyError as soon as one trial exists, because
    it takes the runs of trials for studies (mlflow 3.17). Its studies are found by their tag here.
    """
    try:
        return storage.get_all_studies()
    except KeyError:
        client: Any = getattr(storage, "_mlflow_client", None)
        if client is None:
            raise
    place: Any = storage
    found: list[FrozenStudy] = []
    token = None
    while True:
        page = client.search_runs([place._experiment_id], page_token=token)
        for run in page:
            if _DIRECTION in run.data.tags:
                found.append(_study(place, run))
        token = getattr(page, "token", None)
        if not token:
            return found


def _study(storage: Any, run: Any) -> FrozenStudy:
    study_id = run.info.run_id
    names = run.data.tags[_DIRECTION].split(",")
    return FrozenStudy(
        study_name=run.data.tags.get("mlflow.runName", study_id),
        direction=None,
        directions=[StudyDirection[name] for name in names],
        user_attrs=storage.get_study_user_attrs(study_id),
        system_attrs=storage.get_study_system_attrs(study_id),
        study_id=study_id,
    )
