"""Random ConfigSpace spaces, and ConfigSpace's own word on what is valid in them."""

from __future__ import annotations

import itertools
from typing import Any

import ConfigSpace as CS
from ConfigSpace.exceptions import (
    ActiveHyperparameterNotSetError,
    ForbiddenValueError,
    InactiveHyperparameterSetError,
)
from ConfigSpace.hyperparameters import Hyperparameter, NumericalHyperparameter
from ConfigSpace.types import NotSet
from hypothesis import reject
from hypothesis import strategies as st

DEPTH = 3  # longest chain of conditions

_MIXED = (None, True, False, "x", "None", 2, 3.5)
_COMPARISONS = {
    "==": CS.EqualsCondition,
    "!=": CS.NotEqualsCondition,
    "<": CS.LessThanCondition,
    ">": CS.GreaterThanCondition,
}
_LITERALS = {
    "==": CS.ForbiddenEqualsClause,
    "<": CS.ForbiddenLessThanClause,
    ">": CS.ForbiddenGreaterThanClause,
    "<=": CS.ForbiddenLessThanEqualsClause,
    ">=": CS.ForbiddenGreaterThanEqualsClause,
}
_RELATIONS = {
    "==": CS.ForbiddenEqualsRelation,
    "<": CS.ForbiddenLessThanRelation,
    ">": CS.ForbiddenGreaterThanRelation,
    "<=": CS.ForbiddenLessThanEqualsRelation,
    ">=": CS.ForbiddenGreaterThanEqualsRelation,
}


def _keeps_types(choices: list[Any]) -> bool:
    """ConfigSpace turns [True, 2] into the numbers 1 and 2; a third kind prevents that."""
    return len({type(c) for c in choices} - {int, float, bool}) > 0


_choices = (
    st.lists(st.sampled_from("abcde"), min_size=2, max_size=4, unique=True)
    | st.just([True, False])
    | st.lists(st.sampled_from(_MIXED), min_size=2, unique_by=repr).filter(_keeps_types)
)


@st.composite
def floats(draw: st.DrawFn, name: str) -> Hyperparameter:
    if draw(st.booleans()):
        lower = draw(st.floats(1e-6, 10.0))
        return CS.Float(name, (lower, lower * draw(st.floats(2.0, 1e6))), log=True)
    lower, width = draw(st.floats(-1e3, 1e3)), draw(st.floats(0.1, 1e3))
    kind, upper = draw(st.sampled_from(["uniform", "normal", "beta"])), lower + width
    if kind == "normal":
        return CS.NormalFloatHyperparameter(name, lower + width / 3, width / 4, lower, upper)
    if kind == "beta":
        return CS.BetaFloatHyperparameter(name, draw(st.floats(1, 4)), 2.0, lower, upper)
    return CS.Float(name, (lower, upper))


@st.composite
def integers(draw: st.DrawFn, name: str, widest: int) -> Hyperparameter:
    lower, width = draw(st.integers(-20, 20)), draw(st.integers(1, widest))
    kind = draw(st.sampled_from(["uniform", "log", "normal", "beta"]))
    if kind == "log":
        lower = abs(lower) + 1
        return CS.Integer(name, (lower, lower + width), log=True)
    if kind == "normal":
        return CS.NormalIntegerHyperparameter(name, lower, width / 2, lower, lower + width)
    if kind == "beta":
        return CS.BetaIntegerHyperparameter(name, 2.0, 3.0, lower, lower + width, int(lower))
    return CS.Integer(name, (lower, lower + width))


@st.composite
def hyperparameters(draw: st.DrawFn, name: str, finite: bool) -> Hyperparameter:
    kinds = ["integer", "categorical", "categorical", "ordinal", "constant"]
    kind = draw(st.sampled_from(kinds if finite else ["float", "float", *kinds]))
    if kind == "float":
        return draw(floats(name))
    if kind == "integer":
        return draw(integers(name, 3 if finite else 30))
    if kind == "constant":
        return CS.Constant(name, draw(st.sampled_from([1, 2.5, "c", True])))
    if kind == "ordinal":
        sequences = [["low", "mid", "high"], [1, 2, 4, 8], [0.5, 0.1], ["only"]]
        return CS.OrdinalHyperparameter(name, draw(st.sampled_from(sequences)))
    choices = draw(_choices)
    weights = [1.0 + 2 * i for i in range(len(choices))] if draw(st.booleans()) else None
    return CS.CategoricalHyperparameter(name, choices, weights=weights)


def values_of(hp: Hyperparameter) -> list[Any]:
    """All values of a finite hyperparameter; some of a float."""
    if isinstance(hp, CS.CategoricalHyperparameter):
        return list(hp.choices)
    if isinstance(hp, CS.OrdinalHyperparameter):
        return list(hp.sequence)
    if isinstance(hp, CS.Constant):
        return [hp.value]
    if isinstance(hp.upper, int):
        return list(range(hp.lower, hp.upper + 1))
    return [round(hp.lower + q * (hp.upper - hp.lower), 6) for q in (0.1, 0.3, 0.5, 0.9)]


def _is_float(hp: Hyperparameter) -> bool:
    return isinstance(hp, NumericalHyperparameter) and isinstance(hp.upper, float)


def _is_log_integer(hp: Hyperparameter) -> bool:
    return isinstance(hp, NumericalHyperparameter) and hp.log and not _is_float(hp)


@st.composite
def _comparison(draw: st.DrawFn, child: Any, parent: Any, different: bool) -> Any:
    ops = [] if _is_float(parent) else ["==", "in"] + ["!="] * different
    ops += ["<", ">"] * parent.ORDERABLE
    op, values = draw(st.sampled_from(ops)), values_of(parent)
    if op == "in":
        chosen = draw(st.lists(st.sampled_from(values), min_size=1, unique_by=repr))
        return CS.InCondition(child, parent, chosen)
    return _COMPARISONS[op](child, parent, draw(st.sampled_from(values)))


@st.composite
def _clause(draw: st.DrawFn, hp: Any, conditional: bool, faithful: bool) -> Any:
    ops = [] if _is_float(hp) else ["==", "in"]
    ops += ["<", ">"] * hp.ORDERABLE
    # ConfigSpace's <= samples by >=, and both forbid an inactive ordinal.
    ops += ["<=", ">="] * (hp.ORDERABLE and not faithful and not conditional)
    op, values = draw(st.sampled_from(ops)), values_of(hp)
    if op == "in":
        chosen = st.lists(st.sampled_from(values), min_size=1, max_size=2, unique_by=repr)
        return CS.ForbiddenInClause(hp, draw(chosen))
    return _LITERALS[op](hp, draw(st.sampled_from(values)))


@st.composite
def spaces(
    draw: st.DrawFn, *, finite: bool = False, faithful: bool = False, clauses: bool = True
) -> CS.ConfigurationSpace:
    """A space of up to six hyperparameters, conditions nested up to `DEPTH`, forbidden clauses.

    Args:
        draw: given by hypothesis.
        finite: only small finite hyperparameters.
        faithful: leave out what ConfigSpace 1.2 evaluates against its own rules: "!=" on an
            inactive parent (true for its vectors, false for its values), conjunctions (it
            takes "and" and "or" of the same parts for one condition), conditional integers on a
            log scale (never legal) and <= (sampled as >=).
        clauses: whether there may be forbidden clauses.
    """
    names = [f"p{i}" for i in range(draw(st.integers(1, 5 if finite else 6)))]
    space = CS.ConfigurationSpace()
    space.add([draw(hyperparameters(name, finite)) for name in names])
    depth = dict.fromkeys(names, 0)
    conjunction = draw(st.sampled_from([CS.AndConjunction, CS.OrConjunction]))
    for i, name in enumerate(names):
        parents = [p for p in names[:i] if depth[p] < DEPTH]
        if not parents or not draw(st.booleans()) or (faithful and _is_log_integer(space[name])):
            continue
        n_parents = draw(st.integers(1, min(3, len(parents))))
        chosen = draw(st.permutations(parents))[:n_parents]
        parts = [
            draw(_comparison(space[name], space[p], not (faithful and depth[p]))) for p in chosen
        ]
        if not faithful:
            conjunction = draw(st.sampled_from([CS.AndConjunction, CS.OrConjunction]))
        condition = parts.pop()
        while parts:
            condition = conjunction(parts.pop(), condition)
            conjunction = conjunction if faithful else CS.OrConjunction
        _add(space, condition)
        depth[name] = 1 + max(depth[p] for p in chosen)
    if clauses:
        _forbid(draw, space, depth, faithful)
    return space


def _forbid(draw: st.DrawFn, space: Any, depth: dict[str, int], faithful: bool) -> None:
    default = dict(space.get_default_configuration())
    numbers = [hp for hp in space.values() if isinstance(hp, NumericalHyperparameter)]
    for _ in range(draw(st.integers(0, 3))):
        if len(numbers) > 1 and draw(st.booleans()):
            left, right = draw(st.permutations(numbers))[:2]
            clause = draw(st.sampled_from(list(_RELATIONS.values())))(left, right)
            numbers = []  # two relations might leave a single line
        else:
            subjects = draw(st.permutations(list(space.values())))[: draw(st.integers(1, 2))]
            parts = [draw(_clause(hp, depth[hp.name] > 0, faithful)) for hp in subjects]
            clause = parts[0] if len(parts) == 1 else CS.ForbiddenAndConjunction(*parts)
        if not clause.is_forbidden_value(default):
            _add(space, clause)


def _add(space: CS.ConfigurationSpace, thing: Any) -> None:
    try:
        space.add(thing)
    except (ForbiddenValueError, ActiveHyperparameterNotSetError, InactiveHyperparameterSetError):
        reject()  # ConfigSpace's vectors contradict its values: it refuses its own default


# ---------------------------------------------------------------------- ConfigSpace's own word


def is_valid(space: CS.ConfigurationSpace, values: dict[str, Any]) -> bool:
    """Whether exactly the active hyperparameters are set and no clause forbids it."""
    known = {name: values.get(name, NotSet) for name in space}
    conditions = {condition.child.name: condition for condition in space.conditions}
    active = {n for n in space if n not in conditions or conditions[n].satisfied_by_value(known)}
    return active == set(values) and not any(
        clause.is_forbidden_value(values) for clause in space.forbidden_clauses
    )


def _active_part(space: CS.ConfigurationSpace, values: dict[str, Any]) -> dict[str, Any]:
    conditions = {condition.child.name: condition for condition in space.conditions}
    active = dict.fromkeys(space, NotSet)
    for name in space:  # parents come first
        if name not in conditions or conditions[name].satisfied_by_value(active):
            active[name] = values[name]
    return {name: value for name, value in active.items() if value is not NotSet}


def brute_force(space: CS.ConfigurationSpace) -> list[dict[str, Any]]:
    """Every valid configuration of a finite space, once."""
    found: dict[str, dict[str, Any]] = {}
    for combination in itertools.product(*(values_of(hp) for hp in space.values())):
        values = _active_part(space, dict(zip(space, combination, strict=True)))
        if is_valid(space, values):
            found[repr(values)] = values
    return list(found.values())


def descendants(space: CS.ConfigurationSpace, name: str) -> set[str]:
    """Every hyperparameter whose activity may depend on this one."""
    below = {child.name for child in space.children_of[name]}
    return below.union(*(descendants(space, child) for child in below))
