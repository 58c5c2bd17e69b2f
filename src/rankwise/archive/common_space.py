"""CommonSpace: the common space of several studies; encodes and decodes their parameters."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from rankwise.archive.infer_conditions import Column, Condition, find_conditions
from rankwise.archive.merge_distributions import (
    SMALLEST_LOG,
    as_choice,
    as_number,
    can_be_log,
    choice_key,
    has_grid_of,
    kind_of,
    unify,
    unusable,
)
from rankwise.archive.past_study import PastStudy
from rankwise.errors import SpaceError
from rankwise.space.encoder import Encoder
from rankwise.space.parameters import Number
from rankwise.types import Array, Mask

_ABSENT = object()  # None may be a choice


@dataclass(frozen=True)
class _Choices:
    """The choices of a parameter and their codes."""

    values: tuple[Any, ...]
    codes: Mapping[tuple[str, Any], int]

    @classmethod
    def of(cls, distribution: CategoricalDistribution) -> _Choices:
        values = tuple(distribution.choices)
        return cls(values, {choice_key(value): k for k, value in enumerate(values)})

    def told_by(self, distribution: CategoricalDistribution) -> _Choices:
        """The same choices with the values of one study, such as 1.0 where others have 1."""
        own = {choice_key(choice): choice for choice in distribution.choices}
        return _Choices(tuple(own.get(choice_key(v), v) for v in self.values), self.codes)

    def labels(self) -> list[str]:
        """Texts for ConfigSpace, which cannot distinguish True, 1 and 1.0."""
        return [_label(value) for value in self.values]


class CommonSpace:
    """The union of the parameters of some studies.

    A parameter that is not in every trial is conditional. If a choice or an integer decides
    whether it is present, that is its condition. Otherwise a hidden boolean switch is added, which
    `encode` sets and `decode` leaves out. Parameters missing in the same trials share a switch.

    Make one with `CommonSpace.of`.

    Attributes:
        encoder: encoder of the space. Its choices are texts; `decode` returns the original values.
        distributions: merged distribution of each parameter.
        conditions: conditions of the parameters that may be inactive.
        new: names of the parameters that no trial of the studies has.
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
        self.new: frozenset[str] = frozenset()
        self._free = self  # the space of the same distributions without conditions
        self._fixed: dict[str, float] = {}  # codes of parameters that a study does not have
        self._switches: dict[str, list[str]] = {}
        for child, condition in self.conditions.items():
            if condition.hidden:
                self._switches.setdefault(condition.parent, []).append(child)
        # Past values may lie off the grid of steps and stay where they are; proposals lie on it.
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
        before: CommonSpace | None = None,
        own: Sequence[Mapping[str, Any]] = (),
    ) -> tuple[CommonSpace, dict[str, str]]:
        """Build the common space of several studies.

        Args:
            studies: the studies.
            search_space: distributions that are part of the union; they decide where studies
                disagree about the kind, the scale or the step of a parameter.
            before: result of an earlier call; it is returned again if distributions and
                conditions have not changed.
            own: parameters of the target study's trials. They decide on the conditions of
                parameters that no study has.

        Returns:
            The space, and the reason, by name, why a study does not fit in.

        Raises:
            SpaceError: there are no parameters at all.
        """
        distributions, left_out = unify(studies, search_space)
        params = [
            trial
            for study in studies
            if study.name not in left_out
            for trial, ok in zip(study.params, study.ok, strict=True)
            if ok  # a failed trial may not have set all of its parameters
        ]
        if before is None or _texts(before.distributions) != _texts(distributions):
            before = cls(distributions)
        free = before._free
        columns = free._columns(params)
        conditions = find_conditions(columns)
        new = frozenset(c.name for c in columns if not c.present.any())
        conditions.update(free._own_conditions(own, new))
        if conditions == before.conditions and new == before.new:
            return before, left_out
        space = cls(distributions, conditions) if conditions else free
        space._free, space.new = free, new
        return space, left_out

    def up_to_date(self, own: Sequence[Mapping[str, Any]]) -> bool:
        """True if the conditions of new parameters agree with the target study's trials.

        Args:
            own: parameters of the target study's trials.
        """
        if not self.new:
            return True
        ours = {name: c for name, c in self.conditions.items() if name in self.new}
        return ours == self._free._own_conditions(own, self.new)

    def _own_conditions(
        self, own: Sequence[Mapping[str, Any]], new: Collection[str]
    ) -> dict[str, Condition]:
        """Conditions of new parameters, from the target study's trials."""
        if not new or not own:
            return {}
        asked = [column for column in self._columns(own) if column.present.any()]
        found = find_conditions(asked)
        return {name: condition for name, condition in found.items() if name in new}

    def _columns(self, params: Sequence[Mapping[str, Any]]) -> list[Column]:
        codes = self._codes(params)
        sizes = {name: len(choices.values) for name, choices in self._choices.items()}
        names = self._everything.names
        whole = {n for n, d in self.distributions.items() if isinstance(d, IntDistribution)}
        return [
            Column(name, codes[:, j], sizes.get(name, 0), name in whole and name in self._numbers)
            for j, name in enumerate(names)
        ]

    # ------------------------------------------------------------------ encode and decode

    def encode(self, params: Sequence[Mapping[str, Any]]) -> Array:
        """Parameters of n trials as a matrix (n, d) in the unit cube.

        Every trial can be encoded. Numbers outside the range are clipped. An unknown choice (see
        `encodable`) or an absent parameter counts as inactive, unless it is fixed (see
        `restricted`). Unknown names are ignored.
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

    def as_proposed(
        self, params: Mapping[str, Any], proposal: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """A trial as it was proposed, if the objective turned a hidden switch; otherwise None.

        Args:
            params: parameters of the trial.
            proposal: values that were proposed for it.
        """
        changed = dict(params)
        for children in self._switches.values():
            if any(c in proposal for c in children) != any(c in params for c in children):
                changed = {name: value for name, value in changed.items() if name not in children}
                changed.update({c: proposal[c] for c in children if c in proposal})
        return None if changed.keys() == params.keys() else changed

    def encodable(self, params: Mapping[str, Any]) -> bool:
        """True if the space has all choices of a trial, and its numeric values are numbers."""
        for name, value in params.items():
            if name in self._choices:
                known = self._choices[name]
                if choice_key(value) not in known.codes and as_choice(value, known.values) is None:
                    return False
            elif name in self.distributions and as_number(value) is None:
                return False
        return True

    def decode(self, row: Array) -> dict[str, Any]:
        """The values of the active parameters of a row (d,) of the unit cube."""
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
        """Mask (n,) of the trials that have exactly the parameters that should be active."""
        there, expected = self._activity(params)
        same: Mask = (there == expected).all(axis=1)
        return same

    def unasked(self, params: Sequence[Mapping[str, Any]]) -> list[str]:
        """The parameters that no trial has although they should be active in at least one."""
        there, expected = self._activity(params)
        missing = (expected & ~there).any(axis=0) & ~there.any(axis=0)
        names = [self._everything.names[j] for j in np.flatnonzero(missing)]
        return [name for name in names if name not in self._switches]

    def typical(self, params: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The median of each number and the most frequent value of each choice over trials."""
        found: dict[str, Any] = {}
        for name in self.distributions:
            choices = self._choices.get(name)
            if choices is not None:
                codes = _choice_codes(params, name, choices)
                if counts := Counter(codes[~np.isnan(codes)].astype(int).tolist()):
                    found[name] = choices.values[counts.most_common(1)[0][0]]
            else:
                numbers = _number_codes(params, name)
                if len(numbers := np.sort(numbers[~np.isnan(numbers)])):
                    found[name] = float(numbers[(len(numbers) - 1) // 2])
        return found

    def tried(self, params: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
        """The choices of each categorical parameter that trials have."""
        codes = {name: _choice_codes(params, name, c) for name, c in self._choices.items()}
        return {
            name: [self._choices[name].values[int(k)] for k in np.unique(found[~np.isnan(found)])]
            for name, found in codes.items()
        }

    def _activity(self, params: Sequence[Mapping[str, Any]]) -> tuple[Mask, Mask]:
        """Masks (n, p) of the parameters that trials have and of those that should be active."""
        codes = self._codes(params)
        anything = self._everything.from_unit_raw(np.full((1, codes.shape[1]), 0.5))
        expected = self._everything.deactivate(np.where(np.isnan(codes), anything, codes))
        return ~np.isnan(codes), ~np.isnan(expected)

    # ------------------------------------------------------------------ narrower spaces

    def covers(self, distributions: Mapping[str, BaseDistribution]) -> bool:
        """True if every distribution lies inside the space; `unusable` ones are ignored."""
        for name, d in distributions.items():
            ours = self.distributions.get(name)
            if unusable(d):
                continue
            if ours is None:
                return False
            if kind_of(ours) != kind_of(d):
                return False
            if isinstance(d, CategoricalDistribution):
                if any(choice_key(c) not in self._choices[name].codes for c in d.choices):
                    return False
            elif isinstance(d, FloatDistribution | IntDistribution):
                assert isinstance(ours, FloatDistribution | IntDistribution)
                if (
                    d.low < ours.low
                    or d.high > ours.high
                    or (d.log and not ours.log and can_be_log(ours))
                    or not has_grid_of(ours, d)
                ):
                    return False
        return True

    def restricted(
        self,
        distributions: Mapping[str, BaseDistribution],
        fixed: Mapping[str, Any] | None = None,
    ) -> CommonSpace:
        """The same columns and fingerprint, with proposals limited to a study's distributions.

        The parameters in `distributions` are active, unless `distributions` contains the parent
        that decides. A hidden switch without any of its parameters in `distributions` is off.

        Args:
            distributions: distributions of a study.
            fixed: values of parameters that the study does not have although it should. They are
                constant in proposals, and finished trials count as evaluated with them.

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
                # It may come from a study with another kind or grid, so it is made legal.
                proposed = self.encoder.parameters[self.encoder.names.index(name)]
                [code] = cast(Number, proposed).nearest(np.array([value], dtype=float))
                legal[name] = (float(code), float(code))
                narrow._fixed[name] = float(code)
            else:  # the parameter has one value only
                narrow._fixed[name] = 0.0
        narrow.encoder = self.encoder.restricted(legal)
        return narrow

    def condition_text(self, name: str) -> str:
        """The condition of a parameter as text; "" if it is always active."""
        condition = self.conditions.get(name)
        if condition is None:
            return ""
        if condition.hidden:
            return "not in every trial"
        if condition.beyond is not None:
            op, bound = condition.beyond
            return f"if {condition.parent} {op} {bound}"
        values = [self._choices[condition.parent].values[k] for k in condition.choices]
        return f"if {condition.parent} is {' or '.join(map(repr, values))}"

    # ------------------------------------------------------------------ helpers

    def _activating(self, names: Collection[str]) -> dict[str, Any]:
        """Legal values of parents outside of `names` such that `names` are active."""
        # If two children exclude each other, the first one is active.
        legal: dict[str, Any] = {switch: [False] for switch in self._switches}
        for name in names:
            condition = self.conditions.get(name)
            while condition is not None and condition.parent not in names:
                parent = condition.parent
                if condition.hidden:
                    legal[parent] = [True]
                elif condition.beyond is not None:
                    number = self._numbers[parent]
                    low, high = legal.get(parent, (number.lower, number.upper))
                    op, bound = condition.beyond
                    above, below = (bound + 1, high) if op == ">" else (low, bound - 1)
                    if max(low, above) <= min(high, below):
                        legal[parent] = (max(low, above), min(high, below))
                else:
                    labels = self._choices[parent].labels()
                    fitting = [labels[k] for k in condition.choices]
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
            elif condition.beyond is not None:
                when[child] = {condition.parent: condition.beyond}
            else:
                labels = self._choices[condition.parent].labels()
                when[child] = {condition.parent: [labels[k] for k in condition.choices]}
        from rankwise.space.shorthand import make_space

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
        """Codes (n, p); a hidden switch is on if one of its parameters is present."""
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
                else:  # the parameter has one value only
                    columns[name] = np.where(np.isnan(values), np.nan, 0.0)
        for switch, children in self._switches.items():
            there = np.logical_or.reduce([~np.isnan(columns[child]) for child in children])
            columns[switch] = there.astype(float)
        return np.stack([columns[name] for name in self._everything.names], axis=1)


def _choice_codes(params: Sequence[Mapping[str, Any]], name: str, choices: _Choices) -> Array:
    codes = np.full(len(params), np.nan)
    known: dict[str, int | None] = {}  # the same few texts come again and again
    for k, trial in enumerate(params):
        value = trial.get(name, _ABSENT)
        if value is _ABSENT:
            continue
        if type(value) is str and value in known:
            code = known[value]
        else:
            code = choices.codes.get(choice_key(value))
            if code is None:
                code = as_choice(value, choices.values)
            if type(value) is str:
                known[value] = code
        codes[k] = np.nan if code is None else code
    return codes


def _number_codes(params: Sequence[Mapping[str, Any]], name: str) -> Array:
    values = [trial.get(name, np.nan) for trial in params]
    if not all(type(v) in (float, int) for v in values):
        numbers = [as_number(v) for v in values]
        values = [np.nan if v is None else v for v in numbers]
    return np.array(values, dtype=float)


def _legal(distribution: BaseDistribution) -> tuple[float, ...]:
    """The range of a number in the form of `Encoder.restricted`."""
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high, step = distribution.low, distribution.high, distribution.step
    has_grid = step is not None and not (step == 1 and isinstance(distribution, IntDistribution))
    return (low, high, float(step)) if has_grid and step else (low, high)


def _texts(distributions: Mapping[str, BaseDistribution]) -> list[tuple[str, str]]:
    """Distributions as texts, to compare them: for Optuna the choices 1 and True are equal."""
    return [(name, repr(distribution)) for name, distribution in distributions.items()]


def _label(value: Any) -> str:
    """A text for a choice; quotes distinguish "1" from 1, and 1.0 becomes 1."""
    kind, key = choice_key(value)
    if kind == "number":
        number = float(key)
        return str(int(key)) if number.is_integer() else str(number)
    return f"<{key}>" if kind == "other" else repr(key)
