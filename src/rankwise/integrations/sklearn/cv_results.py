"""Rows of `cv_results_`, and their conversion to and from stored trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rankwise.history.task import FAILED, INVALID, OK
from rankwise.run.evaluation import Evaluation

FOLD = ("fit_time", "score_time", "test_scores")
"""Keys of scikit-learn's result of one fit that are kept."""
TRAIN = "train_scores"
"""Key of the score on the training rows, which scikit-learn computes if it is asked to."""


@dataclass(frozen=True)
class Row:
    """Cross-validation results of one configuration with a share of the rows.

    Attributes:
        number: number of the trial.
        params: parameters that were set on the estimator.
        folds: for each split the seconds of the fit and of scoring, and the score; a dict of
            scores if there are several metrics; also the training score if it was computed.
        rung: index of the share, from 0; the last one is all rows.
        n_resources: number of rows of the share.
        error: error of the first failed fit; "" if none failed.
    """

    number: int
    params: dict[str, Any]
    folds: tuple[dict[str, Any], ...]
    rung: int
    n_resources: int
    error: str = ""

    def metric(self, wanted: Any) -> str | None:
        """Name of the optimized metric: `wanted` or the first; None with a single metric."""
        scores = self.folds[0]["test_scores"]
        if not isinstance(scores, Mapping):
            return None
        return wanted if isinstance(wanted, str) and wanted in scores else next(iter(scores))

    def scores(self, metric: str | None, kind: str = "test_scores") -> list[float]:
        """Score of each fold; `kind` is "test_scores" or `TRAIN`."""
        found = [fold[kind] for fold in self.folds]
        return [float(s if metric is None else s[metric]) for s in found]

    def value(self, wanted: Any) -> float:
        """Mean score of the optimized metric."""
        metric = self.metric(wanted)
        if metric not in self._means:
            self._means[metric] = float(np.mean(self.scores(metric)))
        return self._means[metric]

    @cached_property
    def _means(self) -> dict[str | None, float]:
        """Mean scores by metric that were computed before."""
        return {}

    @property
    def seconds(self) -> float:
        """Total seconds of all fits and their scoring."""
        return float(sum(fold["fit_time"] + fold["score_time"] for fold in self.folds))

    @property
    def fitted(self) -> bool:
        """True if at least one fit gave a finite score."""
        return any(math.isfinite(s) for s in self.scores(self.metric(None)))


def make_row(
    number: int,
    params: dict[str, Any],
    out: Sequence[Mapping[str, Any]],
    rung: int,
    n_resources: int,
) -> Row:
    """Make a row from the results of scikit-learn's fits, one per split."""
    errors = [text for fold in out if (text := fold.get("fit_error"))]
    error = errors[0].strip().splitlines()[-1] if errors else ""
    folds = tuple({key: fold[key] for key in (*FOLD, TRAIN) if key in fold} for fold in out)
    return Row(number, params, folds, rung, n_resources, error)


def evaluation_of(rows: Sequence[Row], wanted: Any, values: Sequence[float] = ()) -> Evaluation:
    """The evaluation of a trial from its rows; the last row decides.

    Args:
        rows: the rows of the trial.
        wanted: name of the optimized metric, or any other value of `refit`.
        values: values of all objectives if there are several; then the first is the value.
    """
    last, seconds = rows[-1], sum(row.seconds for row in rows)
    value = values[0] if values else last.value(wanted)
    if all(map(math.isfinite, values or (value,))):
        return Evaluation(OK, value, seconds, values=tuple(values))
    value = next((v for v in values if not math.isfinite(v)), value)
    if last.error:
        return Evaluation(FAILED, cost=seconds, error=last.error, kind=FAILED)
    message = f"the mean score is {value}"
    return Evaluation(INVALID, cost=seconds, error=message, kind=INVALID)


def table_of(
    rows: Sequence[Row], *, stepwise: bool, train: bool = False
) -> tuple[list[dict[str, Any]], int, list[dict[str, Any]], dict[str, list[int]]]:
    """Rows in the order of the trials, in the form of `BaseSearchCV._format_results`.

    Args:
        rows: at least one row.
        stepwise: True if a trial may have several rows.
        train: True for training scores; they are NaN for trials that were resumed without.
    """
    rows = sorted(rows, key=lambda row: (row.number, row.rung))
    folds = [{key: fold[key] for key in FOLD} for row in rows for fold in row.folds]
    if train:
        known = (fold.get(TRAIN, math.nan) for row in rows for fold in row.folds)
        for fold, score in zip(folds, known, strict=True):
            fold[TRAIN] = score
    name_scores(folds, rows)
    more = {"trial": [row.number for row in rows]}
    if stepwise:
        more["n_resources"] = [row.n_resources for row in rows]
    return [row.params for row in rows], len(rows[0].folds), folds, more


def name_scores(folds: Sequence[dict[str, Any]], rows: Sequence[Row]) -> None:
    """Give failed fits one score per metric, in place, as successful fits have."""
    known = (row.folds[0]["test_scores"] for row in rows if row.metric(None) is not None)
    names = next(known, None)
    if names is None:
        return
    for fold in folds:
        for kind in ("test_scores", TRAIN):
            if kind in fold and not isinstance(fold[kind], Mapping):
                fold[kind] = dict.fromkeys(names, fold[kind])


# ---------------------------------------------------------------------- in a study


def facts_of(rows: Sequence[Row], wanted: Any) -> dict[str, Any]:
    """The facts that are stored with a trial, in a form that JSON can represent."""
    last = rows[-1]
    metric = last.metric(wanted)
    facts: dict[str, Any] = {
        "folds": _plain(last.scores(metric)),
        "fit_seconds": float(np.mean([fold["fit_time"] for fold in last.folds])),
        "rows": [_stored(row) for row in rows],
    }
    if metric is not None:
        names = last.folds[0]["test_scores"]
        means = _plain([float(np.mean(last.scores(name))) for name in names])
        facts["scores"] = dict(zip(names, means, strict=True))
    return facts


def rows_of(number: int, params: dict[str, Any], stored: Any) -> list[Row]:
    """The rows of a stored trial; none if another program stored it."""
    return [_restored(number, params, row) for row in stored or ()]


def _stored(row: Row) -> dict[str, Any]:
    metric = row.metric(None)
    names = None if metric is None else list(row.folds[0]["test_scores"])

    def scores(kind: str) -> Any:
        if names is None:
            return _plain(row.scores(None, kind))
        return {name: _plain(row.scores(name, kind)) for name in names}

    stored = {
        "rung": row.rung,
        "n_resources": row.n_resources,
        "fit_seconds": [fold["fit_time"] for fold in row.folds],
        "score_seconds": [fold["score_time"] for fold in row.folds],
        "scores": scores("test_scores"),
    }
    return {**stored, TRAIN: scores(TRAIN)} if TRAIN in row.folds[0] else stored


def _restored(number: int, params: dict[str, Any], stored: Mapping[str, Any]) -> Row:
    columns = [stored["fit_seconds"], stored["score_seconds"], _per_fold(stored["scores"])]
    keys = list(FOLD)
    if TRAIN in stored:
        columns.append(_per_fold(stored[TRAIN]))
        keys.append(TRAIN)
    folds = tuple(dict(zip(keys, fold, strict=True)) for fold in zip(*columns, strict=True))
    return Row(number, params, folds, stored["rung"], stored["n_resources"])


def _per_fold(scores: Any) -> list[Any]:
    """Stored scores as one number per fold, or one dict of numbers with several metrics."""
    if not isinstance(scores, Mapping):
        return list(_numbers(scores))
    columns = {name: _numbers(values) for name, values in scores.items()}
    folds = zip(*columns.values(), strict=True)
    return [dict(zip(columns, values, strict=True)) for values in folds]


def _plain(values: Sequence[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values]


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]
