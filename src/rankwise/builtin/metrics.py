"""Which recorded metric stands for the metric of a study."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase

EXACT = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced_accuracy",
    "log_loss": "log_loss",
    "neg_log_loss": "log_loss",
    "roc_auc*": "roc_auc",
    "r2": "r2",
    "mae": "mae",
    "neg_mean_absolute_error": "mae",
    "rmse": "rmse",
    "neg_root_mean_squared_error": "rmse",
    "neg_mean_squared_error": "rmse",
}
"""Patterns of scikit-learn's scorers that order configurations as a recorded metric does."""

NEAREST = {
    "f1*": "balanced_accuracy",
    "precision*": "balanced_accuracy",
    "recall*": "balanced_accuracy",
    "jaccard*": "balanced_accuracy",
    "matthews_corrcoef": "balanced_accuracy",
    "average_precision": "roc_auc",
    "neg_brier_score": "log_loss",
    "d2_log_loss_score": "log_loss",
    "d2_brier_score": "log_loss",
    "*absolute*": "mae",
    "*squared*": "rmse",
}
_OTHERS = {"log_loss": ("roc_auc",), "roc_auc": ("balanced_accuracy",)}
_DEFAULT = ("accuracy", "r2")


def recorded_metric(scoring: str, recorded: Collection[str]) -> tuple[str, bool]:
    """The recorded metric that is nearest to a scorer, and True if it is the same.

    Args:
        scoring: name of a scikit-learn scorer; any other text has the default metric.
        recorded: names of the recorded metrics, at least one.
    """
    exact = [metric for pattern, metric in EXACT.items() if fnmatchcase(scoring, pattern)]
    near = [metric for pattern, metric in NEAREST.items() if fnmatchcase(scoring, pattern)]
    wanted = [*exact, *near]
    wanted += [other for metric in wanted for other in _OTHERS.get(metric, ())]
    found = next((m for m in (*wanted, *_DEFAULT) if m in recorded), next(iter(recorded)))
    return found, found in exact
