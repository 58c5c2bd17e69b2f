"""Every neighbour is installed: elsewhere its tests are skipped, here they must run."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from rankwise import RankwiseSearchCV
from rankwise.estimators import make_estimator

NEIGHBOURS = [
    "catboost", "distributed", "grpc", "lightgbm", "mlflow", "openpyxl", "optuna_dashboard",
    "optunahub", "pyarrow", "ray.tune", "skops", "skorch", "torch", "xgboost",
]  # fmt: skip


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_a_neighbour_is_installed(name):
    importlib.import_module(name)


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost"])
def test_boosted_trees_are_searched_with_their_ready_spaces(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = (X[:, 0] + 0.1 * rng.normal(size=80) > 0).astype(int)
    search = RankwiseSearchCV(
        make_estimator(name, seed=0), n_trials=3, cv=2, past=None, random_state=0
    )
    search.fit(X, y)
    assert search.best_score_ > 0.7 and len(search.cv_results_["params"]) == 3
    assert len({repr(params) for params in search.cv_results_["params"]}) == 3
