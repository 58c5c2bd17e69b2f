"""Conditions and forbidden clauses, evaluated for many configurations at once.

ConfigSpace checks one configuration at a time, but one proposal checks thousands. Here each
clause becomes a small object that maps codes (n, p) to a mask (n,). An inactive hyperparameter
(NaN) satisfies no comparison, not even "is different from". So a condition on it does not hold,
and a forbidden clause about it excludes nothing.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.errors import ConfigurationError, SpaceError
from rankwise.space.parameters import Choice, Parameter
from rankwise.types import Array, Mask

_OPERATORS: dict[str, Any] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_LITERALS: dict[str, str] = {
    "EqualsCondition": "==",
    "NotEqualsCondition": "!=",
    "LessThanCondition": "<",
    "GreaterThanCondition": ">",
    "ForbiddenEqualsClause": "==",
    "ForbiddenLessThanClause": "<",
    "ForbiddenLessThanEqualsClause": "<=",
    "ForbiddenGreaterThanClause": ">",
    "ForbiddenGreaterThanEqualsClause": ">=",
}

_RELATIONS: dict[str, str] = {
    "ForbiddenEqualsRelation": "==",
    "ForbiddenLessThanRelation": "<",
    "ForbiddenLessThanEqualsRelation": "<=",
    "ForbiddenGreaterThanRelation": ">",
    "ForbiddenGreaterThanEqualsRelation": ">=",
}


class Rule(ABC):
    """A condition or a clause: true or false for each configuration."""

    @abstractmethod
    def holds(self, codes: Array) -> Mask:
        """The mask (n,) of the rows of codes (n, p) for which the rule is true; NaN: inactive."""


@dataclass(frozen=True)
class Compare(Rule):
    """Compares the code in `column` with a fixed code."""

    column: int
    op: str
    code: float

    def holds(self, codes: Array) -> Mask:
        values = codes[:, self.column]
        mask: Mask = _OPERATORS[self.op](values, self.code) & ~np.isnan(values)
        return mask


@dataclass(frozen=True)
class OneOf(Rule):
    """True where the code in `column` is one of `codes`."""

    column: int
    codes: tuple[float, ...]

    def holds(self, codes: Array) -> Mask:
        return np.isin(codes[:, self.column], self.codes)


@dataclass(frozen=True)
class Relation(Rule):
    """Compares the values of two hyperparameters with each other.

    Attributes:
        left: column of the first hyperparameter.
        right: column of the second hyperparameter.
        op: the comparison, such as "<".
        left_values: values by code of the first one; None for a number, whose code is its value.
        right_values: values by code of the second one, in the same form.
    """

    left: int
    right: int
    op: str
    left_values: tuple[Any, ...] | None
    right_values: tuple[Any, ...] | None

    def holds(self, codes: Array) -> Mask:
        left, right = codes[:, self.left], codes[:, self.right]
        both = ~(np.isnan(left) | np.isnan(right))
        mask = np.zeros(len(codes), dtype=bool)
        compared = _OPERATORS[self.op](
            _values(left[both], self.left_values), _values(right[both], self.right_values)
        )
        mask[both] = compared.astype(bool)
        return mask


@dataclass(frozen=True)
class Every(Rule):
    """True where all of several rules are true."""

    rules: tuple[Rule, ...]

    def holds(self, codes: Array) -> Mask:
        mask: Mask = np.logical_and.reduce([rule.holds(codes) for rule in self.rules])
        return mask


@dataclass(frozen=True)
class Some(Rule):
    """True where at least one of several rules is true."""

    rules: tuple[Rule, ...]

    def holds(self, codes: Array) -> Mask:
        mask: Mask = np.logical_or.reduce([rule.holds(codes) for rule in self.rules])
        return mask


def compile_rule(clause: Any, parameters: Sequence[Parameter], index: Mapping[str, int]) -> Rule:
    """Convert a ConfigSpace condition or forbidden clause to a `Rule` over codes."""
    from ConfigSpace import conditions as conditions_module
    from ConfigSpace import forbidden as forbidden_module

    kind = type(clause).__name__
    if isinstance(
        clause, conditions_module.AndConjunction | forbidden_module.ForbiddenAndConjunction
    ):
        return Every(tuple(compile_rule(c, parameters, index) for c in clause.components))
    if isinstance(
        clause, conditions_module.OrConjunction | forbidden_module.ForbiddenOrConjunction
    ):
        return Some(tuple(compile_rule(c, parameters, index) for c in clause.components))
    if kind in _RELATIONS:
        left, right = index[clause.left.name], index[clause.right.name]
        return Relation(
            left, right, _RELATIONS[kind], _choices(parameters[left]), _choices(parameters[right])
        )
    one_of = kind in ("InCondition", "ForbiddenInClause")
    if not one_of and kind not in _LITERALS:
        raise SpaceError(f"clauses of type {kind} are not supported")
    subject = clause.parent if hasattr(clause, "parent") else clause.hyperparameter
    column = index[subject.name]
    if one_of:
        return OneOf(column, tuple(_code(parameters[column], v) for v in clause.values))
    return Compare(column, _LITERALS[kind], _code(parameters[column], clause.value))


def _code(parameter: Parameter, value: Any) -> float:
    try:
        return parameter.code(value)
    except ConfigurationError as error:
        raise SpaceError(
            f"a condition or forbidden clause names an illegal value: {error}"
        ) from None


def _choices(parameter: Parameter) -> tuple[Any, ...] | None:
    return parameter.values if isinstance(parameter, Choice) else None


def _values(codes: Array, choices: tuple[Any, ...] | None) -> Any:
    if choices is None:
        return codes
    return np.array([choices[int(code)] for code in codes], dtype=object)
