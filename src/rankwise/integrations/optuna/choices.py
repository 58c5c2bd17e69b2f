"""Which choices the next proposal is limited to: new ones are tried early, failing ones rarely."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from rankwise.archive.merge_distributions import choice_key

_EVERY = 3  # one in so many trials tries a choice that no trial has
_WAIT = 3  # a choice that failed k times and never succeeded waits _WAIT**k trials


def tried_choices(params: Iterable[Mapping[str, Any]]) -> set[tuple[str, Any]]:
    """All values in trials that may be choices, as pairs of a name and a `choice_key`."""
    return {(name, choice_key(value)) for trial in params for name, value in trial.items()}


def allowed_choices(
    known: Mapping[str, BaseDistribution], trials: Sequence[FrozenTrial], number: int
) -> dict[str, list[Any]]:
    """Choices, by parameter, to which the next proposal is limited.

    A choice that failed whenever it was set waits for some trials, longer after every failure.

    Args:
        known: distributions of the study.
        trials: all trials of the study, also running ones.
        number: number of the next trial.
    """
    limits: dict[str, list[Any]] = {}
    failing = failing_choices(trials)
    waiting = {key for key, n in failing.items() if number <= n[-1] + _WAIT ** len(n)}
    for name, d in known.items():
        if isinstance(d, CategoricalDistribution):
            allowed = [c for c in d.choices if (name, choice_key(c)) not in waiting]
            if allowed and len(allowed) < len(d.choices):
                limits[name] = allowed
    return limits


def new_choice(
    known: Mapping[str, BaseDistribution],
    trials: Sequence[FrozenTrial],
    number: int,
    tried: Collection[tuple[str, Any]],
) -> dict[str, Any]:
    """A choice, by parameter, that neither a past study nor this study has tried.

    It is empty in two of three trials, and if there is no such choice.

    Args:
        known: distributions of the study.
        trials: all trials of the study, also running ones.
        number: number of the next trial.
        tried: choices that past studies have tried.
    """
    if number % _EVERY != _EVERY - 1:
        return {}
    here = {*tried, *tried_choices(trial.params for trial in trials)}
    for name, d in known.items():
        if isinstance(d, CategoricalDistribution) and len(d.choices) > 1:
            for choice in d.choices:
                if (name, choice_key(choice)) not in here:
                    return {name: choice}
    return {}


def failing_choices(trials: Sequence[FrozenTrial]) -> dict[tuple[str, Any], list[int]]:
    """Choices that failed whenever they were set, with the numbers of these trials.

    They are pairs of a name and a `choice_key`. If all choices of a parameter fail, the reason is
    probably another parameter, and none of them is listed.
    """
    failures: dict[tuple[str, Any], list[int]] = defaultdict(list)
    choices: dict[str, set[tuple[str, Any]]] = defaultdict(set)
    fine: set[tuple[str, Any]] = set()
    for trial in trials:
        if not trial.state.is_finished():
            continue
        for name, d in trial.distributions.items():
            if isinstance(d, CategoricalDistribution):
                key = name, choice_key(trial.params[name])
                choices[name].update((name, choice_key(choice)) for choice in d.choices)
                if trial.state == TrialState.FAIL:
                    failures[key].append(trial.number)
                else:
                    fine.add(key)
    failing = {key: numbers for key, numbers in failures.items() if key not in fine}
    return {key: n for key, n in failing.items() if not choices[key[0]] <= failing.keys()}
