"""Scores on held-out rows and what is said about them."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.tree import DecisionTreeClassifier
from support.shell import commands, enter

from rankwise.cli.tune.scores import held_out, interval_of, wilson
from rankwise.tabular import Problem


@pytest.fixture
def rankwise(tmp_path, monkeypatch, capsys):
    enter(tmp_path, monkeypatch)
    return commands(monkeypatch, capsys)


def problem(y, **columns):
    frame = pd.DataFrame({"x": np.arange(len(y)), **columns, "y": y})
    return Problem.of(frame, "y")


@pytest.mark.parametrize("n", [10, 30, 200])
@pytest.mark.parametrize("share", [0.6, 0.9, 0.97])
def test_intervals_of_proportions_cover_the_truth(n, share):
    found = np.random.default_rng(0).binomial(n, share, size=2000) / n
    ends = np.array([wilson(f, n) for f in found])
    covered = np.mean((ends[:, 0] <= share) & (share <= ends[:, 1]))
    assert covered >= 0.9  # the bootstrap covers 0.6 of 30 rows at a share of 0.97


@pytest.mark.parametrize("metric", ["accuracy", "roc_auc", "balanced_accuracy", "f1"])
def test_no_mistake_among_few_rows_is_no_certainty(metric):
    held = problem(np.repeat([0, 1], [24, 6]))
    model = DecisionTreeClassifier().fit(held.X, held.y)
    found = held_out(model, held, metric)
    assert found.score == 1 and found.error == 0
    low, high = found.interval
    assert high == pytest.approx(1) and low == pytest.approx(
        wilson(1, 30 if metric == "accuracy" else 6)[0]
    )


def test_a_class_without_held_out_rows_gives_no_number_and_no_warning(recwarn):
    held = problem(np.repeat([0, 1], [20, 2]))
    model = DummyClassifier().fit(held.X, held.y)
    found = held_out(model, held.some(np.arange(20)), "roc_auc")
    assert np.isnan([found.score, found.error, *found.interval]).all()
    assert not recwarn.list


def test_the_error_of_a_regression_is_that_of_the_bootstrap():
    y = np.random.default_rng(0).normal(size=50)
    held = problem(y)
    found = held_out(DummyRegressor().fit(held.X, held.y), held, "neg_mean_squared_error")
    low, high = found.interval
    assert low < found.score < high and high - low == pytest.approx(2 * 1.96 * found.error)


@pytest.mark.parametrize(
    ("metric", "score", "best"),
    [("r2", 0.99, 1.0), ("neg_mean_absolute_error", -0.01, 0.0), ("d2_pinball_score", 0.99, 1.0)],
)
def test_no_interval_goes_beyond_the_best_score(metric, score, best):
    held = problem(np.linspace(0, 1, 20))
    assert interval_of(score, 0.1, metric, held) == pytest.approx((score - 0.196, best))
    low, high = interval_of(score - 1, 0.1, metric, held)
    assert high - (score - 1) == pytest.approx(score - 1 - low)


def test_a_perfect_score_comes_with_an_interval(rankwise):
    x = np.random.default_rng(0).normal(size=60)
    pd.DataFrame({"x": x, "y": x > 0}).to_csv("easy.csv", index=False)
    words = ("tune", "easy.csv", "--target", "y", "--metric", "accuracy", "--archive", "none")
    found = rankwise(*words, "--estimator", "decision-tree", "--trials", "2")
    assert "on new rows expect 1 (95 % interval 0.7575 to 1, from 12 held-out rows" in found.err
    assert "the same as with the default configuration" in found.err
    assert "± 0" not in found.err and "nan" not in found.err + found.out


def test_what_cannot_be_estimated_is_a_sentence(rankwise):
    x = np.random.default_rng(0).normal(size=60)
    y = np.where(np.arange(60) < 2, "rare", "usual")
    pd.DataFrame({"x": x, "y": y}).to_csv("rare.csv", index=False)
    words = ("tune", "rare.csv", "--target", "y", "--archive", "none", "--trials", "1")
    found = rankwise(*words, "--estimator", "decision-tree")
    assert (
        "roc_auc cannot be computed on the 12 held-out rows: they have no row of class"
        in found.err
    )
    assert "'rare'" in found.err and "best of 1 trial:" in found.out
    assert "nan" not in found.err + found.out
    facts = json.loads(rankwise(*words, "--estimator", "decision-tree", "--json").out)
    assert facts["held_out"]["tuned"] == {"score": None, "error": None, "interval": None}
