"""Preparation of a search: reads the data and chooses rows, estimators, metric and folds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwise import methods
from rankwise.cli.tune.request import AUTO, Request
from rankwise.cli.tune.scores import metrics_for
from rankwise.errors import OptionError, check_name
from rankwise.integrations.sklearn.objectives import SECONDS
from rankwise.run.result import COMPROMISE
from rankwise.tabular import Preparation, Problem, read_table
from rankwise.tabular.problem import CLASSIFICATION, REGRESSION
from rankwise.tabular.reading import has_header

PREPARE, MODEL = "prepare", "model"
"""Step names of the pipelines that are tuned."""

_CHOICE = {
    CLASSIFICATION: ("hist-gradient-boosting", "random-forest", "logistic-regression"),
    REGRESSION: ("hist-gradient-boosting", "random-forest", "ridge"),
}
_SMALL, _FOR_SMALL = 5000, "svc"  # below this number of rows a kernel machine is fast enough
UNSCALED = (
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
"""Estimators whose columns are not scaled: trees and Gaussian naive Bayes do not depend on the
scale, and multinomial naive Bayes needs the original counts."""
_ONE_SIDED = ("average_precision", "f1", "jaccard", "precision", "recall")
"""Metrics that score one class, the positive one."""
_LARGE = 10_000  # from this number of rows a single fit gains from several threads
_TRIED = 200  # rows used to check that an estimator can be fitted and scored


@dataclass(frozen=True)
class Plan:
    """A request together with everything that its search needs.

    Attributes:
        request: the options of `rankwise tune`.
        problem: the data with all rows.
        train: the rows that the search uses.
        held: the held-out rows; None without a holdout.
        metric: name of a scikit-learn scorer; of several metrics the first that is a score.
        estimators: pipelines by name. If there are several, the search also chooses among them.
        folds: a scikit-learn splitter.
        notes: sentences about guesses and omitted rows, columns or estimators.
        objectives: names of the metrics that are optimized together; empty for one metric.
    """

    request: Request
    problem: Problem
    train: Problem
    held: Problem | None
    metric: str
    estimators: dict[str, Any]
    folds: Any
    notes: tuple[str, ...]
    objectives: tuple[str, ...] = ()

    @property
    def scores(self) -> list[str]:
        """The metrics that are scores; the first is `metric`."""
        return [name for name in self.objectives if name not in SECONDS] or [self.metric]

    @property
    def choose(self) -> str | None:
        """`--choose` as the name of an objective; "neg_" may be left out."""
        full = f"neg_{self.request.choose}"
        return full if full in self.objectives else self.request.choose

    @property
    def directions(self) -> list[str]:
        """The direction of each metric."""
        names = self.objectives or (self.metric,)
        return ["minimize" if name in SECONDS else "maximize" for name in names]


def prepare(request: Request) -> Plan:
    """Read the data and choose rows, metric, folds and estimators. Stores nothing.

    Raises:
        TableError: the file cannot be read or has no usable target or columns.
        OptionError, UnknownNameError: an option is wrong for these data.
    """
    methods.check_values(*methods.split(request.method))  # before a study is created
    frame = read_table(request.data, header=request.header)
    problem = Problem.of(frame, request.target, request.task)
    notes = list(problem.notes)
    if request.header is None and not has_header(request.data):
        notes.insert(0, without_header(request.data, frame.shape[1]))
    rest, held = problem, None
    if request.holdout > 0:
        rest, held = problem.split(request.holdout, request.seed)
        held = held.sample(request.rows, request.seed)
    train = rest.sample(request.rows, request.seed)
    if len(train) < len(rest):
        notes.append(
            f"The search uses {len(train)} of {len(rest)} rows, drawn at random (--rows for more)."
        )
    notes += Preparation().fit(train.X).notes
    metrics = metrics_for(request.metric, train)
    metric, *others = [name for name in metrics if name not in SECONDS]
    for name in (metric, *others):
        if train.classes is not None and name in _ONE_SIDED:
            notes.append(f"{name} is computed for class {str(train.classes[-1])!r}.")
    objectives = metrics if len(metrics) > 1 else ()
    _check_several(request, objectives)
    aucs = [name for name in (metric, *others) if name.startswith("roc_auc")]
    folds, n = _folds(train, request.cv, aucs[0] if aucs else metric, request.seed)
    if n < request.cv:
        notes.append(f"A class has too few rows for {request.cv} folds: {n} folds are used.")
    estimators = _estimators(request, train)
    for name in (metric, *others):
        estimators = _usable(estimators, train, name, notes)
    return Plan(request, problem, train, held, metric, estimators, folds, tuple(notes), objectives)


def _check_several(request: Request, objectives: tuple[str, ...]) -> None:
    """Raise if options do not go with the number of metrics.

    Raises:
        OptionError: --choose with one metric, or --compare with several.
        UnknownNameError: --choose is none of the metrics.
    """
    if not objectives:
        if request.choose is not None:
            raise OptionError("--choose needs several metrics: --metric accuracy,fit_seconds")
        return
    if request.compare:
        raise OptionError("--compare needs one metric: leave it out or choose one --metric")
    if request.choose is not None and "neg_" + request.choose not in objectives:
        check_name("choice", request.choose, [*objectives, COMPROMISE])


def without_header(path: str | Path, columns: int) -> str:
    """Write the note that a file has no line of column names, so that columns were numbered."""
    return (
        f"The first line of {path} holds values: columns are named by their index, 0 to "
        f"{columns - 1} (--header if it holds names)."
    )


def threads_for(rows: int) -> Any:
    """A context manager that limits BLAS and OpenMP to one thread for tables with few rows.

    On a busy machine, threads that waited for each other made boosted trees 20 times slower.
    """
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1 if rows < _LARGE else None)


def _estimators(request: Request, train: Problem) -> dict[str, Any]:
    names = [request.estimator]
    if request.estimator == AUTO:
        names = [*_CHOICE[train.kind], *([_FOR_SMALL] if len(train) < _SMALL else [])]
    return {name: _pipeline(name, train.kind, request.seed) for name in names}


def _pipeline(name: str, kind: str, seed: int) -> Any:
    """A pipeline of the column preparation that an estimator needs and the estimator."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils import get_tags

    from rankwise.estimators import make_estimator

    estimator = make_estimator(name, kind, seed)
    preparation = Preparation(
        impute=not get_tags(estimator).input_tags.allow_nan, scale=name not in UNSCALED
    )
    return Pipeline([(PREPARE, preparation), (MODEL, estimator)])


def _usable(
    estimators: dict[str, Any], train: Problem, metric: str, notes: list[str]
) -> dict[str, Any]:
    """The estimators that can be fitted to a sample of the rows and scored with the metric.

    Adds a note for each estimator that is omitted.

    Raises:
        OptionError: no estimator can be fitted and scored.
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
            notes.append(f"{name} is not tried: {reason}.")
    if not usable:
        raise OptionError(
            f"{', '.join(estimators)} cannot be tuned for {metric} on these data: {reason}; "
            "choose another --estimator or --metric"
        )
    return usable


def _folds(train: Problem, cv: int, metric: str, seed: int) -> tuple[Any, int]:
    """A splitter and its number of folds, reduced if a fold could not be scored."""
    from sklearn.model_selection import KFold, StratifiedKFold

    if train.classes is None:
        n = min(cv, len(train) // 2)
        return KFold(n, shuffle=True, random_state=seed), n
    counts = np.sort(np.bincount(train.y.astype(np.int64)))
    # A score that needs every class in each fold is limited by the rarest class; the others need
    # only two classes and are limited by the second most frequent one.
    needed = counts[0] if len(counts) == 2 or metric.startswith("roc_auc") else counts[-2]
    n = max(2, min(cv, int(needed)))
    return StratifiedKFold(n, shuffle=True, random_state=seed), n
