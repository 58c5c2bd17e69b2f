"""Ready-made spaces are found inside pipelines and other estimators, the same everywhere."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from rankwise import estimators
from rankwise.errors import SpaceError
from rankwise.space.encoder import Encoder


def configurations(found, n=20):
    encoder = Encoder(found.space)
    return encoder.decode(encoder.sample(n, np.random.default_rng(0)))


def fingerprint(found):
    return Encoder(found.space).fingerprint


def test_the_steps_of_a_pipeline():
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), SVC())
    found = estimators.space_of(pipeline)
    assert found.name == "svc"
    assert {name.partition("__")[0] for name in found.space} == {"svc"}
    assert "svc__gamma_value" in found.space
    for configuration in configurations(found):
        tuned = clone(pipeline).set_params(**found.params(configuration))
        assert tuned.named_steps["svc"].kernel == configuration["svc__kernel"]


def test_a_pipeline_in_a_pipeline_beside_a_column_transformer():
    columns = ColumnTransformer([("numbers", make_pipeline(StandardScaler()), [0, 1])])
    inner = Pipeline([("scale", StandardScaler()), ("net", MLPClassifier())])
    pipeline = Pipeline([("columns", columns), ("model", inner)])
    found = estimators.space_of(pipeline)
    [configuration] = configurations(found, 1)
    tuned = clone(pipeline).set_params(**found.params(configuration))
    sizes = tuned.named_steps["model"].named_steps["net"].hidden_layer_sizes
    units = configuration["model__net__hidden_units"]
    assert sizes == (units,) * configuration["model__net__hidden_layers"]


@pytest.mark.parametrize(
    ("outer", "prefix", "name"),
    [
        (CalibratedClassifierCV(SVC()), "estimator__", "svc"),
        (BaggingClassifier(estimator=SVC()), "estimator__", "svc"),
        (TransformedTargetRegressor(regressor=Ridge()), "regressor__", "ridge"),
        (
            make_pipeline(StandardScaler(), TransformedTargetRegressor(regressor=Ridge())),
            "transformedtargetregressor__regressor__",
            "ridge",
        ),
    ],
)
def test_inside_an_estimator_without_a_space(outer, prefix, name):
    found = estimators.space_of(outer)
    assert found.name == name
    assert all(key.startswith(prefix) for key in found.space)
    for configuration in configurations(found, 5):
        clone(outer).set_params(**found.params(configuration))


def test_several_learners_are_searched_together():
    voting = VotingClassifier([("a", SVC()), ("b", RandomForestClassifier()), ("c", SVC())])
    found = estimators.space_of(voting)
    assert found.name == "random-forest+svc"
    for configuration in configurations(found):
        params = found.params(configuration)
        assert params["a__kernel"] == configuration["a__kernel"]
        tuned = clone(voting).set_params(**params)
        assert tuned.get_params()["c__C"] == params["c__C"]


def test_a_pipeline_without_a_known_learner_says_what_to_do():
    with pytest.raises(SpaceError, match=r"for Pipeline; give one as space=.*random-forest"):
        estimators.space_of(make_pipeline(StandardScaler(), LinearDiscriminantAnalysis()))


def test_equal_estimators_have_one_fingerprint():
    assert fingerprint(estimators.space_of(SVC())) == fingerprint(estimators.space_of(SVC(C=7)))
    assert fingerprint(estimators.space_of(SVC())) != fingerprint(
        estimators.space_of(make_pipeline(StandardScaler(), SVC()))
    )


SCRIPT = """
from scipy import stats
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from rankwise.learners import choice_of, make_estimator, ready, space_from, space_of
from rankwise.space import Encoder


class Plain:
    pass


def found():
    for row in ready():
        for kind in row.classes:
            if "sklearn" in row.classes[kind]:
                yield space_of(make_estimator(row.name, kind))
    scaled = make_pipeline(StandardScaler(), SVC())
    yield space_of(scaled)
    yield choice_of([SVC(), RandomForestClassifier(), scaled, SVC(C=2)])
    yield space_from(SVC(), {"C": stats.expon(scale=9), "class_weight": [Plain(), Plain(), None]})
    yield space_from(scaled, {"standardscaler": [StandardScaler(), FunctionTransformer(abs)]})


prints = [Encoder(one.space).fingerprint for one in found()]
"""


def test_fingerprints_are_the_same_in_another_process():
    here: dict = {"__name__": "__main__"}
    exec(SCRIPT, here)
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    out = subprocess.run(
        [sys.executable, "-c", SCRIPT + "print(*prints)"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert out.stdout.split() == here["prints"]
    assert len(set(here["prints"])) == len(here["prints"])
