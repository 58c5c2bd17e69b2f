"""The choice of a metric, and scores with intervals on held-out rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.errors import OptionError, UnknownNameError
from rankwise.integrations.sklearn.objectives import SECONDS
from rankwise.run.several import MOST
from rankwise.tabular.problem import CLASSIFICATION, REGRESSION, Problem

_RESAMPLES = 60  # bootstrap samples; the standard error is known to about 10 %
_RESPONSES = ("predict", "predict_proba", "decision_function")
_NEGATIVE = "neg_"
_Z = 1.96  # of a 95 % interval
_SHARES = (
    "accuracy",
    "average_precision",
    "balanced_accuracy",
    "f1",
    "jaccard",
    "precision",
    "recall",
    "roc_auc",
    "top_k_accuracy",
)
"""Metrics between 0 and 1, with variants such as "f1_macro": their intervals are Wilson's."""
_AT_MOST_1 = ("d2_", "explained_variance", "matthews_corrcoef", "r2")
"""Other metrics of which 1 is the best score."""


def metrics_for(names: str | None, problem: Problem) -> tuple[str, ...]:
    """The metrics of a comma-separated list, checked: scorers and objectives in seconds.

    Raises:
        UnknownNameError: a metric does not exist; the message lists them.
        OptionError: a scorer cannot be used for this problem, or the list has no scorer, too many
            metrics or one of them twice.
    """
    wanted = [None] if names is None else [name.strip() for name in names.split(",")]
    found = tuple(
        name if name is not None and name in SECONDS else metric_for(name, problem, SECONDS)
        for name in wanted
    )
    if set(found) <= set(SECONDS):
        raise OptionError(
            f"--metric {names} has no score: add one, such as accuracy,{names} (or r2,{names})"
        )
    if len(found) > MOST or len(set(found)) < len(found):
        raise OptionError(f"--metric takes up to {MOST} different metrics, not {names}")
    return found


def metric_for(name: str | None, problem: Problem, more: Iterable[str] = ()) -> str:
    """The name of a scikit-learn scorer, checked; by default roc_auc, accuracy or r2.

    The prefix "neg_" of scikit-learn's names may be left out.

    Args:
        name: name of the scorer; None for the default.
        problem: the data.
        more: further names for the message about an unknown name.

    Raises:
        UnknownNameError: scikit-learn has no such scorer.
        OptionError: the scorer cannot be used for this problem.
    """
    from sklearn.metrics import get_scorer_names

    if name is None:
        if problem.kind != CLASSIFICATION:
            return "r2"
        return (
            "roc_auc" if problem.classes is not None and len(problem.classes) == 2 else "accuracy"
        )
    known = [scorer for scorer in get_scorer_names() if _kind(scorer)]
    metric = name if name in known else _NEGATIVE + name
    if metric not in known:
        raise UnknownNameError("metric", name, [*known, *more])
    _check(metric, problem)
    return metric


def _kind(metric: str) -> str:
    """The kind of problem that a scorer is for; "" for clustering scorers."""
    from sklearn.metrics import get_scorer

    from rankwise.integrations.sklearn.sklearn_private import score_function

    module = score_function(get_scorer(metric)).__module__
    if "cluster" in module:
        return ""
    return REGRESSION if module.endswith("_regression") else CLASSIFICATION


def _check(metric: str, problem: Problem) -> None:
    """Raise `OptionError` if the metric cannot score constant predictions on this problem."""
    score = np.nan
    reason = "its score is no number"
    try:
        if _kind(metric) == problem.kind:
            score = guessing(problem, problem, metric)
        else:
            reason = f"it is for {_kind(metric)}"
    except Exception as error:  # scorers raise many kinds
        reason = str(error).strip().splitlines()[0].rstrip(".")
    if not np.isfinite(score):
        classes = "" if problem.classes is None else f" of {len(problem.classes)} classes"
        raise OptionError(
            f"metric {metric!r} does not go with a {problem.kind}{classes}: {reason}; choose "
            "another --metric or --task"
        )


@dataclass(frozen=True)
class HeldOut:
    """A score on held-out rows.

    Attributes:
        score: score on all held-out rows; NaN if they do not define it, as roc_auc with one class.
        error: standard error by the bootstrap; NaN if it cannot be estimated.
        interval: 95 % interval of the score on new rows; NaNs if it cannot be estimated.
        resampled: (60,) scores of the bootstrap samples; NaN where the score is undefined.
    """

    score: float
    error: float
    interval: tuple[float, float]
    resampled: np.ndarray

    def gain(self, other: HeldOut) -> tuple[float, float]:
        """The difference to another score on the same rows, and its standard error."""
        return self.score - other.score, _deviation(self.resampled - other.resampled)


def held_out(model: Any, problem: Problem, metric: str) -> HeldOut:
    """The score of a fitted model on held-out rows, with a 95 % interval."""
    remembered, n = _Remembered(model, problem.X), len(problem)
    rng = np.random.default_rng(0)  # the same bootstrap samples for every model
    samples = [rng.integers(n, size=n) for _ in range(_RESAMPLES)]
    resampled = np.array([_scored(remembered, rows, problem.y[rows], metric) for rows in samples])
    score, error = _scored(remembered, np.arange(n), problem.y, metric), _deviation(resampled)
    return HeldOut(score, error, interval_of(score, error, metric, problem), resampled)


def interval_of(score: float, error: float, metric: str, problem: Problem) -> tuple[float, float]:
    """A 95 % interval of a score: Wilson's for scores between 0 and 1, else score ± 1.96 errors.

    No interval goes beyond the score of exact predictions.

    The bootstrap knows no error where all rows are predicted right. Wilson's interval does: it
    needs the number of rows that the score is a proportion of. That is all rows for accuracy. For
    other scores the bootstrap error tells the number of rows, and where it is 0 the rows of the
    rarest class count.

    Args:
        score: the score on the held-out rows.
        error: its standard error by the bootstrap.
        metric: name of a scikit-learn scorer.
        problem: the held-out rows.
    """
    if not np.isfinite(score):
        return np.nan, np.nan
    if problem.classes is None or not metric.startswith(_SHARES):
        if not error > 0:  # the rows are too few, or all of them are predicted exactly
            return np.nan, np.nan
        return score - _Z * error, min(score + _Z * error, _best(metric))
    n = float(len(problem))
    if metric != "accuracy":
        counts = np.bincount(problem.y.astype(np.int64))
        n = score * (1 - score) / error**2 if error > 0 else float(counts[counts > 0].min())
    return wilson(score, min(max(n, 1.0), len(problem)))


def _best(metric: str) -> float:
    """The score of exact predictions."""
    if metric.startswith(_NEGATIVE):
        return 0.0
    return 1.0 if metric.startswith(_AT_MOST_1) else np.inf


def wilson(share: float, n: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a proportion that was found among n cases."""
    scale = 1 + _Z**2 / n
    middle = (share + _Z**2 / (2 * n)) / scale
    half = _Z / scale * np.sqrt(max(share * (1 - share), 0.0) / n + _Z**2 / (4 * n**2))
    return float(max(middle - half, 0.0)), float(min(middle + half, 1.0))


def _scored(model: Any, rows: Any, y: Any, metric: str) -> float:
    """The score of a model; NaN if these rows do not define it."""
    from sklearn.metrics import get_scorer

    scorer = get_scorer(metric)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn warns that a class is missing
            return float(scorer(model, rows, y))
    except ValueError:  # a class is missing from the rows
        return np.nan


def guessing(train: Problem, held: Problem, metric: str) -> float:
    """The score of constant predictions: class frequencies or the mean of the target."""
    from sklearn.dummy import DummyClassifier, DummyRegressor

    classifies = train.kind == CLASSIFICATION
    dummy = DummyClassifier(strategy="prior") if classifies else DummyRegressor()
    return _scored(dummy.fit(train.X, train.y), held.X, held.y, metric)


def _deviation(scores: np.ndarray) -> float:
    known = scores[np.isfinite(scores)]
    return float(known.std()) if len(known) > 1 else float("nan")


class _Remembered:
    """A fitted model with precomputed predictions, looked up by row index.

    The bootstrap scores the same rows many times; predictions are computed only once.
    """

    def __init__(self, model: Any, X: Any) -> None:
        self._model = model
        for response in _RESPONSES:
            if hasattr(model, response):
                setattr(self, response, _lookup(response, getattr(model, response)(X)))
        if hasattr(model, "classes_"):
            self.classes_ = model.classes_

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        return get_tags(self._model)


def _lookup(name: str, answers: Any) -> Callable[[Any], Any]:
    known = np.asarray(answers)

    def answer(rows: Any) -> Any:
        return known[rows]

    answer.__name__ = name  # scikit-learn's scorers read the name
    return answer
