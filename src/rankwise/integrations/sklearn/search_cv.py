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
from typing_extensions import Self, override

from rankwise.estimators import EstimatorSpace, choice_of
from rankwise.integrations.sklearn.argument_names import answers_other_names
from rankwise.integrations.sklearn.chosen_estimator import Chosen, readable_results
from rankwise.integrations.sklearn.cv_results import table_of
from rankwise.integrations.sklearn.dataset import Data
from rankwise.integrations.sklearn.search_loop import CrossValidation
from rankwise.integrations.sklearn.search_setup import make_run
from rankwise.integrations.sklearn.search_study import in_memory
from rankwise.integrations.sklearn.sklearn_private import (
    BaseSearchCV,
    HasMethods,
    Interval,
    StrOptions,
)
from rankwise.integrations.sklearn.verbose_lines import (
    PER_TRIAL,
    TrialLines,
    announce,
    fit_verbosity,
)
from rankwise.run.display import make_display
from rankwise.run.loop import Callback

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace
    from optuna.pruners import BasePruner
    from optuna.storages import BaseStorage


class RankwiseSearchCV(BaseSearchCV):  # type: ignore[misc]
    """Searches hyperparameters by cross-validation and learns from earlier searches.

    It is used like `RandomizedSearchCV`. With an archive, every search is recorded as an Optuna
    study, and the next search, on any data set, uses these studies from its first trial on.
    The first search learns from the built-in past: records of the same estimator on many public
    data sets. With `past=None` it is an ordinary model-based search.

    The past studies of a search are all studies of the archive with the same space, whatever their
    data set and scoring, because only the order of their values is used. Learnt models are kept
    beside the archive. Several searches may use one archive at the same time.

    A fit that fails is a failed trial (see `error_score`). After Ctrl-C or an error, the archive
    has all evaluated trials; a search with the same `name`, archive and data continues there.

    Args:
        estimator: a scikit-learn compatible estimator, or a list of them to choose from.
        space: search space: None for a ready-made space (see `rankwise.estimators.space_of`), a
            dict in the form of `RandomizedSearchCV` or `rankwise.make_space`, a list of such
            dicts, a ConfigSpace space, or an `EstimatorSpace`. With a list of estimators, a list
            with one of these for each, or None.
        n_trials: number of configurations, including those of a resumed study.
        scoring: as in scikit-learn. Of several metrics the one that `refit` names is optimized,
            or the first.
        cv: as in scikit-learn. All trials are scored on the same splits.
        refit: as in scikit-learn.
        n_jobs: number of parallel fits and of configurations that are proposed together; -1 is
            the number of cores.
        archive: an Optuna storage or its URL ("sqlite:///searches.db"); None for memory.
        past: what to learn from: "auto" for the archive and the built-in past (`rankwise
            builtin` lists it), "own" for the archive only, "builtin" for the built-in past only,
            None for neither.
        method: one of `rankwise.methods.available()`. A method without transfer ignores past
            studies.
        options: options of the method, such as ``{"guard": True}``.
        context: "metafeatures" stores numbers about the data set with the study (see
            `rankwise.context.meta_features`), for reports and for methods that compare data
            sets; None stores nothing. "rows" also stores up to 2000 rows of the data beside the
            archive, for methods that learn from rows (`dist-gp`): everyone who can read the
            archive's folder can read them.
        name: name of the study; an existing study of that name is resumed. None makes a new one.
        objectives: names of two to four objectives to optimize together: metrics of `scoring`,
            "fit_seconds" and "score_seconds" (mean of the folds). `result_.front` has the Pareto
            front. None for one objective.
        choose: with several objectives, which configuration of the front is the best one: the
            best in the objective of this name, or "compromise" (see `Result.best_trial`); None
            for the first objective.
        successive: True for successive halving over rows: configurations are first evaluated on
            a ninth, then on a third of the training rows, and the best third so far continues.
            Small data sets have fewer steps, or none. `cv_results_` has a row for each step, with
            `n_resources`; the best is chosen among configurations evaluated on all rows.
        pruner: with `successive`, an Optuna pruner that decides after each step which trials
            continue, such as `rankwise.RankwisePruner(archive)`, which learns that from past
            searches; steps are numbers of rows. None lets the best third continue.
        random_state: seed; the same value and `n_jobs` give the same trials.
        error_score: as in scikit-learn; a trial whose mean score is NaN has failed.
        timeout: stop starting new trials after this many seconds.
        callbacks: one or several functions, called as ``callback(trial, result)`` after each trial
            with a `rankwise.Trial` and the `rankwise.Result` so far; True ends the search.
        verbose: 1 prints the number of fits, 2 also a line per trial with the best score so far,
            3 or more also a line per fit.
        return_train_score: as in scikit-learn.
        progress: show a live display; by default if the output is a terminal.

    Attributes:
        cv_results_, best_estimator_, best_params_, best_score_, best_index_, scorer_, n_splits_,
            refit_time_, multimetric_: as in scikit-learn. `cv_results_` also has trial numbers.
            With several estimators, `best_estimator_` is the chosen one, and its parameters are
            named "<its name>__<parameter>".
        study_name_: name of the study in the archive.
        result_: a `rankwise.Result`, for `result_.plot()` and `result_.history`.
        trust_: transfer trust: probability that past studies predict this one; None if unknown.
        evidence_: evidence for the transfer trust: how well past studies ordered the trials.
        builtin_: names of the built-in studies that were used.
        past_text_: one sentence about the past studies that were used; "" if there are none.
        past_: names of the archive's studies that were used; empty for a method without
            transfer, or if no past study has an order of configurations.

    Raises:
        StorageError: the archive cannot be opened, read or written; nothing was fitted.
        SpaceError: the estimator has no ready-made space, or the given space is invalid.
        StudyMismatchError: the study of that name has another space, data set or scoring.

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
        "space": "no_validation",  # rankwise.estimators checks it
        "n_trials": [Interval(Integral, 1, None, closed="left")],
        "past": [StrOptions({"auto", "own", "builtin"}), None],
        "archive": "no_validation",  # Optuna takes storages of many kinds
        "method": [str],
        "options": [Mapping, None],
        "context": [StrOptions({"metafeatures", "rows"}), None],
        "name": [str, None],
        "objectives": ["array-like", None],
        "choose": [str, None],
        "successive": ["boolean"],
        "pruner": [HasMethods(["prune"]), None],
        "random_state": ["random_state"],
        "timeout": [Interval(Real, 0, None, closed="neither"), None],
        "callbacks": [callable, Iterable, None],
        "progress": ["boolean", None],
    }

    @answers_other_names
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
        past: str | None = "auto",
        method: str = "auto",
        options: Mapping[str, Any] | None = None,
        context: str | None = "metafeatures",
        name: str | None = None,
        objectives: Sequence[str] | None = None,
        choose: str | None = None,
        successive: bool = False,
        pruner: BasePruner | None = None,
        random_state: int | np.random.RandomState | None = None,
        error_score: Any = np.nan,
        timeout: float | None = None,
        callbacks: Callback | Iterable[Callback] | None = None,
        verbose: int = 0,
        return_train_score: bool = False,
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
            return_train_score=return_train_score,
        )
        self.space = space
        self.n_trials = n_trials
        self.archive = archive
        self.past = past
        self.method = method
        self.options = options
        self.context = context
        self.name = name
        self.objectives = objectives
        self.choose = choose
        self.successive = successive
        self.pruner = pruner
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
        verbose: int = self.get_params(deep=False)["verbose"]
        try:
            self.verbose = fit_verbosity(verbose)  # scikit-learn would print a line per batch
            self._running.verbose = verbose
            super().fit(X, y, **params)
        finally:
            self.verbose = verbose
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
        """A copy of the search with the first estimator instead of the list."""
        stands = Chosen(self.estimator[0])
        return type(self)(**{**self.get_params(deep=False), "estimator": stands, **changed})

    # ------------------------------------------------------------------ what scikit-learn calls

    def __sklearn_tags__(self) -> Any:
        if isinstance(self.estimator, list | tuple):
            return self._of_one().__sklearn_tags__()
        return super().__sklearn_tags__()

    @override
    def get_metadata_routing(self) -> Any:
        """Metadata routing of the estimator, or of the first of several."""
        if isinstance(self.estimator, list | tuple):
            return self._of_one().get_metadata_routing()
        return super().get_metadata_routing()

    def __sklearn_clone__(self) -> Self:
        # A copy of a storage in memory would be another archive; pruners may have one, too.
        bare = copy.copy(self)
        bare.archive, bare.callbacks, bare.pruner = None, None, None
        twin: Self = super(RankwiseSearchCV, bare).__sklearn_clone__()
        twin.archive, twin.callbacks, twin.pruner = self.archive, self.callbacks, self.pruner
        return twin

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())  # a copy: it is `__dict__` itself
        if "_running" in state:  # scikit-learn sends the search to its worker processes
            state |= {"_running": None, "archive": None, "callbacks": None, "pruner": None}
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
        n_splits = splitter.get_n_splits(data.X, data.y, **data.split_params)
        announce(self._running.verbose, n_splits, self.n_trials)
        if self._running.verbose >= PER_TRIAL:
            run.callbacks.append(TrialLines(self.n_trials))
        self.study_name_ = run.log.study.study_name
        self.past_, self.builtin_, self.past_text_ = run.past, run.builtin, run.past_text
        shown = " and ".join(run.directions.each)
        with make_display(self.progress, self.n_trials, self.timeout, shown) as display:
            run.callbacks.append(display)
            result = run.until(self.n_trials, self.timeout)
        if result.stopped == "interrupted":
            raise KeyboardInterrupt
        run.evaluator.settle()
        self.result_ = replace(result, study=in_memory(run.log, run.optimizer, run.directions))
        self.evidence_ = run.optimizer.evidence
        self.trust_ = None if self.evidence_ is None else self.evidence_.trust
        table = table_of(
            run.evaluator.rows, stepwise=self.successive, train=self.return_train_score
        )
        self._running.results.update(super()._format_results(*table))

    @override
    def _format_results(
        self, candidate_params: Any, n_splits: int, out: Any, more_results: Any = None
    ) -> dict[str, Any]:
        """Collect the evaluated fits; the results are filled in once, at the end of the search."""
        assert self._running.evaluator is not None
        self._running.evaluator.collect(out)
        return self._running.results

    @override
    def _select_best_index(self, refit: Any, refit_metric: str, results: dict[str, Any]) -> int:
        """Index of the best row among those that were evaluated on all data.

        With several objectives, the trial of the front that `choose` names.
        """
        index: int = BaseSearchCV._select_best_index(refit, refit_metric, results)
        if callable(refit):
            return index
        if self.objectives is not None:
            chosen = self.result_.chosen(self.choose)
            return index if chosen is None else list(results["trial"]).index(chosen.number)
        if "n_resources" not in results:
            return index
        full = results["n_resources"] == results["n_resources"].max()
        scores = np.where(full, results[f"mean_test_{refit_metric}"], np.nan)
        return index if np.isnan(scores).all() else int(np.nanargmax(scores))


@dataclass
class _Running:
    """State of a search while `fit` runs.

    Attributes:
        data: the data set.
        results: `cv_results_`, empty until the end.
        evaluator: collects the results of scikit-learn's fits.
        verbose: `verbose` of the search; scikit-learn's fits get `fit_verbosity` of it.
    """

    data: Data
    results: dict[str, Any] = field(default_factory=dict)
    evaluator: CrossValidation | None = None
    verbose: int = 0
