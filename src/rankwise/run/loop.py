"""minimize: runs the optimization loop for an objective and a space."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise import methods
from rankwise.context.data import known_facts
from rankwise.errors import (
    OptionError,
    RunWarning,
    SpaceExhausted,
    StorageError,
    UnknownNameError,
    check_count,
    is_number,
)
from rankwise.history.task import OK, Task, TaskSet, as_task_set
from rankwise.history.trial import PENDING, PRUNED, Trial
from rankwise.run.display import make_display
from rankwise.run.evaluation import Evaluation, Objective
from rankwise.run.model_cache import learnt_optimizer
from rankwise.run.optimizer import Optimizer, check_seed
from rankwise.run.pruning import check_pruner, watch_with
from rankwise.run.result import Result
from rankwise.run.several import Directions, joint_optimizer
from rankwise.run.workers import Evaluator
from rankwise.space.design import Design
from rankwise.space.encoder import Encoder
from rankwise.storage.study_facts import attach_context, read_context
from rankwise.storage.study_log import StudyLog
from rankwise.strategies.growing import Growing

if TYPE_CHECKING:
    import optuna
    from ConfigSpace import ConfigurationSpace

DEFAULT_TRIALS = 30

Callback = Callable[[Trial, Result], Any]
"""Called after each trial with the trial and the result so far; True ends the run."""


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
    direction: str | Sequence[str] | Mapping[str, str] = "minimize",
    callbacks: Callback | Iterable[Callback] = (),
    timeout: float | None = None,
    storage: str | optuna.storages.BaseStorage | None = None,
    name: str | None = None,
    progress: bool | None = None,
    grow: str | Growing | None = None,
    models: str | os.PathLike[str] | None = None,
    pruner: optuna.pruners.BasePruner | None = None,
    **options: Any,
) -> Result:
    """Find the configuration with the smallest (or largest) value of an objective.

    An evaluation that raises, returns NaN or an infinity, or takes too long is recorded with its
    status and counts as a bad configuration; the run continues. Ctrl-C ends the run and returns
    the result so far.

    Args:
        objective: maps a configuration (a dict of the active hyperparameters) to a number, or to
            several numbers if there are several directions. See `pruner` for a second parameter.
        space: a ConfigSpace space, a dict as in `rankwise.make_space`, or an encoder, such as the
            result of `rankwise.bounding_box`.
        trials: stop when the study has this many trials, including those of an earlier run; 30
            if neither `trials` nor `seconds` is given.
        seconds: stop starting new trials after this many seconds.
        target: stop when a value is at least as good as this.
        method: one of `rankwise.methods.available()`.
        design: initial design: "lhs", "sobol-2d", "random-10", ..., a size, or a list of
            configurations; by default the method's own.
        tasks: source tasks of the same space, for transfer methods.
        context: facts about the data set: `rankwise.Context.of(X, y)`, or numbers by name. The
            numbers are recorded with the study, rows never.
        n_jobs: number of simultaneous evaluations in joblib's worker processes. Batches of n_jobs
            are proposed together, so that a run is reproducible whichever worker is faster.
        seed: seed of all random numbers. The same seed gives the same trials.
        direction: "minimize" or "maximize". For several objectives, up to four, a list of
            directions, or a dict of names and directions such as {"error": "minimize",
            "seconds": "minimize"}; the result then has the Pareto front.
        callbacks: one or several functions, called as ``callback(trial, result)`` after each
            trial; returning True ends the run.
        timeout: seconds after which one evaluation is stopped (in a worker process).
        storage: storage of the Optuna study that records the run: a URL such as
            "sqlite:///runs.db" or an Optuna storage; in memory by default.
        name: name of the study. If the storage has it, the run is resumed and continues exactly
            as if it had not stopped.
        progress: show a live display; by default if the output is a terminal.
        grow: name of an integer that activates other hyperparameters, such as the number of
            layers. It increases level by level, and each level gets a share of `trials` (or of
            `seconds`). `rankwise.Growing` has more settings. A resumed study keeps its setting.
        models: folder for the model that is learnt from `tasks`, so that a later call with the
            same tasks, method and options loads it. None keeps no model.
        pruner: an Optuna pruner, such as `rankwise.RankwisePruner(archive)`. It may stop a trial
            when the objective reports a value: an objective with a parameter `report` gets a
            function that is called as ``report(value, step)``. It needs n_jobs=1 and no timeout.
        **options: options of the method; see `rankwise.methods.get(method).options`.

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
    directions = Directions.of(direction)
    if directions.several and (target is not None or grow is not None):
        raise OptionError("target= and grow= need a study with one objective")
    trials = _check_limits(trials, seconds, target)
    watchers: list[Callback] = [callbacks] if callable(callbacks) else list(callbacks)
    evaluator = Evaluator(objective, n_jobs, timeout, len(directions.each))
    check_pruner(pruner, evaluator, directions)
    encoder = space if isinstance(space, Encoder) else Encoder(space)
    _check_options(method, options)
    past = as_task_set(tasks)
    own = methods.get(method).options
    learning: dict[str, Any] = {"progress": progress} if "progress" in own else {}
    if grow is not None:
        grow = Growing.of(grow).within(trials, seconds, evaluator.n_jobs)
    # Raise on a wrong option, design or seed before a study is created.
    facts, first_seed = known_facts(context), check_seed(seed)
    folder = None if models is None else Path(models)
    if directions.several:
        m = len(directions.each)
        checked = joint_optimizer(method, encoder, past, folder, m, **learning, **options)
    elif methods.get(method).transfer:
        checked = learnt_optimizer(method, encoder, past, folder, **learning, **options)
    else:  # this raises if there are source tasks
        checked = Optimizer(encoder, method=method, tasks=past, seed=0, **learning, **options)
    if grow is not None:
        checked = checked.growing(grow)
    checked = checked.restarted(design=design, seed=first_seed)
    log = StudyLog(
        encoder,
        storage=storage,
        name=name,
        direction=directions.each,
        metrics=directions.names,
    )
    seed = settle(log, "seed", seed, checked.seed)
    settle(log, "method", method, method)
    settle(log, "n_jobs", evaluator.n_jobs, evaluator.n_jobs)
    settle(log, "options", {key: repr(value) for key, value in options.items()})
    design = settle(log, "design", _plain_design(design))
    context = _settled_context(log, facts)
    if past.everything:
        settle(log, "past tasks", past.digest)
    checked = _settled_growth(log, checked, grow)
    optimizer = checked.restarted(design=design, seed=seed)
    optimizer.context = context
    watch_with(pruner, evaluator, log)
    run = Run(optimizer, evaluator, log, directions, target, watchers)
    shown = " and ".join(directions.each)
    with make_display(progress, trials, seconds, shown) as display:
        run.callbacks.append(display)
        return run.until(trials, seconds)


class Run:
    """The state of one call of `minimize`."""

    def __init__(
        self,
        optimizer: Optimizer,
        evaluator: Evaluator,
        log: StudyLog,
        directions: Directions,
        target: float | None,
        callbacks: list[Callback],
    ) -> None:
        self.optimizer = optimizer
        self.evaluator = evaluator
        self.log = log
        self.directions = directions
        self.sign = directions.signs[0]
        self.target = target
        self.callbacks = callbacks
        self.began = time.perf_counter()
        self.stopped = ""
        self._complained: set[str] = set()
        # Predictions are recorded for transfer methods only; others would need an extra fit.
        self.explains = optimizer.strategy.informed
        for trial in log.stored:
            optimizer.restore(trial)
        optimizer.reserve(log.size)

    def until(self, trials: int | None, seconds: float | None) -> Result:
        """Run trials until a limit is reached."""
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
        evidence = self.optimizer.evidence if self.explains else None
        if evidence is not None:
            with suppress(StorageError):  # it must not end a run
                self.log.note("evidence", evidence.to_dict())
        self.log.release()
        return self.result()

    def result(self) -> Result:
        """The result so far."""
        finished = [t for t in self.optimizer.trials if t.status != PENDING]
        return Result(
            trials=[t.turned(self.directions.signs) for t in finished],
            direction=self.directions.each[0],
            method=self.optimizer.method,
            seed=self.optimizer.seed,
            stopped=self.stopped,
            seconds=time.perf_counter() - self.began,
            study=self.log.study,
            unsaved=self.log.unsaved,
            directions=self.directions.each,
            metrics=self.directions.names,
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
        """Propose the next batch; batches begin at multiples of n_jobs, also after a resume."""
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
            beliefs = self.optimizer.explain_trials(batch)
            for k, (trial, belief) in enumerate(zip(batch, beliefs, strict=True)):
                facts = {"origin": self.optimizer.origin(trial, k), **belief.facts(self.sign)}
                self.log.describe(trial.number, facts)
        for trial in batch:
            self.optimizer.restore(trial)
            self.log.start(trial)
        return batch

    def _evaluate(self, batch: list[Trial]) -> None:
        for trial, evaluation in self.evaluator.run(batch):
            done = self.optimizer.finish(
                trial.number,
                self.sign * evaluation.value,
                cost=evaluation.cost,
                status=evaluation.status,
                error=evaluation.error,
                values=[
                    s * v for s, v in zip(self.directions.signs, evaluation.values, strict=False)
                ],
                curve={step: self.sign * v for step, v in evaluation.curve.items()},
            )
            self.log.finish(done)
            self._complain(done, evaluation)
            self._call_back(done.turned(self.directions.signs))

    def _complain(self, trial: Trial, evaluation: Evaluation) -> None:
        """Warn once about each kind of failure, so that a bug in the objective is noticed."""
        if evaluation.status not in (OK, PRUNED) and evaluation.kind not in self._complained:
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
            except Exception as error:  # a callback must not lose evaluated trials
                warnings.warn(
                    f"callback {getattr(callback, '__name__', callback)!r} raised "
                    f"{type(error).__name__}: {error}; the run goes on",
                    RunWarning,
                    stacklevel=5,
                )
                continue
            if wants_stop and not self.stopped:
                self.stopped = "callback"


def _check_limits(trials: Any, seconds: Any, target: Any) -> int | None:
    if seconds is not None and not (is_number(seconds) and seconds > 0):
        raise OptionError(f"seconds must be a positive number, not {seconds!r}")
    if target is not None and not is_number(target):
        raise OptionError(f"target must be a number, not {target!r}")
    if trials is None:
        return DEFAULT_TRIALS if seconds is None else None
    return check_count("trials", trials)


def _check_options(method: str, options: Mapping[str, Any]) -> None:
    """Raise for a name that is neither an argument of `minimize` nor an option of the method."""
    own = inspect.signature(minimize).parameters.values()
    arguments = [p.name for p in own if p.kind is p.KEYWORD_ONLY]
    valid = methods.get(method).options
    for name in options:
        if name not in valid:
            kind = f"argument or option of method {method!r}"
            raise UnknownNameError(kind, name, [*valid, *arguments])


def _plain_design(design: Any) -> Any:
    """A design in a form that can be stored: a text, a size or a list of configurations."""
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
    """The context that the caller gave, else the numbers that were recorded with the study."""
    if not context:
        known = read_context(log.study)
        return {name: float(value) for name, value in known.items() if is_number(value)}
    rows = getattr(context, "rows", None)
    told = repr(sorted(context.items())) + (rows.digest if rows else "")
    settle(log, "data", hashlib.sha256(told.encode()).hexdigest()[:16])
    attach_context(log.study, dict(context))
    return context


def _settled_growth(log: StudyLog, optimizer: Optimizer, grow: Growing | None) -> Optimizer:
    """The optimizer with the growth of the caller, else with that of the resumed study."""
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
    """Return the recorded setting of a resumed study, unless the caller asks for another one."""
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
