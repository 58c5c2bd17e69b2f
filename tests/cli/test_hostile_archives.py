"""Archives of unknown versions, with infinities and nested cells, through every door.

The doors are `open_archive`, `rankwise archive describe`, `RankwiseSampler` and `rankwise tune`.
"""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
import sqlite3
import warnings

import optuna
import pandas as pd
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from support.shell import QUICK, commands, enter

from rankwise import RankwiseSampler
from rankwise.archive import open_archive
from rankwise.errors import ArchiveError, RankwiseError, StorageError

INFINITE = '{"name": "FloatDistribution", "attributes": {"low": -Infinity, "high": Infinity}}'
FRACTAL = '{"name": "Fractal", "attributes": {"low": 1}}'


def objective(trial):
    return trial.suggest_float("lr", 1e-5, 1.0, log=True) + trial.suggest_int("n", 1, 9)


def fill(storage):
    for k in range(3):
        sampler = optuna.samplers.RandomSampler(seed=k)
        study = optuna.create_study(storage=storage, study_name=f"s{k}", sampler=sampler)
        study.optimize(objective, n_trials=5)


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("templates")
    fill(f"sqlite:///{folder}/past.db")
    fill(JournalStorage(JournalFileBackend(str(folder / "past.log"))))
    return folder


DATABASES = {  # statements, and the error; None if the rest can be used
    "a later version": (
        "update version_info set schema_version = 99;"
        "update alembic_version set version_num = 'v9'",
        "no longer compatible",
    ),
    "no such state": (
        "update trials set state = 'SUSPENDED' where number = 2",
        "SUSPENDED.*version",
    ),
    "no such value": (
        "update trial_values set value_type = 'COMPLEX'",
        "COMPLEX.*another version",
    ),
    "another column": ("alter table trials rename column state to status", "no such column"),
    "a missing table": ("drop table trial_params", "no such table"),
    "no such distribution": (f"update trial_params set distribution_json = '{FRACTAL}'", ""),
    "an infinite range": (
        f"update trial_params set distribution_json = '{INFINITE}' where param_name = 'lr'",
        None,
    ),
    "an infinite parameter": (
        "update trial_params set param_value = 9e999 where param_name = 'lr' and trial_id < 4",
        None,
    ),
    "infinite values": ("update trial_values set value = 9e999 where trial_id < 4", None),
    "only infinite values": ("update trial_values set value = 9e999", ""),
}
JOURNALS = {  # a change of a line, and the error
    "a later operation": (lambda line: {**line, "op_code": 77}, "."),
    "a missing entry": (
        lambda line: {k: v for k, v in line.items() if k != "distribution"},
        "unkn",
    ),
    "infinities": (
        lambda line: line | {k: math.inf for k in line if k == "param_value_internal"},
        "infinity.*damaged",
    ),
    "no such distribution": (
        lambda line: line | ({"distribution": FRACTAL} if "distribution" in line else {}),
        "Fractal",
    ),
}


def rows(**cells):
    return [
        {"study": f"s{k // 6}", "lr": 10.0 ** -(1 + k % 5), "n": 1 + k % 7, "value": float(k % 5)}
        | {name: make(k) for name, make in cells.items()}
        for k in range(12)
    ]


TABLES = {  # trials, and the error; None if the rest can be used
    "some infinite": (rows(lr=lambda k: 0.1 * k if k % 3 else math.inf), None),
    "all infinite": (rows(lr=lambda k: -math.inf), None),
    "infinite values": (rows(value=lambda k: float(k) if k % 3 else math.inf), None),
    "only infinite values": (rows(value=lambda k: math.inf), ""),
    "mappings": (rows(more=lambda k: {"a": k, "b": {"c": [1, 2]}}), None),
    "lists": (rows(more=lambda k: [k, k + 1]), None),
    "lists of lists": (rows(more=lambda k: [[k], [k + 1]]), None),
    "values are mappings": (rows(value=lambda k: {"loss": k}), "must hold numbers"),
    "studies are mappings": (rows(study=lambda k: {"a": k // 6}), None),
    "a version": (rows(schema_version=lambda k: 99), None),
}


def through_every_door(address, error, rankwise, *more, **how):
    """Each door says the same; a study goes on in any case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if error:
            with pytest.raises((ArchiveError, StorageError), match=error):
                open_archive(address, **how)
        else:
            archive = open_archive(address, **how)
            assert bool(archive.studies) == (error is None)
            assert archive.studies or archive.left_out
            archive.tasks  # noqa: B018
        described = rankwise("archive", "describe", address, *more)
        assert (described.code != 0) == bool(error), described.err
        assert "Traceback" not in described.err and described.err.count("rankwise: ") >= bool(
            error
        )
        study = optuna.create_study(sampler=RankwiseSampler(address, seed=0))
        study.optimize(objective, n_trials=1)
    assert len(study.trials) == 1 and study.trials[0].state.name == "COMPLETE"


@pytest.fixture
def rankwise(tmp_path, monkeypatch, capsys):
    enter(tmp_path, monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return commands(monkeypatch, capsys)


@pytest.mark.parametrize("name", DATABASES)
def test_databases(name, templates, tmp_path, rankwise):
    statements, error = DATABASES[name]
    shutil.copy(templates / "past.db", tmp_path / "past.db")
    connection = sqlite3.connect(tmp_path / "past.db")
    connection.executescript(statements)
    connection.close()
    through_every_door("sqlite:///past.db", error, rankwise)


@pytest.mark.parametrize("name", JOURNALS)
def test_journals(name, templates, tmp_path, rankwise):
    change, error = JOURNALS[name]
    lines = map(json.loads, (templates / "past.log").read_text().splitlines())
    (tmp_path / "past.log").write_text("".join(json.dumps(change(x)) + "\n" for x in lines))
    through_every_door("past.log", error, rankwise)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("name", TABLES)
def test_tables(name, ending, tmp_path, rankwise):
    trials, error = TABLES[name]
    path = tmp_path / f"past.{ending}"
    if ending == "csv":
        pd.DataFrame(trials).to_csv(path, index=False)
    elif ending == "jsonl":
        path.write_text("".join(json.dumps(trial) + "\n" for trial in trials))
    elif importlib.util.find_spec("pyarrow") is None:
        pytest.skip("pyarrow is not installed")
    else:
        pd.DataFrame(trials).to_parquet(path)
    through_every_door(path.name, error, rankwise, "--direction", "minimize", direction="minimize")


def test_json_files_that_are_something_else(tmp_path, rankwise):
    pytest.importorskip("ijson")
    (tmp_path / "list.json").write_text(json.dumps(rows()))
    with pytest.raises(RankwiseError, match=r"has no search spaces: .* as \.jsonl"):
        open_archive("list.json")
    (tmp_path / "later.json").write_text(json.dumps({"version": 99, "studies": []}))
    with pytest.raises(RankwiseError, match="version"):
        open_archive("later.json")


@pytest.mark.parametrize(("name", "code"), [("a later version", 1), ("no such state", 0)])
def test_tune_refuses_what_it_cannot_write_and_needs_no_studies_of_others(
    name, code, templates, tmp_path, rankwise
):
    shutil.copy(templates / "past.db", tmp_path / "past.db")
    connection = sqlite3.connect(tmp_path / "past.db")
    connection.executescript(DATABASES[name][0])
    connection.close()
    words = ("tune", "fruit.csv", "--target", "good", *QUICK, "--past", "own")
    found = rankwise(*words, "--archive", "sqlite:///past.db")
    assert found.code == code and "Traceback" not in found.err and "past.db" in found.err
    assert ("best of 3 trials" in found.out) == (code == 0)
