"""Cells of tables as Python values, and columns of cells as parameters with a distribution."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from rankwise._core.words import count
from rankwise.archive.merge_distributions import INTEGER, choice_key, kind_of, merge
from rankwise.errors import ArchiveError, is_number

EMPTY = frozenset({"", "nan", "NaN", "NA", "N/A", "n/a", "<NA>", "null", "NULL"})
"""Texts of empty cells."""

_WORDS = {
    "True": True,
    "true": True,
    "False": False,
    "false": False,
    "None": None,
    **{sign + word: float(sign + word) for sign in ("", "+", "-") for word in ("inf", "Infinity")},
}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WHOLE = re.compile(r"[+-]?\d{1,30}")
_WIDE = 1000  # positive numbers that span this factor get a log scale
_MOST_CHOICES = 100
_FEW = 10  # numbers that may be choices beside None
_LARGEST_FLOAT = 1e200
_LARGEST_INTEGER = 2**53


def parse(cell: Any) -> Any:
    """A cell as a bool, a number, None or a text; texts such as "0.001" and "True" are parsed."""
    if isinstance(cell, np.generic):
        cell = cell.item()
    if cell is None or isinstance(cell, bool | int | float):
        return cell
    if not isinstance(cell, str):
        return _text(cell)
    text = cell.strip()
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)  # infinite for hundreds of digits
    return text


def is_empty(cell: Any) -> bool:
    """True for a cell of a table that holds nothing."""
    if isinstance(cell, str):
        return cell.strip() in EMPTY
    return cell is None or cell != cell


def number(cell: Any) -> float:
    """A cell as a float; infinite if it is too large.

    Raises:
        ValueError: it is not a number.
    """
    value = parse(cell)
    if value is None:
        return math.nan
    if not is_number(value):
        raise ValueError(f"{str(cell)[:60]!r} is not a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


@dataclass(frozen=True)
class Parameter:
    """A column as a hyperparameter.

    Attributes:
        distribution: range or choices.
        values: value by row; a row in which it is inactive is missing.
        unusable: rows with numbers that are infinite or too large.
        note: sentence about how the column was read; "" if there is nothing to say.
    """

    distribution: BaseDistribution
    values: Mapping[int, Any]
    unusable: frozenset[int] = frozenset()
    note: str = ""


def parameter(
    where: object, name: str, cells: Mapping[int, Any], wanted: BaseDistribution | None
) -> Parameter | None:
    """Read a column as a hyperparameter; None if no cell is usable.

    Whole numbers are integers, other numbers floats, everything else choices. Positive floats
    that span a factor of a thousand get a log scale. None beside at most ten different numbers is
    a choice like them; beside more numbers the parameter is inactive.

    Args:
        where: file of the column, for messages.
        name: name of the column.
        cells: cell by row, without empty cells.
        wanted: known distribution, which decides on the kind.

    Raises:
        ArchiveError: too many different texts, or texts where numbers are wanted.
    """
    values = {row: parse(cell) for row, cell in cells.items()}
    unusable = frozenset(row for row, value in values.items() if _too_large(value))
    values = {row: value for row, value in values.items() if row not in unusable}
    numbers = {row: value for row, value in values.items() if is_number(value)}
    others = [value for value in values.values() if not is_number(value)]
    note = ""
    if wanted is None:
        few = len({choice_key(value) for value in numbers.values()}) <= _FEW
        categorical = any(v is not None for v in others) or (bool(others) and few)
    else:
        categorical = isinstance(wanted, CategoricalDistribution)
    if categorical:
        return _choices(where, name, values, wanted, unusable)
    texts = [value for value in others if value is not None]
    if texts:
        raise ArchiveError(f"{where}: column {name!r} must hold numbers, not {texts[0]!r}")
    if others:
        note = f"{name}: inactive in {count(len(others), 'row')} with None"
    if not numbers:
        return None if not unusable else Parameter(CategoricalDistribution([0]), {}, unusable)
    low, high = min(numbers.values()), max(numbers.values())
    whole = all(value == int(value) for value in numbers.values())
    whole = whole if wanted is None else kind_of(wanted) == INTEGER
    typed = {row: int(value) if whole else float(value) for row, value in numbers.items()}
    found: BaseDistribution
    if whole:
        found = IntDistribution(int(low), int(high))
    else:
        log = low > 0 and high / low >= _WIDE
        found = FloatDistribution(float(low), float(high), log=log)
    return Parameter(merge([(found, 0.0)], wanted), typed, unusable, note)


def _choices(
    where: object,
    name: str,
    values: Mapping[int, Any],
    wanted: BaseDistribution | None,
    unusable: frozenset[int],
) -> Parameter:
    choices = {choice_key(value): value for value in values.values()}
    if wanted is None and len(choices) > _MOST_CHOICES:
        texts = [value for value in choices.values() if isinstance(value, str)]
        what = f"different texts, too many for a parameter: {texts[0]!r}, ..." if texts else ""
        if texts and len(texts) <= _FEW:
            what = f"different values, numbers and texts such as {texts[0]!r}"
        raise ArchiveError(
            f"{where}: column {name!r} has {len(choices)} {what or 'different choices'}; leave "
            f"it out with ignore=[{name!r}]"
        )
    found = CategoricalDistribution(list(choices.values()))
    return Parameter(merge([(found, 0.0)], wanted), dict(values), unusable)


def _too_large(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if isinstance(value, int):
        return abs(value) >= _LARGEST_INTEGER
    return not abs(value) < _LARGEST_FLOAT


def _text(value: Any) -> str:
    """A list, a dict or another object as a text."""
    try:
        return json.dumps(value, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(type(value).__name__)
