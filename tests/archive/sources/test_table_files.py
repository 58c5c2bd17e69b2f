"""Tables and HPO-B's files as archives."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pandas as pd
import pytest
from bench.bench_data import DATA, needs_data
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from rankwise.archive import open_archive
from rankwise.errors import ArchiveError
from rankwise.history.task import INVALID, OK

FRAME = pd.DataFrame(
    {
        "study": ["a", "a", "b", "b"],
        "value": [1.0, np.nan, 3.0, np.inf],
        "lr": [1e-4, 1e-2, 0.5, 1e-3],
        "depth": [1, 2, 3, 4],
        "kernel": ["rbf", "linear", "rbf", "rbf"],
        "gamma": [0.5, np.nan, 0.1, 0.2],
        "flag": [True, False, True, True],
    }
)


def save(frame, path):
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)
    return path


has_parquet = importlib.util.find_spec("pyarrow") is not None
needs_parquet = pytest.mark.skipif(not has_parquet, reason="pyarrow is not installed")


@pytest.mark.parametrize(
    "name", ["t.csv", "t.jsonl", pytest.param("t.parquet", marks=needs_parquet)]
)
def test_a_table(tmp_path, name):
    archive = open_archive(save(FRAME, tmp_path / name), direction="maximize")
    a, b = archive.studies
    assert (a.name, b.name, a.direction) == ("a", "b", "maximize")
    assert a.params[0] == {
        "lr": 1e-4,
        "depth": 1,
        "kernel": "rbf",
        "gamma": 0.5,
        "flag": True,
    }
    assert "gamma" not in a.params[1] and type(a.params[1]["depth"]) is int
    assert a.status == b.status == (OK, INVALID) and b.values[0] == 3.0
    space = archive.space
    assert space.distributions["lr"] == FloatDistribution(1e-4, 0.5, log=True)
    assert space.distributions["depth"] == IntDistribution(1, 4)
    assert space.distributions["gamma"] == FloatDistribution(0.1, 0.5)
    assert space.distributions["kernel"] == CategoricalDistribution(["rbf", "linear"])
    assert repr(space.distributions["flag"].choices) == "(True, False)"
    assert archive.tasks.tasks[1].y[0] == -3.0
    assert archive.folder == tmp_path / f"{name}.rankwise"


def test_the_search_space_says_what_columns_are(tmp_path):
    path = save(FRAME, tmp_path / "t.csv")
    archive = open_archive(
        path,
        direction="minimize",
        search_space={
            "lr": FloatDistribution(1e-5, 1.0),
            "depth": CategoricalDistribution([4, 5]),
            "gamma": FloatDistribution(1e-3, 1.0, log=True),
        },
    )
    assert archive.left_out == {}
    space = archive.space.distributions
    assert space["lr"] == FloatDistribution(1e-5, 1.0)
    assert sorted(space["depth"].choices) == [1, 2, 3, 4, 5]
    assert space["gamma"] == FloatDistribution(1e-3, 1.0, log=True)
    row = archive.space.encode(archive.studies[0].params)[0]
    assert archive.space.decode(row)["depth"] == 1


def test_columns_have_other_names_and_some_are_none_of_ours(tmp_path):
    frame = FRAME.rename(columns={"study": "data set", "value": "loss"})
    path = save(frame, tmp_path / "t.csv")
    archive = open_archive(
        path, direction="minimize", study="data set", value="loss", ignore=["kernel", "flag"]
    )
    assert set(archive.space.distributions) == {"lr", "depth", "gamma"}


def test_a_folder_of_tables(tmp_path):
    save(FRAME, tmp_path / "one.csv")
    save(FRAME.drop(columns="study"), tmp_path / "two.csv")
    (tmp_path / "notes.txt").write_text("not a table")
    archive = open_archive(tmp_path, direction="minimize")
    assert [s.name for s in archive.studies] == ["a", "b", "two"]
    assert archive.folder == tmp_path / ".rankwise"
    files = [tmp_path / "one.csv", tmp_path / "two.csv"]
    assert [s.name for s in open_archive(files, direction="minimize").studies] == ["a", "b", "two"]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda f: f, {}, "direction="),
        (lambda f: f, {"direction": "up"}, "direction="),
        (
            lambda f: f.drop(columns="value"),
            {"direction": "minimize"},
            "no column 'value'.*metric=",
        ),
        (
            lambda f: f.drop(columns="study"),
            {"direction": "minimize"},
            "no column 'study'.*study=",
        ),
        (lambda f: f.assign(value="x"), {"direction": "minimize"}, "'value' must hold numbers"),
        (
            lambda f: f,
            {"direction": "minimize", "search_space": {"kernel": FloatDistribution(0, 1)}},
            "'kernel' must hold numbers",
        ),
        (
            lambda f: pd.concat([f.assign(tag=f"r{k}") for k in range(101)]),
            {"direction": "minimize"},
            "101 different texts.*ignore=",
        ),
    ],
)
def test_wrong_tables(tmp_path, change, options, message):
    path = save(change(FRAME), tmp_path / "t.csv")
    with pytest.raises(ArchiveError, match=message):
        open_archive(path, **options)


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_a_damaged_table(tmp_path, name):
    (tmp_path / name).write_bytes(b"\xff\xfe\x00garbage,\x00\n1,2,3")
    with pytest.raises(ArchiveError, match=name):
        open_archive(tmp_path / name, direction="minimize")


def test_a_table_that_is_not_utf8(tmp_path):
    (tmp_path / "t.csv").write_text("study,value,lr\na,1,ä\n", encoding="latin-1")
    with pytest.raises(ArchiveError, match=r"t\.csv.*save it as UTF-8"):
        open_archive(tmp_path / "t.csv", direction="minimize")


@pytest.mark.skipif(has_parquet, reason="pyarrow is installed")
def test_parquet_without_its_package(tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(ArchiveError, match="pyarrow"):
        open_archive(tmp_path / "t.parquet", direction="minimize")


# ---------------------------------------------------------------------- HPO-B

X = [[0.1, 0.2], [0.3, 1.2], [0.5, 0.6]]
TABLES = {
    "svm": {"d1": {"X": X, "y": [[0.5], [0.9], [0.1]]}, "d2": {"X": X, "y": [[1], [2], [3]]}}
}


def test_hpob(tmp_path):
    path = tmp_path / "tables.json"
    path.write_text(json.dumps(TABLES))
    archive = open_archive(path)
    d1, _ = archive.studies
    assert d1.name == "svm/d1" and d1.direction == "maximize" and d1.values[1] == 0.9
    assert d1.params[1] == {"x0": 0.3, "x1": 1.2} and next(iter(d1.params[1:])) == d1.params[1]
    assert archive.space.distributions["x1"] == FloatDistribution(0.0, 1.2)
    assert archive.tasks.tasks[0].y.tolist() == [-0.5, -0.9, -0.1]
    assert np.allclose(archive.tasks.tasks[0].X, np.array(X) / [1.0, 1.2])


def test_hpob_needs_the_id_of_a_space_if_there_are_several(tmp_path):
    path = tmp_path / "tables.json"
    path.write_text(json.dumps({**TABLES, "forest": TABLES["svm"]}))
    with pytest.raises(ArchiveError, match=r"svm.*forest"):
        open_archive(path)
    assert open_archive(path, space="forest").studies[0].name == "forest/d1"
    with pytest.raises(ArchiveError, match="no tables of the space 'ranger'"):
        open_archive(path, space="ranger")


WIDE = json.dumps({"svm": {"d": {"X": [[0.5] * 50_000] * 2, "y": [[1], [2]]}}})
DEEP = '{"svm": {"d": {"X": ' + "[" * 1_000_000


@pytest.mark.parametrize(
    "content",
    ["no json", "{}", '{"svm": {"d": {"X": [[1]]}}}', "[1]", "", DEEP, WIDE, '{"svm": {"d"'],
)
def test_other_json_is_refused(tmp_path, content):
    path = tmp_path / "t.json"
    path.write_text(content)
    with pytest.raises(ArchiveError, match=r"t\.json"):
        open_archive(path)


@needs_data
def test_the_folder_of_a_real_benchmark():
    archive = open_archive(DATA / "tst-svm-hpob", like="svm/*")
    assert len(archive.studies) > 10
    assert archive.describe().agreement.mean > 0.2
