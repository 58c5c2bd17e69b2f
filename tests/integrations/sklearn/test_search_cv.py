"""RankwiseSearchCV as scikit-learn knows a search."""

from __future__ import annotations

import pickle
import re
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.stats
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    ShuffleSplit,
    cross_val_score,
    cross_validate,
)
from sklearn.tree import DecisionTreeClassifier
from support.estimators import BOWL, Bowl, bowl_data

from rankwise import RankwiseSearchCV
from rankwise.errors import RunWarning, SpaceError, UnknownNameError

X, Y = load_iris(return_X_y=True)
TREE = {"max_depth": (1, 6), "min_samples_leaf": (1, 30, "log")}


def bowl_search(**arguments):
    arguments = {"n_trials": 6, "random_state": 0, "cv": 3, **arguments}
    return RankwiseSearchCV(Bowl(), BOWL, **arguments)


def tree_search(**arguments):
    arguments = {"n_trials": 4, "random_state": 0, "cv": 3, "method": "random", **arguments}
    return RankwiseSearchCV(DecisionTreeClassifier(random_state=0), TREE, **arguments)


def test_finds_the_best_and_scores_it_as_scikit_learn_does():
    search = tree_search(n_trials=6).fit(X, Y)
    results = search.cv_results_
    assert len(results["params"]) == len(search.result_.trials) == 6
    for params, mean in zip(results["params"], results["mean_test_score"], strict=True):
        tree = DecisionTreeClassifier(random_state=0, **params)
        assert mean == pytest.approx(cross_val_score(tree, X, Y, cv=3).mean())
    assert search.best_score_ == results["mean_test_score"].max()
    assert search.best_params_ == results["params"][search.best_index_]
    assert results["rank_test_score"][search.best_index_] == 1
    assert search.best_estimator_.get_params()["max_depth"] == search.best_params_["max_depth"]
    assert search.score(X, Y) == accuracy_score(Y, search.predict(X))
    assert search.n_splits_ == 3 and search.refit_time_ > 0
    assert list(search.classes_) == [0, 1, 2] and search.n_features_in_ == 4


def test_models_search_better_than_chance():
    found = [
        bowl_search(n_trials=16, method=method, random_state=seed).fit(bowl_data()).best_score_
        for method in ("gp", "random")
        for seed in range(3)
    ]
    assert np.mean(found[:3]) > -1e-3 > np.mean(found[3:])


def test_the_same_random_state_gives_the_same_trials():
    first, second, other = (
        bowl_search(random_state=seed).fit(bowl_data()).cv_results_["params"] for seed in (3, 3, 4)
    )
    assert first == second != other
    drawn = [bowl_search(random_state=np.random.RandomState(5)).fit(bowl_data()) for _ in range(2)]
    assert drawn[0].cv_results_["params"] == drawn[1].cv_results_["params"]
    any_two = [bowl_search(random_state=None).fit(bowl_data()).best_params_ for _ in range(2)]
    assert any_two[0] != any_two[1]


def test_jobs_are_proposed_in_batches_that_repeat():
    searches = [bowl_search(n_trials=5, n_jobs=2, method="gp").fit(bowl_data()) for _ in range(2)]
    params = [search.cv_results_["params"] for search in searches]
    assert params[0] == params[1]
    assert len({p["x"] for p in params[0]}) == 5
    assert searches[0].result_.study.user_attrs["rankwise:n_jobs"] == 2


# ---------------------------------------------------------------------- metrics


def test_of_several_metrics_the_one_of_refit_is_optimized():
    search = tree_search(scoring=["accuracy", "f1_macro"], refit="f1_macro").fit(X, Y)
    results = search.cv_results_
    assert search.multimetric_
    assert search.best_score_ == results["mean_test_f1_macro"].max()
    assert [t.value for t in search.result_.trials] == list(results["mean_test_f1_macro"])
    trial = search.result_.study.trials[2]
    assert trial.user_attrs["rankwise:scores"]["accuracy"] == results["mean_test_accuracy"][2]
    assert trial.user_attrs["rankwise:folds"][1] == results["split1_test_f1_macro"][2]


def test_without_refit_the_first_metric_is_optimized():
    search = tree_search(scoring=["f1_macro", "accuracy"], refit=False).fit(X, Y)
    assert [t.value for t in search.result_.trials] == list(
        search.cv_results_["mean_test_f1_macro"]
    )
    assert not hasattr(search, "best_estimator_")
    with pytest.raises(ValueError, match="refit must be set"):
        tree_search(scoring=["accuracy", "f1_macro"]).fit(X, Y)


def test_refit_may_be_a_function():
    search = tree_search(refit=lambda results: int(np.argmin(results["mean_test_score"])))
    search.fit(X, Y)
    assert search.best_index_ == np.argmin(search.cv_results_["mean_test_score"])
    assert search.best_estimator_.max_depth == search.best_params_["max_depth"]


def two_numbers(estimator, X, y=None):
    return {"near": estimator.score(X), "x": estimator.x}


def test_a_scorer_of_several_numbers_and_fits_that_fail():
    search = RankwiseSearchCV(
        Bowl(fails_above=0.5), BOWL, scoring=two_numbers, refit="near", n_trials=8, cv=2
    )
    with pytest.warns(FitFailedWarning, match="too far right"):
        search.set_params(random_state=0, method="random").fit(bowl_data())
    failed = np.isnan(search.cv_results_["mean_test_near"])
    assert 0 < failed.sum() < 8
    assert (np.isnan(search.cv_results_["mean_test_x"]) == failed).all()
    assert search.best_score_ == np.nanmax(search.cv_results_["mean_test_near"])


# ---------------------------------------------------------------------- what goes wrong in fits


def test_a_fit_that_fails_is_a_failed_trial():
    search = RankwiseSearchCV(
        Bowl(fails_above=0.6), BOWL, n_trials=10, random_state=1, cv=2, method="random"
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(bowl_data())
    kinds = [w.category for w in caught]
    assert FitFailedWarning in kinds and RunWarning not in kinds
    said = next(str(w.message) for w in caught if w.category is FitFailedWarning)
    assert "2 fits failed out of a total of 2" in said and "too far right" in said
    assert sum("are non-finite" in str(w.message) for w in caught) == 1
    statuses = [t.status for t in search.result_.trials]
    assert statuses == ["failed" if p["x"] > 0.6 else "ok" for p in search.cv_results_["params"]]
    assert "failed" in statuses
    failed = search.result_.trials[statuses.index("failed")]
    assert failed.error == "ValueError: too far right"
    assert search.best_params_["x"] <= 0.6


def test_a_score_for_fits_that_fail():
    search = RankwiseSearchCV(
        Bowl(fails_above=0.6), BOWL, n_trials=10, random_state=1, error_score=-9.0
    ).set_params(cv=2, method="random")
    with pytest.warns(FitFailedWarning):
        search.fit(bowl_data())
    assert search.cv_results_["mean_test_score"].min() == -9.0
    assert {t.status for t in search.result_.trials} == {"ok"}


def test_if_all_fits_fail_scikit_learns_error_says_so():
    search = RankwiseSearchCV(Bowl(fails_above=-1.0), BOWL, n_trials=3, method="random")
    with pytest.warns(FitFailedWarning), pytest.raises(ValueError, match="too far right"):
        search.fit(bowl_data())
    with pytest.raises(NotFittedError):
        clone(search).predict(bowl_data())


def test_an_error_may_end_the_search():
    search = RankwiseSearchCV(Bowl(fails_above=-1.0), BOWL, error_score="raise")
    with pytest.raises(ValueError, match=r"^too far right$"):
        search.fit(bowl_data())


# ---------------------------------------------------------------------- data and metadata


@pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.csc_array, pd.DataFrame])
def test_data_of_other_kinds(make):
    data = make(X)
    if isinstance(data, pd.DataFrame):
        data.columns = list("abcd")
    search = tree_search().fit(data, Y)
    plain = clone(search).fit(X, Y)
    assert search.best_score_ == pytest.approx(plain.best_score_)
    assert list(getattr(search, "feature_names_in_", "abcd")) == list("abcd")
    context = search.result_.study.user_attrs["rankwise:context"]
    assert (context["rows"], context["columns"], context["classes"]) == (150, 4, 3)


def test_groups_go_to_the_splitter():
    groups = np.arange(len(Y)) % 5
    search = tree_search(cv=GroupKFold(5)).fit(X, Y, groups=groups)
    assert search.n_splits_ == 5
    tree = DecisionTreeClassifier(random_state=0, **search.best_params_)
    scores = cross_val_score(tree, X, Y, cv=GroupKFold(5), groups=groups)
    assert search.best_score_ == pytest.approx(scores.mean())


def test_weights_go_to_the_estimator():
    weights = np.where(Y == 2, 0.0, 1.0)
    search = tree_search().fit(X, Y, sample_weight=weights)
    assert 2 not in search.predict(X)


def test_metadata_is_routed():
    weights = np.where(Y == 2, 0.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        tree = DecisionTreeClassifier(random_state=0).set_fit_request(sample_weight=True)
        scorer = make_scorer(accuracy_score).set_score_request(sample_weight=True)
        search = RankwiseSearchCV(tree, TREE, scoring=scorer, n_trials=2, cv=3)
        search.fit(X, Y, sample_weight=weights)
        expected = cross_validate(
            tree.set_params(**search.best_params_),
            X,
            Y,
            scoring=scorer,
            cv=3,
            params={"sample_weight": weights},
        )
    assert search.best_score_ == pytest.approx(expected["test_score"].mean())
    assert 2 not in search.predict(X)


def test_all_trials_are_scored_on_the_same_random_splits():
    def scorer(estimator, X, y=None):
        return estimator.mean_[0]

    rows = np.random.default_rng(0).random((30, 2))
    search = bowl_search(cv=ShuffleSplit(3, test_size=0.5), scoring=scorer).fit(rows)
    assert np.ptp(search.cv_results_["split0_test_score"]) == 0
    assert np.ptp([search.cv_results_[f"split{k}_test_score"][0] for k in range(3)]) > 0


def test_splits_may_be_a_generator():
    splits = KFold(4).split(bowl_data())
    if not hasattr(sklearn.model_selection._search.BaseSearchCV, "_check_input_parameters"):
        pytest.skip("this scikit-learn does not keep the splits")
    assert bowl_search(cv=splits).fit(bowl_data()).n_splits_ == 4


# ---------------------------------------------------------------------- limits, callbacks, copies


def test_no_trial_begins_after_the_time():
    search = bowl_search(timeout=1e-9, n_trials=50).fit(bowl_data())
    assert len(search.result_.trials) == 1
    assert search.result_.stopped == "seconds"


def test_callbacks_see_each_trial_and_may_end_the_search():
    seen = []

    def watch(trial, result):
        seen.append((trial.number, trial.value, result.best_value))
        return len(seen) == 3

    search = bowl_search(callbacks=[watch]).fit(bowl_data())
    assert [number for number, _, _ in seen] == [0, 1, 2]
    assert [value for _, value, _ in seen] == list(search.cv_results_["mean_test_score"])
    assert seen[-1][2] == search.best_score_
    assert search.result_.stopped == "callback"


def test_verbose_shows_the_best_so_far_once_per_trial(capsys):
    search = bowl_search(verbose=1, n_trials=3).fit(bowl_data())
    start = "Fitting 3 folds for each of 3 candidates, totalling 9 fits"
    assert capsys.readouterr().out.splitlines() == [start]
    bowl_search(verbose=2, n_trials=3).fit(bowl_data())
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == start and len(lines) == 3
    scores = search.cv_results_["mean_test_score"]
    for k, line in enumerate(lines):
        assert f"trial {k} of 3: score {scores[k]:.5g}" in line
        assert (
            f"best so far {max(scores[: k + 1]):.5g} (trial {np.argmax(scores[: k + 1])})" in line
        )
    assert bowl_search(verbose=3, n_trials=1).fit(bowl_data()).verbose == 3
    assert capsys.readouterr().out.count("[CV") == 3  # a line per fit


def test_verbose_says_that_trials_failed(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = RankwiseSearchCV(
            DecisionTreeClassifier(), {"max_depth": [-1, 2]}, n_trials=2, cv=3, verbose=2
        )
        search.fit(X, Y)
    lines = capsys.readouterr().out.splitlines()[1:]
    [failed] = [line for line in lines if ": failed" in line]
    assert "best so far" in failed


@pytest.mark.parametrize("scoring", [None, ["accuracy", "f1_macro"]])
def test_train_scores_are_those_of_scikit_learn_also_after_a_resume(scoring, tmp_path):
    arguments = {
        "return_train_score": True,
        "scoring": scoring,
        "refit": "accuracy" if scoring else True,
        "archive": f"sqlite:///{tmp_path}/a.db",
        "name": "s",
    }
    tree_search(n_trials=2, **arguments).fit(X, Y)
    results = tree_search(n_trials=3, **arguments).fit(X, Y).cv_results_
    key = "train_accuracy" if scoring else "train_score"
    for k, params in enumerate(results["params"]):
        tree = DecisionTreeClassifier(random_state=0, **params)
        found = cross_validate(tree, X, Y, cv=3, return_train_score=True)["train_score"]
        assert results[f"mean_{key}"][k] == pytest.approx(found.mean())
    without = tree_search(n_trials=3, **{**arguments, "return_train_score": False}).fit(X, Y)
    assert not any("train" in column for column in without.cv_results_)


def test_train_scores_of_failed_fits_and_of_trials_that_were_scored_without_them(tmp_path):
    arguments = {"archive": f"sqlite:///{tmp_path}/a.db", "name": "s", "cv": 3, "random_state": 0}
    space = {"max_depth": [-1, 2, 3, 4]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for trials, train in ((1, False), (4, True)):
            search = RankwiseSearchCV(
                DecisionTreeClassifier(),
                space,
                n_trials=trials,
                return_train_score=train,
                **arguments,
            ).fit(X, Y)
    found = search.cv_results_
    failed = found["param_max_depth"] == -1
    assert np.isnan(found["mean_train_score"][0])
    assert np.isnan(found["mean_train_score"][failed]).all()
    assert np.isfinite(found["mean_train_score"]).sum() >= 2


@pytest.mark.parametrize(
    ("argument", "answer"),
    [
        ("param_distributions", "its name here is space="),
        ("param_grid", "its name here is space="),
        ("n_iter", "its name here is n_trials="),
        ("n_trial", "did you mean n_trials=?"),
        ("zzz", "it has estimator, space"),
    ],
)
def test_arguments_of_other_searches_are_answered_with_the_right_name(argument, answer):
    with pytest.raises(TypeError, match=re.escape(answer)):
        RankwiseSearchCV(DecisionTreeClassifier(), **{argument: 3})


def test_a_fitted_search_can_be_kept(tmp_path):
    database = tmp_path / "searches.db"
    search = tree_search(archive=f"sqlite:///{database}").fit(X, Y)
    joblib.dump(search, tmp_path / "search.joblib")
    pickled = pickle.dumps(search)
    database.unlink()
    for again in (pickle.loads(pickled), joblib.load(tmp_path / "search.joblib")):
        assert (again.predict(X) == search.predict(X)).all()
        assert len(again.result_.study.trials) == 4
        assert again.cv_results_["params"] == search.cv_results_["params"]
        assert clone(again).get_params()["n_trials"] == 4


def test_a_clone_is_not_fitted_and_has_the_same_arguments():
    search = bowl_search(callbacks=print, timeout=5).fit(bowl_data())
    twin = clone(search)
    assert twin.get_params().keys() == search.get_params().keys()
    assert twin.callbacks is print and twin.timeout == 5
    assert not hasattr(twin, "cv_results_")


# ---------------------------------------------------------------------- wrong arguments


WRONG = {
    "no trials": ({"n_trials": 0}, "n_trials"),
    "no time": ({"timeout": 0}, "timeout"),
    "context": ({"context": "colour"}, "context"),
    "scoring": ({"scoring": "acuracy"}, "scoring"),
    "archive": ({"archive": 3}, "storage 3"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises((ValueError, OSError), match=message):
        bowl_search(**arguments).fit(bowl_data())


def test_wrong_names_and_spaces_are_answered():
    with pytest.raises(UnknownNameError, match="Did you mean 'random'"):
        bowl_search(method="randm").fit(bowl_data())
    with pytest.raises(UnknownNameError, match=r"option of method 'auto'.*guard"):
        bowl_search(options={"gard": True}).fit(bowl_data())
    with pytest.raises(SpaceError, match="space="):
        RankwiseSearchCV(Bowl()).fit(bowl_data())
    with pytest.raises(SpaceError, match="no parameter 'w'"):
        RankwiseSearchCV(Bowl(), {"w": (0, 1)}).fit(bowl_data())
    with pytest.raises(SpaceError, match="empty"):
        RankwiseSearchCV([]).fit(X, Y)
    with pytest.raises(SpaceError, match="2 estimators and 1 spaces"):
        RankwiseSearchCV([Bowl(), Bowl()], [BOWL]).fit(bowl_data())


def test_data_that_nobody_can_describe_are_left_to_scikit_learn():
    with pytest.warns(RunWarning, match="meta-features"), pytest.raises(ValueError, match="array"):
        RankwiseSearchCV(Ridge(), {"alpha": (0.1, 1.0)}, cv=2, error_score="raise").fit(
            np.zeros(12), np.arange(12.0)
        )


def test_the_example_in_the_docstring():
    import doctest

    from rankwise.integrations.sklearn import search_cv

    result = doctest.testmod(search_cv)
    assert result.attempted > 0
    assert result.failed == 0
