"""The report of a study with several objectives."""

from __future__ import annotations

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState, create_trial

from rankwise import minimize
from rankwise.report import write_report


@pytest.fixture
def study():
    study = optuna.create_study(directions=["maximize", "minimize"], study_name="both")
    study.set_metric_names(["accuracy", "<b>seconds</b>"])
    for k, values in enumerate([(0.9, 30.0), (0.8, 5.0), (0.7, 9.0), (0.99, 1.0)]):
        study.add_trial(
            create_trial(
                values=values,
                params={"x": k / 10},
                distributions={"x": FloatDistribution(0, 1)},
                system_attrs={"constraints": [1.0 if k == 3 else -1.0]},
            )
        )
    study.add_trial(create_trial(state=TrialState.FAIL))
    return study


def test_the_page_has_the_front_and_the_trade_off(study, tmp_path):
    page = write_report(study, tmp_path / "report.html").read_text("utf-8")
    assert "2 trials are on the front." in page  # the infeasible trial is not
    assert "Best accuracy: 0.9 (trial 0; &lt;b&gt;seconds&lt;/b&gt; 30)." in page
    assert "Best &lt;b&gt;seconds&lt;/b&gt;: 5 (trial 1; accuracy 0.8)." in page
    assert "<b>seconds" not in page and "Hypervolume that the front dominates" in page
    assert "Importance" not in page and "How to reproduce" in page


def test_a_result_of_minimize_and_a_study_without_a_value(tmp_path):
    result = minimize(
        lambda c: (c["x"], 1 - c["x"], c["x"] ** 2),
        {"x": (0.0, 1.0)},
        trials=4,
        method="random",
        seed=0,
        direction=["minimize"] * 3,
    )
    page = write_report(result, tmp_path / "result.html").read_text("utf-8")
    assert "Best value 1" in page and page.count('class="plot"') >= 4
    empty = optuna.create_study(directions=["minimize"] * 2)
    page = write_report(empty, tmp_path / "empty.html").read_text("utf-8")
    assert "No trial has a value that keeps all constraints yet." in page
