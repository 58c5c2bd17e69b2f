"""Run histories of SMAC3 and projects of Keras Tuner, written by the tools, and damaged ones."""

from __future__ import annotations

import json
import math
import shutil

import pytest
from support import ROOT

from rankwise.archive import open_archive
from rankwise.errors import ArchiveError

DATA = ROOT / "tests" / "data" / "sources"
DEEP = '{"a": ' * 1_000_000


@pytest.fixture
def history(tmp_path):
    shutil.copytree(DATA / "smac_run", tmp_path / "smac3_output")
    return next((tmp_path / "smac3_output").rglob("runhistory.json"))


@pytest.fixture
def project(tmp_path):
    shutil.copytree(DATA / "keras_run" / "mnist", tmp_path / "mnist")
    return tmp_path / "mnist"


def test_a_run_history_of_smac(history):
    for address in (history, history.parent, history.parents[2]):
        [study] = open_archive(address).studies
        assert study.name == "forest/1" and study.direction == "minimize" and len(study) == 12
        assert study.status.count("failed") == 1
        assert set(study.distributions) == {"lr", "depth", "kind"}
        assert study.started is not None and study.seconds[0] > 0


def edited(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("configs"), "not a run history.*'configs'"),
        (lambda c: c["data"][0].pop("cost"), "trial 0 has no 'cost'"),
        (lambda c: c["data"][0].update(cost=[1, 2]), "trial 0 has 2 costs"),
        (lambda c: c["data"][0].update(cost="low"), "cost of trial 0 must be a number: 'low'"),
        (lambda c: c["data"].clear(), "no finished trials"),
        (
            lambda c: c["configs"].update({"1": {f"p{k}": 1 for k in range(50_000)}}),
            "5000. hyperparameters",
        ),
    ],
)
def test_damaged_run_histories(history, change, message):
    edited(history, change)
    with pytest.raises(ArchiveError, match=rf"(runhistory\.json|smac3).*{message}"):
        open_archive(history)


@pytest.mark.parametrize("text", ["", '{"data": [', DEEP, "[1]"])
def test_texts_that_are_no_run_histories(history, text):
    history.write_text(text)
    with pytest.raises(ArchiveError, match=r"runhistory\.json"):
        open_archive(history)


def test_bad_numbers_of_a_run_history(history):
    def change(content):
        content["data"][0]["cost"] = int("9" * 400)
        content["configs"]["2"]["lr"] = math.inf
        content["configs"]["3"]["lr"] = "auto"

    edited(history, change)
    archive = open_archive(history)
    assert math.isnan(archive.studies[0].values[0]) and len(archive.studies[0]) == 11
    assert "1 trial left out: lr is infinite or too large" in archive.notes


def test_a_project_of_keras_tuner(project):
    [study] = open_archive(project, metric="val_loss").studies
    assert study.name == "mnist" and study.direction == "minimize" and len(study) == 6
    assert set(study.distributions) == {"lr", "units", "dropout", "rate"}
    assert study.params[0]["dropout"] in (True, False) and min(study.values) < 0.3
    [best] = open_archive(project, metric="accuracy").studies
    assert best.direction == "maximize"
    [scored] = open_archive(project.parent, direction="minimize").studies
    assert scored.values.tolist() == study.values.tolist()
    with pytest.raises(ArchiveError, match="direction="):
        open_archive(project)  # a metric to minimize and one to maximize
    with pytest.raises(ArchiveError, match=r"trial\.json has no metric 'auc'.*accuracy, val_loss"):
        open_archive(project, metric="auc")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read as JSON"),
        ("{}", "not a trial of Keras Tuner"),
        ('{"trial_id": "0", "hyperpar', "cannot be read as JSON"),
        (DEEP, "nested too deeply"),
    ],
)
def test_damaged_trials_of_keras_tuner(project, text, message):
    (project / "trial_0" / "trial.json").write_text(text)
    with pytest.raises(ArchiveError, match=rf"trial\.json.*{message}"):
        open_archive(project, metric="val_loss")


def test_bad_numbers_of_keras_tuner(project):
    def change(content):
        content["metrics"]["metrics"]["val_loss"]["observations"][0]["value"] = [math.inf]
        content["hyperparameters"]["values"]["lr"] = int("9" * 400)

    edited(project / "trial_0" / "trial.json", change)
    archive = open_archive(project, metric="val_loss")
    assert len(archive.studies[0]) == 5
    edited(
        project / "trial_1" / "trial.json",
        lambda c: c["metrics"]["metrics"]["val_loss"].update(observations=3),
    )
    with pytest.raises(
        ArchiveError, match=r"trial\.json: the observations have an unknown layout"
    ):
        open_archive(project, metric="val_loss")
