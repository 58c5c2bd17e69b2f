"""CommonSpace: the space that studies share, and the way from their parameters to it and back."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from rankwise.archive.conditions import Column, Condition, find_conditions
from rankwise.archive.studies import PastStudy
from rankwise.archive.unify import SMALLEST_LOG, choice_key, kind_of, unify
from rankwise.errors import SpaceError, is_number
from rankwise.parameters import Number
from rankwise.shorthand import make_space
from rankwise.space import Encoder
from rankwise.types import Array, Mask

_ABSENT = object()  # None may be a choice


@dataclass(frozen=True)
class _Choices:
    """The choices of a parameter, by code, and their codes."""

    values: tuple[Any, ...]
    codes: Mapping[tuple[str, Any], int]

    @classmethod
    def of(cls, distribution: CategoricalDistribution) -> _Choices:
        values = tuple(distribution.choices)
        return cls(values, {choice_key(value): k for k, value in enumerate(values)})

    def told_by(self, distribution: CategoricalDistribution) -> _Choices:
        """The same with a study's own objects: it may say 1.0 where others say 1."""
        own = {choice_key(choice): choice for choice in distribution.choices}
        return _Choices(tuple(own.get(choice_key(v), v) for v in self.values), self.codes)

    def labels(self) -> list[str]:
        """Texts for ConfigSpace, which takes True for 1 and 1 for 1.0."""
        return [_label(value) for value in self.values]


class CommonSpace:
    """The union of the parameters of some studies.

    A parameter that is not in every trial is conditional: if one categorical parameter decides
    whether it is there, that is its condition; else a hidden switch says so, which `encode` sets
    and `decode` leaves out. Parameters that are missing for the same trials share a switch.

    Make one with `CommonSpace.of`.

    Attributes:
        encoder: of the space. Choices are texts there; `decode` gives the values themselves.
        distributions: what each parameter is, over all studies.
        conditions: of the parameters that may be inactive.
    """

    def __init__(
        self,
        distributions: Mapping[str, BaseDistribution],
        conditions: Mapping[str, Condition] | None = None,
    ) -> None:
        if not distributions:
            raise SpaceError("a space without parameters: the studies have none in common")
        self.distributions = dict(distributions)
        self.conditions = dict(conditions or {})
        self._choices = {
            name: _Choices.of(d)
            for name, d in self.distributions.items()
            if isinstance(d, CategoricalDistribution)
        }
        self._fixed: dict[str, float] = {}  # codes of parameters that a study does not have
        self._switches: dict[str, list[str]] = {}
        for child, condition in self.conditions.items():
            if condition.hidden:
                self._switches.setdefault(condition.parent, []).append(child)
        # What was evaluated off the grid of the steps keeps its place: only proposals are on it.
        self._everything = Encoder(self._space())
        self._numbers = {p.name: p for p in self._everything.parameters if isinstance(p, Number)}
        self.encoder = self._everything.restricted(
            {name: _legal(self.distributions[name]) for name in self._numbers}
        )

    @classmethod
    def of(
        cls,
        studies: Sequence[PastStudy],
        search_space: Mapping[str, BaseDistribution] | None = None,
    ) -> tuple[CommonSpace, dict[str, str]]:
        """The common space of some studies.

        Args:
            studies: to learn it from.
            search_space: distributions that take part in the union; where studies disagree about
                the kind, the scale or the step of a parameter, these are right.

        Returns:
            The space, and by name the reason why a study does not fit in.

        Raises:
            SpaceError: there are no parameters at all.
        """
        distributions, left_out = unify(studies, search_space)
        params = [
            trial
            for study in studies
            if study.name not in left_out
            for trial, ok in zip(study.params, study.ok, strict=True)
            if ok  # one that failed may have failed before it had all of its parameters
        ]
        free = cls(distributions)
        codes = free._codes(params)
        columns = [
            Column(
                name,
                codes[:, j],
                len(free._choices[name].values) if name in free._choices else 0,
            )
            for j, name in enumerate(free._everything.names)
        ]
        conditions = find_conditions(columns)
        return (cls(distributions, conditions) if conditions else free), left_out

    # ------------------------------------------------------------------ the way there and back

    def encode(self, params: Sequence[Mapping[str, Any]]) -> Array:
        """Parameters of n trials as a matrix (n, d) in the unit cube.

        Whatever was evaluated has a place: numbers outside of the range go to its end, a choice
        that the space does not have (see `encodable`) and a parameter that is absent count as
        inactive, unless it is fixed (see `restricted`), and names that the space does not have
        are ignored.
        """
        codes = self._codes(params)
        if self._fixed:
            codes[:, [self._everything.names.index(name) for name in self._fixed]] = np.nan
            filled = codes.copy()
            for name, code in self._fixed.items():
                filled[:, self._everything.names.index(name)] = code
            active = ~np.isnan(self._everything.deactivate(filled))
            codes = np.where(np.isnan(codes) & active, filled, codes)
        return self._everything.encode_codes(codes)

    def encodable(self, params: Mapping[str, Any]) -> bool:
        """Whether the space has all choices of a trial, and its numbers are numbers."""
        for name, value in params.items():
            if name in self._choices:
                if choice_key(value) not in self._choices[name].codes:
                    return False
            elif name in self.distributions and not (is_number(value) and value == value):
                return False
        return True

    def decode(self, row: Array) -> dict[str, Any]:
        """The values of the parameters that are active at a row (d,) of the unit cube."""
        codes = self.encoder.decode_codes(row)[0]
        found: dict[str, Any] = {}
        for parameter, code in zip(self.encoder.parameters, codes, strict=True):
            name = parameter.name
            if np.isnan(code) or name in self._switches:
                continue
            if name in self._choices:
                found[name] = self._choices[name].values[int(code)]
            else:
                value = parameter.value(code)
                whole = isinstance(self.distributions[name], IntDistribution)
                found[name] = int(value) if whole else float(value)
        return found

    def complete(self, params: Sequence[Mapping[str, Any]]) -> Mask:
        """Which of n trials have a value for every parameter that should be active, no others."""
        there, expected = self._activity(params)
        same: Mask = (there == expected).all(axis=1)
        return same

    def unasked(self, params: Sequence[Mapping[str, Any]]) -> list[str]:
        """The parameters that none of n trials has, though at least one of them should."""
        there, expected = self._activity(params)
        missing = (expected & ~there).any(axis=0) & ~there.any(axis=0)
        names = [self._everything.names[j] for j in np.flatnonzero(missing)]
        return [name for name in names if name not in self._switches]

    def typical(self, params: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The median of each number and the most frequent of each choice of some trials."""
        found: dict[str, Any] = {}
        for name in self.distributions:
            values = [trial[name] for trial in params if name in trial]
            if values and name in self._choices:
                [(key, _)] = Counter(map(choice_key, values)).most_common(1)
                found[name] = next(v for v in values if choice_key(v) == key)
            elif numbers := sorted(v for v in values if is_number(v) and v == v):
                found[name] = numbers[(len(numbers) - 1) // 2]
        return found

    def _activity(self, params: Sequence[Mapping[str, Any]]) -> tuple[Mask, Mask]:
        """Which parameters (n, p) trials have, and which they should have."""
        codes = self._codes(params)
        anything = self._everything.from_unit_raw(np.full((1, codes.shape[1]), 0.5))
        expected = self._everything.deactivate(np.where(np.isnan(codes), anything, codes))
        return ~np.isnan(codes), ~np.isnan(expected)

    # ------------------------------------------------------------------ narrower spaces

    def covers(self, distributions: Mapping[str, BaseDistribution]) -> bool:
        """Whether each of some distributions lies inside the space, if it has the parameter."""
        for name, d in distributions.items():
            ours = self.distributions.get(name)
            if ours is None:
                continue
            if kind_of(ours) != kind_of(d):
                return False
            if isinstance(d, CategoricalDistribution):
                if any(choice_key(c) not in self._choices[name].codes for c in d.choices):
                    return False
            elif isinstance(d, FloatDistribution | IntDistribution):
                assert isinstance(ours, FloatDistribution | IntDistribution)
                if d.low < ours.low or d.high > ours.high:
                    return False
        return True

    def restricted(
        self,
        distributions: Mapping[str, BaseDistribution],
        fixed: Mapping[str, Any] | None = None,
    ) -> CommonSpace:
        """The same space, columns and fingerprint, with proposals that these distributions have.

        A study's own distributions say what is active in it: what they have is, unless they have
        the parameter that decides on it, and a hidden switch of which they have nothing is off.

        Args:
            distributions: of a study.
            fixed: values of parameters that the study does not have, though it should: they are
                proposed alone, and what was evaluated counts as evaluated with them.

        Raises:
            SpaceError: a parameter is of another kind, or nothing of its range is in the space.
        """
        narrow = copy.copy(self)
        narrow._choices = dict(self._choices)
        legal: dict[str, Any] = dict(self._activating(distributions))
        for name, d in distributions.items():
            ours = self.distributions.get(name)
            if ours is None:
                continue
            if kind_of(ours) != kind_of(d):
                raise SpaceError(f"parameter {name!r} is {kind_of(ours)} and not {kind_of(d)}")
            if isinstance(d, CategoricalDistribution):
                legal[name] = [_label(choice) for choice in d.choices]
                narrow._choices[name] = self._choices[name].told_by(d)
            elif name in self._numbers:
                legal[name] = _legal(d)
        narrow._fixed = {}
        for name, value in (fixed or {}).items():
            if name in self._choices:
                labels = self._choices[name].labels()
                some = legal.get(name, labels)
                wanted = labels[self._choices[name].codes[choice_key(value)]]
                legal[name] = [wanted if wanted in some else some[0]]
                narrow._fixed[name] = float(labels.index(legal[name][0]))
            elif name in self._numbers:
                code = self._numbers[name].nearest(np.array([value], dtype=float))
                legal[name] = (value, value)
                narrow._fixed[name] = float(code[0])
            else:  # only one value is known
                narrow._fixed[name] = 0.0
        narrow.encoder = self.encoder.restricted(legal)
        return narrow

    def condition_text(self, name: str) -> str:
        """When a parameter is active, in words; "" if it always is."""
        condition = self.conditions.get(name)
        if condition is None:
            return ""
        if condition.hidden:
            return "not in every trial"
        values = [self._choices[condition.parent].values[k] for k in condition.choices]
        return f"if {condition.parent} is {' or '.join(map(repr, values))}"

    # ------------------------------------------------------------------ helpers

    def _activating(self, names: Collection[str]) -> dict[str, list[Any]]:
        """What must be legal for parents outside of `names`, so that these are active."""
        legal: dict[str, list[Any]] = {switch: [False] for switch in self._switches}
        for name in names:
            condition = self.conditions.get(name)
            while condition is not None and condition.parent not in names:
                parent = condition.parent
                if condition.hidden:
                    legal[parent] = [True]
                else:
                    labels = self._choices[parent].labels()
                    fitting = [labels[k] for k in condition.choices]
                    # Two children may never be active together: then the first is.
                    both = [label for label in legal.get(parent, fitting) if label in fitting]
                    legal[parent] = both or legal[parent]
                condition = self.conditions.get(parent)
        return legal

    def _space(self) -> Any:
        parameters: dict[str, Any] = {name: self._spec(name) for name in self.distributions}
        parameters.update({switch: ([False, True], "ordered") for switch in self._switches})
        when: dict[str, Any] = {}
        for child, condition in self.conditions.items():
            if condition.hidden:
                when[child] = {condition.parent: True}
            else:
                labels = self._choices[condition.parent].labels()
                when[child] = {condition.parent: [labels[k] for k in condition.choices]}
        return make_space(parameters, when=when)

    def _spec(self, name: str) -> Any:
        """A parameter in the shorthand of `make_space`."""
        distribution = self.distributions[name]
        if name in self._choices:
            return self._choices[name].labels()
        assert isinstance(distribution, FloatDistribution | IntDistribution)
        low, high = distribution.low, distribution.high
        if distribution.log:
            low = max(low, SMALLEST_LOG)
        if low >= high:
            return low
        return (low, high, "log") if distribution.log else (low, high)

    def _codes(self, params: Sequence[Mapping[str, Any]]) -> Array:
        """Codes (n, p); hidden switches are set by what is there."""
        columns: dict[str, Array] = {}
        for parameter in self._everything.parameters:
            name = parameter.name
            if name in self._choices:
                columns[name] = _choice_codes(params, name, self._choices[name])
            elif name in self.distributions:
                values = _number_codes(params, name)
                if isinstance(parameter, Number):
                    inside = np.clip(values, parameter.lower, parameter.upper)
                    columns[name] = parameter.nearest(inside)
                else:  # only one value is known
                    columns[name] = np.where(np.isnan(values), np.nan, 0.0)
        for switch, children in self._switches.items():
            there = np.logical_or.reduce([~np.isnan(columns[child]) for child in children])
            columns[switch] = there.astype(float)
        return np.stack([columns[name] for name in self._everything.names], axis=1)


def _choice_codes(params: Sequence[Mapping[str, Any]], name: str, choices: _Choices) -> Array:
    codes = np.full(len(params), np.nan)
    for k, trial in enumerate(params):
        value = trial.get(name, _ABSENT)
        if value is _ABSENT:
            continue
        codes[k] = choices.codes.get(choice_key(value), np.nan)
    return codes


def _number_codes(params: Sequence[Mapping[str, Any]], name: str) -> Array:
    values = [trial.get(name, np.nan) for trial in params]
    try:
        return np.array(values, dtype=float)
    except (TypeError, ValueError):
        return np.array([v if is_number(v) else np.nan for v in values], dtype=float)


def _legal(distribution: BaseDistribution) -> tuple[float, ...]:
    """The range of a number as `Encoder.restricted` takes it."""
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high, step = distribution.low, distribution.high, distribution.step
    has_grid = step is not None and not (step == 1 and isinstance(distribution, IntDistribution))
    return (low, high, float(step)) if has_grid and step else (low, high)


def _label(value: Any) -> str:
    """A text for a choice: quotes tell "1" from 1, and 1 is 1.0."""
    kind, key = choice_key(value)
    if kind == "number":
        number = float(key)
        return str(int(number)) if number.is_integer() else str(number)
    return f"<{key}>" if kind == "other" else repr(key)
