"""One distribution out of many: what a parameter is in a space that several studies share."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from rankwise.archive.studies import PastStudy
from rankwise.errors import is_number
from rankwise.parameters import stable_name

FLOAT, INTEGER, CATEGORICAL = "a float", "an integer", "categorical"
SMALLEST_LOG = 1e-12
"""Where logarithmic ranges start at the lowest; ConfigSpace keeps 13 decimals."""
_LARGEST_INTEGER = 2**53  # beyond it, consecutive integers are one float
_LARGEST_LOG_INTEGER = 10**13
_LARGEST_FLOAT = 1e200

T = TypeVar("T")
Vote = tuple[BaseDistribution, float]
"""A study's distribution of a parameter and the study's age."""


def kind_of(distribution: BaseDistribution) -> str:
    """Which of the three kinds of parameters a distribution belongs to."""
    if isinstance(distribution, CategoricalDistribution):
        return CATEGORICAL
    return INTEGER if isinstance(distribution, IntDistribution) else FLOAT


def choice_key(value: Any) -> tuple[str, Any]:
    """Equal for two choices that mean the same: 1 and 1.0, but not 1 and True."""
    if isinstance(value, float) and math.isnan(value):
        return "number", "nan"  # it is not even equal to itself
    if is_number(value):
        return "number", value
    if value is None or isinstance(value, bool | str):
        return type(value).__name__, value
    return "other", stable_name(value)


def unify(
    studies: Sequence[PastStudy], search_space: Mapping[str, BaseDistribution] | None = None
) -> tuple[dict[str, BaseDistribution], dict[str, str]]:
    """The union of the parameters of some studies.

    Where studies differ in the kind of a parameter, most of them are right (the newest, if it is
    a tie) and the others are left out.

    Args:
        studies: to unify.
        search_space: takes part in the union; its kinds, scales and steps win.

    Returns:
        The distributions by parameter, and by study the reason why it is left out.
    """
    wanted = dict(search_space or {})
    votes: dict[str, list[Vote]] = defaultdict(list)
    left_out: dict[str, str] = {}
    for study in studies:
        reason = _unusable(study.distributions)
        if reason:
            left_out[study.name] = reason
            continue
        for name, distribution in study.distributions.items():
            votes[name].append((distribution, study.age))
    kinds = {
        name: _majority([(kind_of(d), age) for d, age in given]) for name, given in votes.items()
    }
    kinds.update({name: kind_of(d) for name, d in wanted.items()})
    for study in studies:
        if study.name not in left_out:
            for name, distribution in study.distributions.items():
                if kind_of(distribution) != kinds[name]:
                    where = "in the search space" if name in wanted else "elsewhere"
                    left_out[study.name] = (
                        f"parameter {name!r} is {kind_of(distribution)} here and "
                        f"{kinds[name]} {where}"
                    )
                    break
    votes = defaultdict(list)
    for study in studies:
        if study.name not in left_out:
            for name, distribution in study.distributions.items():
                votes[name].append((distribution, study.age))
    names = dict.fromkeys([*wanted, *votes])
    return {name: merge(votes[name], wanted.get(name)) for name in names}, left_out


def merge(votes: Sequence[Vote], wanted: BaseDistribution | None = None) -> BaseDistribution:
    """The union of distributions of one kind.

    Args:
        votes: the distributions, and how old they are.
        wanted: one more of them, whose scale and step win.
    """
    everyone = [d for d, _ in votes] + ([] if wanted is None else [wanted])
    first = everyone[0]
    if isinstance(first, CategoricalDistribution):
        choices: dict[tuple[str, Any], Any] = {}
        for distribution in everyone:
            assert isinstance(distribution, CategoricalDistribution)
            for choice in distribution.choices:
                choices.setdefault(choice_key(choice), choice)
        return CategoricalDistribution(list(choices.values()))
    if all(d.__dict__ == first.__dict__ for d in everyone):
        return first
    numbers = [d for d in everyone if isinstance(d, FloatDistribution | IntDistribution)]
    low, high = min(d.low for d in numbers), max(d.high for d in numbers)
    if isinstance(wanted, FloatDistribution | IntDistribution):
        log, step = wanted.log, wanted.step
        if step is not None:  # the grid of the wanted one, continued
            low = wanted.low - math.floor((wanted.low - low) / step + 1e-9) * step
    else:
        log = _majority([(bool(d.__dict__["log"]), age) for d, age in votes])
        step = _common_step(numbers)
    log = log and low > 0
    if isinstance(first, IntDistribution):
        whole = 1 if log else int(step or 1)
        last = low + (high - low) // whole * whole
        return IntDistribution(int(low), int(last), log=log, step=whole)
    if log or step is None:
        return FloatDistribution(float(low), float(high), log=log)
    # Sums of steps have rounding errors, which Optuna takes for a range off the grid.
    low = float(f"{low:.12g}")
    high = float(f"{low + math.floor((high - low) / step + 1e-9) * step:.12g}")
    return FloatDistribution(low, high, step=step)


def _common_step(numbers: Sequence[FloatDistribution | IntDistribution]) -> float | None:
    """The step that all have, if all of their grids are parts of one grid."""
    step = numbers[0].step
    if step is None or any(d.step != step for d in numbers):
        return None
    offsets = [(d.low - numbers[0].low) / step for d in numbers]
    return step if all(abs(k - round(k)) < 1e-8 for k in offsets) else None


def _majority(votes: Sequence[tuple[T, float]]) -> T:
    """What most say; if it is a tie, the newest of those that are tied."""
    counts = Counter(value for value, _ in votes)
    newest: dict[T, float] = {}
    for value, age in votes:
        newest[value] = max(age, newest.get(value, -math.inf))
    return max(counts, key=lambda value: (counts[value], newest[value]))


def _unusable(distributions: Mapping[str, BaseDistribution]) -> str:
    """Why a study's parameters cannot be encoded; empty if they can."""
    if not distributions:
        return "it has no parameters"
    for name, d in distributions.items():
        if isinstance(d, IntDistribution):
            largest = _LARGEST_LOG_INTEGER if d.log else _LARGEST_INTEGER
            if max(abs(d.low), abs(d.high)) >= largest:
                return f"the integers of parameter {name!r} are too large to be told apart"
        elif isinstance(d, FloatDistribution):
            width = d.high if d.log else d.high - d.low
            if d.low < d.high and width <= SMALLEST_LOG:
                return f"the range of parameter {name!r} is too narrow for 13 decimals"
            if max(abs(d.low), abs(d.high)) >= _LARGEST_FLOAT:
                return f"the range of parameter {name!r} is too wide"
    return ""
