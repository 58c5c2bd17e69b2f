"""Labels for choices that are arbitrary objects, so that they can be stored and compared."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.estimators.parameter_names import text_of

_PLAIN = (bool, int, float, str, type(None))
_LONGEST = 120


@dataclass(frozen=True)
class Objects:
    """Maps labels back to the original objects; plain values are their own labels."""

    by_label: Mapping[str, Any]

    def __call__(self, value: Any) -> Any:
        return self.by_label.get(value, value) if isinstance(value, str) else value


def labelled(values: Iterable[Any]) -> tuple[list[Any], list[Any], Objects | None]:
    """Labels, distinct choices, and the map from labels back to objects if one is needed.

    A label is the choice itself if that is plain (a number, a string, a bool or None), else
    a text that is the same in every process.
    """
    kept = _distinct(v.item() if isinstance(v, np.generic) else v for v in values)
    labels: list[Any] = []
    taken: set[Any] = {value for value in kept if isinstance(value, str)}
    plain: set[Any] = set()
    objects = {}
    for value in kept:
        # 1, 1.0 and True are equal in Python but may mean different things to an estimator.
        if _is_plain(value) and value not in plain:
            plain.add(value)
            labels.append(value)
            continue
        label = _unique(text_of(value), taken)
        taken.add(label)
        objects[label] = value
        labels.append(label)
    return labels, kept, Objects(objects) if objects else None


def _is_plain(value: Any) -> bool:
    return type(value) in _PLAIN and (type(value) is not float or math.isfinite(value))


def _distinct(values: Iterable[Any]) -> list[Any]:
    kept: dict[Any, Any] = {}
    for value in values:
        plain = type(value) in _PLAIN
        # Several NaNs are one choice.
        key = (type(value), repr(value)) if plain else id(value)
        kept.setdefault(key, value)
    return list(kept.values())


def _unique(text: str, taken: set[str]) -> str:
    if len(text) > _LONGEST:
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        text = f"{text[:_LONGEST]}... {digest}"
    label, number = text, 2
    while label in taken:
        label, number = f"{text} #{number}", number + 1
    return label
