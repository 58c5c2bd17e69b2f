"""The loop of a search: trials are proposed in batches and cross-validated by scikit-learn."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sklearn.exceptions import FitFailedWarning
from typing_extensions import override

from rankwise.evaluation import Evaluation
from rankwise.loop import Callback, Run
from rankwise.optimizer import PENDING, Optimizer, Trial
from rankwise.result import Result
from rankwise.searching.record import DIRECTION
from rankwise.searching.rows import (
    FOLD,
    Row,
    evaluation_of,
    facts_of,
    make_row,
    name_scores,
    rows_of,
)
from rankwise.searching.rungs import Folds, Rungs, estimated_losses, goes_on
from rankwise.study import StudyLog
from rankwise.task import OK
from rankwise.workers import Evaluator

if TYPE_CHECKING:
    from rankwise.learners import EstimatorSpace

PRUNED = "pruned"
"""The status, in results, of a trial that was stopped before it had all of the data."""
_ALL_FAILED = "fits failed."  # how scikit-learn's error says it, which ends a search of its own


@dataclass(frozen=True)
class Setting:
    """How trials are cross-validated.

    Attributes:
        space: from configurations to parameters of the estimator.
        rungs: shares of the data.
        splitters: of each rung.
        wanted: the name of the metric that is optimized, if it is one.
        error_score: of scikit-learn.
    """

    space: EstimatorSpace
    rungs: Rungs
    splitters: Sequence[Folds]
    wanted: Any
    error_score: Any


class CrossValidation(Evaluator):
    """Evaluates batches of trials by a search of scikit-learn.

    Args:
        evaluate_candidates: as scikit-learn gives it to a search; what its fits return is handed
            over by `collect`.
        n_jobs: size of a batch.
        setting: how trials are cross-validated.
        log: of the search.

    Attributes:
        rows: what was evaluated, in this run or before.
        accepted: whether scikit-learn knows of at least one of them.
        failure: the last error of a batch of which no fit succeeded.
    """

    def __init__(
        self, evaluate_candidates: Callable[..., Any], n_jobs: int, setting: Setting, log: StudyLog
    ) -> None:
        super().__init__(evaluate_candidates, n_jobs)
        self._evaluate_candidates = evaluate_candidates
        self.setting, self._log = setting, log
        self.rows: list[Row] = []
        self.accepted = False
        self.failure: ValueError | None = None
        self._out: list[dict[str, Any]] = []

    def collect(self, out: list[dict[str, Any]]) -> None:
        """Take what scikit-learn has of all fits so far."""
        self._out, self.accepted = out, True

    @override
    def run(self, trials: Sequence[Trial]) -> Iterator[tuple[Trial, Evaluation]]:
        going, found = list(trials), list[Row]()
        for rung in range(len(self.setting.rungs.shares)):
            if going:
                found += self._cross_validate(going, rung)
                going = [trial for trial in going if self._goes_on(trial, rung, found)]
        self.rows += found  # all at once: a batch that is interrupted is evaluated again
        losses = self.stopped
        for trial in trials:
            rows = [row for row in found if row.number == trial.number]
            evaluation = evaluation_of(rows, self.setting.wanted)
            self._log.describe(trial.number, facts_of(rows, self.setting.wanted))
            if self.setting.rungs.last > 0:
                values = {row.n_resources: row.value(self.setting.wanted) for row in rows}
                finite = {step: v for step, v in values.items() if math.isfinite(v)}
                self._log.report(trial.number, finite, pruned=trial.number in losses)
            if trial.number in losses:
                evaluation = replace(evaluation, value=-losses[trial.number])
            yield trial, evaluation

    @property
    def stopped(self) -> dict[int, float]:
        """By trial that was stopped early, the loss that it would have had with all data."""
        return estimated_losses(self.reached(), self.setting.rungs.last)

    def reached(
        self, before: float = math.inf, more: Sequence[Row] = ()
    ) -> dict[int, dict[int, float]]:
        """By trial, by rung, the losses of trials with numbers below `before`."""
        found: dict[int, dict[int, float]] = {}
        for row in (*self.rows, *more):
            if row.number < before:
                found.setdefault(row.number, {})[row.rung] = -row.value(self.setting.wanted)
        return found

    def settle(self) -> None:
        """See to it that scikit-learn knows of something it can go on with.

        Raises:
            ValueError: of scikit-learn, if all fits failed.
        """
        name_scores(self._out, self.rows)  # it looks at the first fit of this run
        if self.accepted:
            return
        if self.failure is not None and not any(row.fitted for row in self.rows):
            raise self.failure
        # All that is worth something was evaluated by an earlier run: the best is, once more.
        best = min(self.rows, key=self._badness)
        self._evaluate_candidates([best.params], cv=self.setting.splitters[-1])

    def _badness(self, row: Row) -> tuple[int, float]:
        value = row.value(self.setting.wanted)
        return -row.rung, -value if math.isfinite(value) else math.inf

    def _goes_on(self, trial: Trial, rung: int, found: Sequence[Row]) -> bool:
        reached = self.reached(more=found)
        seen = [number for number in sorted(reached) if rung in reached[number]]
        return goes_on(seen.index(trial.number), [reached[number][rung] for number in seen])

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
        """As scikit-learn warns of fits that failed where not all did."""
        _, head, details = str(self.failure).partition("Below are more details")
        return (
            f"\n{fits} fits failed out of a total of {fits}.\n"
            "The score on these train-test partitions for these parameters will be set to "
            f"{self.setting.error_score}.\nIf these failures are not expected, you can try to "
            f"debug them by setting error_score='raise'.\n\n{head}{details}"
        )

    def _failed_fit(self, error: ValueError, seconds: float) -> dict[str, Any]:
        """What scikit-learn has of a fit that failed, if not all of a batch do."""
        score = self.setting.error_score
        found = (seconds, 0.0, score)
        return {**dict(zip(FOLD, found, strict=True)), "fit_error": str(error)}


class SearchRun(Run):
    """The state of one search.

    Args:
        optimizer: proposes.
        evaluator: of its proposals.
        log: where they are recorded.
        callbacks: as those of `rankwise.minimize`.
        past: names of the studies that the optimizer has learnt.
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
        super().__init__(optimizer, evaluator, log, DIRECTION, None, list(callbacks))
        self.past = past
        self.explains = True  # next to cross-validation it costs nothing
        stored = log.study.get_trials(deepcopy=False) if log.stored else []
        rows = {t.number: t.user_attrs.get("rankwise:rows") for t in stored}
        for trial in optimizer.trials:
            if trial.status != PENDING:
                params = evaluator.setting.space.params(trial.configuration)
                evaluator.rows += rows_of(trial.number, params, rows.get(trial.number))

    @override
    def result(self) -> Result:
        result = super().result()
        return replace(result, trials=[self._shown(trial) for trial in result.trials])

    @override
    def _is_over(self, trials: int | None, seconds: float | None) -> bool:
        # scikit-learn needs at least one trial, however short the time.
        return super()._is_over(trials, seconds if self.evaluator.rows else None)

    @override
    def _propose(self, trials: int | None) -> list[Trial]:
        known = self.optimizer.trials
        number = max(known[-1].number + 1 if known else 0, self.log.size)
        self._estimate(number - number % self.evaluator.n_jobs)
        return super()._propose(trials)

    @override
    def _complain(self, trial: Trial, evaluation: Evaluation) -> None:
        """Say nothing: scikit-learn has warned."""

    @override
    def _call_back(self, trial: Trial) -> None:
        super()._call_back(self._shown(trial))

    def _estimate(self, before: int) -> None:
        """Tell the optimizer what trials that stopped early would have reached.

        Only from what was known when the current batch began, so that a batch that was
        interrupted is completed as it would have been.
        """
        reached = self.evaluator.reached(before)
        losses = estimated_losses(reached, self.evaluator.setting.rungs.last)
        for trial in self.optimizer.trials:
            if trial.number in losses:
                loss = losses[trial.number]
                self.optimizer.restore(replace(trial, status=OK, value=loss, error=""))

    def _shown(self, trial: Trial) -> Trial:
        stopped = trial.number in self.evaluator.stopped
        return replace(trial, status=PRUNED, value=math.nan, error="") if stopped else trial
