"""RankwiseSearchCV with growing shares of the training rows."""

from __future__ import annotations

import math

import numpy as np
import optuna
import pytest
from optuna.pruners import NopPruner
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier
from support.estimators import BOWL, Slow

import rankwise
from rankwise import Encoder, RankwiseSearchCV, Trial, make_space
from rankwise.archive.past_tasks import past_tasks
from rankwise.errors import OptionError
from rankwise.integrations.sklearn import cv_results, search_loop
from rankwise.integrations.sklearn.rungs import (
    Folds,
    Rungs,
    Subsample,
    estimated_losses,
    goes_on,
    in_proportion,
)
from rankwise.integrations.sklearn.search_study import began, note_search
from rankwise.storage.study_log import StudyLog

ROWS = np.tile([[0.3, 0.6]], (1800, 1))


def search_of(archive=None, **arguments):
    arguments = {"n_trials": 12, "random_state": 0, "cv": 2, "successive": True, **arguments}
    return RankwiseSearchCV(Slow(), BOWL, archive=archive, **arguments)


# ---------------------------------------------------------------------- the parts


def test_every_beginning_has_the_classes_in_proportion():
    labels = np.array([0] * 90 + [1] * 9 + [2])
    order = in_proportion(labels, np.random.default_rng(0))
    assert sorted(order) == list(range(100))
    assert set(labels[order[:3]]) == {0, 1, 2}
    for n in range(10, 100, 10):
        counts = np.bincount(labels[order[:n]], minlength=3)
        assert abs(counts[0] - 0.9 * n) <= 2 and abs(counts[1] - 0.09 * n) <= 2
    assert not np.array_equal(order, in_proportion(labels, np.random.default_rng(1)))


def test_shares_grow_inside_the_same_folds():
    X, y = np.zeros((90, 1)), np.arange(90) % 3
    folds = Folds(StratifiedKFold(3, shuffle=True))
    whole = list(folds.split(X, y))
    small, large = (list(Subsample(folds, s, y, 0).split(X, y)) for s in (1 / 9, 1 / 3))
    for (a, test_a), (b, test_b), (train, test) in zip(small, large, whole, strict=True):
        assert len(a) == 7 and len(b) == 20 and len(train) == 60
        assert set(a) < set(b) < set(train)
        assert (np.diff(a) > 0).all()
        assert list(test_a) == list(test_b) == list(test)
        assert set(y[a]) == {0, 1, 2}


def test_small_data_have_fewer_shares():
    assert Rungs.of(10_000, 2).shares == (1 / 9, 1 / 3, 1.0)
    assert Rungs.of(10_000, 100).shares == (1 / 3, 1.0)
    assert Rungs.of(150, 3).shares == (1.0,)
    assert Rungs.of(900, None).n_resources(0) == 100


def test_the_best_third_goes_on():
    losses = [5.0, 3.0, math.nan, 4.0, 3.0, 1.0, 2.0, 9.0]
    assert [goes_on(k, losses) for k in range(8)] == [k in (5, 6) for k in range(8)]
    assert goes_on(0, [7.0]) and not goes_on(0, [math.nan])
    assert not goes_on(1, [2.0, 2.0]) and goes_on(0, [2.0, 2.0])


def test_a_trial_that_stopped_is_estimated_by_those_that_did_not():
    reached = {
        0: {0: 5.0, 1: 4.0, 2: 3.0},
        1: {0: 6.0, 1: 5.5, 2: 5.0},
        2: {0: 8.0},
        3: {0: 4.5, 1: 3.0},
        4: {0: math.nan},
        5: {0: 4.0, 1: 3.9, 2: math.nan},
    }
    # All data changed 0 and 1 by -2 and -1 from rung 0, and by -1 and -0.5 from rung 1.
    assert estimated_losses(reached, 2) == {2: 6.5, 3: 3.0}
    assert estimated_losses({0: {0: 1.0}}, 2) == {0: 1.0}


# ---------------------------------------------------------------------- the search


def test_few_trials_see_all_rows():
    search = search_of().fit(ROWS)
    results, study = search.cv_results_, search.result_.study
    rows = results["n_resources"]
    assert set(rows) == {200, 600, 1800}
    assert (rows == 200).sum() == 12 > (rows == 600).sum() >= (rows == 1800).sum() >= 1
    assert rows[search.best_index_] == 1800
    full = results["mean_test_score"][rows == 1800]
    assert search.best_score_ == full.max() == study.best_value
    states = [t.state.name for t in study.trials]
    assert states.count("COMPLETE") == (rows == 1800).sum()
    assert states.count("PRUNED") == 12 - (rows == 1800).sum()
    for trial in study.trials:
        mine = results["trial"] == trial.number
        expected = dict(zip(rows[mine], results["mean_test_score"][mine], strict=True))
        assert trial.intermediate_values == expected
    statuses = [t.status for t in search.result_.trials]
    assert [s == "pruned" for s in statuses] == [s == "PRUNED" for s in states]
    assert search.result_.best_trial.value == search.best_score_


def test_stopped_trials_teach_the_model():
    search = search_of(n_trials=20, method="gp").fit(ROWS)
    late = search.cv_results_["mean_test_score"][search.cv_results_["trial"] >= 14]
    early = search.cv_results_["mean_test_score"][search.cv_results_["trial"] < 6]
    assert np.median(late) > np.median(early)
    assert search.best_score_ > -0.01


class Above(optuna.pruners.BasePruner):
    """Stops what has less than a score after 200 rows."""

    def prune(self, study, trial):
        return trial.last_step == 200 and trial.intermediate_values[200] < -0.3


def test_a_pruner_decides_who_goes_on(tmp_path):
    archive = f"sqlite:///{tmp_path}/a.db"
    search = search_of(archive, method="random", pruner=Above(), name="a").fit(ROWS)
    study = optuna.load_study(study_name="a", storage=archive)
    stopped = 0
    for trial in study.trials:
        curve = trial.intermediate_values
        if curve[200] < -0.3:
            stopped += 1
            assert trial.state.name == "PRUNED" and list(curve) == [200]
        else:
            assert trial.state.name == "COMPLETE" and sorted(curve) == [200, 600, 1800]
    assert 0 < stopped < 12 and search.best_score_ == study.best_value
    assert clone(search).pruner is search.pruner


def test_past_searches_teach_the_pruner(tmp_path):
    archive = f"sqlite:///{tmp_path}/a.db"
    for k in range(2):
        search_of(archive, method="random", pruner=NopPruner(), name=f"p{k}", random_state=k).fit(
            ROWS
        )
    pruner = rankwise.RankwisePruner(archive, longest=1800)
    search = search_of(archive, method="random", pruner=pruner, random_state=9).fit(ROWS)
    assert set(pruner.past_) == {"p0", "p1"}
    assert "pruned" in [t.status for t in search.result_.trials]
    with pytest.raises(OptionError, match="successive=True"):
        search_of(pruner=pruner, successive=False).fit(ROWS)


class StopAt:
    __name__ = "score"

    def __init__(self, n: int) -> None:
        self.left = n

    def __call__(self, estimator, X, y=None):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return estimator.score(X)


def test_a_successive_search_goes_on_as_if_it_had_not_stopped(tmp_path):
    archive = f"sqlite:///{tmp_path}/a.db"
    whole = search_of(scoring=StopAt(0), method="gp").fit(ROWS)
    with pytest.raises(KeyboardInterrupt):
        search_of(archive, scoring=StopAt(23), method="gp", name="mine").fit(ROWS)
    states = [t.state.name for t in optuna.load_study(study_name="mine", storage=archive).trials]
    assert "PRUNED" in states and "RUNNING" in states
    resumed = search_of(archive, scoring=StopAt(0), method="gp", name="mine").fit(ROWS)
    for key in ("params", "mean_test_score", "n_resources"):
        assert list(resumed.cv_results_[key]) == list(whole.cv_results_[key])
    assert resumed.best_params_ == whole.best_params_


def test_a_stopped_trial_of_the_past_is_no_better_than_those_that_were_not():
    encoder, storage = Encoder(make_space(BOWL)), optuna.storages.InMemoryStorage()
    past = StudyLog(encoder, storage=storage, name="past", direction="maximize")
    past.report(1, {200: 0.9}, pruned=True)
    past.report(2, {200: 0.1}, pruned=True)
    for number, loss in enumerate([-0.7, -0.9, -0.1, -0.6]):
        past.finish(Trial(number, {"x": number / 4, "z": 0.5}, "ok", loss))
    mine = StudyLog(encoder, storage=storage, name="mine", direction="maximize")
    note_search(mine, {})
    [task] = past_tasks(storage, encoder, before=began(mine), exclude=["mine"]).tasks
    assert task.name == "past"
    assert list(task.y) == [-0.7, -0.7, -0.1, -0.6]


def test_classes_stay_in_proportion_and_small_data_are_searched_as_ever():
    X, y = make_classification(1200, weights=[0.8], random_state=0)
    search = RankwiseSearchCV(
        DecisionTreeClassifier(random_state=0),
        {"max_depth": (1, 8)},
        n_trials=6,
        cv=3,
        successive=True,
        random_state=0,
    )
    assert set(search.fit(X, y).cv_results_["n_resources"]) == {133, 400, 1200}
    assert set(search.fit(X[:90], y[:90]).cv_results_["n_resources"]) == {90}
    assert len(search.cv_results_["params"]) == 6
    assert {t.state.name for t in search.result_.study.trials} == {"COMPLETE"}


def test_the_bookkeeping_of_a_trial_does_not_grow_with_the_trials(monkeypatch):
    """`result()` after every trial recomputed all estimates for every row: cubic in the trials."""
    counts = dict.fromkeys(("scores", "estimates"), 0)
    scores, estimates = cv_results.Row.scores, search_loop.estimated_losses

    def counted_scores(self, *which):
        counts["scores"] += 1
        return scores(self, *which)

    def counted_estimates(reached, last):
        counts["estimates"] += 1
        return estimates(reached, last)

    monkeypatch.setattr(cv_results.Row, "scores", counted_scores)
    monkeypatch.setattr(search_loop, "estimated_losses", counted_estimates)
    callback = lambda trial, result: result.best_value  # noqa: E731
    search = search_of(n_trials=24, method="random", callbacks=[callback]).fit(ROWS)
    rows = len(search.cv_results_["params"])
    assert rows > 24  # several rungs
    assert counts["scores"] <= 5 * rows  # once for the mean, and to store and show it
    assert counts["estimates"] <= 2 * 24 + 1
