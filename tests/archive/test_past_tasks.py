"""past_tasks: which studies and trials of a storage count as past."""

from __future__ import annotations

from datetime import datetime, timedelta

import optuna
import pytest

from rankwise import Encoder
from rankwise.archive.past_tasks import past_tasks
from rankwise.errors import StorageError
from rankwise.history.trial import Trial
from rankwise.storage.study_log import StudyLog

SPACE = {"x": (0.0, 1.0)}


def run(storage, name: str, space=SPACE, n: int = 3, direction: str = "minimize") -> None:
    log = StudyLog(Encoder(space), storage=storage, name=name, direction=direction)
    for number in range(n):
        log.finish(Trial(number, {next(iter(space)): number / 10}, "ok", float(number)))


@pytest.fixture
def storage():
    found = optuna.storages.InMemoryStorage()
    run(found, "first")
    run(found, "second", direction="maximize")
    run(found, "other space", {"z": (0.0, 1.0)})
    run(found, "empty", n=0)
    return found


def test_studies_of_the_same_space_are_read(storage):
    found = past_tasks(storage, Encoder(SPACE))
    assert [task.name for task in found.tasks] == ["first", "second"]
    assert [task.y.tolist() for task in found.tasks] == [[0.0, 1.0, 2.0]] * 2
    assert found.fingerprint == Encoder(SPACE).fingerprint


def test_excluded_studies_and_later_trials_do_not_count(storage):
    encoder = Encoder(SPACE)
    [task] = past_tasks(storage, encoder, exclude=["first"]).tasks
    assert task.name == "second"
    now = datetime.now()
    assert len(past_tasks(storage, encoder, before=now).tasks) == 2
    assert past_tasks(storage, encoder, before=now - timedelta(days=1)).tasks == ()


def test_a_storage_that_cannot_be_read_is_an_error(storage, monkeypatch):
    def gone():
        raise OSError("the server is gone")

    monkeypatch.setattr(storage, "get_all_studies", gone)
    with pytest.raises(StorageError, match="the server is gone"):
        past_tasks(storage, Encoder(SPACE))
