"""Preparation: turns any table into numbers; fitted on the training rows only."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import (
    is_bool_dtype,
    is_datetime64_any_dtype,
    is_numeric_dtype,
    is_timedelta64_dtype,
)
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted
from typing_extensions import Self

from rankwise.errors import TableError
from rankwise.types import Array

NUMBER, NUMBER_AS_TEXT, DATE, TEXT = "number", "number as text", "date", "text"

_MOSTLY = 0.95  # share of values that decides whether texts are numbers, dates or identifiers
_LOOKED_AT = 1000  # number of texts of a column that are checked
_FEW_ROWS = 20  # with fewer rows, texts may all differ by chance
_LARGEST = 1e30  # trees compute in float32, which overflows soon after
_RARE, _MOST = 0.005, 50
_DAY_SECONDS = 86400.0
_INDEX = re.compile(r"(Unnamed: \d+)?")
_TIMES = ("", " %H:%M", " %H:%M:%S")
_FORMATS = (
    "ISO8601",
    *(day + time for day in ("%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%Y/%m/%d") for time in _TIMES),
)
"""Known formats of dates; the kind of a column of such texts is its format."""


class Preparation(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns all informative columns of a table into numbers.

    Numbers are kept; missing ones are imputed by the median and all are scaled if asked for.
    Texts become one column per frequent value; a missing text is a value of its own. Dates become
    days. Columns without values, with one value, and texts that differ in nearly every row are
    left out. `fit` decides the kind of each column, so it depends on the training rows only.

    Args:
        impute: fill in missing numbers.
        scale: scale all numbers to mean 0 and standard deviation 1.

    Attributes:
        kinds_: kind of each column that is used, by name.
        dropped_: reason for each column that is not used, by name.
    """

    def __init__(self, *, impute: bool = True, scale: bool = True) -> None:
        self.impute = impute
        self.scale = scale

    def fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        """Decide the kind of each column, and learn medians, scales and categories.

        Raises:
            TableError: no column is left.
        """
        frame = _frame(X)
        self.feature_names_in_ = np.array(frame.columns, dtype=object)
        self.n_features_in_ = frame.shape[1]
        self.kinds_: dict[str, str] = {}
        self.dropped_: dict[str, str] = {}
        for name in frame.columns:
            reason = _useless(frame[name])
            if reason:
                self.dropped_[name] = reason
            else:
                self.kinds_[name] = _kind(frame[name])
        if not self.kinds_:
            reasons = "; ".join(f"{name!r}: {why}" for name, why in self.dropped_.items())
            raise TableError(f"no column can be predicted from: {reasons}")
        self._encode = self._transformer().fit(self._columns(frame))
        return self

    def transform(self, X: pd.DataFrame) -> Array:
        """The table as numbers (rows, columns)."""
        check_is_fitted(self, "kinds_")
        frame = _frame(X)
        missing = [name for name in self.kinds_ if name not in frame]
        if missing:
            raise TableError(f"the table has no column {', '.join(map(repr, missing))}")
        return np.asarray(self._encode.transform(self._columns(frame)), dtype=float)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns that `transform` makes."""
        check_is_fitted(self, "kinds_")
        return np.asarray(self._encode.get_feature_names_out(), dtype=object)

    @property
    def notes(self) -> list[str]:
        """Sentences about columns that were left out or interpreted as dates or numbers."""
        by_reason: dict[str, list[str]] = {}
        for name, why in self.dropped_.items():
            by_reason.setdefault(why, []).append(repr(name))
        notes = [f"Left out ({why}): {_shown(names)}." for why, names in by_reason.items()]
        for kinds, what in (
            ((DATE, *_FORMATS), "Dates, used as days since 1970"),
            ((NUMBER_AS_TEXT,), "Numbers, all other texts there taken for missing"),
        ):
            names = [repr(name) for name, kind in self.kinds_.items() if kind in kinds]
            if names:
                notes.append(f"{what}: {_shown(names)}.")
        return notes

    def _transformer(self) -> ColumnTransformer:
        steps: list[Any] = []
        if self.impute:
            steps.append(SimpleImputer(strategy="median", keep_empty_features=True))
        if self.scale:
            steps.append(StandardScaler())
        texts = [name for name, kind in self.kinds_.items() if kind == TEXT]
        numbers = [name for name in self.kinds_ if name not in set(texts)]
        encoder = OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            min_frequency=_RARE,
            max_categories=_MOST,
            sparse_output=False,
        )
        return ColumnTransformer(
            [
                ("numbers", make_pipeline(*steps) if steps else "passthrough", numbers),
                ("texts", encoder, texts),
            ],
            verbose_feature_names_out=False,
        )

    def _columns(self, frame: pd.DataFrame) -> pd.DataFrame:
        made = {name: _converted(frame[name], kind) for name, kind in self.kinds_.items()}
        return pd.DataFrame(made, index=frame.index)


def _frame(X: Any) -> pd.DataFrame:
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X)
    return frame.set_axis([str(name) for name in frame.columns], axis=1)


def _shown(names: list[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" * (len(names) > most))


def _useless(cells: pd.Series) -> str:
    """The reason to leave a column out; "" if it is used."""
    known = cells.dropna()
    numbers = is_numeric_dtype(cells) and not is_bool_dtype(cells)
    different = known.nunique() if numbers else known.astype(str).nunique()
    if different == 0:
        return "no values"
    if different == 1 and (len(known) == len(cells) or numbers):
        return "one value in all rows"
    if numbers:
        counts = _INDEX.fullmatch(str(cells.name)) and different == len(cells)
        return "numbers of the rows" if counts and cells.is_monotonic_increasing else ""
    is_text = not (is_datetime64_any_dtype(cells) or is_timedelta64_dtype(cells))
    if is_text and len(cells) >= _FEW_ROWS and different >= _MOSTLY * len(cells):
        return "texts that are all different" if _kind(cells) == TEXT else ""
    return ""


def _kind(cells: pd.Series) -> str:
    if is_datetime64_any_dtype(cells):
        return DATE
    if is_numeric_dtype(cells) or is_timedelta64_dtype(cells):  # booleans are among the former
        return NUMBER
    texts = cells.dropna().astype(str).str.strip().iloc[:_LOOKED_AT]
    if pd.to_numeric(texts, errors="coerce").notna().mean() >= _MOSTLY:
        return NUMBER_AS_TEXT
    share, written = max(
        ((_dates(texts, written).notna().mean(), written) for written in _FORMATS),
        key=lambda found: found[0],
    )
    return written if share >= _MOSTLY else TEXT


def _converted(cells: pd.Series, kind: str) -> Any:
    """A column as floats, or as texts with NaN where a value is missing."""
    if kind == TEXT:
        texts = cells.astype(str).str.strip().astype(object)
        return texts.where(cells.notna(), np.nan).to_numpy(dtype=object)
    if kind == DATE or kind in _FORMATS:
        moments = cells if kind == DATE else _dates(cells.astype(str).str.strip(), kind)
        seconds = (moments - pd.Timestamp(0, tz=moments.dt.tz)).dt.total_seconds()
        return seconds.to_numpy(dtype=float) / _DAY_SECONDS
    if is_timedelta64_dtype(cells):
        return cells.dt.total_seconds().to_numpy(dtype=float)
    numbers = cells
    if not is_numeric_dtype(cells):
        numbers = pd.to_numeric(cells.astype(str).str.strip(), errors="coerce")
    values = numbers.to_numpy(dtype=float, na_value=np.nan)
    return np.where(np.abs(values) < _LARGEST, values, np.nan)


def _dates(texts: pd.Series, written: str) -> pd.Series:
    return pd.to_datetime(texts, format=written, errors="coerce", utc=True)
