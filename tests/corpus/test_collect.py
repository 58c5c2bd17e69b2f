"""The collector of the built-in past: files, resuming, limits, and what is never written."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from support import ROOT

sys.path.insert(0, str(ROOT))
from benchmarks.builtin import collect, evaluate, groups
from benchmarks.builtin.datasets import load
from benchmarks.builtin.library import CLASSIFICATION, REGRESSION, Learner

SECRET = 123.456789  # a value of one cell, which no result may contain


@pytest.fixture
def data(tmp_path):
    """A folder of two small data sets, one of each kind."""
    rng = np.random.default_rng(0)
    X = rng.random((60, 3)).astype(np.float32)
    X[0, 0] = SECRET
    tables = {
        "tabular/threes": (X.sum(axis=1) * 2).astype(np.int16) % 3,
        "tabular-regression/sums": X.sum(axis=1).astype(float),
    }
    for name, y in tables.items():
        path = tmp_path / "data" / f"{name}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = {"feature_names": np.array(["a", "b", "c"]), "cat": np.zeros(3, dtype=bool)}
        np.savez(path, X=X, y=y, **columns)
    return tmp_path / "data"


def run(data, out, *words) -> None:
    collect.run(collect.parse(["--data", str(data), "--out", str(out), *words]))


def content(out, *cell) -> dict:
    return json.loads(out.joinpath(*cell).with_suffix(".json").read_text())


def test_a_file_per_learner_and_data_set(data, tmp_path, capsys):
    run(data, tmp_path, "--learners", "ridge")
    for kind, name, metric in (
        (CLASSIFICATION, "threes", "accuracy"),
        (REGRESSION, "sums", "r2"),
    ):
        columns = content(tmp_path, "ridge", kind, name)["columns"]
        assert len({len(column) for column in columns.values()}) == 1
        assert columns["design"][0] == "default" and columns["design"].count("shared") == 24
        assert set(columns["status"]) == {"ok"}
        assert all(np.isfinite(columns[metric])) and all(np.isfinite(columns[f"{metric}_std"]))
    assert "2/2" in capsys.readouterr().out


def test_a_repeated_command_evaluates_only_what_is_missing(data, tmp_path, capsys):
    run(data, tmp_path, "--learners", "lasso")
    whole = content(tmp_path, "lasso", REGRESSION, "sums")
    cut = {
        **whole,
        "columns": {name: column[:10] + column[12:] for name, column in whole["columns"].items()},
    }
    path = tmp_path / "lasso" / REGRESSION / "sums.json"
    path.write_text(json.dumps(cut))
    capsys.readouterr()
    run(data, tmp_path, "--learners", "lasso")
    assert "2 evaluations" in capsys.readouterr().out
    run(data, tmp_path, "--learners", "lasso")
    assert "0 new evaluations" in capsys.readouterr().out
    path.write_text("damaged")
    run(data, tmp_path, "--learners", "lasso")
    again = content(tmp_path, "lasso", REGRESSION, "sums")["columns"]
    assert again["r2"] == whole["columns"]["r2"]


def test_shared_configurations_are_the_same_for_all_data_sets():
    learner = Learner.of("svc", CLASSIFICATION)
    first, second = learner.designs("a"), learner.designs("b")
    assert first[:25] == second[:25] and first[25:] != second[25:]
    assert learner.designs("a") == first


def test_rows_are_never_written(data, tmp_path):
    run(data, tmp_path, "--learners", "decision-tree")
    written = list(tmp_path.glob("**/*.json"))
    assert len(written) == 4  # two of the learner, two contexts
    for path in written:
        assert f"{SECRET:.3f}"[:6] not in path.read_text()


def test_an_evaluation_over_the_limit_is_recorded_as_such(data):
    problem = evaluate.Problem(
        Learner.of("ridge", REGRESSION), load(data, REGRESSION, "sums"), folds=3
    )

    def endless(configuration):
        while configuration["alpha"] < 1:
            pass
        return {"status": "ok"}

    problem.evaluate = endless
    evaluator = evaluate.Evaluator(problem, limit=0.2)
    try:
        assert evaluator({"alpha": 0.5}) == {"status": "timeout"}
        assert evaluator({"alpha": 2.0}) == {"status": "ok"}  # by a new process
    finally:
        evaluator.close()


def test_a_failed_evaluation_is_recorded_with_its_error(data):
    problem = evaluate.Problem(
        Learner.of("ridge", REGRESSION), load(data, REGRESSION, "sums"), folds=3
    )
    evaluator = evaluate.Evaluator(problem, limit=20)
    try:
        result = evaluator({"alpha": "no number"})
    finally:
        evaluator.close()
    assert result["status"] == "failed" and "alpha" in result["error"]


def test_curves_end_with_the_final_score(data, tmp_path):
    problem = evaluate.Problem(
        Learner.of("hist-gradient-boosting", CLASSIFICATION),
        load(data, CLASSIFICATION, "threes"),
        folds=3,
    )
    learner = problem.learner
    result = problem.evaluate({**learner.encoder.default, "max_iter": 50})
    assert len(result["curve"]["accuracy"]) == 8
    assert result["curve"]["accuracy"][-1] == pytest.approx(result["accuracy"], abs=1e-4)
    assert result["curve"]["log_loss"][-1] == pytest.approx(result["log_loss"], rel=1e-3)


def test_near_duplicates_are_grouped(data):
    with np.load(data / "tabular" / "threes.npz") as file:
        arrays = dict(file)
    np.savez(data / "tabular" / "twin.npz", **{**arrays, "y": arrays["y"] % 2})
    other = {**arrays, "X": arrays["X"] + 1, "feature_names": np.array(["d", "e", "f"])}
    np.savez(data / "tabular" / "other.npz", **other)
    found = list(groups.pairs(data, CLASSIFICATION))
    assert groups.components(found) == [["threes", "twin"]]
