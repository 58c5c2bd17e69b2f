"""Python code that constructs an estimator with the same parameters."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import numpy as np

_INDENT = "    "
_WIDTH = 88


def code_of(estimator: Any) -> tuple[set[str], str]:
    """The import lines and the expression that construct an estimator.

    Args:
        estimator: an estimator or pipeline with scikit-learn's interface. A pipeline of one step
            is written as that step alone.
    """
    imports: set[str] = set()
    return imports, _expression(_unwrapped(estimator), imports, 0)


def _unwrapped(estimator: Any) -> Any:
    steps = getattr(estimator, "steps", None)
    return _unwrapped(steps[0][1]) if steps is not None and len(steps) == 1 else estimator


def _expression(value: Any, imports: set[str], depth: int) -> str:
    if hasattr(value, "steps"):
        return _pipeline(value, imports, depth)
    if hasattr(value, "get_params") and not isinstance(value, type):
        return _call(value, imports, depth)
    if isinstance(value, list | tuple) and any(map(_is_object, value)):
        inner = ", ".join(_expression(item, imports, depth + 1) for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _is_object(value: Any) -> bool:
    """True for an estimator or a sequence that has one."""
    if isinstance(value, list | tuple):
        return any(map(_is_object, value))
    return hasattr(value, "get_params") and not isinstance(value, type)


def _pipeline(pipeline: Any, imports: set[str], depth: int) -> str:
    imports.add("from sklearn.pipeline import Pipeline")
    inner = _INDENT * (depth + 2)
    steps = [
        f'{inner}("{name}", {_expression(step, imports, depth + 2)}),'
        for name, step in pipeline.steps
    ]
    outer = _INDENT * (depth + 1)
    return "\n".join(["Pipeline(", f"{outer}[", *steps, f"{outer}]", _INDENT * depth + ")"])


def _call(estimator: Any, imports: set[str], depth: int) -> str:
    cls = type(estimator)
    imports.add(f"from {_public_module(cls)} import {cls.__name__}")
    # CatBoost's signature has no defaults; its get_params() lists only parameters that were set.
    defaults = {
        name: parameter.default for name, parameter in inspect.signature(cls).parameters.items()
    }
    arguments = [
        f"{name}={_expression(value, imports, depth + 1)}"
        for name, value in sorted(estimator.get_params(deep=False).items())
        if not _same(value, defaults.get(name))
    ]
    line = f"{cls.__name__}({', '.join(arguments)})"
    if len(line) + len(_INDENT) * depth <= _WIDTH - 16 and "\n" not in line:
        return line
    inner = _INDENT * (depth + 1)
    return "\n".join(
        [f"{cls.__name__}(", *(f"{inner}{a}," for a in arguments), _INDENT * depth + ")"]
    )


def _same(value: Any, default: Any) -> bool:
    if value is default:
        return True
    try:
        return type(value) is type(default) and bool(value == default)
    except (TypeError, ValueError):  # arrays
        return False


def _public_module(cls: type) -> str:
    """The shortest module that exports a class: "sklearn.ensemble", not "..._forest"."""
    parts = cls.__module__.split(".")
    for k in range(1, len(parts)):
        name = ".".join(parts[:k])
        if getattr(sys.modules.get(name), cls.__name__, None) is cls:
            return name
    return cls.__module__
