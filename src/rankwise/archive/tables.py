"""Past studies from tables: a row per trial, a column per parameter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from rankwise.archive.studies import DIRECTIONS, PastStudy
from rankwise.archive.unify import INTEGER, kind_of, merge
from rankwise.errors import ArchiveError
from rankwise.task import INVALID, OK

_READERS = {
    ".csv": "read_csv",
    ".parquet": "read_parquet",
    ".pq": "read_parquet",
    ".jsonl": "read_json",
    ".ndjson": "read_json",
}
_WIDE = 1000  # positive numbers that span this factor are on a log scale
_MOST_CHOICES = 100


@dataclass(frozen=True)
class Layout:
    """What the columns of a table mean.

    Attributes:
        study: the column of the studies' names.
        value: the column of the objective.
        direction: "minimize" or "maximize".
        ignore: columns that are no parameters.
        search_space: what some parameters are; for the others it is guessed.
    """

    study: str = "study"
    value: str = "value"
    direction: str | None = None
    ignore: frozenset[str] = frozenset()
    search_space: Mapping[str, BaseDistribution] = field(default_factory=dict)


def is_table(path: Path) -> bool:
    """Whether a path is a table, or a folder with some."""
    if path.is_dir():
        return bool(_files(path))
    return path.suffix in _READERS


def read(path: Path, layout: Layout) -> list[PastStudy]:
    """The studies of a table, or of all tables of a folder together.

    A column is a float, or an integer if all of its numbers are whole, or else categorical. Floats
    that are positive and span a factor of a thousand are on a log scale. An empty cell means that
    the parameter was inactive.

    Args:
        path: of the table or the folder. In a folder a table without a column of names is one
            study, called as the file.
        layout: what its columns mean.

    Raises:
        ArchiveError: it cannot be read, columns are missing, or the direction is not given.
    """
    if layout.direction not in DIRECTIONS:
        raise ArchiveError(
            f"{path} is a table, which does not say whether small or large values are good: give "
            f"direction='minimize' or direction='maximize', not {layout.direction!r}"
        )
    frame = _frame(path, layout)
    special = {layout.study, layout.value, *layout.ignore}
    columns = {
        name: _column(path, name, frame[name], layout.search_space.get(name))
        for name in map(str, frame.columns)
        if name not in special and frame[name].notna().any()
    }
    values = _values(path, layout.value, frame[layout.value])
    groups = frame.groupby(layout.study, sort=False).indices
    return [_study(str(name), rows, values, columns, layout) for name, rows in groups.items()]


@dataclass(frozen=True)
class _Column:
    distribution: BaseDistribution
    values: list[Any]  # None where the cell is empty


def _study(
    name: str, rows: Any, values: Any, columns: Mapping[str, _Column], layout: Layout
) -> PastStudy:
    numbers = values[rows]
    finite = np.isfinite(numbers)
    params = [
        {key: c.values[row] for key, c in columns.items() if c.values[row] is not None}
        for row in rows
    ]
    there = set().union(*params)
    return PastStudy(
        name,
        str(layout.direction),
        params,
        {key: c.distribution for key, c in columns.items() if key in there},
        np.where(finite, numbers, np.nan),
        tuple(OK if f else INVALID for f in finite),
        np.zeros(len(rows), dtype=bool),
        np.full(len(rows), np.nan),
    )


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.is_file() and p.suffix in _READERS)


def _frame(path: Path, layout: Layout) -> Any:
    """All rows, with the two columns that every table needs."""
    import pandas as pd

    frames = []
    for file in _files(path) if path.is_dir() else [path]:
        lines = {"lines": True, "precise_float": True}  # without, last digits are lost
        options = lines if _READERS[file.suffix] == "read_json" else {}
        try:
            frame = getattr(pd, _READERS[file.suffix])(file, **options)
        except ImportError as error:
            raise ArchiveError(
                f"{file} cannot be read: Parquet needs the package pyarrow; install it, or save "
                "the table as CSV"
            ) from error
        except (OSError, ValueError) as error:  # pandas' parsers raise ValueErrors
            raise ArchiveError(f"{file} cannot be read as a table ({error})") from error
        if path.is_dir() and layout.study not in frame:
            frame[layout.study] = file.stem
        for what, column in (("study", layout.study), ("value", layout.value)):
            if column not in frame:
                raise ArchiveError(
                    f"{file} has no column {column!r}, only {', '.join(map(str, frame.columns))}: "
                    f"say which one it is with {what}="
                )
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def _values(path: Path, name: str, cells: Any) -> Any:
    import pandas as pd

    try:
        return pd.to_numeric(cells).to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ArchiveError(f"{path}: column {name!r} must hold numbers: {error}") from error


def _column(path: Path, name: str, cells: Any, wanted: BaseDistribution | None) -> _Column:
    """A parameter: as it is wanted or, if nothing is said about it, as it looks."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    there = cells.notna().to_numpy()
    plain = [_plain(v) if t else None for v, t in zip(cells, there, strict=True)]
    known = [v for v in plain if v is not None]
    categorical = is_bool_dtype(cells) or not is_numeric_dtype(cells)
    if wanted is not None:
        categorical = isinstance(wanted, CategoricalDistribution)
    if categorical:
        choices = list(dict.fromkeys(known))
        if wanted is None and len(choices) > _MOST_CHOICES:
            raise ArchiveError(
                f"{path}: column {name!r} has {len(choices)} different texts, too many for a "
                f"parameter; leave it out with ignore=[{name!r}]"
            )
        return _Column(_merged(CategoricalDistribution(choices), wanted), plain)
    try:
        numbers = np.array(known, dtype=float)
    except (TypeError, ValueError):
        raise ArchiveError(
            f"{path}: column {name!r} must hold numbers, not {known[0]!r}"
        ) from None
    low, high = float(numbers.min()), float(numbers.max())
    whole = bool(np.all(numbers == np.round(numbers)))
    if wanted is not None:
        whole = kind_of(wanted) == INTEGER
    plain = [None if v is None else int(v) if whole else float(v) for v in plain]
    if whole:
        return _Column(_merged(IntDistribution(int(low), int(high)), wanted), plain)
    log = low > 0 and high / low >= _WIDE
    return _Column(_merged(FloatDistribution(low, high, log=log), wanted), plain)


def _merged(found: BaseDistribution, wanted: BaseDistribution | None) -> BaseDistribution:
    return merge([(found, 0.0)], wanted)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
