"""Spaces as people write them for scikit-learn's searches."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from ConfigSpace.hyperparameters import (
    CategoricalHyperparameter,
    Constant,
    OrdinalHyperparameter,
    UniformIntegerHyperparameter,
)
from scipy import stats
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import f_classif, mutual_info_classif
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

import rankwise
from rankwise.errors import SpaceError
from rankwise.estimators import space_from, space_of
from rankwise.space.encoder import Encoder

PIPELINE = Pipeline([("scale", StandardScaler()), ("clf", SVC())])


def drawn(found, n=400):
    """n random configurations as parameters."""
    encoder = Encoder(found.space)
    sample = encoder.decode(encoder.sample(n, np.random.default_rng(0)))
    return [found.params(configuration) for configuration in sample]


def fingerprint(found):
    return Encoder(found.space).fingerprint


@pytest.mark.parametrize(
    "distribution",
    [
        stats.uniform(2, 3),
        stats.uniform(loc=-1, scale=0.5),
        stats.loguniform(1e-4, 1e2),
        stats.reciprocal(1e-3, 1),
        stats.loguniform(1e-3, 1, loc=5),
        stats.loguniform(1e-20, 1),
        stats.expon(scale=100),
        stats.norm(3, 0.1),
        stats.truncnorm(-1, 2, loc=1),
        stats.beta(2, 5),
        stats.uniform,
        stats.Normal(mu=1.0, sigma=2.0),
    ],
    ids=lambda d: getattr(getattr(d, "dist", d), "name", type(d).__name__),
)
def test_continuous_distributions_keep_their_shape(distribution):
    values = [params["C"] for params in drawn(space_from(SVC(), {"C": distribution}))]
    low, high = distribution.support()
    assert all(isinstance(v, float) and low <= v <= high for v in values)
    assert stats.kstest(values, distribution.cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    "distribution", [stats.randint(2, 7), stats.randint(low=0, high=5, loc=2)]
)
def test_integers_up_to_the_open_end(distribution):
    found = space_from(SVC(), {"degree": distribution})
    assert isinstance(found.space["degree"], UniformIntegerHyperparameter)
    assert {p["degree"] for p in drawn(found)} == {2, 3, 4, 5, 6}


@pytest.mark.parametrize("distribution", [stats.poisson(3), stats.binom(10, 0.4), stats.geom(0.3)])
def test_discrete_distributions_keep_their_shape(distribution):
    values = [p["degree"] for p in drawn(space_from(SVC(), {"degree": distribution}))]
    assert all(isinstance(v, int) for v in values)
    counts = {v: values.count(v) / len(values) for v in set(values)}
    assert all(abs(share - distribution.pmf(v)) < 0.08 for v, share in counts.items())


def test_a_single_integer_is_a_constant():
    found = space_from(SVC(), {"degree": stats.randint(3, 4)})
    assert isinstance(found.space["degree"], Constant)
    assert found.params(Encoder(found.space).default) == {"degree": 3}


def test_quantiles_of_different_distributions_are_different_spaces():
    one, same, other = (
        space_from(SVC(), {"C": d})
        for d in (stats.expon(scale=2), stats.expon(0, 2), stats.expon(scale=3))
    )
    assert fingerprint(one) == fingerprint(same) != fingerprint(other)


def test_lists_give_back_the_very_objects():
    scalers = [StandardScaler(), MinMaxScaler(), "passthrough", None]
    found = space_from(PIPELINE, {"scale": scalers, "clf__C": [1, 10]})
    chosen = [params["scale"] for params in drawn(found, 60)]
    assert all(any(c is s for s in scalers) for c in chosen)
    assert len({id(c) for c in chosen}) == 4


def test_other_objects_as_choices():
    matrix = np.eye(2)
    weights = [None, "balanced", {0: 1, 1: 2}, matrix, f_classif, mutual_info_classif, object()]
    found = space_from(SVC(), {"class_weight": weights})
    chosen = [params["class_weight"] for params in drawn(found, 100)]
    assert len({id(c) for c in chosen}) == len(weights)
    assert any(c is matrix for c in chosen)
    shapes = space_from(MLPClassifier(), {"hidden_layer_sizes": [(10,), (20, 20)]})
    assert {p["hidden_layer_sizes"] for p in drawn(shapes, 30)} == {(10,), (20, 20)}
    assert all(isinstance(c, str) for c in shapes.space["hidden_layer_sizes"].choices)


def test_numbers_that_are_equal_and_mean_different_things():
    values = [p["max_features"] for p in drawn(space_from(RandomForestClassifier(), FEATURES), 60)]
    assert {(type(v), v) for v in values} == {(int, 1), (float, 1.0), (bool, True)}


FEATURES = {"max_features": [1, 1.0, True]}


def test_what_a_list_becomes():
    found = space_from(
        SVC(),
        {
            "C": np.logspace(-2, 2, 5),
            "degree": range(1, 5),
            "coef0": [0.0, 1.0],
            "max_iter": np.array([9, 5, 9, 5, 7]),
            "kernel": np.array(["rbf", "linear"]),
            "tol": 1e-3,
        },
    )
    kinds = {name: type(hp) for name, hp in found.space.items()}
    assert kinds == {
        "C": OrdinalHyperparameter,
        "degree": UniformIntegerHyperparameter,
        "coef0": CategoricalHyperparameter,
        "max_iter": OrdinalHyperparameter,
        "kernel": CategoricalHyperparameter,
        "tol": Constant,
    }
    assert found.space["C"].default_value == 1.0
    assert found.space["max_iter"].sequence == (5, 7, 9)
    params = drawn(found, 1)[0]
    assert type(params["kernel"]) is str and type(params["C"]) is float


def test_the_shorthand_and_hyperparameters_of_configspace():
    given = CategoricalHyperparameter("kernel", ["rbf", "linear"])
    space = {"C": (1e-3, 1e3, "log"), "degree": (2, 5), "kernel": given}
    found = space_from(SVC(), {**space, "gamma": (["scale", "auto"], "ordered")})
    assert found.space["C"].log and found.space["kernel"] is given
    assert isinstance(found.space["gamma"], OrdinalHyperparameter)


def test_a_finished_space_is_taken_as_it_is():
    space = rankwise.make_space({"C": (1e-3, 1.0)})
    assert space_from(SVC(), space).space is space
    ready = space_of(SVC())
    assert space_from(SVC(), ready) is ready
    assert fingerprint(space_from(SVC(), None)) == fingerprint(ready)


def test_one_of_several_dicts():
    C = stats.loguniform(1e-3, 1e3)
    dicts = [{"kernel": ["linear"], "C": C}, {"kernel": ["rbf"], "C": C, "gamma": C}, {"C": C}]
    found = pickle.loads(pickle.dumps(space_from(SVC(), dicts)))
    assert set(found.space) == {"option", "C", "1:kernel", "2:kernel", "2:gamma"}
    seen = {frozenset(p) | {p.get("kernel")} for p in drawn(found, 60)}
    assert seen == {
        frozenset({"C", "kernel", "linear"}),
        frozenset({"C", "kernel", "gamma", "rbf"}),
        frozenset({"C", None}),
    }


def test_dicts_that_replace_a_step_have_its_parameters():
    dicts = [
        {"clf": [SVC(), SVC(kernel="linear")], "clf__C": stats.expon(scale=10)},
        {"clf": [RandomForestClassifier()], "clf__max_depth": [None, 3]},
    ]
    for params in drawn(space_from(PIPELINE, dicts), 20):
        tuned = clone(PIPELINE).set_params(**clone(params, safe=False))
        assert type(tuned.named_steps["clf"]) is type(params["clf"])


@pytest.mark.parametrize(
    ("estimator", "space", "message"),
    [
        (SVC(), {"c": [1]}, "SVC has no parameter 'c'; did you mean 'C'"),
        (PIPELINE, {"C": [1]}, "did you mean 'clf__C'"),
        (PIPELINE, {"clf__gama": [1]}, "did you mean 'clf__gamma'"),
        (PIPELINE, {"clf": [SVC(), RandomForestClassifier()], "clf__C": [1]}, "a dict for each"),
        (PIPELINE, {"clf": [SVC(), "passthrough"], "clf__C": [1]}, "has no parameters"),
        (SVC(), rankwise.make_space({"cost": (0.0, 1.0)}), "no parameter 'cost'"),
        (SVC(), {}, "empty"),
        (SVC(), [], "empty"),
        (SVC(), "rbf", "a list of such dicts"),
        (SVC(), {"C": []}, "the list of choices is empty"),
        (SVC(), {"C": {1, 2}}, "as a list"),
        (SVC(), {"kernel": ("rbf", "linear")}, "choices are a list"),
        (SVC(), {3: [1]}, "strings, not 3"),
        (SVC(), {"C": stats.uniform([0, 1], 1)}, "no usable quantiles"),
        (SVC(), {"C": stats.multivariate_normal([0, 0])}, "no usable quantiles"),
        (SVC(), {"C": stats.randint}, "no usable quantiles"),
        (SVC, {"C": [1]}, "is a class"),
    ],
)
def test_bad_input(estimator, space, message):
    with pytest.raises(SpaceError, match=message):
        space_from(estimator, space)


def test_catboosts_parameters_are_those_of_its_signature():
    class Shy:
        """Lists what was set, as CatBoost does."""

        def __init__(self, depth=None, **others):
            self.others = others

        def get_params(self, deep=True):
            return self.others

        def set_params(self, **params):
            return self

    assert "depth" in space_from(Shy(), {"depth": (1, 5), "anything": (1, 5)}).space


class Dynamic(MLPClassifier):
    """Takes parameters that `get_params` does not list, as skorch does."""

    def set_params(self, **params):
        inner = {name: params.pop(name) for name in list(params) if name.startswith("module__")}
        super().set_params(**params)
        for name, value in inner.items():
            setattr(self, name, value)
        return self


@pytest.mark.parametrize("step", ["", "clf__"])
def test_what_set_params_takes_can_be_searched(step):
    estimator = Pipeline([("clf", Dynamic())]) if step else Dynamic()
    found = space_from(estimator, {f"{step}module__units": (4, 32)})
    assert found.params({f"{step}module__units": 8}) == {f"{step}module__units": 8}
    with pytest.raises(SpaceError, match=f"'{step}modul__units'") as error:
        space_from(estimator, {f"{step}modul__units": (4, 32)})
    assert "did you mean" not in str(error.value)  # no list has the name that was meant
    with pytest.raises(SpaceError, match=f"did you mean '{step}alpha'"):
        space_from(estimator, {f"{step}alpa": (0.1, 1.0)})


def test_a_parameter_of_skorch_is_not_answered_with_its_own_name():
    skorch = pytest.importorskip("skorch")
    torch = pytest.importorskip("torch")
    net = skorch.NeuralNetClassifier(
        torch.nn.Linear, module__in_features=4, module__out_features=3
    )
    names = ["module__out_features", "optimizer__momentum", "iterator_train__shuffle", "lr"]
    found = space_from(net, {name: [1, 2] for name in names})
    assert sorted(found.space) == sorted(names)
    # fitted before, and with a module that has arguments already
    found = space_from(net.initialize(), {"module__in_features": [1, 2]})
    assert list(found.space) == ["module__in_features"]
