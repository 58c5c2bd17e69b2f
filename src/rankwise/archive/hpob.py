"""Past studies from the files of HPO-B: each data set of a search space is a study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from optuna.distributions import FloatDistribution

from rankwise.archive.studies import PastStudy
from rankwise.bench.hpob import box, stream_tables
from rankwise.errors import ArchiveError, BenchmarkDataError
from rankwise.task import OK
from rankwise.types import Array

_PAST = ("meta-train-dataset.json", "meta-validation-dataset.json")


class Rows(Sequence[Mapping[str, Any]]):
    """The rows of a matrix as dicts, made when they are asked for: tables may be long.

    Args:
        names: of the d columns.
        X: (n, d).
    """

    def __init__(self, names: Sequence[str], X: Array) -> None:
        self._names, self._X = tuple(names), X

    def __len__(self) -> int:
        return len(self._X)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return Rows(self._names, self._X[index])
        return dict(zip(self._names, self._X[index].tolist(), strict=True))

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        for row in self._X.tolist():
            yield dict(zip(self._names, row, strict=True))


def is_hpob(path: Path) -> bool:
    """Whether a path looks like HPO-B's: a JSON file, or a folder with its files."""
    if path.is_dir():
        return any((path / name).exists() for name in _PAST)
    return path.suffix == ".json"


def read(path: Path, space: str | None = None) -> list[PastStudy]:
    """The tables of a search space as studies.

    Args:
        path: a file, or a folder, of which the parts to train and to validate on are read: what is
            in the part to test on is to be optimised.
        space: id of the search space; None if the file has only one.

    Raises:
        ArchiveError: the file is of another kind, or does not have the space.
    """
    files = [path / name for name in _PAST if (path / name).exists()] if path.is_dir() else [path]
    try:
        space = _only_space(files[0]) if space is None else space
        tables = {name: table for file in files for name, table in stream_tables(file, space)}
    except BenchmarkDataError as error:
        raise ArchiveError(f"no studies can be read from {path}: {error}") from error
    if not tables:
        raise ArchiveError(f"{path} has no tables of the space {space!r}; it has {_ids(files[0])}")
    widths = {X.shape[1] for X, _ in tables.values()}
    if len(widths) > 1:
        raise ArchiveError(f"{path}: the tables of space {space!r} differ in their columns")
    bounds = box(X for X, _ in tables.values())
    ranges = zip(bounds.encoder.names, bounds.lower, bounds.upper, strict=True)
    distributions = {
        name: FloatDistribution(float(low), float(high)) for name, low, high in ranges
    }
    return [
        PastStudy(
            f"{space}/{name}",
            "maximize",
            Rows(tuple(distributions), X),
            distributions,
            -losses,
            (OK,) * len(X),
            np.zeros(len(X), dtype=bool),
            np.full(len(X), np.nan),
        )
        for name, (X, losses) in tables.items()
    ]


def _only_space(path: Path) -> str:
    ids = _ids(path)
    if len(ids) != 1:
        raise ArchiveError(f"{path} has {len(ids)} search spaces; name one: space= one of {ids}")
    return ids[0]


def _ids(path: Path) -> list[str]:
    """The search spaces of a file."""
    try:
        import ijson
    except ImportError:
        raise ArchiveError(
            'reading HPO-B needs the package ijson: run pip install "rankwise[bench]"'
        ) from None
    try:
        with path.open("rb") as file:
            events = ijson.parse(file)
            return [key for prefix, event, key in events if (prefix, event) == ("", "map_key")]
    except (OSError, ijson.JSONError, UnicodeDecodeError) as error:
        raise ArchiveError(f"{path} cannot be read as JSON ({error})") from error
