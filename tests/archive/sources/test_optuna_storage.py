"""Studies as Optuna keeps them: states, files, servers that are not there."""

from __future__ import annotations

import math
import sqlite3
from datetime import datetime, timedelta

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState, create_trial
from support import ROOT

import rankwise
from archive.past import SPACE, add, fill
from rankwise.archive import Archive, attach_context, open_archive, read_context
from rankwise.archive.sources.optuna_storage import columns_of_trials
from rankwise.errors import ArchiveError, OptionError, StorageError
from rankwise.history.task import FAILED, INVALID, OK

FULL = {"lr": 0.1, "layers": 2, "optimizer": "adam"}


@pytest.fixture
def url(tmp_path) -> str:
    url = f"sqlite:///{tmp_path}/past.db"
    optuna.storages.RDBStorage(url)
    return url


# ---------------------------------------------------------------------- trials


def test_what_becomes_of_trials():
    study = optuna.create_study(study_name="s")
    add(study, FULL, 1.0)
    add(study, FULL, state=TrialState.FAIL)
    add(study, FULL, state=TrialState.PRUNED, intermediate_values={0: 9.0, 5: 3.0, 2: 7.0})
    add(study, FULL, state=TrialState.PRUNED)
    add(study, FULL, math.inf)
    add(study, FULL, -math.inf)
    add(study, FULL, state=TrialState.PRUNED, intermediate_values={0: math.nan})
    add(study, FULL, state=TrialState.RUNNING)
    study.enqueue_trial(FULL)
    [past] = open_archive(study._storage).studies
    assert past.status == (OK, FAILED, OK, FAILED, INVALID, INVALID, INVALID)
    assert (
        past.values.tolist()[:3:2] == [1.0, 3.0] and np.isnan(past.values[[1, 3, 4, 5, 6]]).all()
    )
    assert past.pruned.tolist() == [False, False, True, True, False, False, True]
    [task] = open_archive(study._storage).tasks.tasks
    assert task.status == past.status and task.ok.tolist() == past.ok.tolist()


def test_a_value_that_is_nan_fails_in_optuna_and_here():
    study = optuna.create_study()
    study.optimize(lambda t: t.suggest_float("x", 0, 1) * math.nan, n_trials=1)
    study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=1)
    [past] = open_archive(study._storage).studies
    assert past.status == (FAILED, OK)


def test_equal_configurations_are_kept():
    study = optuna.create_study()
    for value in (1.0, 2.0, 1.0):
        add(study, FULL, value)
    [task] = open_archive(study._storage).tasks.tasks
    assert task.y.tolist() == [1.0, 2.0, 1.0] and len(np.unique(task.X, axis=0)) == 1


def test_a_trial_that_failed_before_it_had_its_parameters_is_no_part_of_the_task():
    study = optuna.create_study()
    add(study, FULL, 1.0)
    add(study, {"lr": 0.1}, state=TrialState.FAIL)
    add(study, {}, state=TrialState.FAIL)
    add(study, FULL, state=TrialState.FAIL)
    archive = open_archive(study._storage)
    assert archive.space.conditions == {}
    [task] = archive.tasks.tasks
    assert task.status == (OK, FAILED) and len(archive.studies[0]) == 4


def test_ranges_that_change_within_a_study_are_unified():
    trials = [
        create_trial(value=1.0, params={"x": x}, distributions={"x": FloatDistribution(0, high)})
        for x, high in ((0.5, 1.0), (1.5, 2.0), (0.1, 0.5))
    ]
    past = columns_of_trials("s", "minimize", trials)
    assert past.distributions == {"x": FloatDistribution(0.0, 2.0)}


def test_seconds_and_the_start():
    study = optuna.create_study()
    early = datetime(2021, 3, 4)
    add(study, FULL, 1.0)
    frozen = create_trial(value=2.0, params=FULL, distributions={n: SPACE[n] for n in FULL})
    frozen.datetime_start, frozen.datetime_complete = early, early + timedelta(seconds=90)
    study.add_trial(frozen)
    [past] = open_archive(study._storage).studies
    assert past.seconds[1] == 90.0 and past.started == early


def test_maximisation_is_turned_once(url):
    fill(url, "small", 6, seed=1)
    fill(url, "large", 6, "maximize", seed=1)
    archive = open_archive(url)
    small, large = archive.studies
    assert (small.values == -large.values).all() and large.direction == "maximize"
    one, two = archive.tasks.tasks
    assert one.y.tobytes() == two.y.tobytes() and one.X.tobytes() == two.X.tobytes()
    assert [t.name for t in archive.tasks.tasks] == ["small", "large"]
    assert archive.tasks.fingerprint == archive.space.encoder.fingerprint


# ---------------------------------------------------------------------- studies that are left out


def test_studies_that_cannot_be_used_are_named(url):
    fill(url, "fine", 3)
    optuna.create_study(storage=url, study_name="two", directions=["minimize", "maximize"])
    optuna.create_study(storage=url, study_name="empty")
    failed = optuna.create_study(storage=url, study_name="failed")
    add(failed, FULL, state=TrialState.FAIL)
    clash = optuna.create_study(storage=url, study_name="clash")
    clash.optimize(lambda t: t.suggest_categorical("layers", [1, 2]), n_trials=1)
    archive = open_archive(url, search_space={"layers": SPACE["layers"]})
    assert [s.name for s in archive.studies] == ["fine", "clash"]  # numbers are cast
    assert archive.left_out == {
        "two": "it has 2 objectives (minimize, maximize); one is wanted here",
        "empty": "no finished trial has a value",
        "failed": "no finished trial has a value",
    }


def test_a_study_of_one_trial_is_part_of_the_space_and_the_tasks(url):
    fill(url, "one", 1)
    archive = open_archive(url)
    assert len(archive.tasks) == 1 and len(archive.tasks.tasks[0]) == 1


def test_an_empty_storage_is_an_empty_archive(url):
    archive = open_archive(url)
    assert archive.studies == () and len(archive.tasks) == 0 and archive.left_out == {}
    with pytest.raises(ArchiveError, match="no study of sqlite"):
        archive.space  # noqa: B018
    assert "0 studies" in str(archive.describe())


def test_names_that_occur_twice_are_told_apart():
    one, two = optuna.create_study(study_name="s"), optuna.create_study(study_name="s")
    for study in (one, two):
        add(study, FULL, 1.0)
    archive = open_archive([one._storage, two._storage])
    assert [s.name for s in archive.studies] == ["s", "s (2)"]


# ---------------------------------------------------------------------- where they come from


def test_url_path_object_and_journal_give_the_same(url, tmp_path):
    fill(url, "s", 6)
    journal = tmp_path / "past.log"
    backend = optuna.storages.journal.JournalFileBackend(str(journal))
    fill(optuna.storages.JournalStorage(backend), "s", 6)
    memory = optuna.storages.InMemoryStorage()
    fill(memory, "s", 6)
    sources = [
        url,
        tmp_path / "past.db",
        optuna.storages.RDBStorage(url),
        optuna.load_study(study_name="s", storage=url)._storage,
        journal,
        str(journal),
        optuna.storages.JournalStorage(backend),
        memory,
    ]
    archives = [open_archive(source) for source in sources]
    assert len({a.tasks.digest for a in archives}) == 1
    database, log = tmp_path / "past.db.rankwise", tmp_path / "past.log.rankwise"
    assert [a.folder for a in archives] == [database] * 4 + [log] * 3 + [None]


def test_a_study_that_rankwise_recorded(url):
    space = {"x": (0.0, 1.0), "n": (1, 5), "act": [math.tanh, math.sin]}
    rankwise.minimize(
        lambda c: c["act"](c["x"]) + c["n"],
        space,
        trials=5,
        method="random",
        storage=url,
        name="ours",
        seed=0,
        progress=False,
    )
    archive = open_archive(url)
    assert archive.space.distributions["act"].choices == ("math.tanh", "math.sin")
    assert len(archive.tasks.tasks[0]) == 5 and np.isfinite(archive.studies[0].seconds).all()


def test_a_missing_database_is_an_error_and_is_not_made(tmp_path):
    with pytest.raises(StorageError, match="there is no such file"):
        open_archive(f"sqlite:///{tmp_path}/typo.db")
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_database_is_left_as_it_is(tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (a)")
    before = path.read_bytes()
    with pytest.raises(StorageError, match="not an Optuna storage; it has the tables t"):
        open_archive(path)
    assert path.read_bytes() == before


def test_a_database_of_mlflow_without_its_prefix(tmp_path):
    path = tmp_path / "mlflow.db"
    with sqlite3.connect(path) as connection:
        connection.executescript((ROOT / "tests/data/sources/mlflow.sql").read_text())
    connection.close()
    with pytest.raises(StorageError, match="database of MLflow: give the address mlflow:sqlite"):
        open_archive(path)


def test_a_driver_that_is_not_installed_is_named():
    with pytest.raises(StorageError, match="install MySQLdb"):
        open_archive("mysql://me@host/db")


@pytest.mark.parametrize("url", ["nix://me:secret@host/db", "nix://me:se/cr:et@host/db"])
def test_passwords_are_never_shown(url):
    with pytest.raises(StorageError) as error:
        open_archive(url)
    assert "me:***@host" in str(error.value) and "cr" not in str(error.value)


def test_models_of_a_server_are_kept_in_the_cache_whatever_the_password(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one, two, other = (
        Archive([], origin=f"postgresql://{who}@host/db").folder
        for who in ("me:a", "me:b", "you:a")
    )
    assert one == two != other and one.parent == tmp_path / "rankwise"
    assert Archive([], origin="sqlite:///:memory:").folder is None


@pytest.mark.parametrize("content", ["", "no journal\n"])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_text(content)
    if not content:
        assert open_archive(path).studies == ()  # a journal that was just begun
        return
    with pytest.raises(ArchiveError, match="holds no studies"):
        open_archive(path)


@pytest.mark.parametrize("source", [None, 3, [], "missing.csv"])
def test_other_sources_are_refused(source):
    with pytest.raises(ArchiveError):
        open_archive(source)


# ---------------------------------------------------------------------- filters


@pytest.fixture(scope="module")
def storage():
    storage = optuna.storages.InMemoryStorage()
    for year, name, data in ((2020, "xgb-a", "a"), (2021, "xgb-b", "b"), (2022, "svm-a", "a")):
        study = optuna.create_study(storage=storage, study_name=name)
        study.set_user_attr("data", data)
        attach_context(study, {"rows": year})
        frozen = create_trial(value=1.0, params=FULL, distributions={n: SPACE[n] for n in FULL})
        frozen.datetime_start = datetime(year, 6, 1)
        study.add_trial(frozen)
    lean = optuna.create_study(storage=storage, study_name="lean")
    add(lean, {"lr": 0.1}, 1.0)
    return storage


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, {"xgb-a", "xgb-b", "svm-a", "lean"}),
        ({"like": "xgb-*"}, {"xgb-a", "xgb-b"}),
        ({"like": ["*-a", "lean"]}, {"xgb-a", "svm-a", "lean"}),
        ({"exclude": ["lean", "svm-a"]}, {"xgb-a", "xgb-b"}),
        ({"attrs": {"data": "a"}}, {"xgb-a", "svm-a"}),
        ({"attrs": {"rows": lambda rows: rows > 2020, "data": "a"}}, {"svm-a"}),
        ({"attrs": {"nothing": None}}, set()),
        ({"since": "2021-01-01", "exclude": ["lean"]}, {"xgb-b", "svm-a"}),
        ({"until": datetime(2021, 12, 31)}, {"xgb-a", "xgb-b"}),
        ({"since": "2021-01-01", "until": "2021-12-31"}, {"xgb-b"}),
        ({"parameters": ["lr", "layers"]}, {"xgb-a", "xgb-b", "svm-a"}),
    ],
)
def test_filters(storage, filters, names):
    assert {s.name for s in open_archive(storage, **filters).studies} == names
    everything = open_archive(storage)
    assert {s.name for s in open_archive(everything, **filters).studies} == names


def test_an_archive_that_is_asked_for_nothing_else_is_returned_as_it_is(storage):
    archive = open_archive(storage)
    assert open_archive(archive) is archive


def test_a_date_that_is_none_is_an_error(storage):
    with pytest.raises(OptionError, match="since"):
        open_archive(storage, since="yesterday")


# ---------------------------------------------------------------------- context


def test_facts_are_attached_and_read(url):
    study = optuna.create_study(storage=url, study_name="s")
    study.set_user_attr("owner", "me")
    attach_context(study, {"rows": 10, "kinds": ["a"]})
    attach_context(study, {"rows": 11})
    assert read_context(study) == {"rows": 11, "kinds": ["a"]}
    add(study, FULL, 1.0)
    [past] = open_archive(url).studies
    assert past.context == {"owner": "me", "rows": 11, "kinds": ["a"]}
    with pytest.raises(OptionError, match="plain"):
        attach_context(study, {"f": object()})
