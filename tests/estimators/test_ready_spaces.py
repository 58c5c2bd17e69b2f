"""Ready-made spaces: every configuration fits, defaults are the estimators' own."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from rankwise import estimators
from rankwise.errors import OptionError, SpaceError, UnknownNameError
from rankwise.space.encoder import Encoder

VARIANTS = [(row.name, kind) for row in estimators.ready() for kind in row.classes]

# Defaults that a range does not contain, and what stands for them: the models are the same.
EQUIVALENT = {
    ("DecisionTreeClassifier", "max_depth"): 50,
    ("DecisionTreeRegressor", "max_depth"): 50,
    ("GradientBoostingClassifier", "max_features"): 1.0,
    ("GradientBoostingRegressor", "max_features"): 1.0,
    ("HistGradientBoostingClassifier", "l2_regularization"): 1e-4,
    ("HistGradientBoostingRegressor", "l2_regularization"): 1e-4,
    ("LinearSVR", "epsilon"): 1e-4,
}


def estimator_of(name, kind):
    try:
        return estimators.make_estimator(name, kind, seed=0)
    except OptionError as error:
        pytest.skip(str(error))


def data_for(kind, seed=0):
    """40 rows of three columns, none negative: there is a naive Bayes that takes only such."""
    rng = np.random.default_rng(seed)
    X = rng.random((40, 3))
    y = X[:, 0] + 0.3 * rng.normal(size=40)
    return X, (y > 0.5).astype(int) if kind == "classification" else y


@pytest.mark.parametrize(("name", "kind"), VARIANTS)
@pytest.mark.parametrize("seed", [None, 3])
def test_estimators_can_be_cloned_with_and_without_a_seed(name, kind, seed):
    try:
        estimator = estimators.make_estimator(name, kind, seed)
    except OptionError as error:
        pytest.skip(str(error))
    own = clone(estimator).get_params()
    assert own == estimator.get_params() and own.get("random_state") in (None, seed)


@pytest.mark.parametrize(("name", "kind"), VARIANTS)
def test_random_configurations_fit_without_a_warning(name, kind):
    estimator = estimator_of(name, kind)
    found = estimators.space_of(estimator)
    assert found.name == name
    encoder = Encoder(found.space)
    X, y = data_for(kind)
    # Fewer steps than the space says: what is tested is that the values are legal.
    fewer = {"n_estimators": 5, "iterations": 5, "max_iter": 10}
    fewer = {key: n for key, n in fewer.items() if key in estimator.get_params()}
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("error", FutureWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        for configuration in encoder.decode(encoder.sample(15, np.random.default_rng(1))):
            fitted = clone(estimator).set_params(**found.params(configuration)).set_params(**fewer)
            assert np.isfinite(fitted.fit(X, y).score(X, y))


@pytest.mark.parametrize(("name", "kind"), VARIANTS)
def test_the_default_configuration_is_the_estimators_own(name, kind):
    estimator = estimator_of(name, kind)
    if not type(estimator).__module__.startswith("sklearn"):
        pytest.skip("other packages fill in their defaults as they fit")
    found = estimators.space_of(estimator)
    own = type(estimator)().get_params()
    for key, value in found.params(Encoder(found.space).default).items():
        expected = EQUIVALENT.get((type(estimator).__name__, key), own[key])
        assert value == expected, key


@pytest.mark.parametrize("row", estimators.ready(), ids=lambda row: row.name)
def test_a_row_can_be_shown(row):
    assert row.summary and row.estimators
    assert all(name in str(row.space) for name in row.parameters)
    for kind in row.classes:
        assert set(row.space_for(kind)) <= set(row.space)
        assert set(row.extra.get(kind, {})) <= set(row.space_for(kind))


def test_conditions_of_the_kernel():
    found = estimators.space_of(estimators.make_estimator("svc"))
    assert set(found.params({"kernel": "linear", "linear_C": 2.0})) == {"kernel", "C"}
    assert found.params({"kernel": "rbf", "C": 1.0, "gamma": "value", "gamma_value": 0.5}) == {
        "kernel": "rbf",
        "C": 1.0,
        "gamma": 0.5,
    }
    for configuration in samples(found, 60):
        kernel = configuration["kernel"]
        assert ("gamma" in configuration) == (kernel == "rbf")
        assert ("gamma_value" in configuration) == (configuration.get("gamma") == "value")
        assert ("degree" in configuration) == ("coef0" in configuration) == (kernel == "poly")


def test_layers_become_a_tuple():
    found = estimators.space_of(estimators.make_estimator("mlp"))
    shape = found.params({"hidden_layers": 3, "hidden_units": 20})
    assert shape == {"hidden_layer_sizes": (20, 20, 20)}


def test_numpy_values_become_plain_ones():
    found = estimators.space_of(estimators.make_estimator("ridge"))
    assert type(found.params({"alpha": np.float64(2.0)})["alpha"]) is float


def test_every_estimator_can_be_made_with_a_seed():
    forest = estimators.make_estimator("random-forest", "regression", seed=7)
    assert type(forest).__name__ == "RandomForestRegressor" and forest.random_state == 7
    assert not hasattr(estimators.make_estimator("gaussian-nb", seed=7), "random_state")


def test_unknown_names_list_the_valid_ones():
    with pytest.raises(UnknownNameError, match="Did you mean 'random-forest'"):
        estimators.make_estimator("randomforest")
    with pytest.raises(UnknownNameError, match="classification estimator 'lasso'"):
        estimators.make_estimator("lasso", "classification")
    with pytest.raises(UnknownNameError, match="kind of estimator 'forecast'"):
        estimators.make_estimator("ridge", "forecast")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(OptionError, match="pip install xgboost"):
        estimators.make_estimator("xgboost")


def test_other_packages_are_known_by_the_names_of_their_classes():
    boosted = pretend("xgboost.sklearn", "XGBClassifier")
    assert estimators.space_of(boosted).name == "xgboost"
    with pytest.raises(SpaceError, match="no ready-made space for XGBRFClassifier"):
        estimators.space_of(pretend("xgboost.sklearn", "XGBRFClassifier", type(boosted)))
    with pytest.raises(SpaceError, match="no ready-made space for SVC"):
        estimators.space_of(pretend("elsewhere", "SVC"))


def test_a_class_of_the_users_has_the_space_of_what_it_extends():
    from sklearn.svm import SVC

    assert estimators.space_of(pretend("mine", "Mine", SVC)).name == "svc"

    class Other(SVC):
        def __init__(self, penalty=1.0):
            super().__init__(C=penalty)
            self.penalty = penalty

    with pytest.raises(SpaceError, match="no ready-made space for Other"):
        estimators.space_of(Other())


def test_what_is_no_estimator_is_refused():
    from sklearn.svm import SVC

    with pytest.raises(SpaceError, match=r"such as SVC\(\)"):
        estimators.space_of(SVC)
    with pytest.raises(SpaceError, match="no estimator"):
        estimators.space_of("svc")


def test_a_space_survives_pickling():
    found = estimators.space_of(estimators.make_estimator("svc"))
    again = pickle.loads(pickle.dumps(found))
    assert Encoder(again.space).fingerprint == Encoder(found.space).fingerprint
    assert again.params({"kernel": "linear", "linear_C": 2.0}) == {"kernel": "linear", "C": 2.0}


def test_the_table_loads_without_scikit_learn():
    code = "import sys; from rankwise import estimators; estimators.ready(); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"sklearn", "torch", "optuna"} & set(out.stdout.split())


def samples(found, n):
    encoder = Encoder(found.space)
    return encoder.decode(encoder.sample(n, np.random.default_rng(0)))


def pretend(module, name, base=BaseEstimator):
    return type(name, (base,), {"__module__": module})()
