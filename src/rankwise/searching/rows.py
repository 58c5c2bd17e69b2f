"""Rows of `cv_results_`: what cross-validation gave, and the same as facts of a stored trial."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.evaluation import Evaluation
from rankwise.task import FAILED, INVALID, OK

FOLD = ("fit_time", "score_time", "test_scores")
"""What scikit-learn says of one fit, as far as it is kept."""


@dataclass(frozen=True)
class Row:
    """One configuration, cross-validated with a share of the data.

    Attributes:
        number: of the trial.
        params: as they are set on the estimator.
        folds: for each split the seconds of the fit and of scoring, and the score; a dict of
            scores if there are several metrics.
        rung: the number of the share, from 0; the largest one is all of the data.
        n_resources: rows of the data set that the share has.
        error: the first one of the fits, if any failed.
    """

    number: int
    params: dict[str, Any]
    folds: tuple[dict[str, Any], ...]
    rung: int
    n_resources: int
    error: str = ""

    def metric(self, wanted: Any) -> str | None:
        """The name of the metric that is optimized: `wanted` or the first; None if only one."""
        scores = self.folds[0]["test_scores"]
        if not isinstance(scores, Mapping):
            return None
        return wanted if isinstance(wanted, str) and wanted in scores else next(iter(scores))

    def scores(self, metric: str | None) -> list[float]:
        """One per fold."""
        found = [fold["test_scores"] for fold in self.folds]
        return [float(s if metric is None else s[metric]) for s in found]

    def value(self, wanted: Any) -> float:
        """The mean of the scores of the metric that is optimized."""
        return float(np.mean(self.scores(self.metric(wanted))))

    @property
    def seconds(self) -> float:
        """Of all fits and their scoring."""
        return float(sum(fold["fit_time"] + fold["score_time"] for fold in self.folds))

    @property
    def fitted(self) -> bool:
        """Whether at least one fit gave a score."""
        return any(math.isfinite(s) for s in self.scores(self.metric(None)))


def make_row(
    number: int,
    params: dict[str, Any],
    out: Sequence[Mapping[str, Any]],
    rung: int,
    n_resources: int,
) -> Row:
    """A row from what scikit-learn's fits returned, one per split."""
    errors = [text for fold in out if (text := fold.get("fit_error"))]
    error = errors[0].strip().splitlines()[-1] if errors else ""
    folds = tuple({key: fold[key] for key in FOLD} for fold in out)
    return Row(number, params, folds, rung, n_resources, error)


def evaluation_of(rows: Sequence[Row], wanted: Any) -> Evaluation:
    """What came of a trial, by its rows; the last one counts."""
    last, seconds = rows[-1], sum(row.seconds for row in rows)
    value = last.value(wanted)
    if math.isfinite(value):
        return Evaluation(OK, value, seconds)
    if last.error:
        return Evaluation(FAILED, cost=seconds, error=last.error, kind=FAILED)
    message = f"the mean score is {value}"
    return Evaluation(INVALID, cost=seconds, error=message, kind=INVALID)


def table_of(
    rows: Sequence[Row], *, stepwise: bool
) -> tuple[list[dict[str, Any]], int, list[dict[str, Any]], dict[str, list[int]]]:
    """Rows in the order of the trials, as `BaseSearchCV._format_results` takes them.

    Args:
        rows: at least one.
        stepwise: whether there are several per trial.
    """
    rows = sorted(rows, key=lambda row: (row.number, row.rung))
    folds = [dict(fold) for row in rows for fold in row.folds]
    name_scores(folds, rows)
    more = {"trial": [row.number for row in rows]}
    if stepwise:
        more["n_resources"] = [row.n_resources for row in rows]
    return [row.params for row in rows], len(rows[0].folds), folds, more


def name_scores(folds: Sequence[dict[str, Any]], rows: Sequence[Row]) -> None:
    """Give fits that failed before the metrics were known a score for each of them, in place."""
    known = (row.folds[0]["test_scores"] for row in rows if row.metric(None) is not None)
    names = next(known, None)
    for fold in folds:
        if names is not None and not isinstance(fold["test_scores"], Mapping):
            fold["test_scores"] = dict.fromkeys(names, fold["test_scores"])


# ---------------------------------------------------------------------- in a study


def facts_of(rows: Sequence[Row], wanted: Any) -> dict[str, Any]:
    """What is stored with a trial; all numbers are such that JSON has them."""
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
    """The rows of a stored trial; none if it was stored by something else."""
    return [_restored(number, params, row) for row in stored or ()]


def _stored(row: Row) -> dict[str, Any]:
    metric = row.metric(None)
    names = None if metric is None else list(row.folds[0]["test_scores"])
    return {
        "rung": row.rung,
        "n_resources": row.n_resources,
        "fit_seconds": [fold["fit_time"] for fold in row.folds],
        "score_seconds": [fold["score_time"] for fold in row.folds],
        "scores": _plain(row.scores(None))
        if names is None
        else {name: _plain(row.scores(name)) for name in names},
    }


def _restored(number: int, params: dict[str, Any], stored: Mapping[str, Any]) -> Row:
    scores: list[Any]
    if isinstance(stored["scores"], Mapping):
        columns = {name: _numbers(values) for name, values in stored["scores"].items()}
        rows = zip(*columns.values(), strict=True)
        scores = [dict(zip(columns, values, strict=True)) for values in rows]
    else:
        scores = _numbers(stored["scores"])
    times = stored["fit_seconds"], stored["score_seconds"]
    folds = tuple(dict(zip(FOLD, fold, strict=True)) for fold in zip(*times, scores, strict=True))
    return Row(number, params, folds, stored["rung"], stored["n_resources"])


def _plain(values: Sequence[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values]


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]
