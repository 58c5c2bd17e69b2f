"""Ready-made spaces of trees, forests and boosted trees.

Parameters and ranges follow auto-sklearn, the random configurations behind YAHPO ("rbv2"),
TabRepo, and Probst, Boulesteix and Bischl (2019). Ranges are narrower where half of a range gave
useless models on small data. A penalty with default 0 is on a logarithmic scale that starts at a
negligible value.
"""

from __future__ import annotations

from typing import Any

from rankwise.estimators.ready_space import CLASSIFICATION, REGRESSION, VALUE, ReadySpace
from rankwise.types import Configuration

_BALANCE = {"class_weight": [None, "balanced"]}

# The number of trees of a forest is not tuned: more trees are better but slower.
_FOREST: dict[str, Any] = {
    "parameters": {
        "max_features_value": (0.05, 1.0),
        "min_samples_leaf": (1, 20, "log"),
        "max_samples": (0.3, 1.0),
    },
    "when": {
        "max_features_value": {"max_features": VALUE},
        "max_samples": {"bootstrap": True},
    },
    "defaults": {"max_features_value": 1.0, "min_samples_leaf": 1, "max_samples": 1.0},
}


def _forest_extra(bootstrap: list[bool]) -> dict[str, Any]:
    """Parameters that differ between classifier and regressor; the first choice is the default."""
    return {
        CLASSIFICATION: {
            "max_features": ["sqrt", VALUE],
            "criterion": ["gini", "entropy"],
            "bootstrap": bootstrap,
            **_BALANCE,
        },
        REGRESSION: {"max_features": [VALUE, "sqrt"], "bootstrap": bootstrap},
    }


def _forest(params: Configuration) -> dict[str, Any]:
    # For scikit-learn 1.0 is a share of the row weights, and None means all rows.
    return {**params, "max_samples": None} if params.get("max_samples") == 1.0 else params


def _lightgbm(params: Configuration) -> dict[str, Any]:
    # LightGBM ignores `subsample` unless `subsample_freq` is set.
    return {**params, "subsample_freq": 1}


TREES = (
    ReadySpace(
        "random-forest",
        "Random forest: columns per split, rows per tree, size of the leaves",
        {
            CLASSIFICATION: "sklearn.ensemble.RandomForestClassifier",
            REGRESSION: "sklearn.ensemble.RandomForestRegressor",
        },
        extra=_forest_extra([True, False]),
        derive=_forest,
        **_FOREST,
    ),
    ReadySpace(
        "extra-trees",
        "Extremely randomized trees: columns per split, rows per tree, size of the leaves",
        {
            CLASSIFICATION: "sklearn.ensemble.ExtraTreesClassifier",
            REGRESSION: "sklearn.ensemble.ExtraTreesRegressor",
        },
        extra=_forest_extra([False, True]),
        derive=_forest,
        **_FOREST,
    ),
    ReadySpace(
        "decision-tree",
        "One tree: its depth and the size of its leaves",
        {
            CLASSIFICATION: "sklearn.tree.DecisionTreeClassifier",
            REGRESSION: "sklearn.tree.DecisionTreeRegressor",
        },
        parameters={
            "max_depth": (1, 50, "log"),
            "min_samples_split": (2, 100, "log"),
            "min_samples_leaf": (1, 100, "log"),
        },
        extra={CLASSIFICATION: {"criterion": ["gini", "entropy"], **_BALANCE}},
        defaults={"max_depth": 50, "min_samples_split": 2, "min_samples_leaf": 1},
    ),
    ReadySpace(
        "hist-gradient-boosting",
        "Boosted trees over binned columns: speed and number of steps, size of the trees",
        {
            CLASSIFICATION: "sklearn.ensemble.HistGradientBoostingClassifier",
            REGRESSION: "sklearn.ensemble.HistGradientBoostingRegressor",
        },
        parameters={
            "learning_rate": (0.01, 0.5, "log"),
            "max_iter": (50, 500, "log"),
            "max_leaf_nodes": (4, 256, "log"),
            "min_samples_leaf": (1, 100, "log"),
            "l2_regularization": (1e-4, 10.0, "log"),
            "max_features": (0.2, 1.0),
        },
        extra={CLASSIFICATION: _BALANCE},
        defaults={
            "learning_rate": 0.1,
            "max_iter": 100,
            "max_leaf_nodes": 31,
            "min_samples_leaf": 20,
            "l2_regularization": 1e-4,
            "max_features": 1.0,
        },
    ),
    ReadySpace(
        "gradient-boosting",
        "Boosted trees over sorted columns, for small data",
        {
            CLASSIFICATION: "sklearn.ensemble.GradientBoostingClassifier",
            REGRESSION: "sklearn.ensemble.GradientBoostingRegressor",
        },
        parameters={
            "learning_rate": (0.01, 0.5, "log"),
            "n_estimators": (50, 500, "log"),
            "max_depth": (1, 10),
            "min_samples_leaf": (1, 100, "log"),
            "subsample": (0.3, 1.0),
            "max_features": (0.1, 1.0),
        },
        defaults={
            "learning_rate": 0.1,
            "n_estimators": 100,
            "max_depth": 3,
            "min_samples_leaf": 1,
            "subsample": 1.0,
            "max_features": 1.0,
        },
    ),
    ReadySpace(
        "xgboost",
        "XGBoost (package xgboost)",
        {CLASSIFICATION: "xgboost.XGBClassifier", REGRESSION: "xgboost.XGBRegressor"},
        parameters={
            "learning_rate": (0.01, 0.5, "log"),
            "n_estimators": (50, 1000, "log"),
            "max_depth": (1, 12),
            "min_child_weight": (0.5, 20.0, "log"),
            "subsample": (0.3, 1.0),
            "colsample_bytree": (0.2, 1.0),
            "reg_lambda": (0.01, 100.0, "log"),
            "reg_alpha": (1e-4, 10.0, "log"),
        },
        defaults={
            "learning_rate": 0.3,
            "n_estimators": 100,
            "max_depth": 6,
            "min_child_weight": 1.0,
            "subsample": 1.0,
            "colsample_bytree": 1.0,
            "reg_lambda": 1.0,
            "reg_alpha": 1e-4,
        },
    ),
    ReadySpace(
        "lightgbm",
        "LightGBM (package lightgbm)",
        {CLASSIFICATION: "lightgbm.LGBMClassifier", REGRESSION: "lightgbm.LGBMRegressor"},
        parameters={
            "learning_rate": (0.01, 0.5, "log"),
            "n_estimators": (50, 1000, "log"),
            "num_leaves": (4, 256, "log"),
            "min_child_samples": (2, 100, "log"),
            "subsample": (0.3, 1.0),
            "colsample_bytree": (0.2, 1.0),
            "reg_lambda": (1e-4, 10.0, "log"),
            "reg_alpha": (1e-4, 10.0, "log"),
        },
        extra={CLASSIFICATION: _BALANCE},
        defaults={
            "learning_rate": 0.1,
            "n_estimators": 100,
            "num_leaves": 31,
            "min_child_samples": 20,
            "subsample": 1.0,
            "colsample_bytree": 1.0,
            "reg_lambda": 1e-4,
            "reg_alpha": 1e-4,
        },
        derive=_lightgbm,
        settings={"verbosity": -1},
    ),
    ReadySpace(
        "catboost",
        "CatBoost (package catboost)",
        {
            CLASSIFICATION: "catboost.CatBoostClassifier",
            REGRESSION: "catboost.CatBoostRegressor",
        },
        parameters={
            "learning_rate": (0.01, 0.3, "log"),
            "iterations": (100, 1000, "log"),
            "depth": (2, 10),
            "l2_leaf_reg": (0.3, 30.0, "log"),
            "random_strength": (0.01, 10.0, "log"),
            "rsm": (0.3, 1.0),
        },
        extra={CLASSIFICATION: {"auto_class_weights": ["None", "Balanced"]}},
        defaults={
            "learning_rate": 0.03,
            "iterations": 1000,
            "depth": 6,
            "l2_leaf_reg": 3.0,
            "random_strength": 1.0,
            "rsm": 1.0,
        },
        settings={"verbose": 0, "allow_writing_files": False},
    ),
)
