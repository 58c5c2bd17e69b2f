"""minimize: the whole loop, from an objective and a space to the best configuration."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rankwise.design import Design
from rankwise.errors import OptionError, SpaceExhausted, check_name
from rankwise.evaluation import Evaluation, Objective
from rankwise.optimizer import PENDING, Optimizer, Trial, check_seed
from rankwise.result import Result
from rankwise.space import Encoder
from rankwise.study import StudyLog
from rankwise.task import OK
from rankwise.workers import Evaluator

if TYPE_CHECKING:
    import optuna
    from ConfigSpace import ConfigurationSpace

DIRECTIONS = ("minimize", "maximize")
DEFAULT_TRIALS = 30

Callback = Callable[[Trial, Result], Any]
"""Called after each trial with it and the result so far; returning True ends the run."""


def minimize(
    objective: Objective,
    space: ConfigurationSpace | Mapping[str, Any],
    *,
    trials: int | None = None,
    seconds: float | None = None,
    target: float | None = None,
    method: str = "mbo",
    design: Design | str | int | Sequence[Mapping[str, Any]] | None = None,
    n_jobs: int = 1,
    seed: int | None = None,
    direction: str = "minimize",
    callbacks: Iterable[Callback] = (),
    timeout: float | None = None,
    storage: str | optuna.storages.BaseStorage | None = None,
    name: str | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Result:
    """Find the configuration with the smallest (or largest) value of an objective.

    An evaluation that raises, returns NaN or an infinity, or takes too long is recorded with its
    status, counts as bad for the model, and the run goes on. Ctrl-C ends the run and returns what
    was found.

    Args:
        objective: maps a configuration (a dict of the active hyperparameters) to a number.
        space: a ConfigSpace space, or a dict as in `rankwise.make_space`.
        trials: stop when the study has so many, those of an earlier run included; 30 if
            neither `trials` nor `seconds` is given.
        seconds: start no evaluation after so many seconds of this call.
        target: stop when a value is at least as good.
        method: one of `rankwise.methods.available()`.
        design: what to evaluate first: "lhs", "sobol-2d", "random-10", ..., a size, a list of
            configurations; by default what the method says.
        n_jobs: evaluations at the same time, in joblib's worker processes. Each batch is
            proposed together, so that runs repeat exactly with any n_jobs.
        seed: of all randomness. The same seed gives the same trials.
        direction: "minimize" or "maximize".
        callbacks: called as ``callback(trial, result)`` after each trial; True ends the run.
        timeout: seconds after which one evaluation is stopped (in a worker process).
        storage: where the run is recorded as an Optuna study: a URL such as
            "sqlite:///runs.db" or an Optuna storage; in memory by default.
        name: of the study. If the storage has it, the run is resumed and goes on exactly as if
            it had not stopped.
        progress: show a live display; by default if the output is a terminal.
        **options: of the method; see `rankwise.methods.get(method).options`.

    Raises:
        UnknownNameError: no such method, option, direction or design; the message lists them.
        SpaceError: the space is impossible.
        StudyMismatchError: the stored study has another space or direction.
        StorageError: the storage cannot be opened.

    Example:
        >>> result = minimize(lambda c: (c["x"] - 1) ** 2, {"x": (-5.0, 5.0)}, trials=15, seed=0)
        >>> abs(result.best_configuration["x"] - 1) < 0.1
        True
    """
    check_name("direction", direction, DIRECTIONS)
    trials = _check_limits(trials, seconds)
    evaluator = Evaluator(objective, n_jobs, timeout)
    encoder = Encoder(space)
    check_seed(seed)
    # A wrong method, option or design is found here, before a study is created.
    Optimizer(encoder, method=method, design=design, seed=0, **options)
    log = StudyLog(encoder, storage=storage, name=name, direction=direction)
    seed = _settle(log, "seed", seed, check_seed(seed))
    _settle(log, "method", method, method)
    optimizer = Optimizer(encoder, method=method, design=design, seed=seed, **options)
    run = _Run(optimizer, evaluator, log, direction, target, list(callbacks))
    with _display(progress, trials, seconds, direction) as display:
        run.callbacks.append(display)
        return run.until(trials, seconds)


class _Run:
    """The state of one call of `minimize`."""

    def __init__(
        self,
        optimizer: Optimizer,
        evaluator: Evaluator,
        log: StudyLog,
        direction: str,
        target: float | None,
        callbacks: list[Callback],
    ) -> None:
        self.optimizer = optimizer
        self.evaluator = evaluator
        self.log = log
        self.direction = direction
        self.sign = 1.0 if direction == "minimize" else -1.0
        self.target = target
        self.callbacks = callbacks
        self.began = time.perf_counter()
        self.stopped = ""
        self._complained: set[str] = set()
        for trial in log.stored:
            optimizer.restore(trial)

    def until(self, trials: int | None, seconds: float | None) -> Result:
        """Go on until a limit is reached."""
        try:
            interrupted = [t for t in self.optimizer.trials if t.status == PENDING]
            if interrupted and not self._is_over(None, seconds):
                self._evaluate(interrupted)
            while not self._is_over(trials, seconds):
                room = trials - len(self.optimizer.trials) if trials else self.evaluator.n_jobs
                try:
                    batch = self._propose(min(room, self.evaluator.n_jobs))
                except SpaceExhausted:
                    self.stopped = "exhausted"
                    break
                self._evaluate(batch)
        except KeyboardInterrupt:
            self.stopped = "interrupted"
        self.log.flush()
        return self.result()

    def result(self) -> Result:
        """The finished trials so far."""
        finished = [t for t in self.optimizer.trials if t.status != PENDING]
        return Result(
            trials=[replace(t, value=self.sign * t.value) for t in finished],
            direction=self.direction,
            method=self.optimizer.method,
            seed=self.optimizer.seed,
            stopped=self.stopped,
            seconds=time.perf_counter() - self.began,
            study=self.log.study,
            unsaved=self.log.unsaved,
        )

    def _is_over(self, trials: int | None, seconds: float | None) -> bool:
        best = self.optimizer.best
        if self.stopped:
            return True
        if self.target is not None and best and best.value <= self.sign * self.target:
            self.stopped = "target"
        elif trials is not None and len(self.optimizer.trials) >= trials:
            self.stopped = "trials"
        elif seconds is not None and time.perf_counter() - self.began >= seconds:
            self.stopped = "seconds"
        return bool(self.stopped)

    def _propose(self, n: int) -> list[Trial]:
        start = time.perf_counter()
        batch = self.optimizer.propose(n)
        each = (time.perf_counter() - start) / len(batch)
        batch = [replace(trial, proposal_seconds=each) for trial in batch]
        for trial in batch:
            self.optimizer.restore(trial)
            self.log.start(trial)
        return batch

    def _evaluate(self, batch: list[Trial]) -> None:
        for trial, evaluation in self.evaluator.run(batch):
            done = self.optimizer.tell(
                trial.configuration,
                self.sign * evaluation.value,
                cost=evaluation.cost,
                status=evaluation.status,
                error=evaluation.error,
            )
            self.log.finish(done)
            self._complain(done, evaluation)
            self._call_back(replace(done, value=evaluation.value))

    def _complain(self, trial: Trial, evaluation: Evaluation) -> None:
        """Warn of each kind of failure once: a typo in the objective must not go unnoticed."""
        if evaluation.status != OK and evaluation.error not in self._complained:
            self._complained.add(evaluation.error)
            warnings.warn(
                f"trial {trial.number} {evaluation.status}: {evaluation.error}",
                EvaluationWarning,
                stacklevel=4,
            )

    def _call_back(self, trial: Trial) -> None:
        for callback in self.callbacks:
            try:
                wants_stop = callback(trial, self.result()) is True
            except Exception as error:  # nothing evaluated may be lost by a callback
                warnings.warn(
                    f"callback {getattr(callback, '__name__', callback)!r} raised "
                    f"{type(error).__name__}: {error}; the run goes on",
                    EvaluationWarning,
                    stacklevel=4,
                )
                continue
            if wants_stop and not self.stopped:
                self.stopped = "callback"


class EvaluationWarning(UserWarning):
    """An evaluation or a callback failed; the run went on."""


def _check_limits(trials: int | None, seconds: float | None) -> int | None:
    if trials is None and seconds is None:
        return DEFAULT_TRIALS
    if trials is not None and (isinstance(trials, bool) or int(trials) != trials or trials < 1):
        raise OptionError(f"trials must be a positive integer, not {trials!r}")
    if seconds is not None and not seconds > 0:
        raise OptionError(f"seconds must be positive, not {seconds!r}")
    return None if trials is None else int(trials)


def _settle(log: StudyLog, what: str, asked: Any, chosen: Any) -> Any:
    """What a resumed study noted, unless the caller now asks for something else."""
    noted = log.noted(what)
    if noted is None:
        log.note(what, chosen)
        return chosen
    if asked is None or asked == noted:
        return noted
    warnings.warn(
        f"study {log.study.study_name!r} was begun with {what} {noted!r} and goes on with "
        f"{asked!r}: its next trials differ from those of an uninterrupted run",
        EvaluationWarning,
        stacklevel=3,
    )
    return asked


def _display(
    progress: bool | None, trials: int | None, seconds: float | None, direction: str
) -> Any:
    from rankwise.progress import make_display

    return make_display(progress, trials, seconds, direction)
