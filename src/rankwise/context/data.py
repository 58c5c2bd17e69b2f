"""Context: what is known about a data set, as numbers and optionally as rows in memory."""

from __future__ import annotations

import hashlib
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rankwise._core.atomic_write import atomic_write
from rankwise.context.metafeatures import (
    are_classes,
    as_numbers,
    handmade_features,
    meta_features,
    some_of,
    some_rows,
    with_shape,
)
from rankwise.errors import ModelFileError, OptionError, check_count, is_number
from rankwise.types import Array

ROWS = 2000  # rows of a data set that are kept in memory
_COLUMNS = 500  # columns that are kept at most
_TINY = 1e-12
_FORMAT = 1  # version of the file format


@dataclass(frozen=True)
class DataRows:
    """Some rows of a data set as numbers. They stay in memory; only `Context.save` writes them.

    Attributes:
        X: (n, p), finite.
        y: classes 0, 1, ... or numbers (n,); None without a target.
        classes: number of classes; 0 if the target is a number or missing.
        ratios: share of each class (classes,).
        labels: digest of the names of the classes; equal for data sets with the same classes.
    """

    X: Array
    y: Array | None
    classes: int
    ratios: Array
    labels: str = ""

    def __repr__(self) -> str:
        return f"DataRows({len(self.X)} rows, {self.X.shape[1]} columns, {self.classes} classes)"

    @property
    def digest(self) -> str:
        """SHA-256 of X and y."""
        digest = hashlib.sha256(repr(self.X.shape).encode() + self.X.tobytes())
        digest.update(b"" if self.y is None else self.y.tobytes())
        return digest.hexdigest()


class Context(Mapping[str, float]):
    """What is known about the data set of a task: numbers by name, and perhaps some of its rows.

    It is a mapping of the numbers, which is what studies, archives and model files keep. The rows
    are for methods that learn an embedding of data sets (`dist-gp`, `dist-blr`); they stay in
    memory: no study, report, log or model file contains them. A pickle of an object that has
    rows in memory does contain them.

    Args:
        numbers: numbers about the data set by name.
        rows: rows of the data set, if methods may use them.
        size: number of rows of the whole data set.

    Example:
        >>> context = Context.of([[1.0, 2.0], [2.0, 1.0], [3.0, 3.0]], ["a", "b", "a"])
        >>> context["columns"], context.size, context.rows
        (2.0, 3, DataRows(3 rows, 2 columns, 2 classes))
    """

    def __init__(
        self, numbers: Mapping[str, float], rows: DataRows | None = None, size: int = 0
    ) -> None:
        self._numbers = {name: float(value) for name, value in numbers.items()}
        self.rows, self.size = rows, size

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any = None,
        *,
        classification: bool | None = None,
        rows: int = ROWS,
        standardize: bool = True,
        handmade: bool = True,
        seed: int = 0,
    ) -> Context:
        """Describe a data set.

        If there are many rows, some are drawn and the others are not read, so memory-mapped arrays
        of any length can be used. A missing value becomes the column's mean, a text the share of
        rows that have the same text, a constant column zero. At most 500 columns are kept.

        Args:
            X: n rows: an array, memory-mapped or not, a sparse matrix or a data frame.
            y: the target (n,); None if there is none.
            classification: True if `y` holds classes; None guesses it from the values.
            rows: number of rows to keep in memory; 0 keeps numbers only.
            standardize: scale columns to mean 0 and variance 1, and a numeric target to [0, 1].
                With False the columns of all data sets must have comparable units.
            handmade: include the numbers of `handmade_features`, which take about a second.
            seed: seed of the choice of rows.

        Raises:
            OptionError: there is no row or no column, or X and y differ in length.
        """
        if rows:
            check_count("rows", rows)
        table = with_shape(X)
        if len(table.shape) != 2 or 0 in table.shape:
            raise OptionError(f"a data set has rows and columns, not the shape {table.shape}")
        n = int(table.shape[0])
        target = None if y is None else _first_column(y, n)
        numbers = meta_features(table, target, classification=classification)
        if target is not None and classification is None:
            classification = are_classes(target)
        known = _known(target)
        labelled = np.arange(n) if known is None else np.flatnonzero(known)
        if not len(labelled):
            target, labelled = None, np.arange(n)
        chosen = labelled[some_of(len(labelled), max(rows, ROWS), seed)]
        kept = _numeric(some_rows(table, chosen), standardize)
        labels, names, ratios = _labels(target, chosen, classification, standardize)
        classes = len(names)
        data = DataRows(kept, labels, classes, ratios, _digest_of(names))
        if handmade:
            numbers |= handmade_features(data.X, data.y, classes=classes)
        if not rows:
            return cls(numbers, None, n)
        some = some_of(len(kept), rows, seed)
        return cls(
            numbers, replace(data, X=kept[some], y=None if labels is None else labels[some]), n
        )

    def save(self, path: str | Path) -> None:
        """Write numbers and rows to a file, from which `load` makes the context again.

        The library calls it only on request (`attach_rows`, `context="rows"`). Everyone who can
        read the file can read the rows.

        Args:
            path: file to write, usually with the ending ".npz"; it contains no pickles.
        """
        arrays: dict[str, Any] = {
            "format": np.array(_FORMAT),
            "names": np.array(list(self._numbers), dtype=str),
            "numbers": np.array(list(self._numbers.values()), dtype=float),
            "size": np.array(self.size),
        }
        if self.rows is not None:
            arrays |= {"X": self.rows.X.astype(np.float32), "ratios": self.rows.ratios}
            arrays["classes"] = np.array(self.rows.classes)
            arrays["labels"] = np.array(self.rows.labels, dtype=str)
            if self.rows.y is not None:
                arrays["y"] = self.rows.y.astype(np.float32)
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as unfinished, unfinished.open("wb") as file:
            np.savez_compressed(file, **arrays)

    @classmethod
    def load(cls, path: str | Path) -> Context:
        """Read a file that `save` wrote.

        Raises:
            ModelFileError: there is no such file, or it was not written by this version's `save`.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            version = int(arrays["format"])
        except FileNotFoundError as error:
            raise ModelFileError(f"there is no context file {path}") from error
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise ModelFileError(f"{path} is not a context file, or it is damaged") from error
        if version != _FORMAT:
            raise ModelFileError(f"{path} has format {version}, and this version reads {_FORMAT}")
        numbers = dict(zip(arrays["names"].tolist(), arrays["numbers"].tolist(), strict=True))
        rows = None
        if "X" in arrays:
            y = arrays["y"].astype(float) if "y" in arrays else None
            X = arrays["X"].astype(float)
            labels = str(arrays["labels"])
            rows = DataRows(X, y, int(arrays["classes"]), arrays["ratios"], labels)
        return cls(numbers, rows, int(arrays["size"]))

    def without_rows(self) -> Context:
        """A copy with the numbers only."""
        return Context(self._numbers, None, self.size)

    def __getitem__(self, name: str) -> float:
        return self._numbers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __repr__(self) -> str:
        return f"Context({len(self)} numbers, rows={self.rows!r}, size={self.size})"


def known_facts(context: Mapping[str, float] | None) -> Mapping[str, float]:
    """Check a context and return it in the form that tasks store.

    A `Context` is returned as it is, any other mapping as a new dict of floats.

    Raises:
        OptionError: the context is not a mapping, or a value is not a number.
    """
    if context is None or isinstance(context, Context):
        return context if context is not None else {}
    if not isinstance(context, Mapping):
        raise OptionError(
            f"a context is Context.of(X, y) or numbers by name, not {type(context).__name__}"
        )
    for name, value in context.items():
        if not is_number(value):
            raise OptionError(f"the context's {name!r} must be a number, not {value!r}")
    return {name: float(value) for name, value in context.items()}


def _first_column(y: Any, n: int) -> Any:
    """The first column (n,) of a target."""
    target = with_shape(y)
    if target.shape[0] != n:
        raise OptionError(f"the data set has {n} rows and its target has {target.shape[0]}")
    values = (
        target.iloc[:, 0]
        if getattr(target, "ndim", 1) == 2 and hasattr(target, "iloc")
        else target
    )
    array = np.asarray(values)
    return array if array.ndim == 1 else array[:, 0]


def _numeric(table: Any, standardize: bool) -> Array:
    """A table (n, p) as finite numbers."""
    import scipy.sparse

    p = table.shape[1]
    columns = some_of(p, _COLUMNS, 0)
    if scipy.sparse.issparse(table):
        matrix = np.asarray(scipy.sparse.csc_matrix(table)[:, columns].toarray(), dtype=float)
        matrix = np.where(np.isfinite(matrix), matrix, np.nan)
    else:
        matrix = np.stack([as_numbers(table, int(j)) for j in columns], axis=1)
    empty = np.isnan(matrix).all(axis=0)
    matrix[:, empty] = 0.0
    mean = np.nanmean(matrix, axis=0)
    matrix = np.where(np.isnan(matrix), mean, matrix)
    if not standardize:
        return matrix
    matrix = matrix / np.maximum(np.abs(matrix).max(axis=0), _TINY)  # so that nothing overflows
    spread = matrix.std(axis=0)
    standardized: Array = np.where(spread > 1e-9, matrix - matrix.mean(axis=0), 0.0)
    return standardized / np.where(spread > 1e-9, spread, 1.0)


def _labels(
    target: Any, chosen: Any, classification: bool | None, standardize: bool
) -> tuple[Array | None, list[str], Array]:
    """The target of the chosen rows as numbers, the names of its classes, and their shares."""
    if target is None:
        return None, [], np.empty(0)
    if classification:
        import pandas as pd

        counts = pd.Series(target).dropna().map(str).value_counts().sort_index()
        names = counts.index.tolist()
        codes = np.searchsorted(names, [str(value) for value in target[chosen]])
        return codes.astype(float), names, (counts / counts.sum()).to_numpy()
    numbers = np.asarray(target[chosen], dtype=float)
    finite = np.isfinite(numbers)
    middle = float(numbers[finite].mean()) if finite.any() else 0.0
    numbers = np.where(finite, numbers, middle)
    low, high = float(numbers.min()), float(numbers.max())
    if standardize and math.isfinite(high - low):
        numbers = (numbers - low) / (high - low if high > low else 1.0)
    return numbers, [], np.empty(0)


def _known(target: Any) -> Any:
    """Mask (n,) of the rows that have a target value; None without a target."""
    import pandas as pd

    return None if target is None else ~np.asarray(pd.isna(target), dtype=bool)


def _digest_of(names: list[str]) -> str:
    return hashlib.sha256(repr(names).encode()).hexdigest()[:16] if names else ""
