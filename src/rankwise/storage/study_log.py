"""StudyLog: records a run as an Optuna study, each trial when it starts and when it ends.

So optuna-dashboard shows the run, it can be resumed after any kind of end, and later studies can
learn from it. Facts without a field in Optuna are user attributes whose names start with
"rankwise:".
"""

from __future__ import annotations

import math
import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState

from rankwise.errors import ConfigurationError, StorageError, StudyMismatchError
from rankwise.history.task import FAILED, INVALID, OK
from rankwise.history.trial import PENDING, PRUNED, Trial
from rankwise.space.encoder import Encoder
from rankwise.space.parameters import Choice, Number, Parameter, stable_name
from rankwise.storage.optuna_private import id_of_trial, storage_of
from rankwise.types import Configuration, sign_of

_PREFIX = "rankwise:"
_PRIMITIVE = (bool, int, float, str, type(None))


class StudyLog:
    """Record of one run in an Optuna storage.

    A failed write (disk full, server unreachable) does not stop the run: the data stay in memory,
    every later write tries again, and `unsaved` lists them.

    Args:
        encoder: encoder of the space.
        storage: a URL ("sqlite:///runs.db", "postgresql://..."), an Optuna storage, or None
            for memory.
        name: name of the study; an existing study of that name is continued.
        direction: "minimize" or "maximize", or several of them.
        metrics: names of the objectives' metrics; empty if they are not known.

    Raises:
        StorageError: the storage cannot be opened, read or written.
        StudyMismatchError: the study exists and has another space or direction.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        storage: str | optuna.storages.BaseStorage | None,
        name: str | None,
        direction: str | Sequence[str],
        metrics: Sequence[str] = (),
    ) -> None:
        wanted = [direction] if isinstance(direction, str) else list(direction)
        self._distributions = {p.name: distribution(p) for p in encoder.parameters}
        self._parameters = {p.name: p for p in encoder.parameters}
        self._encoder = encoder
        self._backlog: dict[int, Trial] = {}
        self._open: dict[int, optuna.Trial] = {}
        self._facts: dict[int, dict[str, Any]] = {}
        self._written: dict[int, dict[str, Any]] = {}
        self._reported: dict[int, dict[int, float]] = {}
        self._pruned: set[int] = set()
        self._written_steps: dict[int, set[int]] = {}  # of trials that are running
        self.size = 0  # number of trials in the study, including those of other programs
        self._signs = [sign_of(one) for one in wanted]
        self._warned = False
        self._own_storage = isinstance(storage, str)
        with quiet_optuna(), storage_errors(storage, "open"):
            self.study = _open_study(storage, name, wanted)
            if metrics and self.study.metric_names != list(metrics):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                    self.study.set_metric_names(list(metrics))
        with storage_errors(storage, "read"):
            stored = self.study.get_trials(deepcopy=False)
            attributes = self.study.user_attrs
            directions = [d.name.lower() for d in self.study.directions]
        if stored or attributes:
            self._check(wanted, directions, attributes)
        if _key("fingerprint") not in attributes:
            self.note("fingerprint", encoder.fingerprint)
            self.note("space", encoder.description)
        self.size = len(stored)
        self._stored = [self._restore(trial) for trial in stored if _has_configuration(trial)]

    @property
    def stored(self) -> list[Trial]:
        """The trials of the study when it was opened; running ones are pending.

        Trials without a configuration (enqueued, or failed early) are left out; their numbers
        stay reserved.
        """
        return self._stored

    @property
    def unsaved(self) -> list[int]:
        """Numbers of the finished trials that could not be written."""
        return sorted(self._backlog)

    def noted(self, key: str) -> Any:
        """The value that `note` stored under a key, or None."""
        return self.study.user_attrs.get(_key(key))

    def note(self, key: str, value: Any) -> None:
        """Store a fact about the run."""
        with storage_errors(storage_of(self.study), "write"):
            self.study.set_user_attr(_key(key), value)

    def release(self) -> None:
        """Close the connections of a storage that was given by its URL; the study stays usable."""
        if self._own_storage:
            release_connections(storage_of(self.study))

    def describe(self, number: int, facts: Mapping[str, Any]) -> None:
        """Add facts about a trial; they are written when it ends."""
        self._facts.setdefault(number, {}).update({_key(k): v for k, v in facts.items()})

    def report(self, number: int, values: Mapping[int, float], *, pruned: bool) -> None:
        """Add intermediate values of a trial; they are written when it ends.

        Args:
            number: number of the trial.
            values: values by step, in the study's own direction.
            pruned: True if the trial was pruned; its last value is its result.
        """
        self._reported.setdefault(number, {}).update(values)
        if pruned:
            self._pruned.add(number)

    def step(self, number: int, value: float, step: int) -> bool:
        """Record an intermediate value of a running trial at once, and ask the study's pruner.

        Args:
            number: number of the trial.
            value: the value, in the study's own direction.
            step: its step.

        Returns:
            True if the pruner stops the trial.
        """
        self._reported.setdefault(number, {})[step] = value
        running = self._open.get(number)
        if running is None:
            return False
        stops = False
        with self._kept_on_failure():
            written = self._written_steps.setdefault(number, set())
            if step not in written:
                running.report(value, step)
                written.add(step)
            stops = running.should_prune()
        return stops

    def start(self, trial: Trial) -> None:
        """Record that a trial's evaluation begins."""
        if trial.number in self._open:
            return  # it was started before an interruption
        self.flush()
        if trial.number != self.size:
            return  # an earlier trial is not written yet, and our numbers must equal Optuna's
        with self._kept_on_failure():
            self.study.add_trial(self._frozen(trial))
            self._written[trial.number] = self._attributes(trial)
            self.size += 1
            running = self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
            [added] = [t for t in running if t.number == trial.number]
            self._open[trial.number] = optuna.Trial(self.study, id_of_trial(added))

    def finish(self, trial: Trial) -> None:
        """Record the result of a trial."""
        self._backlog[trial.number] = trial
        self.flush()

    def flush(self) -> None:
        """Write trials that could not be written before, in order."""
        for number in sorted(self._backlog):
            if number not in self._open and number != self.size:
                return  # an earlier trial is still running
            with self._kept_on_failure():
                self._write(self._backlog[number])
                del self._backlog[number]
            if number in self._backlog:
                return

    def _write(self, trial: Trial) -> None:
        running = self._open.get(trial.number)
        if running is None:
            self.study.add_trial(self._frozen(trial))
            self.size += 1
            return
        written = self._written.get(trial.number, {})
        for key, value in self._attributes(trial).items():
            if key not in written or written[key] != value:
                running.set_user_attr(key, value)
        there = self._written_steps.get(trial.number, set())
        for step, reported in self._curve(trial).items():
            if step not in there:
                running.report(reported, step)
        if self._was_pruned(trial):
            self.study.tell(running, state=TrialState.PRUNED)
        elif trial.status == OK:
            self.study.tell(running, self._values(trial))
        else:
            self.study.tell(running, state=TrialState.FAIL)
        del self._open[trial.number]

    @contextmanager
    def _kept_on_failure(self) -> Iterator[None]:
        try:
            with quiet_optuna():
                yield
        except Exception as error:  # storages raise many types of errors
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"the storage cannot be written ({_first_line(error)}); the run goes on, "
                    "its results are kept in memory and writing is tried again",
                    RuntimeWarning,
                    stacklevel=3,
                )

    # ------------------------------------------------------------------ conversion

    def _frozen(self, trial: Trial) -> FrozenTrial:
        states = {PENDING: TrialState.RUNNING, OK: TrialState.COMPLETE}
        state = states.get(trial.status, TrialState.FAIL)
        reported = self._curve(trial)
        values = self._values(trial) if trial.status == OK else None
        if self._was_pruned(trial):
            last = reported[max(reported)]
            state, values = TrialState.PRUNED, [last] if math.isfinite(last) else None
        params = {
            name: _to_optuna(self._parameters[name], value)
            for name, value in trial.configuration.items()
        }
        frozen = optuna.trial.create_trial(
            state=state,
            values=values,
            params=params,
            distributions={name: self._distributions[name] for name in params},
            user_attrs=self._attributes(trial),
            intermediate_values=reported,
        )
        if trial.status != PENDING and math.isfinite(trial.cost):
            frozen.datetime_start = datetime.now() - timedelta(seconds=trial.cost)
        return frozen

    def _curve(self, trial: Trial) -> dict[int, float]:
        """Intermediate values of a trial in the study's own direction."""
        return {**trial.turned(self._signs).curve, **self._reported.get(trial.number, {})}

    def _was_pruned(self, trial: Trial) -> bool:
        """True if a trial was stopped early after it had reported a value."""
        stopped = trial.number in self._pruned or trial.status == PRUNED
        return stopped and bool(self._curve(trial))

    def _values(self, trial: Trial) -> list[float]:
        """The values of a trial in the study's own directions."""
        turned = trial.turned(self._signs)
        return list(turned.values or (turned.value,))

    def _attributes(self, trial: Trial) -> dict[str, Any]:
        values = {"proposal_seconds": trial.proposal_seconds, "seconds": trial.cost}
        kept: dict[str, Any] = {_key(k): v for k, v in values.items() if math.isfinite(v)}
        if trial.shared:
            kept[_key("shared")] = True
        if trial.status not in (OK, PENDING, PRUNED):
            kept[_key("status")] = trial.status
            kept[_key("error")] = trial.error
        return {**kept, **self._facts.get(trial.number, {})}

    def _restore(self, stored: FrozenTrial) -> Trial:
        attributes = stored.user_attrs
        try:
            configuration = configuration_of(self._encoder, stored.params)
            [configuration] = self._encoder.decode(self._encoder.encode([configuration]))
        except (KeyError, ConfigurationError) as error:
            raise StudyMismatchError(
                f"trial {stored.number} of study {self.study.study_name!r} is not of this space: "
                f"{error}"
            ) from error
        trial = Trial(
            stored.number,
            configuration,
            cost=float(attributes.get(_key("seconds"), math.nan)),
            error=str(attributes.get(_key("error"), "")),
            proposal_seconds=float(attributes.get(_key("proposal_seconds"), math.nan)),
            shared=bool(attributes.get(_key("shared"), False)),
        )
        if not stored.state.is_finished():
            self._open[stored.number] = optuna.Trial(self.study, id_of_trial(stored))
            self._written_steps[stored.number] = set(stored.intermediate_values)
            return trial
        trial = replace(trial, curve=dict(stored.intermediate_values))
        if math.isnan(trial.cost) and stored.duration is not None:
            trial = replace(trial, cost=stored.duration.total_seconds())
        if stored.state == TrialState.PRUNED:
            status = PRUNED if trial.curve else FAILED
            return replace(trial, status=status, error="pruned").turned(self._signs)
        values = stored.values
        if not values or len(values) != len(self._signs):
            trial = replace(trial, status=str(attributes.get(_key("status"), FAILED)))
            return trial.turned(self._signs)
        if not all(map(math.isfinite, values)):
            return replace(trial, status=INVALID).turned(self._signs)
        several = tuple(values) if len(values) > 1 else ()
        return replace(trial, status=OK, value=values[0], values=several).turned(self._signs)

    def _check(self, wanted: list[str], stored: list[str], attributes: Mapping[str, Any]) -> None:
        name = self.study.study_name
        if stored != wanted:
            raise StudyMismatchError(
                f"study {name!r} is to {' and '.join(stored)}, not to {' and '.join(wanted)}; "
                "use the other direction or another name"
            )
        fingerprint = attributes.get(_key("fingerprint"))
        if fingerprint not in (None, self._encoder.fingerprint):
            difference = _difference(attributes.get(_key("space"), {}), self._encoder.description)
            raise StudyMismatchError(
                f"study {name!r} has another space ({difference}); use that space or another name"
            )


def _open_study(storage: Any, name: str | None, directions: list[str]) -> optuna.Study:
    """Open the study of a name, or create it.

    If several processes open a new SQLite file at the same time, all but one fail to create its
    tables; they try again.
    """
    pauses = [0.1, 0.2, 0.4, 0.8] if str(storage).startswith("sqlite") else []
    while True:
        try:
            return optuna.create_study(
                storage=storage,
                study_name=name,
                directions=[optuna.study.StudyDirection[one.upper()] for one in directions],
                load_if_exists=True,
            )
        except Exception:
            if not pauses:
                raise
            time.sleep(pauses.pop(0))


def _has_configuration(trial: FrozenTrial) -> bool:
    return bool(trial.params) or trial.state not in (TrialState.WAITING, TrialState.FAIL)


def _difference(stored: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """The hyperparameters in which two descriptions of spaces differ, as text."""
    before = {h["name"]: h for h in stored.get("hyperparameters", [])}
    now = {h["name"]: h for h in ours["hyperparameters"]}
    parts = [
        *(f"{name!r} only there" for name in before if name not in now),
        *(f"{name!r} only here" for name in now if name not in before),
        *(f"{name!r} changed" for name in now if name in before and now[name] != before[name]),
    ]
    return ", ".join(parts) or "its conditions or forbidden clauses changed"


def distribution(parameter: Parameter) -> BaseDistribution:
    """Optuna's distribution of a hyperparameter."""
    if isinstance(parameter, Number):
        log, step = parameter.log, 0.0 if parameter.log else parameter.step
        if parameter.integer:
            low, high = int(parameter.lower), int(parameter.upper)
            return IntDistribution(low, high, log=log, step=int(step) or 1)
        # The rounding error of a sum of steps would make Optuna report a range off the grid.
        last = float(f"{parameter.upper:.12g}") if step else parameter.upper
        return FloatDistribution(parameter.lower, last, log=log, step=step or None)
    assert isinstance(parameter, Choice)
    legal = [parameter.value(code) for code in parameter.legal]
    return CategoricalDistribution([_to_optuna(parameter, v) for v in legal])


def _to_optuna(parameter: Parameter, value: Any) -> Any:
    """The value that Optuna stores: a plain value itself, any other choice as a text."""
    if isinstance(parameter, Choice) and not isinstance(value, _PRIMITIVE):
        return stable_name(value)
    return value


def configuration_of(encoder: Encoder, params: Mapping[str, Any]) -> Configuration:
    """Convert stored parameters to a configuration of the space.

    Raises:
        KeyError: the space has no such hyperparameter.
    """
    parameters = {p.name: p for p in encoder.parameters}
    return {name: _from_optuna(parameters[name], value) for name, value in params.items()}


def _from_optuna(parameter: Parameter, value: Any) -> Any:
    if isinstance(parameter, Choice):
        for choice in parameter.values:
            if not isinstance(choice, _PRIMITIVE) and stable_name(choice) == value:
                return choice
    return value


def _key(name: str) -> str:
    return _PREFIX + name


def release_connections(storage: optuna.storages.BaseStorage) -> None:
    """Close the connections of a storage; it opens new ones when it is used again.

    A driver such as psycopg warns about connections that are still open when they are deleted.
    """
    storage.remove_session()
    inner = getattr(storage, "_backend", storage)  # a cache of trials has one
    if isinstance(inner, optuna.storages.RDBStorage):
        inner.remove_session()
        inner.engine.dispose()


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Silence Optuna's INFO messages about each study and trial."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


@contextmanager
def storage_errors(storage: object, verb: str) -> Iterator[None]:
    """Turn every error of a storage into a `StorageError` without passwords.

    Args:
        storage: the storage or its address, for the message.
        verb: the operation, for the message ("open").
    """
    try:
        yield
    except StudyMismatchError:
        raise
    except Exception as error:  # SQLAlchemy, drivers and files raise many types
        shown = without_password(f"the storage {storage}: {_first_line(error)}")
        advice = "check the address, the folder and the permissions"
        cause = error.__cause__ or error
        if isinstance(cause, _DAMAGED):  # what was read makes no sense
            advice = "it is damaged, or another version of Optuna has written it"
        elif isinstance(cause, ModuleNotFoundError):
            advice = f"install {cause.name}, the driver of this kind of database"
        elif type(cause).__name__ == "NoSuchModuleError":  # of SQLAlchemy
            advice = (
                "an address begins with a kind of database, such as sqlite:/// or postgresql://"
            )
        raise StorageError(f"cannot {verb} {shown}; {advice}") from error


def without_password(text: str) -> str:
    """A text in which the passwords of URLs are replaced."""
    return re.sub(r"://([^:@/\s]*):\S*@", r"://\1:***@", text)


_DAMAGED = (ArithmeticError, AssertionError, LookupError, RecursionError, TypeError, ValueError)


def _first_line(error: BaseException) -> str:
    error = error.__cause__ or error
    text = str(error).strip() or type(error).__name__
    if isinstance(error, KeyError):
        text = f"unknown entry {text}"
    return text.splitlines()[0]
