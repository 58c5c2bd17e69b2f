"""Problem: the target and the columns of a table, and the guesses that were made."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.errors import TableError, check_name
from rankwise.types import Array, Counts, Mask

if TYPE_CHECKING:
    import pandas as pd

CLASSIFICATION, REGRESSION = "classification", "regression"
TASKS = (CLASSIFICATION, REGRESSION)

_LEAST_ROWS = 10
_FEW = 10  # up to this many distinct integers look like classes
_ROWS_PER_CLASS = 3
_KEPT = 2  # rows of each class that always stay in the training part
_SHOWN = 12
_IDENTIFIER = re.compile(
    r"(?i:(^|[\W_])(id|ids|idx|index|key|no|nr|num|number|row|rowid|rownames?|uid|serial)$)"
    r"|[a-z](I[dD]|Index|Key|No|Nr|Num|Number)$"
)
_NAMELESS = re.compile(r"(Unnamed: 0)?")  # the index of a data frame


@dataclass(frozen=True)
class Problem:
    """A table split into predictors and target.

    Attributes:
        X: the columns to predict from, as they were read (n rows).
        y: (n,) numbers; for a classification the positions in `classes`.
        kind: "classification" or "regression".
        target: name of the target column.
        classes: (k,) sorted class names of a classification; with two, the second is positive.
        notes: sentences about guesses and left-out rows.
    """

    X: pd.DataFrame
    y: Array | Counts
    kind: str
    target: str
    classes: np.ndarray | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, frame: pd.DataFrame, target: str, task: str | None = None) -> Problem:
        """Make a problem from a table.

        Rows without a target value are left out, and so are classes with a single row and
        columns of numbers that only identify the rows.

        Args:
            frame: the table.
            target: name of the target column.
            task: "classification" or "regression"; None guesses it from the values.

        Raises:
            TableError: there is no such column, or the rows cannot be used.
        """
        if task is not None:
            check_name("task", task, TASKS)
        if target not in frame.columns:
            raise TableError(_no_target(target, [str(name) for name in frame.columns]))
        if frame.shape[1] < 2:
            raise TableError(f"the table has no column but the target {target!r}: check the file")
        known = _known(frame[target])
        notes = []
        if not known.all():
            dropped = int((~known).sum())
            notes.append(f"{_rows(dropped)} without a value of {target!r} left out.")
        _check_size(int(known.sum()), target)
        y = frame[target][known]
        kind = task or _guess(y, notes)
        numbered = identifiers(frame.drop(columns=target))
        if numbered:
            names = _listed([repr(name) for name in numbered])
            notes.append(f"Left out (identifies the rows; rename it to use it): {names}.")
        X = frame.drop(columns=[target, *numbered])[known].reset_index(drop=True)
        if kind == REGRESSION:
            return cls(X, _numbers(y), kind, target, None, tuple(notes))
        return cls(X, *_labelled(y), notes=tuple(notes))._without_single()

    def __len__(self) -> int:
        return len(self.y)

    def some(self, rows: Any) -> Problem:
        """The same problem with the rows at the given positions."""
        X = self.X.iloc[rows].reset_index(drop=True)
        return replace(self, X=X, y=self.y[rows])

    def split(self, holdout: float, seed: int) -> tuple[Problem, Problem]:
        """Split into a training part and a held-out part; the training part has all classes.

        Args:
            holdout: share of the rows to hold out, about the same in each class.
            seed: seed of the choice.
        """
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(self))
        groups = self._groups(order)
        held = np.concatenate(
            [g[: min(round(holdout * len(g)), max(0, len(g) - _KEPT))] for g in groups]
        )
        if not len(held):
            held = max(groups, key=len)[:1]
        mask = np.zeros(len(self), dtype=bool)
        mask[held] = True
        return self.some(np.flatnonzero(~mask)), self.some(np.flatnonzero(mask))

    def sample(self, n: int, seed: int) -> Problem:
        """At most n random rows; class shares are preserved."""
        if len(self) <= n:
            return self
        groups = self._groups(np.random.default_rng(seed).permutation(len(self)))
        share = n / len(self)
        drawn = [g[: max(min(_KEPT, len(g)), round(share * len(g)))] for g in groups]
        return self.some(np.sort(np.concatenate(drawn)))

    def _groups(self, order: Counts) -> list[Counts]:
        """The rows of each class in the given order; a regression has one group."""
        if self.classes is None:
            return [order]
        return [order[self.y[order] == k] for k in range(len(self.classes))]

    def _without_single(self) -> Problem:
        assert self.classes is not None
        counts = np.bincount(self.y.astype(np.int64), minlength=len(self.classes))
        single = counts < 2
        kept = self
        if single.any():
            names = _listed([repr(str(name)) for name in self.classes[single]])
            note = (
                f"Left out, as one row cannot be both learnt and tested: class {names}"
                if single.sum() == 1
                else f"Left out, as they have one row each: classes {names}"
            )
            rows = np.flatnonzero(~single[self.y.astype(np.int64)])
            new = np.cumsum(~single) - 1
            kept = self.some(rows)
            kept = replace(
                kept,
                y=new[kept.y.astype(np.int64)],
                classes=self.classes[~single],
                notes=(*self.notes, note + "."),
            )
        assert kept.classes is not None
        if len(kept.classes) < 2:
            only = _listed([repr(str(name)) for name in kept.classes]) or "none"
            raise TableError(
                f"the target {self.target!r} has fewer than two classes with two rows or more "
                f"({only}): there is nothing to tell apart; check the column"
            )
        _check_size(len(kept), self.target)
        return kept


def identifiers(frame: pd.DataFrame) -> list[str]:
    """The columns of whole numbers that only identify the rows of a table.

    All numbers of such a column are different. Its name says what it is ("id", "customerID",
    "row number"), or it is the first column, and has no name or counts the rows from 0 or 1. A
    table of which nothing else would be left has none.
    """
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    found = []
    for k, (name, cells) in enumerate(frame.items()):
        if not is_numeric_dtype(cells) or is_bool_dtype(cells) or len(cells) < _LEAST_ROWS:
            continue
        values = cells.to_numpy(dtype=float, na_value=np.nan)
        whole = np.isfinite(values).all() and not np.mod(values, 1).any()
        if not whole or len(np.unique(values)) < len(values):
            continue
        counts = values[0] in (0, 1) and bool(np.all(np.diff(values) == 1))
        first = k == 0 and (counts or _NAMELESS.fullmatch(str(name)) is not None)
        if first or _IDENTIFIER.search(str(name)):
            found.append(str(name))
    return found if len(found) < frame.shape[1] else []


def _no_target(target: str, columns: list[str]) -> str:
    close = difflib.get_close_matches(target, columns, n=3, cutoff=0.5)
    folded = [name for name in columns if name.casefold() == target.casefold()]
    text = f"there is no column {target!r}; the columns are {_listed([repr(c) for c in columns])}"
    if folded or close:
        text += f". Did you mean {' or '.join(repr(c) for c in folded or close)}?"
    elif columns == [str(k) for k in range(len(columns))]:
        text += ". The file has no line of names: its columns are named by their index"
    elif target.isdecimal() and int(target) < len(columns):
        text += ". If the first line of the file holds values, add --no-header"
    return text


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _rows(n: int) -> str:
    return "1 row" if n == 1 else f"{n} rows"


def _check_size(n: int, target: str) -> None:
    if n < _LEAST_ROWS:
        raise TableError(
            f"there {'is' if n == 1 else 'are'} only {_rows(n)} with a value of {target!r}; "
            f"tuning needs {_LEAST_ROWS} at least"
        )


def _known(cells: Any) -> Mask:
    """Mask (n,) of values that are present; infinities count as missing."""
    from pandas.api.types import is_float_dtype

    known = cells.notna().to_numpy()
    if is_float_dtype(cells):
        known = known & np.isfinite(cells.to_numpy(dtype=float, na_value=np.nan))
    return np.asarray(known, dtype=bool)


def _guess(y: Any, notes: list[str]) -> str:
    """Guess classification or regression from the values of the target."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    name = y.name
    if is_bool_dtype(y) or not is_numeric_dtype(y):
        notes.append(f"{name!r} holds {y.nunique()} different values that are no numbers: ")
        kind = CLASSIFICATION
    else:
        different = y.nunique()
        whole = bool(np.all(np.mod(y.to_numpy(dtype=float), 1) == 0))
        few = different <= 2 or (different <= _FEW and len(y) >= _ROWS_PER_CLASS * different)
        what = "whole numbers" if whole else "numbers"
        notes.append(f"{name!r} holds {different} different {what}: ")
        kind = CLASSIFICATION if whole and few else REGRESSION
    other = REGRESSION if kind == CLASSIFICATION else CLASSIFICATION
    hint = f" (--task {other} for the other)" if is_numeric_dtype(y) else ""
    notes[-1] += f"taken for {kind}{hint}."
    return kind


def _numbers(y: Any) -> Array:
    import pandas as pd

    try:
        numbers = pd.to_numeric(y).to_numpy(dtype=float)
    except (TypeError, ValueError) as error:
        raise TableError(
            f"the target {y.name!r} does not hold numbers ({error}); use --task classification"
        ) from error
    if numbers.min() == numbers.max():
        raise TableError(
            f"the target {y.name!r} is {numbers[0]:g} in every row: there is nothing to predict"
        )
    return np.asarray(numbers, dtype=float)


def _labelled(y: Any) -> tuple[Counts, str, str, np.ndarray]:
    """Codes, kind, target and classes."""
    values = y.to_numpy()
    if values.dtype == object or values.dtype.kind not in "biuf":
        values = np.array([str(v) for v in values])
    classes, codes = np.unique(values, return_inverse=True)
    return codes.astype(np.int64), CLASSIFICATION, str(y.name), classes
