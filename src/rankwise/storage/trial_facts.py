"""Facts that are stored with trials, read without trusting them.

Attributes of a trial may be missing, have an unexpected type, or come from another program.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from optuna.trial import FrozenTrial

from rankwise.errors import is_number
from rankwise.storage.study_facts import PREFIX

SECONDS = PREFIX + "seconds"
"""Attribute of a trial with its seconds; None if an import did not know them."""
CONSTRAINTS = "constraints"
"""Optuna's attribute of a trial with its constraints, and the beginning of others."""


def without_retried(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Return the trials except those whose worker died and that Optuna started again."""
    retried = {n for t in trials for n in t.system_attrs.get("retry_history", ())}
    return [t for t in trials if t.number not in retried]


def constraints_of(trial: FrozenTrial) -> dict[str, float]:
    """Return the values of a trial's constraints by name; those of a list are "0", "1" and so on.

    Optuna stores the result of `constraints_func` as a list, and each call of `set_constraint`
    under a key of its own.
    """
    listed = trial.system_attrs.get(CONSTRAINTS)
    found = dict(enumerate(listed)) if isinstance(listed, Sequence) else {}
    named = {
        key.removeprefix(CONSTRAINTS + ":"): value
        for key, value in trial.system_attrs.items()
        if key.startswith(CONSTRAINTS + ":")
    }
    return numbers_of({**found, **named})


def sources_of(trial: FrozenTrial) -> dict[str, float]:
    """Return the weights of past studies that a trial recorded, by name, each in (0, 1]."""
    shares = numbers_of(trial.user_attrs.get(PREFIX + "sources"))
    return {name: share for name, share in shares.items() if 0.0 < share <= 1.0}


def mean_shares(sources: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean weight of each past study over trials, the largest first.

    Args:
        sources: the weights of past studies by name, for each trial.
    """
    totals: dict[str, float] = {}
    for shares in sources:
        for name, share in shares.items():
            totals[name] = totals.get(name, 0.0) + share / len(sources)
    return dict(sorted(totals.items(), key=lambda pair: -pair[1]))


def number_of(value: Any) -> float:
    """Return a finite number as a float; NaN for any other value."""
    return float(value) if is_number(value) and math.isfinite(value) else math.nan


def numbers_of(facts: Any) -> dict[str, float]:
    """Return a mapping with its values as numbers, see `number_of`; empty if it is no mapping."""
    return {str(k): number_of(v) for k, v in facts.items()} if isinstance(facts, Mapping) else {}
