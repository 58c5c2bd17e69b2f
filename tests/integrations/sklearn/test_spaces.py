"""RankwiseSearchCV: spaces of all kinds, and several estimators to choose from."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.stats
import sklearn
from ConfigSpace import ConfigurationSpace, Float
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from support.estimators import BOWL, Bowl, bowl_data

from rankwise import RankwiseSearchCV, estimators

X, Y = load_iris(return_X_y=True)


def test_a_pipeline_with_a_ready_made_space():
    search = RankwiseSearchCV(make_pipeline(StandardScaler(), SVC()), n_trials=4, cv=3)
    search.set_params(random_state=0).fit(X, Y)
    assert search.best_score_ > 0.9
    assert all(name.startswith("svc__") for name in search.best_params_)
    assert search.result_.study.user_attrs["rankwise:search"]["space"] == "svc"


SPACES = {
    "distributions": {"x": scipy.stats.uniform(0, 1), "z": [0.25, 0.5, 0.75]},
    "list": [{"x": [0.1, 0.3]}, {"z": (0.0, 1.0)}],
    "ConfigSpace": ConfigurationSpace([Float("x", (0.0, 1.0))]),
    "made before": estimators.space_from(Bowl(), BOWL),
}


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_spaces_of_other_kinds(space):
    search = RankwiseSearchCV(Bowl(), space, n_trials=5, cv=2, random_state=0)
    params = clone(search).fit(bowl_data()).cv_results_["params"]
    assert len(params) == 5 or len(params) == len({str(p) for p in params})
    assert all(0 <= value <= 1 for p in params for value in p.values())


def test_a_finite_space_is_used_up():
    search = RankwiseSearchCV(Bowl(), {"x": [0.1, 0.2, 0.3]}, n_trials=9, cv=2)
    assert sorted(p["x"] for p in search.fit(bowl_data()).cv_results_["params"]) == [0.1, 0.2, 0.3]
    assert search.result_.stopped == "exhausted"


def choice_search(**arguments):
    several = [SVC(), DecisionTreeClassifier()]
    spaces = [{"C": (0.1, 10.0, "log")}, {"max_depth": (1, 4)}]
    arguments = {"n_trials": 8, "cv": 3, "random_state": 0, "method": "random", **arguments}
    return RankwiseSearchCV(several, spaces, **arguments)


def test_choosing_among_estimators():
    search = choice_search()
    assert is_classifier(search)
    search.fit(X, Y)
    chosen = {"svc": SVC, "decision-tree": DecisionTreeClassifier}
    name = search.best_params_["estimator"]
    assert set(search.cv_results_["param_estimator"]) == set(chosen)
    assert type(search.best_estimator_) is chosen[name]
    own = {k.removeprefix(f"{name}__"): v for k, v in search.best_params_.items()}
    assert own.items() - {("estimator", name)} <= search.best_estimator_.get_params().items()
    again = pickle.loads(pickle.dumps(search))
    assert (again.predict(X) == search.predict(X)).all()
    assert again.score(X, Y) == search.score(X, Y)
    scores = cross_val_score(clone(search).set_params(n_trials=2), X, Y, cv=3)
    assert scores.min() > 0.5


def test_choosing_among_estimators_with_weights_and_jobs():
    weights = np.where(Y == 2, 0.0, 1.0)
    search = choice_search(n_trials=4, n_jobs=2).fit(X, Y, sample_weight=weights)
    assert 2 not in search.predict(X)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = choice_search(n_trials=4)
        for estimator in routed.estimator:
            estimator.set_fit_request(sample_weight=True)
            estimator.set_score_request(sample_weight=False)
        routed.fit(X, Y, sample_weight=weights)
    assert (
        routed.cv_results_["params"] == choice_search(n_trials=4).fit(X, Y).cv_results_["params"]
    )
    assert 2 not in routed.predict(X)


def test_a_choice_is_resumed(tmp_path):
    arguments = {"archive": f"sqlite:///{tmp_path}/a.db", "name": "mine"}
    whole = choice_search(n_trials=5).fit(X, Y)
    choice_search(n_trials=3, **arguments).fit(X, Y)
    resumed = choice_search(n_trials=5, **arguments).fit(X, Y)
    assert resumed.cv_results_["params"] == whole.cv_results_["params"]
    assert type(resumed.best_estimator_) is type(whole.best_estimator_)
    assert resumed.best_params_ == whole.best_params_
