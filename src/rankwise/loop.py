"""minimize: the whole loop, from an objective and a space to the best configuration."""

from __future__ import annotations

import hashlib
import inspect
import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise import methods
from rankwise.archive.context import attach_context, read_context
from rankwise.design import Design
from rankwise.errors import (
    OptionError,
    RunWarning,
    SpaceExhausted,
    UnknownNameError,
    check_count,
    check_name,
    is_number,
)
from rankwise.evaluation import Evaluation, Objective
from rankwise.growing import Growing
from rankwise.optimizer import PENDING, Optimizer, Trial
from rankwise.progress import make_display
from rankwise.result import Result
from rankwise.space import Encoder
from rankwise.strategy import Explanation
from rankwise.study import StudyLog
from rankwise.task import OK, Task, TaskSet, as_task_set
from rankwise.workers import Evaluator

if TYPE_CHECKING:
    import optuna
    from ConfigSpace import ConfigurationSpace

DIRECTIONS = ("minimize", "maximize")
DEFAULT_TRIALS = 30
_MOST_SOURCES = 8  # past studies that are written down with a trial

Callback = Callable[[Trial, Result], Any]
"""Called after each trial with it and the result so far; returning True ends the run."""


def minimize(
    objective: Objective,
    space: ConfigurationSpace | Mapping[str, Any] | Encoder,
    *,
    trials: int | None = None,
    seconds: float | None = None,
    target: float | None = None,
    method: str = "auto",
    design: Design | str | int | Sequence[Mapping[str, Any]] | None = None,
    tasks: TaskSet | Sequence[Task] = (),
    context: Mapping[str, float] | None = None,
    n_jobs: int = 1,
    seed: int | None = None,
    direction: str = "minimize",
    callbacks: Callback | Iterable[Callback] = (),
    timeout: float | None = None,
    storage: str | optuna.storages.BaseStorage | None = None,
    name: str | None = None,
    progress: bool | None = None,
    grow: str | Growing | None = None,
    **options: Any,
) -> Result:
    """Find the configuration with the smallest (or largest) value of an objective.

    An evaluation that raises, returns NaN or an infinity, or takes too long is recorded with its
    status, counts as bad for the model, and the run goes on. Ctrl-C ends the run and returns what
    was found.

    Args:
        objective: maps a configuration (a dict of the active hyperparameters) to a number.
        space: a ConfigSpace space, a dict as in `rankwise.make_space`, or an encoder, such as that
            of a `rankwise.bounding_box`.
        trials: stop when the study has so many, those of an earlier run included; 30 if
            neither `trials` nor `seconds` is given.
        seconds: start no evaluation after so many seconds of this call.
        target: stop when a value is at least as good.
        method: one of `rankwise.methods.available()`.
        design: what to evaluate first: "lhs", "sobol-2d", "random-10", ..., a size, a list of
            configurations; by default what the method says.
        tasks: past tasks of the same space, for a method that learns from them.
        context: what is known about the data: `rankwise.Context.of(X, y)`, or numbers by name. Of
            a context the numbers are recorded with the study, its rows never.
        n_jobs: evaluations at the same time, in joblib's worker processes. Batches of n_jobs
            are proposed together, so that a run repeats exactly whichever worker is faster.
        seed: of all randomness. The same seed gives the same trials.
        direction: "minimize" or "maximize".
        callbacks: one or several, called as ``callback(trial, result)`` after each trial;
            True ends the run.
        timeout: seconds after which one evaluation is stopped (in a worker process).
        storage: where the run is recorded as an Optuna study: a URL such as
            "sqlite:///runs.db" or an Optuna storage; in memory by default.
        name: of the study. If the storage has it, the run is resumed and goes on exactly as if
            it had not stopped.
        progress: show a live display; by default if the output is a terminal.
        grow: the name of an integer that unlocks other hyperparameters, such as the number of
            layers: it goes up level by level, and each level gets a share of `trials` (or of
            `seconds`). A `rankwise.Growing` says more. A resumed study grows as it was begun.
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
    trials = _check_limits(trials, seconds, target)
    watchers: list[Callback] = [callbacks] if callable(callbacks) else list(callbacks)
    evaluator = Evaluator(objective, n_jobs, timeout)
    encoder = space if isinstance(space, Encoder) else Encoder(space)
    _check_options(method, options)
    past = as_task_set(tasks)
    own = methods.get(method).options
    learning: dict[str, Any] = {"progress": progress} if "progress" in own else {}
    if grow is not None:
        grow = Growing.of(grow).within(trials, seconds, evaluator.n_jobs)
    # A wrong option, design or seed is found here, before a study is created.
    checked = Optimizer(
        encoder,
        method=method,
        design=design,
        tasks=past,
        seed=seed,
        context=context,
        grow=grow,
        **learning,
        **options,
    )
    log = StudyLog(encoder, storage=storage, name=name, direction=direction)
    seed = settle(log, "seed", seed, checked.seed)
    settle(log, "method", method, method)
    settle(log, "n_jobs", evaluator.n_jobs, evaluator.n_jobs)
    settle(log, "options", {key: repr(value) for key, value in options.items()})
    design = settle(log, "design", _plain_design(design))
    context = _settled_context(log, checked.context)
    if past.everything:
        settle(log, "past tasks", past.digest)
    checked = _settled_growth(log, checked, grow)
    optimizer = checked.restarted(design=design, seed=seed)
    optimizer.context = context
    run = Run(optimizer, evaluator, log, direction, target, watchers)
    with make_display(progress, trials, seconds, direction) as display:
        run.callbacks.append(display)
        return run.until(trials, seconds)


class Run:
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
        # What is believed comes with the past; without, the model would be fitted in vain.
        self.explains = optimizer.strategy.informed
        for trial in log.stored:
            optimizer.restore(trial)
        optimizer.reserve(log.size)

    def until(self, trials: int | None, seconds: float | None) -> Result:
        """Go on until a limit is reached."""
        try:
            interrupted = [t for t in self.optimizer.trials if t.status == PENDING]
            while interrupted and not self._is_over(None, seconds):
                self._evaluate(interrupted[: self.evaluator.n_jobs])
                interrupted = interrupted[self.evaluator.n_jobs :]
            while not self._is_over(trials, seconds):
                try:
                    batch = self._propose(trials)
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

    def _propose(self, trials: int | None) -> list[Trial]:
        """The next batch. Batches begin at multiples of n_jobs, also after an interruption."""
        n_jobs, known = self.evaluator.n_jobs, self.optimizer.trials
        next_number = max(known[-1].number + 1 if known else 0, self.log.size)
        n = n_jobs - next_number % n_jobs
        if trials is not None:
            n = min(n, trials - len(known))
        start = time.perf_counter()
        batch = self.optimizer.propose(n, since=next_number - next_number % n_jobs)
        each = (time.perf_counter() - start) / len(batch)
        batch = [replace(trial, proposal_seconds=each) for trial in batch]
        if self.explains:
            beliefs = self.optimizer.explain([trial.configuration for trial in batch])
            for trial, belief in zip(batch, beliefs, strict=True):
                self.log.describe(trial.number, _facts(belief, self.sign))
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
        if evaluation.status != OK and evaluation.kind not in self._complained:
            self._complained.add(evaluation.kind)
            warnings.warn(
                f"trial {trial.number} {evaluation.status}: {evaluation.error}",
                RunWarning,
                stacklevel=5,
            )

    def _call_back(self, trial: Trial) -> None:
        for callback in self.callbacks:
            try:
                answer = callback(trial, self.result())
                wants_stop = isinstance(answer, bool | np.bool_) and bool(answer)
            except Exception as error:  # nothing evaluated may be lost by a callback
                warnings.warn(
                    f"callback {getattr(callback, '__name__', callback)!r} raised "
                    f"{type(error).__name__}: {error}; the run goes on",
                    RunWarning,
                    stacklevel=5,
                )
                continue
            if wants_stop and not self.stopped:
                self.stopped = "callback"


def _facts(belief: Explanation, sign: float) -> dict[str, Any]:
    """What is stored of what the method believed, in the direction of the study."""
    facts: dict[str, Any] = {}
    if belief.mean is not None and belief.std is not None:
        facts["expected"] = {"mean": sign * belief.mean, "std": belief.std}
    if belief.trust is not None:
        facts["trust"] = belief.trust
    if belief.sources:
        facts["sources"] = dict(list(belief.sources.items())[:_MOST_SOURCES])
    return facts


def _check_limits(trials: Any, seconds: Any, target: Any) -> int | None:
    if seconds is not None and not (is_number(seconds) and seconds > 0):
        raise OptionError(f"seconds must be a positive number, not {seconds!r}")
    if target is not None and not is_number(target):
        raise OptionError(f"target must be a number, not {target!r}")
    if trials is None:
        return DEFAULT_TRIALS if seconds is None else None
    return check_count("trials", trials)


def _check_options(method: str, options: Mapping[str, Any]) -> None:
    """A name that is neither an argument of `minimize` nor an option of the method is a typo."""
    own = inspect.signature(minimize).parameters.values()
    arguments = [p.name for p in own if p.kind is p.KEYWORD_ONLY]
    valid = methods.get(method).options
    for name in options:
        if name not in valid:
            kind = f"argument or option of method {method!r}"
            raise UnknownNameError(kind, name, [*valid, *arguments])


def _plain_design(design: Any) -> Any:
    """A design as it can be stored: a text, a size or a list of configurations."""
    if isinstance(design, Design):
        return f"{design.kind}-{design.size}"
    if design is None or isinstance(design, str | int):
        return design
    return [dict(configuration) for configuration in design] if _is_json(design) else None


def _is_json(value: Any) -> bool:
    try:
        json.dumps(list(value))
    except (TypeError, ValueError):
        return False
    return True


def _settled_context(log: StudyLog, context: Mapping[str, float]) -> Mapping[str, float]:
    """What is known about the data: as told now, else the numbers that were recorded."""
    if not context:
        known = read_context(log.study)
        return {name: float(value) for name, value in known.items() if is_number(value)}
    rows = getattr(context, "rows", None)
    told = repr(sorted(context.items())) + (rows.digest if rows else "")
    settle(log, "data", hashlib.sha256(told.encode()).hexdigest()[:16])
    attach_context(log.study, dict(context))
    return context


def _settled_growth(log: StudyLog, optimizer: Optimizer, grow: Growing | None) -> Optimizer:
    """An optimizer that grows as the caller says, else as the resumed study noted."""
    if grow is None:
        noted = log.noted("grow")
        return optimizer if noted is None else optimizer.growing(Growing(**noted))
    if log.size and log.noted("grow") is None:
        warnings.warn(
            f"study {log.study.study_name!r} was begun without growing by {grow.by!r}: its next "
            "trials differ from those of an uninterrupted run",
            RunWarning,
            stacklevel=3,
        )
    settle(log, "grow", grow.description)
    return optimizer


def settle(log: StudyLog, what: str, asked: Any, chosen: Any = None) -> Any:
    """What a resumed study noted, unless the caller now asks for something else."""
    noted, chosen = log.noted(what), asked if chosen is None else chosen
    if noted is None:
        if chosen is not None:
            log.note(what, chosen)
        return chosen
    if asked is None or asked == noted:
        return noted
    warnings.warn(
        f"study {log.study.study_name!r} was begun with {what} {noted!r} and goes on with "
        f"{asked!r}: its next trials differ from those of an uninterrupted run",
        RunWarning,
        stacklevel=3,
    )
    return asked
