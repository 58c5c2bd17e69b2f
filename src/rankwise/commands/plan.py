"""From a request to what a search needs: rows, estimators, folds, and notes on all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise import methods
from rankwise.commands.request import AUTO, Request
from rankwise.commands.scores import metric_for
from rankwise.errors import OptionError
from rankwise.tabular import Preparation, Problem, read_table
from rankwise.tabular.problem import CLASSIFICATION, REGRESSION

PREPARE, MODEL = "prepare", "model"
"""The steps of the pipelines that are tuned."""

_CHOICE = {
    CLASSIFICATION: ("hist-gradient-boosting", "random-forest", "logistic-regression"),
    REGRESSION: ("hist-gradient-boosting", "random-forest", "ridge"),
}
_SMALL, _FOR_SMALL = 5000, "svc"  # rows up to which a kernel machine is quick
_UNSCALED = (
    "random-forest",
    "extra-trees",
    "decision-tree",
    "hist-gradient-boosting",
    "gradient-boosting",
    "xgboost",
    "lightgbm",
    "catboost",
    "gaussian-nb",
    "multinomial-nb",
)
"""Estimators to which the scale of a column means nothing, or everything."""
_ONE_SIDED = ("average_precision", "f1", "jaccard", "precision", "recall")
_LARGE = 10_000  # rows from which several threads are worth it for one fit
_TRIED = 200  # rows on which an estimator shows that it can be fitted and scored


@dataclass(frozen=True)
class Plan:
    """A request with its data.

    Attributes:
        request: as it was made.
        problem: of all rows.
        train: the rows that are searched on.
        held: the rows that are held out; None if there are none.
        metric: a scorer of scikit-learn.
        estimators: a pipeline for each name; more than one is a choice.
        folds: a splitter of scikit-learn.
        notes: sentences on what was guessed or left out.
    """

    request: Request
    problem: Problem
    train: Problem
    held: Problem | None
    metric: str
    estimators: dict[str, Any]
    folds: Any
    notes: tuple[str, ...]


def prepare(request: Request) -> Plan:
    """Read the data and make everything ready; nothing is recorded yet.

    Raises:
        TableError: nothing can be learnt from the file.
        OptionError, UnknownNameError: an option does not go with the data.
    """
    methods.check_values(*methods.split(request.method))  # before a study is begun
    problem = Problem.of(read_table(request.data), request.target, request.task)
    notes = list(problem.notes)
    rest, held = problem, None
    if request.holdout > 0:
        rest, held = problem.split(request.holdout, request.seed)
        held = held.sample(request.rows, request.seed)
    train = rest.sample(request.rows, request.seed)
    if len(train) < len(rest):
        notes.append(f"Of {len(rest)} rows {len(train)} are drawn to search on (--rows for more).")
    notes += Preparation().fit(train.X).notes
    metric = metric_for(request.metric, train)
    if train.classes is not None and metric in _ONE_SIDED:
        notes.append(f"{metric} is that of class {str(train.classes[-1])!r}.")
    folds, n = _folds(train, request.cv, metric, request.seed)
    if n < request.cv:
        notes.append(f"There are too few rows of a class for {request.cv} folds: {n} are used.")
    estimators = _usable(_estimators(request, train), train, metric, notes)
    return Plan(request, problem, train, held, metric, estimators, folds, tuple(notes))


def threads_for(rows: int) -> Any:
    """A context in which fits to so many rows take one thread or as many as they like.

    Threads that wait for each other on a busy machine made boosted trees twenty times as slow.
    """
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1 if rows < _LARGE else None)


def _estimators(request: Request, train: Problem) -> dict[str, Any]:
    names = [request.estimator]
    if request.estimator == AUTO:
        names = [*_CHOICE[train.kind], *([_FOR_SMALL] if len(train) < _SMALL else [])]
    return {name: _pipeline(name, train.kind, request.seed) for name in names}


def _pipeline(name: str, kind: str, seed: int) -> Any:
    """The preparation that an estimator needs, and the estimator."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils import get_tags

    from rankwise.learners import make_estimator

    estimator = make_estimator(name, kind, seed)
    preparation = Preparation(
        impute=not get_tags(estimator).input_tags.allow_nan, scale=name not in _UNSCALED
    )
    return Pipeline([(PREPARE, preparation), (MODEL, estimator)])


def _usable(
    estimators: dict[str, Any], train: Problem, metric: str, notes: list[str]
) -> dict[str, Any]:
    """Those that can be fitted and scored with this metric.

    Raises:
        OptionError: none can.
    """
    from sklearn.base import clone
    from sklearn.metrics import get_scorer

    some, usable, reason = train.sample(_TRIED, 0), {}, ""
    for name, estimator in estimators.items():
        try:
            with threads_for(len(some)):
                score = get_scorer(metric)(clone(estimator).fit(some.X, some.y), some.X, some.y)
            reason = f"its {metric} is {score}"
        except Exception as error:  # estimators and scorers raise many kinds
            score, reason = np.nan, str(error).strip().splitlines()[0].rstrip(".")
        if np.isfinite(score):
            usable[name] = estimator
        elif len(estimators) > 1:
            notes.append(f"{name} is not among the choices: {reason}.")
    if not usable:
        raise OptionError(
            f"{', '.join(estimators)} cannot be tuned for {metric} on these data: {reason}; "
            "choose another --estimator or --metric"
        )
    return usable


def _folds(train: Problem, cv: int, metric: str, seed: int) -> tuple[Any, int]:
    """A splitter and its number of folds: so many that each can be scored."""
    from sklearn.model_selection import KFold, StratifiedKFold

    if train.classes is None:
        n = min(cv, len(train) // 2)
        return KFold(n, shuffle=True, random_state=seed), n
    counts = np.sort(np.bincount(train.y.astype(np.int64)))
    # Where a score needs all classes the rarest one decides, else two of them.
    needed = counts[0] if len(counts) == 2 or metric.startswith("roc_auc") else counts[-2]
    n = max(2, min(cv, int(needed)))
    return StratifiedKFold(n, shuffle=True, random_state=seed), n
