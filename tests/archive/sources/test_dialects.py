"""Exports of other tools as archives, and tables that cannot be read."""

from __future__ import annotations

import json
import math

import optuna
import pandas as pd
import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution
from support import ROOT

from rankwise.archive import open_archive
from rankwise.archive.sources.cells import parse
from rankwise.archive.sources.dialects import doubtful, recognise
from rankwise.errors import ArchiveError
from rankwise.history.task import FAILED, OK

DATA = ROOT / "tests" / "data" / "sources"


def test_optunas_trials_dataframe():
    archive = open_archive(DATA / "optuna.csv", direction="minimize")
    assert [s.name for s in archive.studies] == ["xgb-0", "xgb-1"]
    assert set(archive.space.distributions) == {"lr", "depth", "booster", "rate_drop", "warm"}
    study = archive.studies[0]
    assert (
        len(study) == 10 and study.status[3] == FAILED and study.pruned.tolist().index(True) == 4
    )
    assert study.context == {"rows": 1200}
    assert study.started is not None and 0 < study.seconds[0] < 1
    assert study.params[0]["warm"] in (True, False)
    notes = " ".join(archive.describe().notes)
    assert "Optuna" in notes and "datetime_start" in notes and "Optuna" in str(archive.describe())


@pytest.mark.parametrize("name", ["cv_results.csv", "cv_results.jsonl"])
def test_scikit_learns_cv_results(name):
    archive = open_archive(DATA / name)
    [study] = archive.studies
    assert study.direction == "maximize" and study.name == "cv_results" and len(study) == 12
    assert set(study.distributions) == {"ccp_alpha", "criterion", "max_depth"}
    assert study.distributions["max_depth"] == IntDistribution(1, 3)
    assert all(study.seconds > 0) and max(study.values) == pytest.approx(0.9667, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("optuna", {}),
        ("cv_results", {}),
        ("mlflow", {"metric": "val_loss"}),
        ("ray", {"metric": "loss"}),
        ("syne_tune", {"metric": "loss"}),
    ],
)
def test_the_index_that_pandas_writes_is_no_hyperparameter(tmp_path, name, options):
    file = DATA / f"{name}.csv"
    pd.read_csv(file, dtype=str, keep_default_na=False).to_csv(tmp_path / f"{name}.csv")
    plain, indexed = (
        open_archive(path, direction="minimize", **options)
        for path in (file, tmp_path / f"{name}.csv")
    )
    assert len(plain.studies) == len(indexed.studies) > 0
    for one, two in zip(plain.studies, indexed.studies, strict=True):
        assert (one.name, one.params, one.status) == (two.name, two.params, two.status)


def test_optunas_table_with_two_rows_of_names(tmp_path):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(lambda trial: trial.suggest_float("lr", 0, 1), n_trials=3)
    for index in (True, False):
        study.trials_dataframe(multi_index=True).to_csv(tmp_path / "t.csv", index=index)
        [past] = open_archive(tmp_path / "t.csv", direction="minimize").studies
        assert [trial["lr"] for trial in past.params] == past.values.tolist() == [
            t.value for t in study.trials
        ]  # fmt: skip


def test_successive_halving_is_one_trial_per_configuration(tmp_path):
    rows = [(0, 30, 1, 0.5), (0, 30, 2, 0.6), (0, 30, 3, 0.7), (1, 90, 3, 0.8)]
    frame = pd.DataFrame(
        {
            "iter": [r[0] for r in rows],
            "n_resources": [r[1] for r in rows],
            "mean_fit_time": 0.1,
            "mean_score_time": 0.1,
            "param_depth": [r[2] for r in rows],
            "params": [str({"depth": r[2]}) for r in rows],
            "mean_test_score": [r[3] for r in rows],
        }
    )
    frame.to_csv(tmp_path / "t.csv")
    [study] = open_archive(tmp_path / "t.csv").studies
    assert [trial["depth"] for trial in study.params] == [1, 2, 3]
    assert study.pruned.tolist() == [True, True, False] and study.values[2] == 0.8
    assert study.curves is not None and study.curves[2] == {30: 0.7, 90: 0.8}


def test_ray_tunes_table():
    archive = open_archive(DATA / "ray.csv", metric="loss", direction="minimize")
    [study] = archive.studies
    assert set(study.distributions) == {"lr", "model/depth", "optimizer"}
    with pytest.raises(ArchiveError, match=r"ray\.csv.*several outcomes.*metric=.*loss"):
        open_archive(DATA / "ray.csv", direction="minimize")


def table(folder, text, name="t.csv"):
    (folder / name).write_text(text)
    return folder / name


MLFLOW = """run_id,experiment_id,status,start_time,end_time,metrics.loss,params.lr,params.warm,\
tags.mlflow.parentRunId,tags.mlflow.runName,tags.dataset
p,7,FINISHED,2026-01-01 10:00:00,2026-01-01 10:10:00,,,,,sweep one,iris
a,7,FINISHED,2026-01-01 10:00:00,2026-01-01 10:01:00,0.5,0.001,True,p,calm-owl-1,iris
b,7,FAILED,2026-01-01 10:01:00,2026-01-01 10:03:00,,0.01,False,p,calm-owl-2,iris
c,7,RUNNING,2026-01-01 10:03:00,,,0.1,False,p,calm-owl-3,iris
d,7,FINISHED,2026-01-02 10:00:00,2026-01-02 10:01:00,0.7,0.002,None,,single,
"""


def test_mlflows_search_runs(tmp_path):
    archive = open_archive(table(tmp_path, MLFLOW), direction="minimize")
    sweep, single = archive.studies
    assert (sweep.name, single.name, sweep.status) == ("sweep one", "7", (OK, FAILED))
    assert sweep.seconds.tolist() == [60.0, 120.0] and sweep.context == {"dataset": "iris"}
    assert sweep.params[0] == {"lr": 0.001, "warm": True} and single.params[0]["warm"] is None
    assert any("1 trial left out: state RUNNING" in note for note in archive.notes)


def test_weights_and_biases(tmp_path):
    text = (
        "Name,State,Notes,User,Tags,Created,Runtime,Sweep,lr,batch_size,epoch,val_loss,train/acc\n"
        "a-1,finished,-,me,,2026-01-01T10:00:00.000Z,60,s1,0.1,32,9,0.5,0.9\n"
        "a-2,crashed,-,me,,2026-01-01T11:00:00.000Z,5,s1,0.2,64,1,,\n"
        "a-3,running,-,me,,2026-01-01T12:00:00.000Z,5,s1,0.2,64,1,0.9,\n"
    )
    archive = open_archive(table(tmp_path, text), metric="val_loss", direction="minimize")
    [study] = archive.studies
    assert study.name == "s1" and set(study.distributions) == {"lr", "batch_size"}
    assert study.status == (OK, FAILED) and study.seconds.tolist() == [60.0, 5.0]
    with pytest.raises(ArchiveError, match=r"metric= \(one of val_loss, train/acc\)"):
        open_archive(tmp_path / "t.csv", direction="minimize")
    asked = open_archive(
        tmp_path / "t.csv", metric="val_loss", direction="minimize", parameters=["lr", "epoch"]
    )
    assert set(asked.space.distributions) == {"lr", "epoch"}


def test_a_run_that_was_killed_is_pruned_if_it_has_a_value(tmp_path):
    text = (
        "Name,State,Created,Runtime,lr,val_loss\n"
        "a-1,finished,2026-01-01T10:00:00.000Z,60,0.1,0.5\n"
        "a-2,killed,2026-01-01T11:00:00.000Z,5,0.2,0.7\n"
        "a-3,killed,2026-01-01T12:00:00.000Z,5,0.3,\n"
    )
    path = table(tmp_path, text)
    [study] = open_archive(path, metric="val_loss", direction="minimize").studies
    assert study.status == (OK, OK, FAILED) and study.pruned.tolist() == [False, True, True]


def test_lines_with_hyperparameters_in_one_entry(tmp_path):
    lines = [
        {"study": "a", "value": 1, "params": {"lr": 0.1, "net": {"depth": 2}}},
        {"study": "a", "value": 2, "params": {"lr": 0.2, "net": {"depth": 3}}},
    ]
    path = table(tmp_path, "\n".join(map(json.dumps, lines)), "t.JSONL")
    [study] = open_archive(path, direction="minimize").studies
    assert study.params == [{"lr": 0.1, "net/depth": 2}, {"lr": 0.2, "net/depth": 3}]


def test_syne_tune_has_several_rows_for_a_trial():
    archive = open_archive(DATA / "syne_tune.csv", metric="loss", direction="minimize")
    [study] = archive.studies
    assert study.name == "syne_tune" and set(study.distributions) == {"lr", "depth", "epochs"}
    assert len(study) == 7 and study.pruned.sum() == 4 and study.ok.all()
    assert study.curves[0] == pytest.approx({0: 1.2014, 1: 0.7014, 2: 0.5348}, abs=1e-4)
    assert study.values[0] == study.curves[0][2] and study.seconds[0] > 0


def test_many_files_are_many_studies(tmp_path):
    text = (DATA / "cv_results.csv").read_text()
    for name in ("a.csv", "b.csv"):
        table(tmp_path, text, name)
    assert [s.name for s in open_archive(tmp_path).studies] == ["a", "b"]


def test_a_plain_table_drops_outcomes_and_dates(tmp_path):
    frame = pd.DataFrame(
        {
            "study": "a",
            "value": [1.0, 2.0],
            "lr": [0.1, 0.2],
            "val_loss": [1.0, 2.0],
            "when": ["2026-01-01", "2026-01-02"],
            "duration": [1, 2],
            "loss": ["hinge", "log"],
        }
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    archive = open_archive(tmp_path / "t.csv", direction="minimize")
    assert set(archive.space.distributions) == {"lr", "loss"}
    assert "not used as hyperparameters: val_loss, when, duration" in archive.notes
    asked = open_archive(tmp_path / "t.csv", direction="minimize", parameters=["duration"])
    assert set(asked.space.distributions) == {"duration"}
    with pytest.raises(ArchiveError, match="no parameter 'depth', only"):
        open_archive(tmp_path / "t.csv", direction="minimize", parameters=["depth"])


@pytest.mark.parametrize(
    ("cell", "value"),
    [("True", True), ("0.001", 0.001), ("None", None), ("3", 3), ("1e-3", 0.001), ("1_0", "1_0")],
)
def test_texts_are_parsed(cell, value):
    assert parse(cell) == value and type(parse(cell)) is type(value)


def test_none_beside_few_numbers_is_a_choice(tmp_path):
    path = table(tmp_path, "study,value,depth\na,1,None\na,2,3\na,3,5\n")
    space = open_archive(path, direction="minimize").space
    assert space.distributions["depth"] == CategoricalDistribution([None, 3, 5])
    rows = "".join(f"a,1,{k / 7}\n" for k in range(20))
    path = table(tmp_path, f"study,value,depth\na,1,None\n{rows}")
    archive = open_archive(path, direction="minimize")
    assert "depth" not in archive.studies[0].params[0]
    assert "depth: inactive in 1 row with None" in archive.notes


@pytest.mark.parametrize("name", ["learning_rate", "epochs", "max_iter", "n_steps", "subsample"])
def test_ordinary_names_are_hyperparameters(name):
    assert not doubtful(name, ["1", "2"])


def test_dialects_do_not_overlap():
    assert recognise(["param_a", "mean_test_score"]).name.startswith("scikit")
    assert recognise(["params_a", "value"]).name.startswith("Optuna")
    assert recognise(["study", "value", "params"]).name == "rankwise"


# ---------------------------------------------------------------------- bad input

WIDE = json.dumps({f"c{k}": 1 for k in range(50_000)})
DEEP = "[" * 1_000_000 + "]" * 1_000_000


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "", r"t\.csv is empty"),
        ("t.csv", "study,value,lr\n", r"t\.csv is empty"),
        ("t.csv", "study,value,lr\na\n", r"t\.csv: no row has as many cells"),
        ("t.csv", ",".join(f"c{k}" for k in range(50_000)) + "\n", r"t\.csv has 50000 columns"),
        ("t.csv", "study,value,lr,lr\na,1,2,3\n", r"t\.csv has 2 columns 'lr'"),
        ("t.csv", "study;value;lr\na;1,5;2\n", r"one column 'study;value;lr'.*by commas"),
        ("t.csv", "study,value,lr\na,abc,2\n", r"t\.csv: column 'value' must hold numbers: 'abc'"),
        ("t.csv", "study,value,lr\na,1,inf\n", r"t\.csv: column 'lr' has only numbers that are"),
        ("t.csv", f"study,value,lr\na,1,{'9' * 400}\n", r"column 'lr' has only numbers"),
        ("t.csv", "study,value," + ",".join(f"p{k}" for k in range(2000)) + "\na,1" + ",1" * 2000,
         r"2000 hyperparameters.*parameters="),
        ("t.jsonl", "", r"t\.jsonl is empty"),
        ("t.jsonl", '{"study": "a", "val', r"t\.jsonl cannot be read, line 1"),
        ("t.jsonl", f'{{"study": "a", "value": 1, "lr": {DEEP}}}', r"t\.jsonl, line 1: nested"),
        ("t.jsonl", "[1, 2]\n", r"line 1: a row is a JSON object"),
        ("t.jsonl", WIDE, r"t\.jsonl has 50000 columns"),
    ],
)  # fmt: skip
def test_bad_tables_name_the_file_and_the_column(tmp_path, name, text, message):
    with pytest.raises(ArchiveError, match=message):
        open_archive(table(tmp_path, text, name), direction="minimize")


def test_a_seed_of_64_bits_costs_no_trials(tmp_path):
    path = table(tmp_path, f"study,value,lr,seed\na,1,0.1,{2**62}\na,2,0.2,{2**61}\na,2,0.3,7")
    archive = open_archive(path, direction="minimize")
    assert len(archive.studies[0]) == 3 and set(archive.space.distributions) == {"lr"}
    assert "seed is not used: most of its numbers are infinite or too large" in archive.notes


def test_bad_rows_are_left_out_and_counted(tmp_path):
    rows = [
        '{"study": "a", "value": 1, "lr": 0.1}',
        '{"study": "a", "value": 2, "lr": Infinity}',
        '{"study": "a", "value": 2, "lr": %s}' % ("9" * 400),
        '{"study": "a", "value": %s, "lr": 0.2}' % ("9" * 400),
        '{"study": "a", "value": null, "lr": 0.3}',
    ]
    path = table(tmp_path, "\n".join(rows), "t.jsonl")
    archive = open_archive(path, direction="minimize")
    [study] = archive.studies
    assert [p["lr"] for p in study.params] == [0.1, 0.2, 0.3]
    assert study.status.count(OK) == 1 and math.isnan(study.values[1])
    assert "2 trials left out: lr is infinite or too large" in archive.notes
    path = table(tmp_path, "study,value,lr\na,1,0.1\na,2,0.2\na,3")
    archive = open_archive(path, direction="minimize")
    assert len(archive.studies[0]) == 2
    assert "1 row of t.csv left out: not as many cells as columns" in archive.notes
