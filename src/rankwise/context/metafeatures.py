"""Meta-features: a few numbers that describe a data set and are cheap to compute."""

from __future__ import annotations

import hashlib
import warnings
from typing import Any

import numpy as np

from rankwise.types import Array

_MOST_ROWS = 5_000  # rows that are used
_MOST_COLUMNS = 100
_LANDMARK_ROWS = 1_000
_FEW_CLASSES = 0.2  # integers are classes if they have fewer distinct values per row than this


def meta_features(
    X: Any, y: Any = None, *, classification: bool | None = None
) -> dict[str, float]:
    """Describe a data set.

    No model is fitted, and only some rows and columns of a large data set are used, so it takes
    milliseconds. A number that is not defined (the class entropy of a regression) is 0.

    Args:
        X: n rows: an array, a sparse matrix or a data frame; texts and missing values are fine.
        y: the target (n,), or (n, m) of which the first column is described; None if there is
            none.
        classification: True if `y` holds classes; None guesses it from the values.

    Returns:
        Finite numbers by name: "rows", "columns", "log_rows", "log_columns",
        "log_rows_per_column", "share_categorical", "share_missing", "share_zero",
        "mean_abs_correlation", "mean_skewness", "mean_kurtosis" of the columns, and
        "classes", "class_entropy" (1 if all are as frequent), "smallest_class" and "largest_class"
        (shares of the rows), "target_skewness", "target_kurtosis".

    Raises:
        ValueError: X does not have two dimensions.

    Example:
        >>> facts = meta_features([[1.0, 2.0], [2.0, 1.0], [3.0, 3.0]], ["a", "b", "a"])
        >>> facts["rows"], facts["classes"], round(facts["class_entropy"], 2)
        (3.0, 2.0, 0.92)
    """
    table = with_shape(X)
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


def handmade_features(X: Array, y: Array | None, *, classes: int = 0) -> dict[str, float]:
    """Thirteen numbers about a data set, of the kinds that distBO's authors compared with.

    They are statistics of columns and pairs of columns, of the first principal component and of
    the target, and "landmarks": scores of simple models that are fitted to one half of at most
    1000 rows and scored on the other half. A number that cannot be computed is 0.

    Args:
        X: rows (n, p), finite numbers.
        y: classes 0, 1, ... or numbers (n,); None without a target.
        classes: number of classes; 0 if the target is a number or missing.

    Returns:
        Finite numbers by name, all of which begin with "hand_".
    """
    z, n = _standardized(X), len(X)
    skewness, kurtosis = _moments(z)
    first = _first_component(z)
    pairs = X.shape[1] > 1 and n > 1
    covariance = np.cov(X, rowvar=False)[np.triu_indices(X.shape[1], 1)] if pairs else np.zeros(1)
    facts = {
        "mean": X.mean(),
        "skewness": skewness.mean() if len(skewness) else 0.0,
        "kurtosis": kurtosis.mean() if len(kurtosis) else 0.0,
        "correlation": _mean_abs_correlation(z),
        "covariance": covariance.mean(),
        **dict(zip(("pca_share", "pca_skewness", "pca_kurtosis"), first, strict=True)),
    }
    if classes:
        shares = np.bincount(np.asarray(y, dtype=int), minlength=classes) / max(n, 1)
        present = shares[shares > 0]
        facts["class_entropy"] = -(present * np.log(present)).sum()
    elif y is not None:
        facts |= {"target_mean": y.mean(), "target_std": y.std()}
    if y is not None:
        facts |= _landmarks(X, y, classes)
    return {f"hand_{name}": _tame(float(value)) for name, value in facts.items()}


def _tame(value: float) -> float:
    return value if np.isfinite(value) else 0.0


def _first_component(z: Array) -> tuple[float, float, float]:
    """Share of the variance, skewness and kurtosis of the first principal component."""
    if z.shape[1] == 0 or len(z) < 3:
        return 0.0, 0.0, 0.0
    _, s, V = np.linalg.svd(z, full_matrices=False)
    along = (z @ V[0])[:, None] * (1.0 if V[0].sum() >= 0 else -1.0)
    skewness, kurtosis = _moments(_standardized(along))
    share = float(s[0] ** 2 / (s**2).sum())
    return share, float(skewness.sum()), float(kurtosis.sum())  # one entry, or none


def _landmarks(X: Array, y: Array, classes: int) -> dict[str, float]:
    """Scores of simple models on held-out rows; 0 where a model cannot be fitted."""
    from sklearn.base import clone
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import Ridge
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    learners: dict[str, Any] = {
        "nearest": KNeighborsClassifier(1) if classes else KNeighborsRegressor(1),
        "linear": LinearDiscriminantAnalysis("lsqr", shrinkage="auto") if classes else Ridge(),
        "tree": (DecisionTreeClassifier if classes else DecisionTreeRegressor)(random_state=0),
        **({"bayes": GaussianNB()} if classes else {}),
    }
    rows = np.random.default_rng(0).permutation(len(X))[:_LANDMARK_ROWS]
    fit, score = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    found = {}
    for name, learner in learners.items():
        try:
            if classes and len(np.unique(y[fit])) < 2:
                raise ValueError("there is nothing to tell apart")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = clone(learner).fit(X[fit], y[fit]).score(X[score], y[score])
        except (ValueError, IndexError):  # too few rows, or a single class
            value = 0.0
        found[f"landmark_{name}"] = max(float(value), -1.0)
    return found


def data_digest(X: Any, y: Any = None) -> str:
    """Eight hexadecimal digits that identify a data set, from its shape and at most 5,000 rows."""
    digest = hashlib.sha256()
    for part in (X, y):
        if part is not None:
            data = with_shape(part)
            digest.update(repr(data.shape).encode() + _bytes(_some_rows(data)))
    return digest.hexdigest()[:8]


def _bytes(data: Any) -> bytes:
    """The values as bytes, independent of the memory layout."""
    import pandas as pd
    import scipy.sparse

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
    import scipy.sparse

    n, p = table.shape
    if n == 0 or p == 0:
        return np.empty((n, 0)), 0.0, 0.0, 0.0
    some = _some_rows(table)
    if scipy.sparse.issparse(some):
        some = scipy.sparse.csc_matrix(some)
        size = some.shape[0] * p
        missing, zero = float(np.isnan(some.data).sum()) / size, 1.0 - some.nnz / size
        return _finite(some[:, some_of(p, _MOST_COLUMNS)].toarray()), 0.0, missing, zero
    columns = [_column(some, j) for j in some_of(p, _MOST_COLUMNS).tolist()]
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


def as_numbers(table: Any, j: int) -> Array:
    """A column (n,) as numbers, NaN where missing; a text becomes its relative frequency."""
    import pandas as pd

    numbers, _ = _column(table, j)
    if numbers is not None:
        return numbers
    column = pd.Series(table.iloc[:, j] if hasattr(table, "iloc") else np.asarray(table[:, j]))
    if column.dtype.kind in "mM":
        whole = column.astype("int64").astype(float)
        return np.where(column.isna(), np.nan, whole)
    column = column.astype(object)
    texts = column.where(column.isna(), column.astype(str))
    shares: Array = texts.map(texts.value_counts(normalize=True)).to_numpy(dtype=float)
    return shares


def _finite(values: Any) -> Array:
    """Numbers (n,) with infinities replaced by NaN."""
    numbers = np.asarray(values, dtype=float)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def with_shape(data: Any) -> Any:
    """The data itself if it has a shape, else an array of it."""
    return data if hasattr(data, "shape") else np.asarray(data, dtype=object)


def _some_rows(data: Any) -> Any:
    """At most `_MOST_ROWS` rows."""
    n = data.shape[0]
    return data if n <= _MOST_ROWS else some_rows(data, some_of(n, _MOST_ROWS))


def some_rows(data: Any, rows: Any) -> Any:
    """The rows with positions `rows` (k,) of a table or a target."""
    import scipy.sparse

    if hasattr(data, "iloc"):
        return data.iloc[rows]
    if scipy.sparse.issparse(data):
        return data.tocsr()[rows]
    return data[rows]


def some_of(n: int, most: int, seed: int = 0) -> Any:
    """At most `most` of the integers below n, sorted; the same seed gives the same ones.

    They are random because evenly spaced rows would miss periodic patterns.
    """
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False, shuffle=False))


# ---------------------------------------------------------------------- statistics


def _standardized(matrix: Array) -> Array:
    """The columns that vary, scaled to mean 0 and variance 1; missing values stay NaN."""
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
    """Mean absolute correlation of pairs of standardized columns; missing values count as 0."""
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
    values = np.asarray(_some_rows(with_shape(y)))
    values = values.reshape(len(values), -1)[:, 0] if values.size else values.reshape(-1)
    numbers, _ = _column(values[:, None], 0) if len(values) else (None, 0.0)
    if classification is None:
        classification = numbers is None or _looks_like_classes(numbers)
    if classification and len(values):
        import pandas as pd

        shares = pd.Series(values).value_counts(normalize=True).to_numpy()
        if not len(shares):  # all are missing
            return facts
        entropy = -float((shares * np.log(shares)).sum())
        counted = (len(shares), entropy / np.log(max(len(shares), 2)), shares.min(), shares.max())
        facts.update(zip(names, map(float, counted), strict=True))
    elif numbers is not None:
        skewness, kurtosis = _moments(_standardized(numbers[:, None]))
        if len(skewness):
            facts.update(target_skewness=float(skewness[0]), target_kurtosis=float(kurtosis[0]))
    return facts


def are_classes(target: Any) -> bool:
    """True if a target (n,) looks like classes: texts, or few distinct integers."""
    values = np.asarray(_some_rows(with_shape(target)))
    numbers, _ = _column(values[:, None], 0) if len(values) else (None, 0.0)
    return numbers is None or _looks_like_classes(numbers)


def _looks_like_classes(numbers: Array) -> bool:
    whole = bool(np.all(np.isnan(numbers) | (numbers == np.round(numbers))))
    return whole and len(np.unique(numbers)) <= max(2, _FEW_CLASSES * len(numbers))
