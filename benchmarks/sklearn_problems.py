"""Tuning problems of scikit-learn: ready-made spaces, evaluated anew on data sets of scikit-learn.

The loss is the mean over three folds of the log loss, of 1 - accuracy for `svc` (it has no
probabilities), or of the root mean squared error divided by the target's standard deviation.
Losses are kept in a process, since several optimizers ask for the default configuration.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from ConfigSpace import ConfigurationSpace
from problems import Problem
from sklearn import datasets
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwise.estimators import make_estimator, space_of
from rankwise.storage import suggest_space

FAMILY = "sklearn"
ROWS = 300
REPORT = (
    "svc/wine",
    "svc/breast-cancer",
    "svc/digits",
    "random-forest/wine",
    "random-forest/diabetes",
    "hist-gradient-boosting/breast-cancer",
    "hist-gradient-boosting/diabetes",
)
_LOADERS: dict[str, Callable[..., Any]] = {
    "wine": datasets.load_wine,
    "breast-cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
    "diabetes": datasets.load_diabetes,
}
_WORST = 10.0  # the loss of a configuration that cannot be fitted


@dataclass(frozen=True)
class SpaceProblem(Problem):
    """A problem whose space is a ConfigSpace space instead of the shorthand."""

    make: Callable[[], ConfigurationSpace] = field(kw_only=True)

    def space(self) -> ConfigurationSpace:
        """A new ConfigSpace space."""
        return self.make()

    def suggest(self, trial: Any) -> dict[str, Any]:
        """A configuration from an Optuna trial, define-by-run."""
        return dict(suggest_space.suggest(trial, self.space()))


@cache
def load(name: str) -> Problem:
    """The problem of a name like sklearn/svc/wine."""
    _, learner, data = name.split("/")
    X, y = _LOADERS[data](return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:ROWS]
    X, y = X[rows], y[rows]
    kind = "regression" if data == "diabetes" else "classification"
    estimator = make_estimator(learner, kind, 0)
    known = space_of(estimator)
    scoring = {"regression": "neg_root_mean_squared_error"}.get(kind, "neg_log_loss")
    if learner == "svc":
        scoring = "accuracy"
    scale = float(np.std(y)) if kind == "regression" else 1.0
    losses: dict[str, float] = {}

    def objective(configuration: Mapping[str, Any]) -> float:
        key = repr(sorted(configuration.items()))
        if key not in losses:
            model = make_estimator(learner, kind, 0).set_params(**known.params(configuration))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scores = cross_val_score(
                    make_pipeline(StandardScaler(), model), X, y, cv=3, scoring=scoring
                )
            loss = 1.0 - scores.mean() if scoring == "accuracy" else -scores.mean() / scale
            losses[key] = float(loss) if np.isfinite(loss) else _WORST
        return losses[key]

    return SpaceProblem(
        name,
        FAMILY,
        {},
        objective,
        lambda: 0.0,
        floor=1e-6,
        make=lambda: space_of(make_estimator(learner, kind, 0)).space,
    )
