"""make_space: builds a search space from a dict of ranges and choices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from numbers import Integral
from typing import Any, NoReturn

import ConfigSpace
from ConfigSpace import ConfigurationSpace
from ConfigSpace.exceptions import CyclicDependancyError
from ConfigSpace.hyperparameters import Hyperparameter

from rankwise.errors import SpaceError, is_number

_COMPARISONS: dict[str, Any] = {
    "==": ConfigSpace.EqualsCondition,
    "!=": ConfigSpace.NotEqualsCondition,
    "<": ConfigSpace.LessThanCondition,
    ">": ConfigSpace.GreaterThanCondition,
}


def make_space(
    parameters: Mapping[str, Any],
    *,
    when: Mapping[str, Any] | None = None,
    forbid: Sequence[Mapping[str, Any]] = (),
    defaults: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> ConfigurationSpace:
    """Build a ConfigSpace space from plain Python.

    Args:
        parameters: for each name its range or choices:

            - ``(low, high)``: a number; an integer if both ends are integers;
            - ``(low, high, "log")``: the same on a logarithmic scale;
            - ``["a", "b", ...]``: one of these, without order;
            - ``(["small", "large"], "ordered")``: one of these, in this order;
            - anything else (a string, a number, a bool, None): a constant;
            - a ConfigSpace hyperparameter of the same name: taken as it is.
        when: conditions. ``{"gamma": {"kernel": "rbf"}}``: gamma exists when kernel is "rbf".
            A list means "one of", a pair such as ``(">", 2)`` (also <, ==, !=) compares,
            several parents must all agree, and a list of dicts means "any of these".
        forbid: combinations that must not occur: ``[{"solver": "lbfgs", "penalty": "l1"}]``.
            Values are given as in `when` (without comparisons).
        defaults: default values; otherwise the middle of a range, the first of the choices.
        name: a name for the space.

    Raises:
        SpaceError: an empty range, an unknown name, a condition cycle, everything forbidden.

    Example:
        >>> space = make_space(
        ...     {"kernel": ["rbf", "linear"], "C": (1e-3, 1e3, "log"), "gamma": (0.0, 1.0)},
        ...     when={"gamma": {"kernel": "rbf"}},
        ... )
    """
    if not isinstance(parameters, Mapping):
        raise SpaceError(f"a space is a dict of hyperparameters, not {parameters!r}")
    defaults = dict(defaults or {})
    for mapping, what in ((when or {}, "when"), (defaults, "defaults")):
        for key in mapping:
            if key not in parameters:
                _unknown(key, what, parameters)
    space = ConfigurationSpace(name=name)
    fixed = {}
    for key, spec in parameters.items():
        hyperparameter = _hyperparameter(key, spec, defaults)
        _add(space, hyperparameter, f"hyperparameter {key!r}")
        if hyperparameter is spec or isinstance(hyperparameter, ConfigSpace.Constant):
            fixed[key] = hyperparameter.default_value
            if key in defaults and defaults[key] != fixed[key]:
                raise SpaceError(
                    f"{key!r} has the default {fixed[key]!r}; it cannot be {defaults[key]!r}"
                )
    conditions = [_condition(space, child, clause) for child, clause in (when or {}).items()]
    if conditions:
        _add(space, conditions, f"the conditions of {', '.join(map(repr, when or {}))}")
    if forbid:
        clauses = [_clause(space, clause) for clause in forbid]
        moved = _allowed_default(space, clauses)
        moved = {key: value for key, value in moved.items() if key not in fixed}
        if not moved.items() <= defaults.items():
            # ConfigSpace rejects clauses that exclude the default configuration: build the space
            # again with a default that is allowed.
            return make_space(
                parameters, when=when, forbid=forbid, defaults={**defaults, **moved}, name=name
            )
        _add(space, clauses, "the forbidden combinations")
    return space


def _hyperparameter(name: str, spec: Any, defaults: Mapping[str, Any]) -> Hyperparameter[Any, Any]:
    if isinstance(spec, Hyperparameter):
        if spec.name != name:
            raise SpaceError(f"the hyperparameter under {name!r} is called {spec.name!r}")
        return spec
    chosen = {"default_value": defaults[name]} if name in defaults else {}
    try:
        if isinstance(spec, tuple) and spec and isinstance(spec[0], list):
            if spec[1:] != ("ordered",):
                raise SpaceError(f'{name!r}: write (choices, "ordered"), not {spec!r}')
            _check_choices(name, spec[0])
            return ConfigSpace.OrdinalHyperparameter(name, spec[0], **chosen)
        if isinstance(spec, tuple):
            return _number(name, spec, defaults.get(name))
        if isinstance(spec, list):
            _check_choices(name, spec)
            if len(spec) == 1:
                return ConfigSpace.Constant(name, spec[0])
            return ConfigSpace.CategoricalHyperparameter(name, spec, **chosen)
        _check_constant(name, spec)
        return ConfigSpace.Constant(name, spec)
    except SpaceError:
        raise
    except (ValueError, TypeError) as error:
        raise SpaceError(f"{name!r}: {error}") from error


def _number(name: str, spec: tuple[Any, ...], default: Any) -> Hyperparameter[Any, Any]:
    bounds, flags = spec[:2], spec[2:]
    if len(bounds) != 2 or not all(map(is_number, bounds)) or flags not in ((), ("log",)):
        raise SpaceError(
            f'{name!r}: a range is (low, high) or (low, high, "log"), not {spec!r}; '
            "choices are a list"
        )
    low, high = bounds
    if not low < high:
        raise SpaceError(f"{name!r}: the range [{low}, {high}] is empty; low must be below high")
    if flags and low <= 0:
        raise SpaceError(f"{name!r}: a logarithmic range must start above 0, not at {low}")
    if flags and low < 1e-12:
        raise SpaceError(f"{name!r}: ConfigSpace keeps 13 decimals; start above 1e-12, not {low}")
    whole = all(is_number(b, Integral) for b in bounds)
    kind: Any = ConfigSpace.Integer if whole else ConfigSpace.Float
    ends = tuple(map(int if whole else float, (low, high)))
    hyperparameter: Hyperparameter[Any, Any] = kind(name, ends, log=bool(flags), default=default)
    return hyperparameter


def _check_constant(name: str, spec: Any) -> None:
    """Raise a `SpaceError` for what was meant as a range or as choices."""
    how = f"write choices as a list and a range as a tuple (low, high), not {spec!r}"
    if isinstance(spec, Set):
        raise SpaceError(f"{name!r}: a set has no order: {how}")
    if isinstance(spec, Iterable) and not isinstance(spec, str | bytes | Mapping):
        raise SpaceError(f"{name!r}: {how}")
    if hasattr(spec, "rvs"):  # scipy.stats
        raise SpaceError(f"{name!r}: distributions are for `RankwiseSearchCV`; {how}")


def _check_choices(name: str, choices: list[Any]) -> None:
    if not choices:
        raise SpaceError(f"{name!r}: the list of choices is empty")
    seen: list[Any] = []
    for choice in choices:
        if any(choice == s and isinstance(choice, bool) == isinstance(s, bool) for s in seen):
            raise SpaceError(f"{name!r}: the choice {choice!r} is listed twice")
        seen.append(choice)


def _condition(space: ConfigurationSpace, child: str, clause: Any) -> Any:
    if isinstance(clause, list):
        if not clause:
            raise SpaceError(f"the condition of {child!r} is an empty list; drop it or fill it")
        parts = [_condition(space, child, part) for part in clause]
        return parts[0] if len(parts) == 1 else ConfigSpace.OrConjunction(*parts)
    if not isinstance(clause, Mapping) or not clause:
        raise SpaceError(
            f"the condition of {child!r} must be a dict such as "
            f'{{"parent": value}}, not {clause!r}'
        )
    parts = [_comparison(space, child, parent, test) for parent, test in clause.items()]
    return parts[0] if len(parts) == 1 else ConfigSpace.AndConjunction(*parts)


def _comparison(space: ConfigurationSpace, child: str, parent: str, test: Any) -> Any:
    if parent not in space:
        _unknown(parent, f"the condition of {child!r}", space)
    if parent == child:
        raise SpaceError(f"{child!r} cannot be its own condition")
    nodes = space[child], space[parent]
    try:
        if isinstance(test, list):
            return ConfigSpace.InCondition(*nodes, test)
        if isinstance(test, tuple):
            if len(test) != 2 or test[0] not in _COMPARISONS:
                raise SpaceError(
                    f"the condition of {child!r} on {parent!r} must be a value, a list or "
                    f"a pair such as ('>', 2) with one of {' '.join(_COMPARISONS)}, not {test!r}"
                )
            return _COMPARISONS[test[0]](*nodes, test[1])
        return ConfigSpace.EqualsCondition(*nodes, test)
    except SpaceError:
        raise
    except (ValueError, TypeError) as error:
        raise SpaceError(f"the condition of {child!r} on {parent!r}: {error}") from error


def _clause(space: ConfigurationSpace, combination: Mapping[str, Any]) -> Any:
    if not isinstance(combination, Mapping) or not combination:
        raise SpaceError(f"a forbidden combination is a non-empty dict, not {combination!r}")
    parts: list[Any] = []
    for name, test in combination.items():
        if name not in space:
            _unknown(name, "a forbidden combination", space)
        try:
            if isinstance(test, list):
                parts.append(ConfigSpace.ForbiddenInClause(space[name], test))
            else:
                parts.append(ConfigSpace.ForbiddenEqualsClause(space[name], test))
        except (ValueError, TypeError) as error:
            raise SpaceError(f"the forbidden value of {name!r}: {error}") from error
    return parts[0] if len(parts) == 1 else ConfigSpace.ForbiddenAndConjunction(*parts)


def _add(space: ConfigurationSpace, thing: Any, what: str) -> None:
    try:
        space.add(thing)
    except CyclicDependancyError as error:
        raise SpaceError(f"{what}: they form a cycle; {error}".rstrip("; ")) from error
    except Exception as error:  # ConfigSpace raises many classes of exceptions
        raise SpaceError(f"{what}: {str(error).strip() or type(error).__name__}") from error


def _allowed_default(space: ConfigurationSpace, clauses: list[Any]) -> dict[str, Any]:
    """A default that no clause excludes; empty if the space's own default is allowed."""
    from rankwise.space.encoder import Encoder

    encoder = Encoder(space, extra_forbidden=clauses)
    return {} if encoder.default == Encoder(space).default else encoder.default


def _unknown(name: str, where: str, known: Any) -> NoReturn:
    raise SpaceError(f"{where} names {name!r}, which is not among {', '.join(sorted(known))}")
