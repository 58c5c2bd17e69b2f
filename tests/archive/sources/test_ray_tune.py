"""Ray Tune's folders, as a real run wrote them, and damaged ones."""

from __future__ import annotations

import json
import math
import shutil

import pytest
from support import ROOT

from rankwise.archive import open_archive
from rankwise.errors import ArchiveError

DATA = ROOT / "tests" / "data" / "sources"
GOAL = {"metric": "loss", "direction": "minimize"}


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(DATA / "ray_run", tmp_path / "ray_run")
    return tmp_path / "ray_run"


def test_an_experiment_is_a_study(folder):
    archive = open_archive(folder, **GOAL)
    [study] = archive.studies
    assert study.name == "ray_run" and len(study) == 6 and study.status.count("failed") == 2
    assert study.params[0] == {"lr": 0.001, "model/depth": 1, "optimizer": "adam"}
    assert study.curves[0] == pytest.approx({1: 1.000081, 2: 0.500081, 3: 0.333414}, abs=1e-5)
    assert study.values[0] == study.curves[0][3] and study.seconds[0] > 0
    assert study.started is not None


def test_a_folder_of_experiments(folder):
    shutil.copytree(folder, folder.parent / "second")
    assert [s.name for s in open_archive(folder.parent, **GOAL).studies] == ["ray_run", "second"]


def test_the_metric_has_to_be_said(folder):
    with pytest.raises(ArchiveError, match=r"result\.json reports several.*metric=.*loss"):
        open_archive(folder, direction="minimize")
    with pytest.raises(ArchiveError, match=r"result\.json has no metric 'auc'"):
        open_archive(folder, metric="auc", direction="minimize")


def test_damaged_results_are_left_out_and_counted(folder):
    file = next(folder.glob("*00000*/result.json"))
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], lines[1][:30], "[" * 1_000_000, "3"]))
    archive = open_archive(folder, **GOAL)
    assert archive.studies[0].values[0] == pytest.approx(1.000081)
    assert "3 damaged lines of result.json left out" in archive.notes
    result = json.loads(lines[0])
    for loss in (math.inf, int("9" * 400)):
        file.write_text(json.dumps({**result, "loss": loss}))
        assert math.isnan(open_archive(folder, **GOAL).studies[0].values[0])
    file.write_text(json.dumps({**result, "loss": "low"}))
    with pytest.raises(ArchiveError, match=r"result\.json: metric 'loss' must be a number: 'low'"):
        open_archive(folder, **GOAL)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"params\.json cannot be read as JSON"),
        ('{"lr": 0.', r"params\.json cannot be read as JSON"),
        ("[1]", r"params\.json is not a configuration"),
        ('{"a": ' * 1_000_000, r"params\.json cannot be read: it is nested too deeply"),
        (json.dumps({f"p{k}": 1 for k in range(50_000)}), r"ray_run has 5000\d hyperparameters"),
    ],
)
def test_damaged_configurations(folder, text, message):
    next(folder.glob("*00000*/params.json")).write_text(text)
    with pytest.raises(ArchiveError, match=message):
        open_archive(folder, **GOAL)


def test_bad_values_of_a_configuration(folder):
    file = next(folder.glob("*00000*/params.json"))
    file.write_text('{"lr": Infinity, "model": {"depth": 1}, "optimizer": "adam"}')
    archive = open_archive(folder, **GOAL)
    assert len(archive.studies[0]) == 5
    assert "1 trial left out: lr is infinite or too large" in archive.notes
    file.write_text('{"lr": "high", "model": {"depth": 1}, "optimizer": null}')
    assert open_archive(folder, **GOAL).studies[0].params[0]["lr"] == "high"
