"""RankwiseSearchCV: hyperparameter search for scikit-learn that learns from earlier searches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from typing_extensions import Self, override

from rankwise.learners import EstimatorSpace, choice_of
from rankwise.loop import Callback
from rankwise.progress import make_display
from rankwise.searching.choice import Chosen, readable_results
from rankwise.searching.data import Data
from rankwise.searching.record import DIRECTION, in_memory
from rankwise.searching.rows import table_of
from rankwise.searching.run import CrossValidation
from rankwise.searching.setup import make_run

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace
    from optuna.storages import BaseStorage


class RankwiseSearchCV(BaseSearchCV):  # type: ignore[misc]
    """Search hyperparameters by cross-validation, and start from what earlier searches found.

    Used like `RandomizedSearchCV`. With an archive every search is recorded there as an Optuna
    study, and the next one, on whatever data set, proposes from its first trial on what was good
    before; without, it is an ordinary model-based search.

    Past are all studies of the archive that have the same space, whatever their data set and
    scoring: only the order of their values counts. One on the same data is past like any other.
    Models that were learnt from the past are kept beside the archive. Several searches may run
    on one archive at once.

    A fit that fails is a failed trial (see `error_score`). If the search is interrupted by Ctrl-C
    or an error, what was evaluated is in the archive; a search of the same `name`, archive and
    data goes on where it stopped.

    Args:
        estimator: of scikit-learn or in its manner, or a list of them to choose from.
        space: what to search; None for a ready-made space (see `rankwise.learners.space_of`), a
            dict as `RandomizedSearchCV` takes it or as `rankwise.make_space` does, a list of
            such dicts, a ConfigSpace space, or an `EstimatorSpace`. With a list of estimators, a
            list with one of these for each, or None.
        n_trials: configurations to evaluate, those of a study that is resumed included.
        scoring: as in scikit-learn. The metric that is optimized is the one that `refit` names, or
            the first.
        cv: as in scikit-learn. All trials are scored on the same splits.
        refit: as in scikit-learn.
        n_jobs: fits at the same time, and the number of configurations that are proposed at a
            time; with -1 that depends on the machine.
        archive: an Optuna storage or its URL ("sqlite:///searches.db"); None for memory.
        method: one of `rankwise.methods.available()`. One that cannot learn from the past does
            without.
        options: of the method: ``{"guard": True}``.
        context: "metafeatures" records some numbers about the data set with the study (see
            `rankwise.context.meta_features`), for reports and for methods that compare data
            sets; None does not. "rows" also keeps up to 2000 rows of the data beside the archive,
            for methods that learn from rows (`dist-gp`): whoever can read the archive's folder
            can read them.
        name: of the study; one of that name in the archive is resumed. None makes a new one.
        successive: whether most configurations see a ninth and a third of the training rows
            only: the best third of all that came so far goes on. Data sets with few rows have
            fewer steps, or none. `cv_results_` has a row for each step, with `n_resources`; the
            best is chosen among those that saw all rows.
        random_state: the same one gives the same trials, for the same `n_jobs`.
        error_score: as in scikit-learn; a trial whose mean score is NaN has failed.
        timeout: seconds after which no further trial begins.
        callbacks: one or several, called as ``callback(trial, result)`` after each trial with a
            `rankwise.Trial` and the `rankwise.Result` so far; True ends the search.
        verbose: as in scikit-learn.
        progress: show a live display; by default if the output is a terminal.

    Attributes:
        cv_results_, best_estimator_, best_params_, best_score_, best_index_, scorer_, n_splits_,
            refit_time_, multimetric_: as in scikit-learn. `cv_results_` has the number of the
            study's trial, too. When choosing among estimators, `best_estimator_` is
            the one that was chosen, and parameters are "<its name>__<parameter>".
        study_name_: of the study in the archive.
        result_: a `rankwise.Result`, for `result_.plot()` and `result_.history`.
        trust_: how probable it is that the past applies to this data set; None if there is no
            telling.
        past_: the names of the studies that were learnt from; none if the method does not learn
            or they had nothing to teach.

    Raises:
        StorageError: the archive cannot be opened, read or written; nothing was fitted.
        SpaceError: there is no ready-made space for the estimator, or the given one is wrong.
        StudyMismatchError: the study of that name is of another space, data set or scoring.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.svm import SVC
        >>> search = RankwiseSearchCV(SVC(), n_trials=5, random_state=0)
        >>> search.fit(*load_iris(return_X_y=True)).best_score_ > 0.9
        np.True_
    """

    _parameter_constraints: Mapping[str, Any] = {
        **BaseSearchCV._parameter_constraints,
        "estimator": [HasMethods(["fit"]), list, tuple],
        "space": "no_validation",  # rankwise.learners says what is wrong
        "n_trials": [Interval(Integral, 1, None, closed="left")],
        "archive": "no_validation",  # Optuna takes storages of many kinds
        "method": [str],
        "options": [Mapping, None],
        "context": [StrOptions({"metafeatures", "rows"}), None],
        "name": [str, None],
        "successive": ["boolean"],
        "random_state": ["random_state"],
        "timeout": [Interval(Real, 0, None, closed="neither"), None],
        "callbacks": [callable, Iterable, None],
        "progress": ["boolean", None],
    }

    def __init__(
        self,
        estimator: Any,
        space: ConfigurationSpace
        | EstimatorSpace
        | Mapping[str, Any]
        | Sequence[Any]
        | None = None,
        *,
        n_trials: int = 30,
        scoring: Any = None,
        cv: Any = None,
        refit: bool | str | Callable[..., int] = True,
        n_jobs: int | None = None,
        archive: str | BaseStorage | None = None,
        method: str = "auto",
        options: Mapping[str, Any] | None = None,
        context: str | None = "metafeatures",
        name: str | None = None,
        successive: bool = False,
        random_state: int | np.random.RandomState | None = None,
        error_score: Any = np.nan,
        timeout: float | None = None,
        callbacks: Callback | Iterable[Callback] | None = None,
        verbose: int = 0,
        progress: bool | None = None,
    ) -> None:
        super().__init__(
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            error_score=error_score,
            return_train_score=False,
        )
        self.space = space
        self.n_trials = n_trials
        self.archive = archive
        self.method = method
        self.options = options
        self.context = context
        self.name = name
        self.successive = successive
        self.random_state = random_state
        self.timeout = timeout
        self.callbacks = callbacks
        self.progress = progress

    # ------------------------------------------------------------------ what users call

    @override
    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Search, and fit the best estimator to all data if `refit` says so.

        Args:
            X: n rows.
            y: the target (n,), or None.
            **params: for the estimator's `fit`, the scorer and the splitter (`groups`), as
                in scikit-learn.
        """
        if isinstance(self.estimator, list | tuple):
            return self._fit_choice(X, y, params)
        self._running = _Running(Data(X, y, self.estimator))
        try:
            super().fit(X, y, **params)
        finally:
            del self._running
        return self

    def _fit_choice(self, X: Any, y: Any, params: dict[str, Any]) -> Self:
        """Search for one estimator that stands for all of them."""
        spaces: Any = self.space
        inner = self._of_one(space=choice_of(self.estimator, spaces))
        inner.fit(X, y, **params)
        fitted = {k: v for k, v in vars(inner).items() if k.endswith("_") and k[0] != "_"}
        trials = {trial.number: trial.configuration for trial in inner.result_.trials}
        chosen = [trials[number]["estimator"] for number in fitted["cv_results_"]["trial"]]
        fitted["cv_results_"] = readable_results(fitted["cv_results_"], chosen)
        if "best_index_" in fitted:
            fitted["best_params_"] = fitted["cv_results_"]["params"][fitted["best_index_"]]
        if "best_estimator_" in fitted:
            fitted["best_estimator_"] = fitted["best_estimator_"].estimator
            names = getattr(fitted["best_estimator_"], "feature_names_in_", None)
            fitted |= {} if names is None else {"feature_names_in_": names}
        self.__dict__.update(fitted)
        return self

    def _of_one(self, **changed: Any) -> RankwiseSearchCV:
        """The same search with the first of several estimators in the place of all."""
        stands = Chosen(self.estimator[0])
        return type(self)(**{**self.get_params(deep=False), "estimator": stands, **changed})

    # ------------------------------------------------------------------ what scikit-learn calls

    def __sklearn_tags__(self) -> Any:
        if isinstance(self.estimator, list | tuple):
            return self._of_one().__sklearn_tags__()
        return super().__sklearn_tags__()

    @override
    def get_metadata_routing(self) -> Any:
        """Which metadata goes where; of several estimators the first speaks for all."""
        if isinstance(self.estimator, list | tuple):
            return self._of_one().get_metadata_routing()
        return super().get_metadata_routing()

    def __sklearn_clone__(self) -> Self:
        # A copy of a storage in memory would be another archive.
        bare = copy.copy(self)
        bare.archive, bare.callbacks = None, None
        twin: Self = super(RankwiseSearchCV, bare).__sklearn_clone__()
        twin.archive, twin.callbacks = self.archive, self.callbacks
        return twin

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if "_running" in state:  # scikit-learn sends the search to its worker processes
            state = {**state, "_running": None, "archive": None, "callbacks": None}
        return state

    @override
    def _get_routed_params_for_fit(self, params: dict[str, Any]) -> Any:
        routed = super()._get_routed_params_for_fit(params)
        self._running.data = replace(self._running.data, split_params=routed.splitter.split)
        return routed

    @override
    def _run_search(self, evaluate_candidates: Callable[..., Any]) -> None:
        data = self._running.data
        # Before scikit-learn 1.7 the splitter is known to its `fit` alone.
        splitter = getattr(self, "_checked_cv_orig", None) or check_cv(
            self.cv, data.y, classifier=is_classifier(self.estimator)
        )
        run = make_run(self, data, splitter, evaluate_candidates)
        self._running.evaluator = run.evaluator
        self.study_name_ = run.log.study.study_name
        self.past_ = run.past
        with make_display(self.progress, self.n_trials, self.timeout, DIRECTION) as display:
            run.callbacks.append(display)
            result = run.until(self.n_trials, self.timeout)
        if result.stopped == "interrupted":
            raise KeyboardInterrupt
        run.evaluator.settle()
        self.result_ = replace(result, study=in_memory(run.log, run.optimizer))
        self.trust_ = run.optimizer.trust
        table = table_of(run.evaluator.rows, stepwise=self.successive)
        self._running.results.update(super()._format_results(*table))

    @override
    def _format_results(
        self, candidate_params: Any, n_splits: int, out: Any, more_results: Any = None
    ) -> dict[str, Any]:
        """Take what was evaluated; the results are filled in once, when the search is over."""
        assert self._running.evaluator is not None
        self._running.evaluator.collect(out)
        return self._running.results

    @staticmethod
    @override
    def _select_best_index(refit: Any, refit_metric: str, results: dict[str, Any]) -> int:
        """The best of those that saw all data."""
        index: int = BaseSearchCV._select_best_index(refit, refit_metric, results)
        if callable(refit) or "n_resources" not in results:
            return index
        full = results["n_resources"] == results["n_resources"].max()
        scores = np.where(full, results[f"mean_test_{refit_metric}"], np.nan)
        return index if np.isnan(scores).all() else int(np.nanargmax(scores))


@dataclass
class _Running:
    """What a search has while it is fitted.

    Attributes:
        data: that is being fitted.
        results: `cv_results_`, empty until the end.
        evaluator: that takes what scikit-learn's fits return.
    """

    data: Data
    results: dict[str, Any] = field(default_factory=dict)
    evaluator: CrossValidation | None = None
