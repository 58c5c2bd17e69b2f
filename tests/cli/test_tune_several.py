"""`rankwise tune` with several metrics."""

from __future__ import annotations

import json
import re

import pytest
from support.shell import commands, enter, executed

SEVERAL = ("--metric", "accuracy,fit_seconds")
QUICK = ("--estimator", "decision-tree", "--trials", "3", "--cv", "2", "--past", "none")
FRUIT = ("tune", "fruit.csv", "--target", "good", *SEVERAL, *QUICK)


@pytest.fixture
def rankwise(tmp_path, monkeypatch, capsys):
    enter(tmp_path, monkeypatch)
    return commands(monkeypatch, capsys)


def dominates(one, other):
    better = one["accuracy"] >= other["accuracy"], one["fit_seconds"] <= other["fit_seconds"]
    return all(better) and one != other


def test_the_front_and_the_model_of_the_first_metric(rankwise, tmp_path):
    found = rankwise(*FRUIT, "--report", "fruit.html", "--json")
    assert found.code == 0, found.err
    facts = json.loads(found.out)
    values = [one["values"] for one in facts["front"]]
    assert facts["metrics"] == ["accuracy", "fit_seconds"] and values
    assert not any(dominates(a, b) for a in values for b in values)
    best = facts["front"][0]  # best in the first metric first
    assert facts["best"]["trial"] == best["trial"]
    assert facts["best"]["score"] == pytest.approx(best["values"]["accuracy"])
    assert facts["held_out"]["tuned"]["score"] > 0
    executed(facts["code"])
    page = (tmp_path / "fruit.html").read_text("utf-8")
    assert "fit_seconds" in page and "Pareto" in page


def test_the_choice_changes_the_model_and_not_the_study(rankwise):
    first = rankwise(*FRUIT)
    assert "Pareto front" in first.out and "(chosen)" in first.out and "fit_seconds" in first.out
    name = re.search(r"rankwise resume (\S+)", first.err)[1]
    fastest = json.loads(rankwise(*FRUIT, "--choose", "fit_seconds", "--json").out)
    assert fastest["study"] == name and fastest["trials"] == 3  # nothing is evaluated again
    assert fastest["best"]["trial"] == fastest["front"][-1]["trial"]
    again = rankwise("resume", name, "--choose", "compromise", "--trials", "4", "--json")
    facts = json.loads(again.out)
    assert facts["trials"] == 4 and facts["metrics"] == ["accuracy", "fit_seconds"]
    assert facts["best"]["trial"] in [one["trial"] for one in facts["front"]]


def test_several_estimators_and_scores(rankwise):
    found = rankwise(
        *("tune", "fruit.csv", "--target", "good", "--cv", "2", "--past", "none"),
        *("--trials", "2", "--metric", "log_loss,roc_auc,fit_seconds", "--choose", "log_loss"),
        *("--archive", "none", "--json"),
    )
    assert found.code == 0, found.err
    facts = json.loads(found.out)
    assert facts["metrics"] == ["neg_log_loss", "roc_auc", "fit_seconds"]
    assert facts["best"]["trial"] == facts["front"][0]["trial"]
    assert facts["estimator"] == facts["front"][0]["estimator"]
    assert facts["best"]["params"].keys() == facts["front"][0]["params"].keys()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--metric", "accuracy,fit_secs"), r"unknown metric 'fit_secs'.*Did you mean 'fit_sec"),
        (("--metric", "fit_seconds"), "has no score"),
        (("--metric", "accuracy,accuracy"), "up to 4 different metrics"),
        (("--metric", "accuracy,r2"), "metric 'r2' does not go with"),
        ((*SEVERAL, "--choose", "speed"), r"unknown choice 'speed'; valid: accuracy, compromise"),
        (("--choose", "accuracy"), "--choose needs several metrics"),
        ((*SEVERAL, "--compare"), "--compare needs one metric"),
    ],
)
def test_mistakes(rankwise, words, message):
    found = rankwise("tune", "fruit.csv", "--target", "good", *QUICK, *words)
    assert found.code == 2 and re.search(message, found.err), found.err


def test_a_study_of_other_metrics_is_refused(rankwise):
    assert rankwise(*FRUIT, "--name", "mine").code == 0
    single = ("tune", "fruit.csv", "--target", "good", *QUICK, "--name", "mine")
    other = rankwise(*single)
    assert other.code == 1 and "--metric" in other.err
