"""Metrics of the command line, and honest scores on rows that were held out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.errors import OptionError, UnknownNameError
from rankwise.tabular.problem import CLASSIFICATION, REGRESSION, Problem

_RESAMPLES = 60  # enough for an error to a tenth
_RESPONSES = ("predict", "predict_proba", "decision_function")
_NEGATIVE = "neg_"


def metric_for(name: str | None, problem: Problem) -> str:
    """The scorer of that name, or the usual one of the problem.

    Metrics that scikit-learn has with a minus in front may be written without "neg_".

    Raises:
        UnknownNameError: scikit-learn has no such scorer.
        OptionError: it does not go with the problem.
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
        raise UnknownNameError("metric", name, known)
    _check(metric, problem)
    return metric


def _kind(metric: str) -> str:
    """Of the problems that a scorer is for; "" if it is for clusters."""
    from sklearn.metrics import get_scorer

    module = get_scorer(metric)._score_func.__module__
    if "cluster" in module:
        return ""
    return REGRESSION if module.endswith("_regression") else CLASSIFICATION


def _check(metric: str, problem: Problem) -> None:
    """Raise if guessing cannot even be scored."""
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
    """A score on rows that were held out.

    Attributes:
        score: of all of them.
        error: standard error, from resampled rows.
        resampled: (60,) the scores of the resamples; NaN where there was none.
    """

    score: float
    error: float
    resampled: np.ndarray

    def gain(self, other: HeldOut) -> tuple[float, float]:
        """How much better than another on the same rows, and the standard error of that."""
        return self.score - other.score, _deviation(self.resampled - other.resampled)


def held_out(model: Any, problem: Problem, metric: str) -> HeldOut:
    """The score of a fitted model, with an error from resamples of the rows."""
    from sklearn.metrics import get_scorer

    scorer = get_scorer(metric)
    remembered, n = _Remembered(model, problem.X), len(problem)
    rng = np.random.default_rng(0)  # the same rows for every model
    resampled = np.full(_RESAMPLES, np.nan)
    for k in range(_RESAMPLES):
        rows = rng.integers(n, size=n)
        try:
            resampled[k] = scorer(remembered, rows, problem.y[rows])
        except ValueError:  # a class is not among them
            continue
    score = float(scorer(remembered, np.arange(n), problem.y))
    return HeldOut(score, _deviation(resampled), resampled)


def guessing(train: Problem, held: Problem, metric: str) -> float:
    """The score of always saying the same: what can be had without looking at any column."""
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.metrics import get_scorer

    classifies = train.kind == CLASSIFICATION
    dummy = DummyClassifier(strategy="prior") if classifies else DummyRegressor()
    return float(get_scorer(metric)(dummy.fit(train.X, train.y), held.X, held.y))


def _deviation(scores: np.ndarray) -> float:
    known = scores[np.isfinite(scores)]
    return float(known.std()) if len(known) > 1 else float("nan")


class _Remembered:
    """A fitted model that has answered for all rows already; asked by numbers of rows."""

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

    answer.__name__ = name  # scikit-learn goes by it
    return answer
