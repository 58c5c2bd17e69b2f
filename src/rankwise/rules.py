"""Conditions and forbidden clauses, evaluated for many configurations at once.

ConfigSpace checks one configuration at a time; a proposal looks at thousands. Here each
clause becomes a small object that maps codes (n, p) to a mask (n,). A hyperparameter that is
inactive (NaN) satisfies no comparison, not even "is different from": a condition on it does
not hold and a clause about it does not forbid.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ConfigSpace import conditions as conditions_module
from ConfigSpace import forbidden as forbidden_module

from rankwise.errors import ConfigurationError, SpaceError
from rankwise.parameters import Choice, Parameter
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
    """A statement about configurations, true or false for each."""

    @abstractmethod
    def holds(self, codes: Array) -> Mask:
        """Codes (n, p), NaN = inactive, to a mask (n,)."""


@dataclass(frozen=True)
class Compare(Rule):
    """Parameter `column` compared with one code."""

    column: int
    op: str
    code: float

    def holds(self, codes: Array) -> Mask:
        values = codes[:, self.column]
        mask: Mask = _OPERATORS[self.op](values, self.code) & ~np.isnan(values)
        return mask


@dataclass(frozen=True)
class OneOf(Rule):
    """Parameter `column` has one of some codes."""

    column: int
    codes: tuple[float, ...]

    def holds(self, codes: Array) -> Mask:
        return np.isin(codes[:, self.column], self.codes)


@dataclass(frozen=True)
class Relation(Rule):
    """Two parameters' values compared with each other."""

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
    """All of several rules hold."""

    rules: tuple[Rule, ...]

    def holds(self, codes: Array) -> Mask:
        mask: Mask = np.logical_and.reduce([rule.holds(codes) for rule in self.rules])
        return mask


@dataclass(frozen=True)
class Some(Rule):
    """At least one of several rules holds."""

    rules: tuple[Rule, ...]

    def holds(self, codes: Array) -> Mask:
        mask: Mask = np.logical_or.reduce([rule.holds(codes) for rule in self.rules])
        return mask


def compile_rule(clause: Any, parameters: Sequence[Parameter], index: Mapping[str, int]) -> Rule:
    """A ConfigSpace condition or forbidden clause as a `Rule` over codes."""
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
