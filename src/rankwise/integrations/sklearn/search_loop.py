"""The loop of a search: proposes trials in batches and cross-validates them."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sklearn.exceptions import FitFailedWarning
from typing_extensions import override

from rankwise.history.task import OK
from rankwise.history.trial import PENDING, Trial
from rankwise.integrations.sklearn.cv_results import (
    FOLD,
    Row,
    evaluation_of,
    facts_of,
    make_row,
    name_scores,
    rows_of,
)
from rankwise.integrations.sklearn.objectives import SearchObjectives
from rankwise.integrations.sklearn.rungs import Folds, Rungs, estimated_losses, goes_on
from rankwise.run.evaluation import Evaluation
from rankwise.run.loop import Callback, Run
from rankwise.run.optimizer import Optimizer
from rankwise.run.result import Result
from rankwise.run.workers import Evaluator
from rankwise.storage.study_log import StudyLog

if TYPE_CHECKING:
    from rankwise.estimators import EstimatorSpace

PRUNED = "pruned"
"""Status, in results, of a trial that was stopped before it used all rows."""
_ALL_FAILED = "fits failed."  # part of scikit-learn's error message if all fits fail


@dataclass(frozen=True)
class Setting:
    """Settings of the cross-validation of trials.

    Attributes:
        space: maps configurations to parameters of the estimator.
        rungs: shares of the rows.
        splitters: splitter of each rung.
        wanted: name of the optimized metric, or any other value of `refit`.
        error_score: `error_score` of scikit-learn.
        objectives: objectives of the search.
        pruned: True if the study's pruner decides which trials continue.
    """

    space: EstimatorSpace
    rungs: Rungs
    splitters: Sequence[Folds]
    wanted: Any
    error_score: Any
    objectives: SearchObjectives
    pruned: bool = False


class CrossValidation(Evaluator):
    """Evaluates batches of trials through scikit-learn's search.

    Args:
        evaluate_candidates: function that scikit-learn passes to a search; the results of its fits
            come through `collect`.
        n_jobs: size of a batch.
        setting: settings of the cross-validation.
        log: record of the search.

    Attributes:
        rows: rows evaluated in this run or before; `add` adds some.
        stopped: estimated losses on all rows of the trials that were stopped early, by number.
        accepted: True if scikit-learn has the result of at least one fit.
        failure: last error of a batch in which all fits failed.
    """

    def __init__(
        self, evaluate_candidates: Callable[..., Any], n_jobs: int, setting: Setting, log: StudyLog
    ) -> None:
        super().__init__(evaluate_candidates, n_jobs)
        self._evaluate_candidates = evaluate_candidates
        self.setting, self._log = setting, log
        self.rows: list[Row] = []
        self.stopped: dict[int, float] = {}
        self.accepted = False
        self.failure: ValueError | None = None
        self._out: list[dict[str, Any]] = []

    def collect(self, out: list[dict[str, Any]]) -> None:
        """Receive the results of all fits so far."""
        self._out, self.accepted = out, True

    @override
    def run(self, trials: Sequence[Trial]) -> Iterator[tuple[Trial, Evaluation]]:
        going, found = list(trials), list[Row]()
        for rung in range(len(self.setting.rungs.shares)):
            if going:
                found += self._cross_validate(going, rung)
                going = self._going(going, rung, found)
        self.add(found)  # added at the end: an interrupted batch is evaluated again
        losses = self.stopped
        for trial in trials:
            rows = [row for row in found if row.number == trial.number]
            values = self.setting.objectives.values(rows[-1])
            evaluation = evaluation_of(rows, self.setting.wanted, values)
            self._log.describe(trial.number, facts_of(rows, self.setting.wanted))
            if self.setting.rungs.last > 0:
                reached = {row.n_resources: row.value(self.setting.wanted) for row in rows}
                finite = {step: v for step, v in reached.items() if math.isfinite(v)}
                self._log.report(trial.number, finite, pruned=trial.number in losses)
            if trial.number in losses:
                evaluation = replace(evaluation, value=-losses[trial.number])
            yield trial, evaluation

    def add(self, rows: Sequence[Row]) -> None:
        """Add evaluated rows and update the estimates `stopped`."""
        self.rows += rows
        if self.setting.rungs.last > 0:  # else no trial is stopped early
            self.stopped = estimated_losses(self.reached(), self.setting.rungs.last)

    def reached(
        self, before: float = math.inf, more: Sequence[Row] = ()
    ) -> dict[int, dict[int, float]]:
        """Losses by trial and rung of the trials with numbers below `before`."""
        found: dict[int, dict[int, float]] = {}
        for row in (*self.rows, *more):
            if row.number < before:
                found.setdefault(row.number, {})[row.rung] = -row.value(self.setting.wanted)
        return found

    def settle(self) -> None:
        """Make sure that scikit-learn has the result of at least one fit.

        Raises:
            ValueError: scikit-learn's error, if all fits failed.
        """
        name_scores(self._out, self.rows)  # scikit-learn reads the first fit of this run
        if self.accepted:
            return
        if self.failure is not None and not any(row.fitted for row in self.rows):
            raise self.failure
        # An earlier run evaluated everything; evaluate the best configuration once more.
        best = min(self.rows, key=self._badness)
        self._evaluate_candidates([best.params], cv=self.setting.splitters[-1])

    def _badness(self, row: Row) -> tuple[int, float]:
        value = row.value(self.setting.wanted)
        return -row.rung, -value if math.isfinite(value) else math.inf

    def _going(self, trials: Sequence[Trial], rung: int, found: Sequence[Row]) -> list[Trial]:
        """The trials that continue with the next rung."""
        if rung == self.setting.rungs.last:
            return []
        if self.setting.pruned:
            rows = {row.number: row for row in found if row.rung == rung}
            return [trial for trial in trials if self._may_go_on(rows[trial.number])]
        reached = self.reached(more=found)
        seen = [number for number in sorted(reached) if rung in reached[number]]
        losses = [reached[number][rung] for number in seen]
        return [trial for trial in trials if goes_on(seen.index(trial.number), losses)]

    def _may_go_on(self, row: Row) -> bool:
        """True if the pruner does not stop a trial after a row; a failed fit never goes on."""
        value = row.value(self.setting.wanted)
        if not math.isfinite(value):
            return False
        return not self._log.step(row.number, value, row.n_resources)

    def _cross_validate(self, trials: Sequence[Trial], rung: int) -> list[Row]:
        params = [self.setting.space.params(trial.configuration) for trial in trials]
        splits, began = self.setting.splitters[rung], time.perf_counter()
        try:
            self._evaluate_candidates(params, cv=splits)
            out = self._out[-len(params) * splits.n :]
        except ValueError as error:
            if self.setting.error_score == "raise" or _ALL_FAILED not in str(error):
                raise
            self.failure = error
            warnings.warn(
                self._failure_text(splits.n * len(params)), FitFailedWarning, stacklevel=2
            )
            seconds = (time.perf_counter() - began) / (len(params) * splits.n)
            out = [self._failed_fit(error, seconds)] * (len(params) * splits.n)
        n_resources = self.setting.rungs.n_resources(rung)
        return [
            make_row(trial.number, p, out[k * splits.n : (k + 1) * splits.n], rung, n_resources)
            for k, (trial, p) in enumerate(zip(trials, params, strict=True))
        ]

    def _failure_text(self, fits: int) -> str:
        """The warning that scikit-learn gives if some fits failed."""
        _, head, details = str(self.failure).partition("Below are more details")
        return (
            f"\n{fits} fits failed out of a total of {fits}.\n"
            "The score on these train-test partitions for these parameters will be set to "
            f"{self.setting.error_score}.\nIf these failures are not expected, you can try to "
            f"debug them by setting error_score='raise'.\n\n{head}{details}"
        )

    def _failed_fit(self, error: ValueError, seconds: float) -> dict[str, Any]:
        """The result that scikit-learn records for a failed fit."""
        score = self.setting.error_score
        found = (seconds, 0.0, score)
        return {**dict(zip(FOLD, found, strict=True)), "fit_error": str(error)}


class SearchRun(Run):
    """The state of one search.

    Args:
        optimizer: proposes configurations.
        evaluator: evaluates them.
        log: records them.
        callbacks: callbacks as in `rankwise.minimize`.
        past: names of the past studies that the optimizer learnt from.
        builtin: names of the built-in studies that it learnt from.
        past_text: one sentence about them; "" if there are none.
    """

    evaluator: CrossValidation

    def __init__(
        self,
        optimizer: Optimizer,
        evaluator: CrossValidation,
        log: StudyLog,
        callbacks: Iterable[Callback],
        past: list[str],
    ) -> None:
        directions = evaluator.setting.objectives.directions
        super().__init__(optimizer, evaluator, log, directions, None, list(callbacks))
        self.past = past
        self.builtin: list[str] = []
        self.past_text = ""
        self.explains = True  # cheap in comparison with cross-validation
        stored = log.study.get_trials(deepcopy=False) if log.stored else []
        rows = {t.number: t.user_attrs.get("rankwise:rows") for t in stored}
        known: list[Row] = []
        for trial in optimizer.trials:
            if trial.status != PENDING:
                params = evaluator.setting.space.params(trial.configuration)
                known += rows_of(trial.number, params, rows.get(trial.number))
        evaluator.add(known)

    @override
    def result(self) -> Result:
        result = super().result()
        return replace(result, trials=[self._shown(trial) for trial in result.trials])

    @override
    def _is_over(self, trials: int | None, seconds: float | None) -> bool:
        # scikit-learn needs at least one trial, even if the time is over.
        return super()._is_over(trials, seconds if self.evaluator.rows else None)

    @override
    def _propose(self, trials: int | None) -> list[Trial]:
        known = self.optimizer.trials
        number = max(known[-1].number + 1 if known else 0, self.log.size)
        self._estimate(number - number % self.evaluator.n_jobs)
        return super()._propose(trials)

    @override
    def _complain(self, trial: Trial, evaluation: Evaluation) -> None:
        """No-op: scikit-learn has already warned."""

    @override
    def _call_back(self, trial: Trial) -> None:
        super()._call_back(self._shown(trial))

    def _estimate(self, before: int) -> None:
        """Set the losses of pruned trials in the optimizer to their estimates on all rows.

        Only trials from before the current batch are used, so that an interrupted batch is
        completed as it would have been.
        """
        last = self.evaluator.setting.rungs.last
        losses = estimated_losses(self.evaluator.reached(before), last) if last else {}
        for trial in self.optimizer.trials:
            if trial.number in losses:
                loss = losses[trial.number]
                self.optimizer.restore(replace(trial, status=OK, value=loss, error=""))

    def _shown(self, trial: Trial) -> Trial:
        stopped = trial.number in self.evaluator.stopped
        return replace(trial, status=PRUNED, value=math.nan, error="") if stopped else trial
