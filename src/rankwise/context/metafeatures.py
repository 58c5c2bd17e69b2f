"""Meta-features: a few numbers about a data set that are cheap and always there."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import scipy.sparse

from rankwise.types import Array

_MOST_ROWS = 5_000  # looked at
_MOST_COLUMNS = 100
_FEW_CLASSES = 0.2  # whole numbers with fewer different values than this share of rows are classes


def meta_features(
    X: Any, y: Any = None, *, classification: bool | None = None
) -> dict[str, float]:
    """Describe a data set.

    Nothing is fitted, and of a large data set only some rows and columns are looked at: it takes
    milliseconds. What a data set does not have (the entropy of classes where there are none) is 0.

    Args:
        X: n rows: an array, a sparse matrix or a data frame; texts and missing values are fine.
        y: the target (n,), or (n, m) of which the first column is described; None if there is
            none.
        classification: whether `y` holds classes; None: if it looks like it.

    Returns:
        Finite numbers by name: "rows", "columns", "log_rows", "log_columns",
        "log_rows_per_column", "share_categorical", "share_missing", "share_zero",
        "mean_abs_correlation", "mean_skewness", "mean_kurtosis" of the columns, and
        "classes", "class_entropy" (1 if all are as frequent), "smallest_class" and "largest_class"
        (shares of the rows), "target_skewness", "target_kurtosis".

    Raises:
        ValueError: X has not two dimensions.

    Example:
        >>> facts = meta_features([[1.0, 2.0], [2.0, 1.0], [3.0, 3.0]], ["a", "b", "a"])
        >>> facts["rows"], facts["classes"], round(facts["class_entropy"], 2)
        (3.0, 2.0, 0.92)
    """
    table = _with_shape(X)
    if len(table.shape) != 2:
        raise ValueError(f"a data set has rows and columns, not the shape {table.shape}")
    n, p = table.shape
    numbers, categorical, missing, zero = _numbers(table)
    z = _standardized(numbers)
    skewness, kurtosis = _moments(z)
    facts = {
        "rows": n,
        "columns": p,
        "log_rows": np.log(max(n, 1)),
        "log_columns": np.log(max(p, 1)),
        "log_rows_per_column": np.log(max(n, 1) / max(p, 1)),
        "share_categorical": categorical,
        "share_missing": missing,
        "share_zero": zero,
        "mean_abs_correlation": _mean_abs_correlation(z),
        "mean_skewness": np.mean(skewness) if len(skewness) else 0.0,
        "mean_kurtosis": np.mean(kurtosis) if len(kurtosis) else 0.0,
        **_target(y, classification),
    }
    return {name: float(value) for name, value in facts.items()}


def data_digest(X: Any, y: Any = None) -> str:
    """Eight letters for a data set (of a large one, for its size and some rows)."""
    digest = hashlib.sha256()
    for part in (X, y):
        if part is not None:
            data = _with_shape(part)
            digest.update(repr(data.shape).encode() + _bytes(_some_rows(data)))
    return digest.hexdigest()[:8]


def _bytes(data: Any) -> bytes:
    """The values, however they lie in memory."""
    import pandas as pd

    if hasattr(data, "iloc"):
        hashed: bytes = pd.util.hash_pandas_object(data, index=False).to_numpy().tobytes()
        return hashed
    if scipy.sparse.issparse(data):
        matrix = scipy.sparse.coo_matrix(scipy.sparse.csr_matrix(data))
        return b"".join(part.tobytes() for part in (matrix.data, matrix.row, matrix.col))
    values = np.asarray(data)
    return repr(values.tolist()).encode() if values.dtype.hasobject else values.tobytes()


# ---------------------------------------------------------------------- columns


def _numbers(table: Any) -> tuple[Array, float, float, float]:
    """The numeric columns (n, k), and the shares of other columns, missing values and zeros."""
    n, p = table.shape
    if n == 0 or p == 0:
        return np.empty((n, 0)), 0.0, 0.0, 0.0
    some = _some_rows(table)
    if scipy.sparse.issparse(some):
        some = scipy.sparse.csc_matrix(some)
        size = some.shape[0] * p
        missing, zero = float(np.isnan(some.data).sum()) / size, 1.0 - some.nnz / size
        return _finite(some[:, _some(p, _MOST_COLUMNS)].toarray()), 0.0, missing, zero
    columns = [_column(some, j) for j in _some(p, _MOST_COLUMNS).tolist()]
    numeric = [values for values, _ in columns if values is not None]
    matrix = np.stack(numeric, axis=1) if numeric else np.empty((some.shape[0], 0))
    categorical = sum(values is None for values, _ in columns) / len(columns)
    missing = float(np.mean([absent for _, absent in columns]))
    return matrix, categorical, missing, float((matrix == 0).mean()) if matrix.size else 0.0


def _column(table: Any, j: int) -> tuple[Array | None, float]:
    """A column (n,) as numbers, None if it is not one of numbers, and the share of missing."""
    import pandas as pd

    column = table.iloc[:, j] if hasattr(table, "iloc") else np.asarray(table[:, j])
    absent = float(np.mean(np.asarray(pd.isna(column), dtype=bool)))
    kind = getattr(column.dtype, "kind", "O")
    if kind not in "biufO":
        return None, absent
    try:
        return _finite(pd.Series(column).to_numpy(dtype=float, na_value=np.nan)), absent
    except (TypeError, ValueError):
        return None, absent


def _finite(values: Any) -> Array:
    """Numbers with infinities as missing."""
    numbers = np.asarray(values, dtype=float)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _with_shape(data: Any) -> Any:
    """Something with a shape: lists become arrays."""
    return data if hasattr(data, "shape") else np.asarray(data, dtype=object)


def _some_rows(data: Any) -> Any:
    """At most `_MOST_ROWS` rows."""
    n = data.shape[0]
    if n <= _MOST_ROWS:
        return data
    rows = _some(n, _MOST_ROWS)
    if hasattr(data, "iloc"):
        return data.iloc[rows]
    if scipy.sparse.issparse(data):
        return data.tocsr()[rows]
    return data[rows]


def _some(n: int, most: int) -> Any:
    """At most `most` of the numbers below n, the same ones every time.

    At random: what repeats in a data set would escape evenly spaced ones.
    """
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, most, replace=False, shuffle=False))


# ---------------------------------------------------------------------- statistics


def _standardized(matrix: Array) -> Array:
    """The columns that vary, with mean 0 and variance 1; what is missing is NaN."""
    known = matrix[:, ~np.isnan(matrix).all(axis=0)]
    if not known.size:
        return known
    largest = np.nanmax(np.abs(known), axis=0)
    known = known / np.where(largest > 0, largest, 1.0)  # so that nothing overflows
    spread = np.nanstd(known, axis=0)
    varies = spread > 1e-9
    standardized: Array = (known - np.nanmean(known, axis=0))[:, varies] / spread[varies]
    return standardized


def _moments(z: Array) -> tuple[Array, Array]:
    """Skewness and excess kurtosis of standardized columns."""
    if not z.size:
        return np.empty(0), np.empty(0)
    squares = z * z
    return np.nanmean(squares * z, axis=0), np.nanmean(squares * squares, axis=0) - 3.0


def _mean_abs_correlation(z: Array) -> float:
    """Of pairs of standardized columns; what is missing counts as the mean."""
    k = z.shape[1]
    if k < 2:
        return 0.0
    filled = np.nan_to_num(z)
    correlation = np.abs(filled.T @ filled) / len(z)
    return float((correlation.sum() - np.trace(correlation)) / (k * (k - 1)))


def _target(y: Any, classification: bool | None) -> dict[str, float]:
    names = ("classes", "class_entropy", "smallest_class", "largest_class")
    facts = dict.fromkeys((*names, "target_skewness", "target_kurtosis"), 0.0)
    if y is None:
        return facts
    values = np.asarray(_some_rows(_with_shape(y)))
    values = values.reshape(len(values), -1)[:, 0] if values.size else values.reshape(-1)
    numbers, _ = _column(values[:, None], 0) if len(values) else (None, 0.0)
    if classification is None:
        classification = numbers is None or _looks_like_classes(numbers)
    if classification and len(values):
        import pandas as pd

        shares = pd.Series(values).value_counts(normalize=True).to_numpy()
        entropy = -float((shares * np.log(shares)).sum())
        counted = (len(shares), entropy / np.log(max(len(shares), 2)), shares.min(), shares.max())
        facts.update(zip(names, map(float, counted), strict=True))
    elif numbers is not None:
        skewness, kurtosis = _moments(_standardized(numbers[:, None]))
        if len(skewness):
            facts.update(target_skewness=float(skewness[0]), target_kurtosis=float(kurtosis[0]))
    return facts


def _looks_like_classes(numbers: Array) -> bool:
    whole = bool(np.all(np.isnan(numbers) | (numbers == np.round(numbers))))
    return whole and len(np.unique(numbers)) <= max(2, _FEW_CLASSES * len(numbers))
