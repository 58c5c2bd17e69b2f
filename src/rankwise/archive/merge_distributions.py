"""Merges the distributions of a parameter over several studies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from rankwise.archive.past_study import PastStudy
from rankwise.errors import is_number
from rankwise.space.parameters import stable_name

FLOAT, INTEGER, CATEGORICAL = "a float", "an integer", "categorical"
SMALLEST_LOG = 1e-12
"""Smallest lower end of a logarithmic range, because ConfigSpace keeps 13 decimals."""
_LARGEST_INTEGER = 2**53  # larger consecutive integers are equal as floats
_LARGEST_LOG_INTEGER = 10**13
_LARGEST_FLOAT = 1e200

T = TypeVar("T")
Vote = tuple[BaseDistribution, float]
"""A study's distribution of a parameter and the study's age."""


def kind_of(distribution: BaseDistribution) -> str:
    """Kind of a distribution: a float, an integer or categorical."""
    if isinstance(distribution, CategoricalDistribution):
        return CATEGORICAL
    return INTEGER if isinstance(distribution, IntDistribution) else FLOAT


def choice_key(value: Any) -> tuple[str, Any]:
    """Key that is equal for equal choices: 1 and 1.0 are equal, 1 and True are not."""
    if isinstance(value, float) and math.isnan(value):
        return "number", "nan"  # NaN is not equal to itself
    if is_number(value):
        return "number", value
    if value is None or isinstance(value, bool | str):
        return type(value).__name__, value
    return "other", stable_name(value)


def as_number(value: Any) -> float | None:
    """The number that a value or a text such as "32" stands for; None if it is no number."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if not is_number(value) or math.isnan(value):
        return None
    return float(value)


def as_choice(value: Any, choices: Sequence[Any]) -> int | None:
    """Index of the choice that a value stands for; None if there is none.

    An equal choice is preferred, then the same number in another type (32 and "32"), then, for a
    number, the nearest of at least two numeric choices.
    """
    key = choice_key(value)
    keys = [choice_key(choice) for choice in choices]
    if key in keys:
        return keys.index(key)
    number = as_number(value)
    known = {k: n for k, choice in enumerate(choices) if (n := as_number(choice)) is not None}
    if number is None or not known:
        return None
    nearest = min(known, key=lambda k: abs(known[k] - number))
    several = len(known) > 1 and is_number(value)
    return nearest if several or known[nearest] == number else None


def unify(
    studies: Sequence[PastStudy], search_space: Mapping[str, BaseDistribution] | None = None
) -> tuple[dict[str, BaseDistribution], dict[str, str]]:
    """Merge the parameters of several studies.

    Numbers are cast: if studies differ in the kind of a parameter, the majority decides (the
    newest study in a tie). A parameter that cannot be cast, or that cannot be encoded (see
    `unusable`), is missing in its study; the rest of the study is used.

    Args:
        studies: the studies to merge.
        search_space: distributions that are part of the union; their kinds, scales and steps
            take precedence.

    Returns:
        The distributions by parameter, and the reason, by study, why it is left out.
    """
    wanted = {name: d for name, d in (search_space or {}).items() if not unusable(d)}
    odd = set(search_space or {}) - set(wanted)
    votes: dict[str, list[Vote]] = {name: [] for name in wanted}
    left_out: dict[str, str] = {}
    for study in studies:
        if not study.distributions:
            left_out[study.name] = "it has no parameters"
            continue
        usable = {n: d for n, d in study.distributions.items() if not unusable(d)}
        if not usable:
            name, distribution = next(iter(study.distributions.items()))
            left_out[study.name] = f"parameter {name!r}: {unusable(distribution)}"
        for name, distribution in usable.items():
            if name not in odd:
                votes.setdefault(name, []).append((distribution, study.age))
    merged = {}
    for name, given in votes.items():
        if name in wanted:
            kind = kind_of(wanted[name])
        else:
            kind = _majority([(kind_of(d), age) for d, age in given])
        fitting = [(d, age) for d, age in given if kind_of(d) == kind]
        cast = [(d, age) for vote, age in given if (d := cast_to(vote, kind)) is not None]
        merged[name] = merge(cast, wanted.get(name), fitting)
    return merged, left_out


def not_unified(studies: Sequence[PastStudy]) -> dict[str, str]:
    """For each study with parameters that the common space does not take from it, the reason."""
    merged, _ = unify(studies)
    found = {}
    for study in studies:
        reasons = []
        for name, own in study.distributions.items():
            why = unusable(own)
            if not why and name in merged and cast_to(own, kind_of(merged[name])) is None:
                why = f"it is {kind_of(own)} here and {kind_of(merged[name])} in most studies"
            reasons += [f"parameter {name!r} is not used: {why}"] if why else []
        if reasons:
            found[study.name] = "; ".join(reasons)
    return found


def cast_to(distribution: BaseDistribution, kind: str) -> BaseDistribution | None:
    """A distribution as one of another kind that has the same numbers; None if there is none."""
    if kind_of(distribution) == kind:
        return distribution
    if kind == CATEGORICAL:
        return None  # its numbers are cast to the nearest choices, but it has no choices
    if isinstance(distribution, CategoricalDistribution):
        found = [as_number(choice) for choice in distribution.choices]
        numbers = [n for n in found if n is not None and abs(n) < math.inf]
        if not numbers:
            return None
        low, high, log = min(numbers), max(numbers), False
    else:
        assert isinstance(distribution, FloatDistribution | IntDistribution)
        low, high, log = distribution.low, distribution.high, distribution.log
    if kind == FLOAT:
        return FloatDistribution(float(low), float(high), log=log)
    first, last = math.ceil(low), math.floor(high)
    if first > last:
        first = last = round(low)
    whole = IntDistribution(first, last, log=log and first > 0)
    return None if unusable(whole) else whole


def merge(
    votes: Sequence[Vote],
    wanted: BaseDistribution | None = None,
    deciding: Sequence[Vote] | None = None,
) -> BaseDistribution:
    """Merge distributions of one kind.

    Args:
        votes: the distributions with the start times of their studies.
        wanted: a further distribution whose scale and step take precedence.
        deciding: the distributions that decide on the scale; by default all.
    """
    deciding = votes if deciding is None else deciding
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
        log = _mostly_log(deciding)
        step = _common_step(numbers)
    log = log and low > 0
    if isinstance(first, IntDistribution):
        log = log and high < _LARGEST_LOG_INTEGER
        whole = 1 if log else int(step or 1)
        last = low + (high - low) // whole * whole
        return IntDistribution(int(low), int(last), log=log, step=whole)
    if log or step is None:
        return FloatDistribution(float(low), float(high), log=log)
    # Rounding errors of sums of steps would make Optuna report a range off the grid. It counts in
    # decimals, too.
    digits = 10 - math.floor(math.log10(step))
    low, steps = round(low, digits), math.floor((high - low) / step + 1e-9)
    high = float(Decimal(str(low)) + steps * Decimal(str(step)))
    return FloatDistribution(low, high, step=step)


def _mostly_log(votes: Sequence[Vote]) -> bool:
    return bool(votes) and _majority([(bool(d.__dict__["log"]), age) for d, age in votes])


def can_be_log(d: FloatDistribution | IntDistribution) -> bool:
    """True if a range can have a logarithmic scale."""
    return d.low > 0 and not (isinstance(d, IntDistribution) and d.high >= _LARGEST_LOG_INTEGER)


def has_grid_of(
    ours: FloatDistribution | IntDistribution, theirs: FloatDistribution | IntDistribution
) -> bool:
    """True if the legal values of a distribution are on the grid of ours, if that has one."""
    if ours.step is None:
        return True
    several = theirs.low < theirs.high
    if several and theirs.step is None:
        return False
    places = [(theirs.low - ours.low) / ours.step]
    if several:
        places.append(float(theirs.step or 0.0) / ours.step)
    return all(abs(place - round(place)) < 1e-8 for place in places)


def _common_step(numbers: Sequence[FloatDistribution | IntDistribution]) -> float | None:
    """The common step if all grids are parts of one grid, else None."""
    step = numbers[0].step
    if step is None or any(d.step != step for d in numbers):
        return None
    offsets = [(d.low - numbers[0].low) / step for d in numbers]
    return step if all(abs(k - round(k)) < 1e-8 for k in offsets) else None


def _majority(votes: Sequence[tuple[T, float]]) -> T:
    """The most frequent value; in a tie, the newest one."""
    counts = Counter(value for value, _ in votes)
    newest: dict[T, float] = {}
    for value, age in votes:
        newest[value] = max(age, newest.get(value, -math.inf))
    return max(counts, key=lambda value: (counts[value], newest[value]))


def unusable(d: BaseDistribution) -> str:
    """The reason why a parameter cannot be encoded; "" if it can."""
    if isinstance(d, IntDistribution):
        largest = _LARGEST_LOG_INTEGER if d.log else _LARGEST_INTEGER
        if max(abs(d.low), abs(d.high)) >= largest:
            return "its integers are too large to be told apart"
    elif isinstance(d, FloatDistribution):
        width = d.high if d.log else d.high - d.low
        if d.low < d.high and width <= SMALLEST_LOG:
            return "its range is too narrow for 13 decimals"
        if max(abs(d.low), abs(d.high)) >= _LARGEST_FLOAT:
            return "its range is too wide"
    return ""
