"""Workers of one study agree through the storage on who evaluates which configuration."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from rankwise.integrations.optuna.sub_space import MISSING, PROPOSAL
from rankwise.storage.optuna_private import id_of_study, id_of_trial, storage_of

TRIES = 10
"""Proposals, and then random ones, before two workers may evaluate the same configuration."""
_AT_ONCE = 5  # proposals, at most, because other workers propose at the same time
_SETTLED = "rankwise:settled"  # attribute of a trial whose proposal was settled


class Draft(NamedTuple):
    """A proposal, and what was known of the other trials when it was made.

    Attributes:
        values: values of all known parameters.
        new: False if a finite space has no new configuration.
        proposals: stored proposals of all trials, by trial number.
        undisputed: True if all other trials had ended.
        repeats: True if the objective would ask for the values of a finished trial only.
    """

    values: dict[str, Any]
    new: bool
    proposals: dict[int, Any]
    undisputed: bool
    repeats: bool = False


def settle(
    study: Study,
    trial: FrozenTrial,
    propose: Callable[[Sequence[dict[str, Any]], int], Draft],
) -> dict[str, Any]:
    """A proposal that no other worker evaluates.

    A worker writes its proposal and then reads those of the others. It withdraws its own if an
    equal one is settled or has a lower trial number. Then it marks its proposal as settled and
    reads again, because another worker may have read before the mark was visible. The second
    writer always sees the first, so of two equal proposals at least one is withdrawn.

    Workers that propose at once do not know of each other, and their proposals are alike. So a
    proposal is made again, some times, if an earlier trial got one in the meantime.

    With one worker nothing has to be settled: all trials before this one had ended when its
    proposal was made, and none has begun since. A trial that begins later reads the proposal.

    Args:
        study: the current study.
        trial: the current trial.
        propose: makes a proposal, from those that were withdrawn and the number of the attempt.
    """
    withdrawn: list[dict[str, Any]] = []
    values: dict[str, Any] = {}
    for attempt in range(2 * TRIES):
        draft = propose(withdrawn, attempt)
        values = draft.values
        if not values or not draft.new:
            return values
        if draft.repeats and attempt < 2 * TRIES - 1:
            withdrawn.append(values)
            continue
        _write(study, trial, PROPOSAL, values)
        if draft.undisputed and not follows(study, trial):
            return values  # saves two readings of all trials and a write
        others = study.get_trials(deepcopy=False)
        if attempt < _AT_ONCE and _overlooked(others, trial, draft.proposals):
            continue
        if taken(others, trial, values, settled=True):
            withdrawn.append(values)
            continue
        _write(study, trial, _SETTLED, values)
        if not taken(study.get_trials(deepcopy=False), trial, values, settled=False):
            return values
        withdrawn.append(values)
    return values


def is_undisputed(trials: Sequence[FrozenTrial], trial: FrozenTrial) -> bool:
    """True if a trial is the last one of its study and all others have ended."""
    others = [t for t in trials if t.number != trial.number]
    return len(others) == trial.number and all(t.state.is_finished() for t in others)


def follows(study: Study, trial: FrozenTrial) -> bool:
    """True if the study has a later trial."""
    try:
        storage_of(study).get_trial_id_from_study_id_trial_number(
            id_of_study(study), trial.number + 1
        )
    except KeyError:
        return False
    return True


def taken(
    trials: Sequence[FrozenTrial], trial: FrozenTrial, values: dict[str, Any], *, settled: bool
) -> bool:
    """True if another trial evaluates the same values, or has done so.

    Args:
        trials: all trials, read after the proposal was written.
        trial: the current trial.
        values: its proposal.
        settled: True if proposals of later trials count as well, once they are settled.
    """
    mine = _text(values)
    for other in trials:
        if other.number == trial.number:
            continue
        if other.state.is_finished():  # it may have finished after this proposal was made
            if repeats(other, values):
                return True
        elif other.system_attrs.get(PROPOSAL) == mine and (
            other.number < trial.number or (settled and other.system_attrs.get(_SETTLED) == mine)
        ):
            return True
    return False


def _overlooked(
    trials: Sequence[FrozenTrial], trial: FrozenTrial, proposals: Mapping[int, Any]
) -> bool:
    """True if an earlier trial got a proposal while the one of this trial was made."""
    return any(
        other.system_attrs.get(PROPOSAL) not in (None, proposals.get(other.number))
        for other in trials[: trial.number]
        if not other.state.is_finished()
    )


def repeats(trial: FrozenTrial, values: Mapping[str, Any]) -> bool:
    """True if a finished trial has the proposed value of every parameter that it used."""
    if trial.state == TrialState.FAIL or not trial.params:
        return False
    return all(values.get(k, MISSING) == v for k, v in trial.params.items())


def _write(study: Study, trial: FrozenTrial, key: str, values: dict[str, Any]) -> None:
    storage_of(study).set_trial_system_attr(id_of_trial(trial), key, _text(values))


def _text(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)
