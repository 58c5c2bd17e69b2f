"""Scores of fitted models, at the end of training and at intermediate iterations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import balanced_accuracy_score

from benchmarks.builtin.library import CLASSIFICATION, REGRESSION

METRICS = {
    CLASSIFICATION: ("accuracy", "balanced_accuracy", "log_loss", "roc_auc"),
    REGRESSION: ("r2", "mae", "rmse"),
}
CURVE_METRICS = {CLASSIFICATION: ("accuracy", "log_loss"), REGRESSION: ("r2", "rmse")}
FRACTIONS = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1.0)
"""Shares of the iterations at which curves are recorded; the iteration is rounded up."""

Stage = tuple[np.ndarray, np.ndarray | None]
"""Predictions, and probabilities (classification only)."""


def iterations_at(total: int) -> list[int]:
    """The iterations, from 1, at which the curve of a training of `total` is recorded."""
    return [math.ceil(fraction * total) for fraction in FRACTIONS]


def scores(model: Any, X: np.ndarray, y: np.ndarray, kind: str) -> dict[str, float | None]:
    """All metrics of a fitted model; log loss is None for a model without probabilities."""
    predicted = model.predict(X)
    if kind == REGRESSION:
        return regression_scores(y, predicted)
    probabilities = model.predict_proba(X) if hasattr(model, "predict_proba") else None
    margins = model.decision_function(X) if probabilities is None else probabilities
    return {
        "accuracy": float(np.mean(predicted == y)),
        "balanced_accuracy": float(balanced_accuracy_score(y, predicted)),
        "log_loss": None if probabilities is None else log_loss(y, probabilities),
        "roc_auc": roc_auc(y, margins),
    }


def regression_scores(y: np.ndarray, predicted: np.ndarray) -> dict[str, float | None]:
    """R², mean absolute error and root mean squared error."""
    error = np.asarray(predicted, dtype=float).ravel() - y
    squared, spread = float(np.mean(error**2)), float(np.var(y))
    r2 = 1.0 - squared / spread if spread > 0 else float(squared == 0)
    return {"r2": r2, "mae": float(np.mean(np.abs(error))), "rmse": math.sqrt(squared)}


def log_loss(y: np.ndarray, probabilities: np.ndarray) -> float:
    """Mean negative log likelihood of classes y (n,), clipped as scikit-learn clips it."""
    eps = np.finfo(probabilities.dtype).eps
    rows = np.clip(probabilities, eps, 1 - eps)
    rows = rows / rows.sum(axis=1, keepdims=True)
    return float(-np.mean(np.log(rows[np.arange(len(y)), y].astype(float))))


def roc_auc(y: np.ndarray, margins: np.ndarray) -> float:
    """Area under the ROC curve; the mean of one-vs-rest areas for more than two classes.

    Args:
        y: classes 0, 1, ... (n,).
        margins: (n,) of class 1, or (n, classes).
    """
    if margins.ndim == 1:
        return _area(y == 1, margins)
    if margins.shape[1] == 2:
        return _area(y == 1, margins[:, 1])
    return float(np.nanmean([_area(y == k, margins[:, k]) for k in range(margins.shape[1])]))


def _area(positive: np.ndarray, margin: np.ndarray) -> float:
    n, m = int(positive.sum()), int((~positive).sum())
    if not n or not m:
        return float("nan")
    return float((rankdata(margin)[positive].sum() - n * (n + 1) / 2) / (n * m))


def curve(stages: Iterator[Stage], y: np.ndarray, kind: str) -> dict[str, list[float]]:
    """The metrics of `CURVE_METRICS` after each recorded iteration."""
    found: dict[str, list[float]] = {name: [] for name in CURVE_METRICS[kind]}
    for predicted, probabilities in stages:
        if kind == REGRESSION:
            values: dict[str, Any] = regression_scores(y, predicted)
        else:
            assert probabilities is not None
            values = {
                "accuracy": float(np.mean(predicted == y)),
                "log_loss": log_loss(y, probabilities),
            }
        for name, column in found.items():
            column.append(values[name])
    return found


def stages_of(name: str, model: Any, X: np.ndarray, kind: str) -> Iterator[Stage] | None:
    """Predictions of a fitted model at each recorded iteration; None if it has no stages."""
    makers: dict[str, Callable[[Any, np.ndarray, str], Iterator[Stage]]] = {
        "hist-gradient-boosting": _hist,
        "lightgbm": _lightgbm,
        "xgboost": _xgboost,
        "mlp": _mlp,
    }
    return makers[name](model, X, kind) if name in makers else None


def _hist(model: Any, X: np.ndarray, kind: str) -> Iterator[Stage]:
    wanted = iterations_at(model.n_iter_)
    staged = model.staged_predict_proba if kind == CLASSIFICATION else model.staged_predict
    for i, output in enumerate(staged(X), start=1):
        for _ in range(wanted.count(i)):
            yield _stage(output, kind)


def _lightgbm(model: Any, X: np.ndarray, kind: str) -> Iterator[Stage]:
    predict = model.predict_proba if kind == CLASSIFICATION else model.predict
    for i in iterations_at(model.n_estimators):
        yield _stage(predict(X, num_iteration=i), kind)


def _xgboost(model: Any, X: np.ndarray, kind: str) -> Iterator[Stage]:
    predict = model.predict_proba if kind == CLASSIFICATION else model.predict
    for i in iterations_at(model.n_estimators):
        yield _stage(predict(X, iteration_range=(0, i)), kind)


def _mlp(model: Any, X: np.ndarray, kind: str) -> Iterator[Stage]:
    """Stages of a network that `networks.fit_in_steps` trained."""
    for snapshot in model.snapshots_:
        predict = snapshot.predict_proba if kind == CLASSIFICATION else snapshot.predict
        yield _stage(predict(X), kind)


def _stage(output: np.ndarray, kind: str) -> Stage:
    return (output.argmax(axis=1), output) if kind == CLASSIFICATION else (output, None)
