"""Record: what a report needs to know of a study, whoever ran it.

Nothing that a study says is taken for granted: attributes may be missing, of another type than
expected, or written to do harm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from rankwise.archive.context import PREFIX, context_of
from rankwise.archive.optuna_storage import columns_of_trials, storage_origin
from rankwise.archive.studies import PastStudy
from rankwise.errors import OptionError, is_number
from rankwise.result import Result
from rankwise.study import storage_errors, without_password
from rankwise.task import OK
from rankwise.types import Array

COMPLETE, PRUNED, INFEASIBLE = "complete", "pruned", "infeasible"
UNFINISHED = ("running", "waiting")


@dataclass(frozen=True)
class Row:
    """One trial.

    Attributes:
        number: that Optuna gave it.
        state: "complete", "infeasible" (a value that breaks a constraint), "pruned", "failed",
            "invalid", "timeout", "running" or "waiting".
        value: in the study's own direction; of a pruned trial the last that it reported; NaN
            without any.
        params: the values of the active hyperparameters.
        seconds: of the evaluation; NaN if unknown.
        proposal_seconds: that the proposal took; NaN if unknown.
        error: what went wrong; "" if nothing did or nothing is known.
        mean: the value that was expected; NaN if unknown.
        std: how uncertain that was; NaN if unknown.
        trust: how probable it was then that the past applies; NaN if unknown.
        sources: the past studies that counted, with their shares.
        folds: the value of each fold, if there were some.
        scores: of other metrics, by name.
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
    sources: Mapping[str, float] = field(default_factory=dict)
    folds: Sequence[float] = ()
    scores: Mapping[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether it counts for the best value."""
        return self.state == COMPLETE


@dataclass(frozen=True)
class Record:
    """One study.

    Attributes:
        name: of the study.
        direction: "minimize" or "maximize".
        rows: its trials by number; those that were tried again are not among them.
        finished: the trials that ended, as columns.
        attributes: of the study, as it has them.
        origin: the address of its storage, without a password; "" if it has none.
        place: its storage in words.
        contexts: what is known of past studies that counted, by name.
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
        """What Rankwise noted about the study under a key, or None."""
        return self.attributes.get(PREFIX + key)

    @property
    def sign(self) -> float:
        """1 if smaller values are better, else -1."""
        return 1.0 if self.direction == "minimize" else -1.0

    @cached_property
    def complete(self) -> list[Row]:
        """The trials that count for the best value."""
        return [row for row in self.rows if row.ok]

    @cached_property
    def ended(self) -> list[Row]:
        """The trials that are neither running nor waiting."""
        return [row for row in self.rows if row.state not in UNFINISHED]

    @property
    def best(self) -> Row | None:
        """The best trial, the earliest of several; None without any."""
        return min(self.complete, key=lambda row: self.sign * row.value, default=None)

    @cached_property
    def best_so_far(self) -> Array:
        """The best value after each of the n ended trials (n,); NaN before there is one."""
        losses = [self.sign * row.value if row.ok else math.nan for row in self.ended]
        best: Array = self.sign * np.fmin.accumulate(np.array(losses, dtype=float))
        return best

    @cached_property
    def names(self) -> list[str]:
        """The hyperparameters of all trials."""
        return list(dict.fromkeys(name for row in self.rows for name in row.params))

    @cached_property
    def own_context(self) -> dict[str, Any]:
        """What is known about the study, such as facts about its data set."""
        return context_of(self.attributes)

    @cached_property
    def complete_columns(self) -> PastStudy:
        """The trials that count for the best value, as columns."""
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
    """What is known of a study.

    Args:
        study: an Optuna study or a `Result`.

    Raises:
        OptionError: it is something else, or it has several objectives.
        StorageError: its storage cannot be read.
    """
    unsaved: Sequence[int] = ()
    if isinstance(study, Result):
        study, unsaved = study.study, study.unsaved
    if not isinstance(study, optuna.Study):
        raise OptionError(
            f"a report is made of an Optuna study or a rankwise.Result, not of a "
            f"{type(study).__name__}"
        )
    with storage_errors(study._storage, "read"):
        trials = study.get_trials(deepcopy=False)
        directions = [d.name.lower() for d in study.directions]
        attributes = study.user_attrs
    if len(directions) != 1:
        raise OptionError(
            f"study {study.study_name!r} has {len(directions)} objectives; a report needs a study "
            "with one: see optuna.visualization.plot_pareto_front for several"
        )
    again = {n for t in trials for n in t.system_attrs.get("retry_history", ())}
    trials = [t for t in trials if t.number not in again]
    ended = [t for t in trials if t.state.is_finished()]
    columns = columns_of_trials(study.study_name, directions[0], ended)
    places = {trial.number: k for k, trial in enumerate(ended)}
    rows = tuple(_row(trial, columns, places.get(trial.number)) for trial in trials)
    storage = study._storage
    origin = storage_origin(storage)
    in_memory = isinstance(storage, optuna.storages.InMemoryStorage)
    with storage_errors(storage, "read"):
        contexts = _contexts(storage, rows)
    return Record(
        study.study_name,
        directions[0],
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
    shares = _numbers(attributes.get(PREFIX + "sources"))
    return Row(
        trial.number,
        trial.state.name.lower() if place is None else _state(trial, columns.status[place]),
        math.nan if place is None else float(columns.values[place]),
        trial.params,
        math.nan if place is None else float(columns.seconds[place]),
        number(attributes.get(PREFIX + "proposal_seconds")),
        without_password(str(attributes.get(PREFIX + "error", ""))),
        number(expected.get("mean")),
        number(expected.get("std")),
        number(attributes.get(PREFIX + "trust")),
        {name: share for name, share in shares.items() if 0.0 < share <= 1.0},
        tuple(map(number, folds)) if isinstance(folds, list | tuple) else (),
        _numbers(attributes.get(PREFIX + "scores")),
    )


def _state(trial: FrozenTrial, status: str) -> str:
    if trial.state == TrialState.PRUNED:
        return PRUNED
    if status != OK:
        return status
    # Where Optuna keeps the limits depends on its version.
    limits: Any = getattr(trial, "constraints", None) or trial.system_attrs.get("constraints", ())
    broken = limits.values() if isinstance(limits, Mapping) else limits
    return INFEASIBLE if any(limit > 0.0 for limit in broken) else COMPLETE


def _numbers(facts: Any) -> dict[str, float]:
    """Numbers by name; none if it is anything else."""
    return {str(k): number(v) for k, v in facts.items()} if isinstance(facts, Mapping) else {}


def number(value: Any) -> float:
    """A finite number as a float; NaN for anything else."""
    return float(value) if is_number(value) and math.isfinite(value) else math.nan


def _contexts(storage: Any, rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """What the storage of a study knows of the past studies that its trials name."""
    found = {}
    for name in dict.fromkeys(name for row in rows for name in row.sources):
        try:
            attributes = storage.get_study_user_attrs(storage.get_study_id_from_name(name))
        except KeyError:
            continue  # it is kept elsewhere
        found[name] = context_of(attributes)
    return found
