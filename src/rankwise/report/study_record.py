"""`Record`: the data of a study that a report needs. Any program can have written the study.

So the attributes of a study are not trusted: they may be missing, of an unexpected type, or
malicious.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from rankwise.archive.objectives import objectives_of
from rankwise.archive.past_study import PastStudy
from rankwise.archive.sources.optuna_storage import columns_of_trials, storage_origin
from rankwise.archive.used_past import UsedPast
from rankwise.builtin.tasks import facts_of_study
from rankwise.errors import ArchiveError, OptionError
from rankwise.history.task import OK
from rankwise.run.result import Result
from rankwise.storage.optuna_private import id_of_study, storage_of
from rankwise.storage.study_facts import PREFIX, context_of
from rankwise.storage.study_log import storage_errors, without_password
from rankwise.storage.trial_facts import number_of, numbers_of, sources_of, without_retried
from rankwise.surrogates.transfer_trust import Evidence
from rankwise.types import Array, sign_of

COMPLETE, PRUNED, INFEASIBLE = "complete", "pruned", "infeasible"
UNFINISHED = ("running", "waiting")


@dataclass(frozen=True)
class Row:
    """One trial.

    Attributes:
        number: Optuna's trial number.
        state: "complete", "infeasible" (a value that breaks a constraint), "pruned", "failed",
            "invalid", "timeout", "running" or "waiting".
        value: value in the study's own direction; the last reported one of a pruned trial; NaN
            without a value.
        params: values of the active hyperparameters.
        seconds: seconds of the evaluation; NaN if unknown.
        proposal_seconds: seconds of the proposal; NaN if unknown.
        error: error message; "" if there is none.
        mean: predicted value; NaN if unknown.
        std: standard deviation of the prediction; NaN if unknown.
        trust: transfer trust at that time; NaN if unknown.
        influence: weight of all past studies in the model at that time; NaN if unknown.
        origin: what the proposal was based on, such as "past studies"; "" if unknown.
        sources: weights of past studies, by name.
        folds: value of each cross-validation fold, if recorded.
        scores: scores of other metrics, by name.
    """

    number: int
    state: str
    value: float
    params: Mapping[str, Any]
    seconds: float = math.nan
    proposal_seconds: float = math.nan
    error: str = ""
    mean: float = math.nan
    std: float = math.nan
    trust: float = math.nan
    influence: float = math.nan
    origin: str = ""
    sources: Mapping[str, float] = field(default_factory=dict)
    folds: Sequence[float] = ()
    scores: Mapping[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True if the trial has a valid value, so that it can be the best one."""
        return self.state == COMPLETE


@dataclass(frozen=True)
class Record:
    """One study.

    Attributes:
        name: name of the study.
        direction: "minimize" or "maximize".
        rows: trials by number, without those that were retried.
        finished: finished trials as columns.
        attributes: user attributes of the study.
        origin: address of its storage, without a password; "" if it has none.
        place: description of its storage.
        contexts: facts about the past studies that its trials name, by name.
        unsaved: numbers of the trials that the storage does not have.
    """

    name: str
    direction: str
    rows: tuple[Row, ...]
    finished: PastStudy
    attributes: Mapping[str, Any]
    origin: str
    place: str
    contexts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    unsaved: Sequence[int] = ()

    def noted(self, key: str) -> Any:
        """Return the value that Rankwise stored with the study under a key, or None."""
        return self.attributes.get(PREFIX + key)

    @cached_property
    def evidence(self) -> Evidence | None:
        """Evidence for the transfer trust after the last trial; None if it is not recorded."""
        try:
            return Evidence.from_dict(self.noted("evidence"))
        except (TypeError, KeyError, ValueError):
            return None

    @property
    def trust(self) -> float:
        """Transfer trust after the last trial, else the last recorded one; NaN if unknown."""
        if self.evidence is not None and 0.0 <= self.evidence.trust <= 1.0:
            return self.evidence.trust
        known = [row.trust for row in self.rows if not math.isnan(row.trust)]
        return known[-1] if known else math.nan

    @cached_property
    def past(self) -> UsedPast | None:
        """The past studies that were used, and those left out; None if not recorded."""
        return UsedPast.from_dict(self.noted("past"))

    @property
    def sign(self) -> float:
        """1 if smaller values are better, else -1."""
        return sign_of(self.direction)

    @cached_property
    def complete(self) -> list[Row]:
        """Trials with a valid value."""
        return [row for row in self.rows if row.ok]

    @cached_property
    def ended(self) -> list[Row]:
        """Finished trials: neither running nor waiting."""
        return [row for row in self.rows if row.state not in UNFINISHED]

    @property
    def best(self) -> Row | None:
        """Best trial, the earliest in a tie; None without a value."""
        return min(self.complete, key=lambda row: self.sign * row.value, default=None)

    @cached_property
    def best_so_far(self) -> Array:
        """Best value (n,) after each of the n finished trials; NaN before the first value."""
        losses = [self.sign * row.value if row.ok else math.nan for row in self.ended]
        best: Array = self.sign * np.fmin.accumulate(np.array(losses, dtype=float))
        return best

    @cached_property
    def names(self) -> list[str]:
        """Names of the hyperparameters of all trials."""
        return list(dict.fromkeys(name for row in self.rows for name in row.params))

    @cached_property
    def own_context(self) -> dict[str, Any]:
        """Facts about the study, for instance about its data set."""
        return context_of(self.attributes)

    @cached_property
    def complete_columns(self) -> PastStudy:
        """Trials with a valid value, as columns."""
        kept = [k for k, row in enumerate(self.ended) if row.ok]
        whole = self.finished
        return replace(
            whole,
            params=[whole.params[k] for k in kept],
            values=whole.values[kept],
            status=(OK,) * len(kept),
            pruned=whole.pruned[kept],
            seconds=whole.seconds[kept],
        )


def read(study: Any) -> Record:
    """Read a study for a report.

    Args:
        study: an Optuna study or a `Result`.

    Raises:
        OptionError: the argument is something else.
        StorageError: the storage cannot be read.
    """
    unsaved: Sequence[int] = ()
    if isinstance(study, Result):
        study, unsaved = study.study, study.unsaved
    if not isinstance(study, optuna.Study):
        hint = "; pass its result_" if hasattr(study, "result_") else ""
        raise OptionError(
            f"a report needs an Optuna study or a rankwise.Result, not a {type(study).__name__}"
            f"{hint}"
        )
    with storage_errors(storage_of(study), "read"):
        trials = study.get_trials(deepcopy=False)
        kinds = objectives_of(
            study.directions, storage_of(study).get_study_system_attrs(id_of_study(study))
        )
        attributes = study.user_attrs
    trials = without_retried(trials)
    ended = [t for t in trials if t.state.is_finished()]
    columns = columns_of_trials(study.study_name, kinds, ended)
    places = {trial.number: k for k, trial in enumerate(ended)}
    rows = tuple(_row(trial, columns, places.get(trial.number)) for trial in trials)
    storage = storage_of(study)
    origin = storage_origin(storage)
    in_memory = isinstance(storage, optuna.storages.InMemoryStorage)
    with storage_errors(storage, "read"):
        contexts = _contexts(storage, rows)
    return Record(
        study.study_name,
        kinds[0].direction,
        rows,
        columns,
        attributes,
        origin,
        origin or ("in memory only" if in_memory else type(storage).__name__),
        contexts,
        unsaved,
    )


def _row(trial: FrozenTrial, columns: PastStudy, place: int | None) -> Row:
    attributes = trial.user_attrs
    expected = attributes.get(PREFIX + "expected")
    expected = expected if isinstance(expected, Mapping) else {}
    folds = attributes.get(PREFIX + "folds")
    return Row(
        trial.number,
        trial.state.name.lower() if place is None else _state(trial, columns.status[place]),
        math.nan if place is None else float(columns.values[place]),
        trial.params,
        math.nan if place is None else float(columns.seconds[place]),
        number_of(attributes.get(PREFIX + "proposal_seconds")),
        without_password(str(attributes.get(PREFIX + "error", ""))),
        number_of(expected.get("mean")),
        number_of(expected.get("std")),
        number_of(attributes.get(PREFIX + "trust")),
        number_of(attributes.get(PREFIX + "influence")),
        _text(attributes.get(PREFIX + "origin")),
        sources_of(trial),
        tuple(map(number_of, folds)) if isinstance(folds, list | tuple) else (),
        numbers_of(attributes.get(PREFIX + "scores")),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _state(trial: FrozenTrial, status: str) -> str:
    """Return the state of a finished trial; see `Row.state`."""
    if trial.state == TrialState.PRUNED:
        return PRUNED
    if status != OK:
        return status
    # Where the constraints are stored depends on Optuna's version.
    limits: Any = getattr(trial, "constraints", None) or trial.system_attrs.get("constraints", ())
    broken = limits.values() if isinstance(limits, Mapping) else limits
    return INFEASIBLE if any(limit > 0.0 for limit in broken) else COMPLETE


def _contexts(storage: Any, rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Read facts about the past studies that the trials name.

    They are in the same storage or built-in.
    """
    found = {}
    for name in dict.fromkeys(name for row in rows for name in row.sources):
        try:
            attributes = storage.get_study_user_attrs(storage.get_study_id_from_name(name))
        except KeyError:
            with suppress(ArchiveError):  # the built-in past is damaged
                found[name] = facts_of_study(name)  # none of a study in another storage
        else:
            found[name] = context_of(attributes)
    return found
