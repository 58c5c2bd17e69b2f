"""What is built from records, and the tables of their evaluation."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from support import ROOT

sys.path.insert(0, str(ROOT))
from benchmarks.builtin import first_proposal, summarize_past
from benchmarks.builtin.build import complete_tables
from benchmarks.builtin.evaluate_past import regrets
from benchmarks.builtin.library import Learner
from rankwise.history.task import Task


def test_only_data_sets_with_the_whole_shared_design_are_built(tmp_path):
    designs = Learner.of("ridge", "regression").designs("a")
    shared = [row for row in designs if row[0] != "own"]
    folder = tmp_path / "ridge" / "regression"
    folder.mkdir(parents=True)
    own = designs[len(shared) :][:2]
    for name, rows in (("whole", shared), ("part", shared[:-1] + own)):
        columns = dict(zip(("design", "configuration"), zip(*rows, strict=True), strict=True))
        (folder / f"{name}.json").write_text(json.dumps({"columns": columns}))
    assert list(complete_tables(tmp_path, "ridge", "regression")) == ["whole"]


def test_a_trial_outside_of_the_records_counts_and_may_beat_them():
    task = Task.of(np.linspace(0, 1, 4)[:, None], np.array([3.0, 2.0, 1.0, 5.0]))
    curve = regrets(task, "flaml", lambda history, pool, rng: 0, 0, before=(0.0,))
    assert curve == [-0.25] * 5
    assert regrets(task, "mbo", lambda history, pool, rng: 0, 0)[0] == 0.5  # the default is first


def results(**curves):
    """Regret curves of 20 trials on eight data sets, equal for every data set."""
    names = [f"d{k}" for k in range(8)]
    return {
        method: {("svc", "classification"): {n: [v - k * 1e-4 for k in range(20)] for n in names}}
        for method, v in curves.items()
    }


def test_aims_compare_methods_on_the_same_data_sets():
    found = results(**{"eb-gp": 0.1, "default": 0.2, "portfolio": 0.2, "random": 0.05, "mbo": 0.3})
    del found["mbo"]["svc", "classification"]["d0"]
    assert (
        len(summarize_past.common(found, ("eb-gp", "mbo"))["eb-gp"]["svc", "classification"]) == 7
    )
    rows = {row[0]: row[1:] for row in summarize_past.aims(found)["rows"]}
    met = {aim: state for aim, (_, state) in rows.items()}
    assert met["3 trials as good as 10 random ones"] == "missed"
    assert met["5 trials as good as 20 of mbo"] == "met"
    assert met["no learner worse than mbo after 20 by more than noise"] == "met"
    assert rows["first proposal better than the default on 60 % of data sets"][0] == "100%"
    assert "-1.000" in rows["better average rank than portfolio of the built-in past after 3"][0]


@pytest.mark.parametrize(("least", "chosen"), [(0.5, 1), (0.7, 0)])
def test_a_rule_that_falls_back_to_the_default(least, chosen):
    scores = np.array([[0.0, 0.0, 0.0], [-3.0, -1.0, 1.0]])  # the default; better on two of three
    weights = np.full(3, 1 / 3)
    assert first_proposal.best_mean(scores, weights) == 1
    assert first_proposal.gated(least)(scores, weights) == chosen
