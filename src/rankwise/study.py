"""Runs are Optuna studies: every trial is written as it starts and as it ends.

So a run shows in optuna-dashboard while it runs, can be resumed after any kind of end, and
can be learnt from later. What Optuna has no place for is kept in user attributes whose names
start with "rankwise:".
"""

from __future__ import annotations

import math
import re
import time
import warnings
from collections.abc import Iterator, Mapping
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
from rankwise.optimizer import PENDING, Trial
from rankwise.parameters import Choice, Number, Parameter, stable_name
from rankwise.space import Encoder
from rankwise.task import FAILED, INVALID, OK
from rankwise.types import Configuration

_PREFIX = "rankwise:"
_PRIMITIVE = (bool, int, float, str, type(None))


class StudyLog:
    """One run's record in an Optuna storage.

    A write that fails (the disk is full, the server is gone) never stops the run: what could
    not be written is kept, tried again with every later write, and reported by `unsaved`.

    Args:
        encoder: of the space.
        storage: a URL ("sqlite:///runs.db", "postgresql://..."), an Optuna storage, or None
            for memory.
        name: of the study; an existing one of that name is continued.
        direction: "minimize" or "maximize".

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
        direction: str,
    ) -> None:
        self._distributions = {p.name: distribution(p) for p in encoder.parameters}
        self._parameters = {p.name: p for p in encoder.parameters}
        self._encoder = encoder
        self._backlog: dict[int, Trial] = {}
        self._open: dict[int, optuna.Trial] = {}
        self._facts: dict[int, dict[str, Any]] = {}
        self._written: dict[int, dict[str, Any]] = {}
        self._reported: dict[int, dict[int, float]] = {}
        self._pruned: set[int] = set()
        self.size = 0  # the number of trials in the study, ours or not
        self._sign = 1.0 if direction == "minimize" else -1.0
        self._warned = False
        with quiet_optuna(), storage_errors(storage, "open"):
            self.study = _open_study(storage, name, direction)
        with storage_errors(storage, "read"):
            stored = self.study.get_trials(deepcopy=False)
            attributes = self.study.user_attrs
            directions = [d.name.lower() for d in self.study.directions]
        if stored or attributes:
            self._check(direction, directions, attributes)
        if _key("fingerprint") not in attributes:
            self.note("fingerprint", encoder.fingerprint)
            self.note("space", encoder.description)
        self.size = len(stored)
        self._stored = [self._restore(trial) for trial in stored if _has_configuration(trial)]

    @property
    def stored(self) -> list[Trial]:
        """The trials that the study held when it was opened; running ones are pending.

        Trials without a configuration (enqueued ones, or failed before they had one) are left
        out; their numbers stay taken.
        """
        return self._stored

    @property
    def unsaved(self) -> list[int]:
        """Numbers of the finished trials that could not be written."""
        return sorted(self._backlog)

    def noted(self, key: str) -> Any:
        """What `note` stored under a key, or None."""
        return self.study.user_attrs.get(_key(key))

    def note(self, key: str, value: Any) -> None:
        """Store a fact about the run."""
        with storage_errors(self.study._storage, "write"):
            self.study.set_user_attr(_key(key), value)

    def describe(self, number: int, facts: Mapping[str, Any]) -> None:
        """Facts about a trial, which are written with it when it ends."""
        self._facts.setdefault(number, {}).update({_key(k): v for k, v in facts.items()})

    def report(self, number: int, values: Mapping[int, float], *, pruned: bool) -> None:
        """What a trial reached on the way, which is written with it when it ends.

        Args:
            number: of the trial.
            values: by step, in the study's own direction.
            pruned: it was stopped early; the last of these values is its value.
        """
        self._reported[number] = dict(values)
        if pruned:
            self._pruned.add(number)

    def start(self, trial: Trial) -> None:
        """Record that a trial's evaluation begins."""
        if trial.number in self._open:
            return  # it was begun before the run was interrupted
        self.flush()
        if trial.number != self.size:
            return  # an earlier one could not be written: numbers must stay Optuna's numbers
        with self._kept_on_failure():
            self.study.add_trial(self._frozen(trial))
            self._written[trial.number] = self._attributes(trial)
            self.size += 1
            running = self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
            [added] = [t for t in running if t.number == trial.number]
            self._open[trial.number] = optuna.Trial(self.study, added._trial_id)

    def finish(self, trial: Trial) -> None:
        """Record what came of a trial."""
        self._backlog[trial.number] = trial
        self.flush()

    def flush(self) -> None:
        """Write what could not be written before, in order."""
        for number in sorted(self._backlog):
            if number not in self._open and number != self.size:
                return  # an earlier one is still being evaluated
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
        for step, reported in self._reported.get(trial.number, {}).items():
            running.report(reported, step)
        if trial.number in self._pruned:
            self.study.tell(running, state=TrialState.PRUNED)
        elif trial.status == OK:
            self.study.tell(running, self._sign * trial.value)
        else:
            self.study.tell(running, state=TrialState.FAIL)
        del self._open[trial.number]

    @contextmanager
    def _kept_on_failure(self) -> Iterator[None]:
        try:
            with quiet_optuna():
                yield
        except Exception as error:  # storages raise many kinds
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"the storage cannot be written ({_first_line(error)}); the run goes on, "
                    "its results are kept in memory and writing is tried again",
                    RuntimeWarning,
                    stacklevel=3,
                )

    # ------------------------------------------------------------------ Optuna's form and ours

    def _frozen(self, trial: Trial) -> FrozenTrial:
        states = {PENDING: TrialState.RUNNING, OK: TrialState.COMPLETE}
        state = states.get(trial.status, TrialState.FAIL)
        reported = self._reported.get(trial.number, {})
        value = self._sign * trial.value if trial.status == OK else None
        if trial.number in self._pruned:
            state, value = TrialState.PRUNED, reported[max(reported)]
        params = {
            name: _to_optuna(self._parameters[name], value)
            for name, value in trial.configuration.items()
        }
        frozen = optuna.trial.create_trial(
            state=state,
            value=value,
            params=params,
            distributions={name: self._distributions[name] for name in params},
            user_attrs=self._attributes(trial),
            intermediate_values=reported,
        )
        if trial.status != PENDING and math.isfinite(trial.cost):
            frozen.datetime_start = datetime.now() - timedelta(seconds=trial.cost)
        return frozen

    def _attributes(self, trial: Trial) -> dict[str, Any]:
        values = {"proposal_seconds": trial.proposal_seconds, "seconds": trial.cost}
        kept: dict[str, Any] = {_key(k): v for k, v in values.items() if math.isfinite(v)}
        if trial.shared:
            kept[_key("shared")] = True
        if trial.status not in (OK, PENDING):
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
            self._open[stored.number] = optuna.Trial(self.study, stored._trial_id)
            return trial
        if math.isnan(trial.cost) and stored.duration is not None:
            trial = replace(trial, cost=stored.duration.total_seconds())
        if stored.state == TrialState.PRUNED:
            return replace(trial, status=FAILED, error="pruned")
        if stored.value is None:
            return replace(trial, status=str(attributes.get(_key("status"), FAILED)))
        finite = math.isfinite(stored.value)
        value = self._sign * stored.value if finite else math.nan
        return replace(trial, status=OK if finite else INVALID, value=value)

    def _check(self, direction: str, stored: list[str], attributes: Mapping[str, Any]) -> None:
        name = self.study.study_name
        if stored != [direction]:
            raise StudyMismatchError(
                f"study {name!r} is to {' and '.join(stored)}, not to {direction}; "
                "use the other direction or another name"
            )
        fingerprint = attributes.get(_key("fingerprint"))
        if fingerprint not in (None, self._encoder.fingerprint):
            difference = _difference(attributes.get(_key("space"), {}), self._encoder.description)
            raise StudyMismatchError(
                f"study {name!r} has another space ({difference}); use that space or another name"
            )


def _open_study(storage: Any, name: str | None, direction: str) -> optuna.Study:
    """The study of a name, which is made if it is not there.

    Processes that open a new SQLite file at once all make its tables, and all but one fail: they
    try again.
    """
    pauses = [0.1, 0.2, 0.4, 0.8] if str(storage).startswith("sqlite") else []
    while True:
        try:
            return optuna.create_study(
                storage=storage,
                study_name=name,
                direction=optuna.study.StudyDirection[direction.upper()],
                load_if_exists=True,
            )
        except Exception:
            if not pauses:
                raise
            time.sleep(pauses.pop(0))


def _has_configuration(trial: FrozenTrial) -> bool:
    return bool(trial.params) or trial.state not in (TrialState.WAITING, TrialState.FAIL)


def _difference(stored: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """Which hyperparameters two descriptions of spaces differ in."""
    before = {h["name"]: h for h in stored.get("hyperparameters", [])}
    now = {h["name"]: h for h in ours["hyperparameters"]}
    parts = [
        *(f"{name!r} only there" for name in before if name not in now),
        *(f"{name!r} only here" for name in now if name not in before),
        *(f"{name!r} changed" for name in now if name in before and now[name] != before[name]),
    ]
    return ", ".join(parts) or "its conditions or forbidden clauses changed"


def distribution(parameter: Parameter) -> BaseDistribution:
    """What Optuna calls the range of a hyperparameter."""
    if isinstance(parameter, Number):
        log, step = parameter.log, 0.0 if parameter.log else parameter.step
        if parameter.integer:
            low, high = int(parameter.lower), int(parameter.upper)
            return IntDistribution(low, high, log=log, step=int(step) or 1)
        # A sum of steps has a rounding error, which Optuna takes for a range off the grid.
        last = float(f"{parameter.upper:.12g}") if step else parameter.upper
        return FloatDistribution(parameter.lower, last, log=log, step=step or None)
    assert isinstance(parameter, Choice)
    legal = [parameter.value(code) for code in parameter.legal]
    return CategoricalDistribution([_to_optuna(parameter, v) for v in legal])


def _to_optuna(parameter: Parameter, value: Any) -> Any:
    """Optuna stores plain values only; any other choice goes by its name."""
    if isinstance(parameter, Choice) and not isinstance(value, _PRIMITIVE):
        return stable_name(value)
    return value


def configuration_of(encoder: Encoder, params: Mapping[str, Any]) -> Configuration:
    """What a stored trial's parameters are in the space itself.

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


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Optuna logs each study and trial at INFO; our own display says it better."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


@contextmanager
def storage_errors(storage: object, verb: str) -> Iterator[None]:
    """Whatever goes wrong with a storage is a `StorageError`; passwords are not shown.

    Args:
        storage: or its address, for the message.
        verb: what is being done to it.
    """
    try:
        yield
    except StudyMismatchError:
        raise
    except Exception as error:  # SQLAlchemy, drivers, files: one sentence for all
        shown = without_password(f"the storage {storage}: {_first_line(error)}")
        raise StorageError(
            f"cannot {verb} {shown}; check the address, the folder and the permissions"
        ) from error


def without_password(text: str) -> str:
    """A text with the passwords of the URLs in it replaced."""
    return re.sub(r"://([^:@/\s]*):\S*@", r"://\1:***@", text)


def _first_line(error: BaseException) -> str:
    text = str(error.__cause__ or error).strip() or type(error).__name__
    return text.splitlines()[0]
