"""MLflow's databases and folders, as a real MLflow wrote them, and damaged ones."""

from __future__ import annotations

import math
import sqlite3
import zipfile

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from support import ROOT

from rankwise.archive import open_archive
from rankwise.errors import ArchiveError
from rankwise.history.task import FAILED, INVALID, OK

DATA = ROOT / "tests" / "data" / "sources"
GOAL = {"metric": "val_loss", "direction": "minimize"}


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "mlflow.db"
    connection = sqlite3.connect(path)
    connection.executescript((DATA / "mlflow.sql").read_text())
    connection.close()
    return path


@pytest.fixture
def folder(tmp_path):
    with zipfile.ZipFile(DATA / "mlruns.zip") as packed:
        packed.extractall(tmp_path / "mlruns")
    return tmp_path / "mlruns"


@pytest.fixture(params=["database", "folder"])
def address(request):
    place = request.getfixturevalue(request.param)
    return f"mlflow:sqlite:///{place}" if request.param == "database" else str(place)


def test_nested_runs_are_studies(address):
    archive = open_archive(address, experiment="xgb*", **GOAL)
    assert sorted(study.name for study in archive.studies) == ["sweep-0", "sweep-1"]
    study = next(s for s in archive.studies if s.name == "sweep-1")
    assert study.status == (OK, OK, OK, OK, FAILED, INVALID)
    assert study.params[0] == {"lr": 1.0, "depth": 1, "warm": True, "max_leaves": 7}
    assert study.params[1]["max_leaves"] is None
    assert study.context == {"dataset": "sales-1", "rows": 2000}
    assert study.values[0] == pytest.approx(1 + 1 + 1 / 3)
    assert study.curves[0] == pytest.approx({0: 3.0, 1: 2.5, 2: 2 + 1 / 3})
    assert study.started is not None and (study.seconds >= 0).all()
    space = archive.space.distributions
    assert space["lr"] == FloatDistribution(1e-5, 1.0, log=True)
    assert space["depth"] == IntDistribution(1, 3)
    assert isinstance(space["max_leaves"], CategoricalDistribution)
    assert any("MLflow: 12 runs" in note for note in archive.describe().notes)


def test_single_runs_are_the_study_of_their_experiment(address):
    archive = open_archive(address, like="forest", **GOAL)
    [study] = archive.studies
    assert len(study) == 2 and set(study.distributions) == {"trees", "criterion"}  # one is deleted
    assert archive.folder is not None


def test_the_metric_has_to_be_said(address):
    with pytest.raises(ArchiveError, match=r"several metrics.*accuracy, val_loss"):
        open_archive(address, direction="minimize")
    with pytest.raises(ArchiveError, match=r"no metric 'auc'.*accuracy, val_loss"):
        open_archive(address, metric="auc", direction="minimize")
    with pytest.raises(ArchiveError, match="direction="):
        open_archive(address, metric="val_loss")
    with pytest.raises(ArchiveError, match="no runs of an experiment like 'lgbm'"):
        open_archive(address, experiment="lgbm", **GOAL)


def test_the_table_of_the_same_runs():
    archive = open_archive(DATA / "mlflow.csv", **GOAL)
    assert sorted(study.name for study in archive.studies) == ["2", "sweep-0", "sweep-1"]


def test_places_that_are_not_mlflows(tmp_path):
    with pytest.raises(ArchiveError, match="there is no file"):
        open_archive(f"mlflow:sqlite:///{tmp_path}/nothing.db", **GOAL)
    assert not (tmp_path / "nothing.db").exists()
    with pytest.raises(ArchiveError, match=r"tracking server.*search_runs"):
        open_archive("mlflow:http://127.0.0.1:5000", **GOAL)
    sqlite3.connect(tmp_path / "empty.db").close()
    with pytest.raises(ArchiveError, match=r"empty\.db.*no table 'experiments'"):
        open_archive(f"mlflow:sqlite:///{tmp_path}/empty.db", **GOAL)
    (tmp_path / "text.db").write_text("not a database, but longer than a header of one" * 50)
    with pytest.raises(ArchiveError, match=r"text\.db cannot be read"):
        open_archive(f"mlflow:{tmp_path}/text.db", **GOAL)


def edit(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(*statement) if isinstance(statement, tuple) else connection.execute(
            statement
        )
    connection.commit()
    connection.close()


def test_another_version_of_the_schema(database):
    edit(database, "ALTER TABLE runs RENAME COLUMN start_time TO begun")
    with pytest.raises(ArchiveError, match=r"mlflow\.db.*'runs' has no column 'start_time'"):
        open_archive(f"mlflow:{database}", **GOAL)


def test_a_truncated_database(database):
    content = database.read_bytes()
    database.write_bytes(content[: len(content) // 2])
    with pytest.raises(ArchiveError, match=r"mlflow\.db"):
        open_archive(f"mlflow:{database}", **GOAL)


def test_bad_parameters_of_runs(database):
    edit(
        database,
        "UPDATE params SET value = 'inf' WHERE key = 'lr' AND value = '1.0'",
        ("UPDATE params SET value = ? WHERE key = 'lr' AND value = '0.1'", ("9" * 400,)),
    )
    archive = open_archive(f"mlflow:{database}", experiment="xgb*", **GOAL)
    assert [len(study) for study in archive.studies] == [4, 4]
    assert "4 trials left out: lr is infinite or too large" in archive.notes
    edit(database, "UPDATE params SET value = value || 'x' || rowid WHERE key = 'lr'")
    mixed = open_archive(f"mlflow:{database}", experiment="xgb*", **GOAL)
    assert isinstance(mixed.space.distributions["lr"], CategoricalDistribution)


def test_many_parameters_of_runs(database):
    rows = "WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < 50000) "
    edit(
        database,
        "INSERT INTO params(key, value, run_uuid) "
        + rows
        + "SELECT 'p' || k, '1', (SELECT run_uuid FROM params WHERE key = 'lr' LIMIT 1) FROM n",
    )
    with pytest.raises(ArchiveError, match=r"mlflow\.db has 5000\d hyperparameters.*parameters="):
        open_archive(f"mlflow:{database}", experiment="xgb*", **GOAL)


def test_damaged_files_of_a_folder(folder):
    metric = next(folder.rglob("metrics/val_loss"))
    metric.write_text("1795024877852 2.001")
    assert open_archive(folder, **GOAL).studies
    metric.write_text("1795024877852 two 0\n")
    with pytest.raises(ArchiveError, match=r"val_loss, line 1.*'1795024877852 two 0'"):
        open_archive(folder, **GOAL)
    metric.write_text("17950 1e999 0\n")
    values = [v for s in open_archive(folder, **GOAL).studies for v in s.values]
    assert any(math.isnan(v) for v in values)
    next(folder.glob("*/*/meta.yaml")).write_text("[" * 1_000_000)
    with pytest.raises(ArchiveError, match=r"meta\.yaml is not a description"):
        open_archive(folder, **GOAL)
    next(folder.glob("*/*/meta.yaml")).write_text("")
    with pytest.raises(ArchiveError, match=r"meta\.yaml is not a description"):
        open_archive(folder, **GOAL)
