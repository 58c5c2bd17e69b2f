"""Database tables are read many studies at a time, and give what Optuna's own loading gives."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import fields

import numpy as np
import optuna
import pytest
import sqlalchemy
from optuna.trial import TrialState

from archive.past import add, fill
from rankwise.archive import open_archive
from rankwise.archive.sources.optuna_storage import columns_of_trials
from rankwise.errors import StorageError
from rankwise.storage.study_facts import context_of

FULL = {"lr": 0.1, "layers": 2, "optimizer": "adam"}


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/past.db"


def test_the_rows_are_what_optuna_loads(url):
    storage = optuna.storages.RDBStorage(url)
    study = optuna.create_study(storage=storage, study_name="a", direction="maximize")
    study.set_user_attr("rows", 12)
    add(study, FULL, 1.0, user_attrs={"rankwise:seconds": 3.5, "other": [1]})
    add(study, {"lr": 0.2}, state=TrialState.FAIL, user_attrs={"rankwise:status": "timeout"})
    add(study, FULL, state=TrialState.PRUNED, intermediate_values={0: 9.0, 5: 3.0, 2: math.inf})
    add(study, FULL, -math.inf)
    add(study, FULL, 2.0, system_attrs={"fixed_params": FULL})
    add(study, FULL, 3.0, system_attrs={"retry_history": [1]})
    add(study, FULL, state=TrialState.RUNNING)
    fill(storage, "b", 7)
    found = {past.name: past for past in open_archive(url).studies}
    for name in ("a", "b"):
        study = optuna.load_study(study_name=name, storage=storage)
        direction = study.direction.name.lower()
        trials = study.get_trials()
        expected = columns_of_trials(name, direction, trials, context_of(study.user_attrs))
        for field in fields(expected):
            ours, theirs = getattr(found[name], field.name), getattr(expected, field.name)
            if isinstance(theirs, np.ndarray):
                np.testing.assert_array_equal(ours, theirs)
            else:
                assert ours == theirs, field.name


def statements(url: str) -> int:
    """Number of SQL statements that reading an archive takes."""
    count = [0]

    def tick(*_):
        count[0] += 1

    sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", tick)
    try:
        assert open_archive(url).studies
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "before_cursor_execute", tick)
    return count[0]


def test_the_number_of_queries_does_not_grow_with_the_studies(url):
    storage = optuna.storages.RDBStorage(url)
    for k in range(2):
        fill(storage, f"s{k}", 2)
    few = statements(url)
    for k in range(2, 12):
        fill(storage, f"s{k}", 2)
    assert statements(url) == few


def damage(url: str, statement: str) -> None:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "update trial_params set distribution_json = '{' where trial_id = 1",
        "update trial_params set distribution_json = '[1]' where trial_id = 1",
        f"update trial_params set distribution_json = '{'[' * 100_000}' where trial_id = 1",
        "update trial_params set param_value = 99 where param_name = 'optimizer' and trial_id = 1",
        "update trial_params set param_value = 'x' where trial_id = 1",
        "update trial_values set value = null where trial_id = 1",
        "update trial_params set distribution_json = replace(distribution_json, '0.0001',"
        f" '{'9' * 400}') where trial_id = 1",
    ],
    ids=["cut", "other", "deep", "choice", "text", "null", "digits"],
)
def test_a_study_with_damaged_rows_is_left_out_and_named(url, statement):
    storage = optuna.storages.RDBStorage(url)
    fill(storage, "bad", 3)
    fill(storage, "good", 3)
    damage(url, statement)
    archive = open_archive(url)
    assert "good" in {study.name for study in archive.studies}
    if "bad" not in {study.name for study in archive.studies}:
        assert archive.left_out["bad"]
    assert np.isfinite(archive.tasks.tasks[-1].X).all()


@pytest.mark.parametrize(
    "statement",
    [
        "delete from study_directions",
        "update trials set datetime_complete = 'yesterday'",
        "update study_user_attributes set value_json = '[[['",
    ],
)
def test_damage_that_optuna_cannot_read_is_called_so(url, statement):
    storage = optuna.storages.RDBStorage(url)
    fill(storage, "one", 3)
    optuna.load_study(study_name="one", storage=storage).set_user_attr("fact", 1)
    damage(url, statement)
    with pytest.raises(StorageError, match="it is damaged"):
        open_archive(url)


def test_an_unknown_schema_is_one_sentence(url):
    optuna.storages.RDBStorage(url)
    damage(url, "update alembic_version set version_num = 'v99'")
    with pytest.raises(StorageError, match="cannot open the storage"):
        open_archive(url)


def test_facts_that_are_too_large_for_a_float_are_left_out(url):
    fill(optuna.storages.RDBStorage(url), "a", 3)
    study = optuna.load_study(study_name="a", storage=url)
    study.set_user_attr("huge", 10**400)
    study.set_user_attr("rows", 5)
    [task] = open_archive(url).tasks.tasks
    assert dict(task.context) == {"rows": 5.0}
