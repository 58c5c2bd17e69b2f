"""Several objectives of a search: which results they have, and what teaches them."""

from __future__ import annotations

import numpy as np
import optuna
import pytest
from sklearn.datasets import make_classification
from sklearn.exceptions import FitFailedWarning
from sklearn.tree import DecisionTreeClassifier

from rankwise import RankwiseSearchCV
from rankwise.archive.past_tasks import past_tasks
from rankwise.errors import OptionError, StudyMismatchError, UnknownNameError
from rankwise.estimators import space_of
from rankwise.history.task import TaskSet
from rankwise.integrations.sklearn.objectives import seconds_of
from rankwise.space.encoder import Encoder

X, Y = make_classification(120, 5, random_state=0)
BOTH = ["accuracy", "fit_seconds"]


def search(**more):
    options = {"n_trials": 6, "cv": 2, "past": None, "random_state": 0, "objectives": BOTH}
    return RankwiseSearchCV(
        DecisionTreeClassifier(random_state=0), **{"scoring": "accuracy", **options, **more}
    )


@pytest.fixture
def storage():
    return optuna.storages.InMemoryStorage()


def test_the_front_decides_what_is_best(storage):
    found = search(archive=storage, name="both").fit(X, Y)
    study = optuna.load_study(study_name="both", storage=storage)
    assert study.metric_names == BOTH
    assert [d.name for d in study.directions] == ["MAXIMIZE", "MINIMIZE"]
    accuracy, seconds = (found.cv_results_[k] for k in ("mean_test_score", "mean_fit_time"))
    best = found.best_index_
    assert accuracy[best] == accuracy.max() == found.best_score_
    assert seconds[best] == seconds[accuracy == accuracy.max()].min()  # of a tie the fastest
    front = {trial.number for trial in found.result_.front}
    assert front == {trial.number for trial in study.best_trials}
    fastest = search(archive=storage, name="both", choose="fit_seconds").fit(X, Y)
    assert fastest.cv_results_["mean_fit_time"][fastest.best_index_] == seconds.min()
    middle = search(archive=storage, name="both", choose="compromise").fit(X, Y)
    assert middle.result_.best_trial.number == middle.cv_results_["trial"][middle.best_index_]


def test_searches_teach_each_other(storage):
    search(archive=storage, name="one", objectives=None).fit(X, Y)
    several = search(archive=storage, name="both", past="own").fit(X, Y)
    assert several.past_ == ["one"]
    single = search(archive=storage, name="next", objectives=None, past="own").fit(X, Y)
    assert set(single.past_) == {"one", "both"}
    other = search(archive=storage, name="r", objectives=None, scoring="roc_auc", past="own").fit(
        X, Y
    )
    assert "both" not in other.past_  # it has no objective of that name


def test_seconds_of_past_studies_are_an_objective(storage):
    search(archive=storage, name="one", objectives=None).fit(X, Y)
    encoder = Encoder(space_of(DecisionTreeClassifier()).space)
    past = past_tasks(storage, encoder, metric="accuracy")
    [task] = seconds_of(past).tasks
    assert len(task) == 6 and np.array_equal(np.argsort(task.y), np.argsort(past.tasks[0].cost))
    unknown = past.tasks[0].single(past.tasks[0].y)
    object.__setattr__(unknown, "cost", np.full(6, np.nan))
    assert not seconds_of(TaskSet((unknown,))).tasks


def test_the_builtin_past_teaches_scores_and_seconds():
    found = search(past="builtin", n_trials=2).fit(X, Y)
    assert found.builtin_ and "built-in studies" in found.past_text_
    assert found.result_.study.trials[0].user_attrs["rankwise:origin"] == "past studies"


def test_a_fit_that_fails_has_no_values():
    class Sometimes(DecisionTreeClassifier):
        def fit(self, X, y):
            if self.max_depth == 3:
                raise ValueError("no")
            return super().fit(X, y)

    with pytest.warns(FitFailedWarning):
        found = RankwiseSearchCV(
            Sometimes(random_state=0),
            {"max_depth": (2, 5)},
            scoring="accuracy",
            objectives=BOTH,
            n_trials=4,
            cv=2,
            past=None,
            random_state=0,
        ).fit(X, Y)
    assert [t.status for t in found.result_.trials].count("failed") == 1
    assert found.best_params_["max_depth"] != 3


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"objectives": ["accuracy", "seconds"]}, UnknownNameError, "fit_seconds"),
        ({"objectives": ["accuracy"]}, OptionError, "two to 4"),
        ({"objectives": "accuracy"}, ValueError, "objectives"),
        ({"objectives": ["fit_seconds", "score_seconds"]}, OptionError, "at least one"),
        ({"successive": True}, OptionError, "one objective"),
        ({"choose": "speed"}, UnknownNameError, "compromise"),
        ({"objectives": None, "choose": "accuracy"}, OptionError, "several objectives"),
        ({"method": "portfolio", "past": "builtin"}, OptionError, "no model"),
    ],
)
def test_mistakes(options, error, message):
    with pytest.raises(error, match=message):
        search(**options).fit(X, Y)


def test_a_study_of_other_objectives_is_not_resumed(storage):
    search(archive=storage, name="both").fit(X, Y)
    with pytest.raises(StudyMismatchError, match="maximize and minimize"):
        search(archive=storage, name="both", objectives=None).fit(X, Y)
    objectives = ["accuracy", "score_seconds"]
    with pytest.raises(StudyMismatchError, match="objectives"):
        search(archive=storage, name="both", objectives=objectives).fit(X, Y)
