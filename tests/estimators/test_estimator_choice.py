"""One space over several estimators."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from rankwise.errors import SpaceError
from rankwise.estimators import choice_of
from rankwise.space.encoder import Encoder

CANDIDATES = [SVC(), RandomForestClassifier(), make_pipeline(StandardScaler(), SVC())]


def configurations(found, n=30):
    encoder = Encoder(found.space)
    return encoder.decode(encoder.sample(n, np.random.default_rng(0)))


def names(found):
    return set(found.space["estimator"].choices)


def test_each_has_a_readable_name():
    found = choice_of(CANDIDATES)
    assert names(found) == {"svc", "random-forest", "standard-scaler+svc"}
    assert found.name == "random-forest|standard-scaler+svc|svc"
    assert names(choice_of([RandomForestClassifier(), CANDIDATES[2]])) == {"random-forest", "svc"}


def test_the_order_does_not_matter():
    candidates = [*CANDIDATES, SVC(class_weight="balanced")]
    found = [choice_of(list(order)) for order in itertools.permutations(candidates)]
    assert len({Encoder(f.space).fingerprint for f in found}) == 1
    for f in found:
        chosen = f.params({"estimator": "svc-2", "svc-2:kernel": "linear", "svc-2:linear_C": 1.0})
        assert chosen["estimator"].class_weight == "balanced"


def test_parameters_fit_a_wrapper_of_one_step():
    found = pickle.loads(pickle.dumps(choice_of(CANDIDATES)))
    seen = set()
    for configuration in configurations(found):
        name = configuration["estimator"]
        seen.add(name)
        assert all(key == "estimator" or key.startswith(f"{name}:") for key in configuration)
        wrapper = Pipeline([("estimator", "passthrough")])
        wrapper.set_params(**found.params(configuration))
        model = wrapper.named_steps["estimator"]
        if name == "svc":
            assert model.kernel == configuration["svc:kernel"]
    assert seen == names(found)


def test_estimators_that_were_given_stay_as_they_are():
    svc = SVC(C=3.0)
    found = choice_of([svc, RandomForestClassifier()])
    params = found.params({"estimator": "svc", "svc:kernel": "linear", "svc:linear_C": 1.0})
    assert params["estimator"] is not svc and params["estimator"].C == 3.0
    Pipeline([("estimator", "passthrough")]).set_params(**params)
    assert svc.C == 3.0


def test_with_spaces_of_ones_own():
    lda = LinearDiscriminantAnalysis(solver="lsqr")
    found = choice_of([lda, SVC()], [{"shrinkage": [None, 0.1, "auto"]}, None])
    assert found.name == ""
    assert names(found) == {"linear-discriminant-analysis", "svc"}
    for configuration in configurations(found, 10):
        if configuration["estimator"] != "svc":
            shrinkage = configuration["linear-discriminant-analysis:shrinkage"]
            assert found.params(configuration)["estimator__shrinkage"] == shrinkage


def test_one_estimator_with_two_spaces():
    found = choice_of([SVC(), SVC()], [{"C": (0.1, 1.0)}, {"gamma": (0.1, 1.0)}])
    assert names(found) == {"svc", "svc-2"}
    assert len(found.space) == 3


def test_one_inside_another_has_a_longer_name():
    found = choice_of([SVC(), BaggingClassifier(SVC()), LogisticRegression()])
    assert names(found) == {"svc", "bagging+svc", "logistic-regression"}


@pytest.mark.parametrize(
    ("estimators", "spaces", "message"),
    [
        ([], None, "empty"),
        ([SVC(), SVC()], None, "listed twice"),
        ([SVC], None, r"such as SVC\(\)"),
        ([SVC()], [None, None], "1 estimators and 2 spaces"),
        ([SVC(), LinearDiscriminantAnalysis()], None, "for LinearDiscriminantAnalysis"),
        ([SVC()], [{"c": [1]}], "did you mean 'C'"),
    ],
)
def test_bad_input(estimators, spaces, message):
    with pytest.raises(SpaceError, match=message):
        choice_of(estimators, spaces)
