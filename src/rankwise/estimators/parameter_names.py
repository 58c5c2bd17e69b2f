"""Names of the parameters of estimators, pipelines and nested estimators."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rankwise.errors import SpaceError
from rankwise.space.parameters import stable_name


def check_estimator(estimator: Any) -> None:
    """Raise `SpaceError` if an object is not an estimator."""
    if isinstance(estimator, type):
        name = estimator.__name__
        raise SpaceError(f"{name} is a class; give an estimator of it, such as {name}()")
    if not hasattr(estimator, "get_params") or not hasattr(estimator, "set_params"):
        raise SpaceError(
            f"{estimator!r} is no estimator: it has no get_params and set_params; "
            "give one in the manner of scikit-learn"
        )


def inner_estimators(estimator: Any) -> dict[str, Any]:
    """The estimators that are parameters of an estimator, such as steps of a pipeline."""
    # Pipelines and their like name their steps only among the deep parameters.
    return {
        name: value
        for name, value in estimator.get_params(deep=True).items()
        if "__" not in name and hasattr(value, "get_params") and not isinstance(value, type)
    }


def accepts(estimator: Any, name: str) -> bool:
    """True if `set_params` of an estimator takes a parameter such as "svc__C"."""
    head, nested, rest = name.partition("__")
    if nested:
        inner = inner_estimators(estimator)
        known = head in inner and accepts(inner[head], rest)
    else:
        known = name in _own_names(estimator) or _takes_any(estimator)
    return known or _settable(estimator, name)


def check_names(
    estimator: Any, names: Iterable[str], replaced: Mapping[str, Sequence[Any]] | None = None
) -> None:
    """Raise `SpaceError` if an estimator lacks one of these parameters.

    Args:
        estimator: the estimator that must have the parameters.
        names: names of parameters.
        replaced: for parameters that are estimators themselves and are searched too ("clf" of
            a pipeline) the candidates: "clf__C" must be a parameter of each.
    """
    for name in names:
        if not isinstance(name, str):
            raise SpaceError(f"names of parameters are strings, not {name!r}")
        owner = next((o for o in replaced or {} if name.startswith(f"{o}__")), None)
        if owner is None:
            _check_name(estimator, name, "")
            continue
        check_names(estimator, [owner])
        for candidate in (replaced or {})[owner]:
            _check_name(candidate, name.removeprefix(f"{owner}__"), f"{owner}__")


def _check_name(estimator: Any, name: str, prefix: str) -> None:
    if not hasattr(estimator, "get_params"):
        raise SpaceError(
            f"{prefix + name!r}: {estimator!r} has no parameters; "
            "give each candidate a dict of its own in a list"
        )
    if accepts(estimator, name):
        return
    shown = ", ".join(repr(prefix + k) for k in _similar(estimator, name))
    hint = f"did you mean {shown}?" if shown else "see its get_params() for those that it has"
    if prefix:
        hint += " (candidates with different parameters: a dict for each, in a list)"
    raise SpaceError(f"{type(estimator).__name__} has no parameter {prefix + name!r}; {hint}")


def _similar(estimator: Any, name: str) -> list[str]:
    """Similar parameters of the same step, or parameters of the same name in other steps."""
    known = sorted({*estimator.get_params(deep=True), *_own_names(estimator)} - {name})
    step, nested, own = name.rpartition("__")
    same_step = {k.removeprefix(step + nested).lower(): k for k in known if k.startswith(step)}
    close = difflib.get_close_matches(own.lower(), same_step, n=3)
    elsewhere = [k for k in known if k.endswith(f"__{own}")]
    return [*dict.fromkeys([*(same_step[k] for k in close), *elsewhere])][:3]


def _own_names(estimator: Any) -> set[str]:
    # CatBoost's get_params lists only what was set; its signature has all.
    return {*estimator.get_params(deep=True), *inspect.signature(type(estimator)).parameters}


def _settable(estimator: Any, name: str) -> bool:
    """True if a clone takes a parameter that it does not list, as skorch does "module__units"."""
    from sklearn.base import clone

    try:
        clone(estimator).set_params(**{name: None})
    except Exception:  # each library has its own error for an unknown name
        return False
    return True


def _takes_any(estimator: Any) -> bool:
    """True if the constructor takes arbitrary names, as XGBoost and LightGBM do."""
    parameters = inspect.signature(type(estimator)).parameters.values()
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)


def kebab(class_name: str) -> str:
    """A class name in lower case with hyphens: "random-forest" for RandomForestClassifier."""
    stem = re.sub(r"(?<=.)(Classifier|Regressor)$", "", class_name)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", stem).lower()


def text_of(value: Any) -> str:
    """A one-line text for an object that is the same in every process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", " ".join(stable_name(value).split()))
