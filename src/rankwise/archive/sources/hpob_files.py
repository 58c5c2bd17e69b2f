"""Past studies from the files of HPO-B: each data set of a search space is a study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from optuna.distributions import FloatDistribution

from rankwise._core.extras import missing
from rankwise.archive.past_study import PastStudy
from rankwise.archive.sources.base import Contents, ReadOptions
from rankwise.archive.sources.hpob_tables import box, stream_tables
from rankwise.errors import ArchiveError, BenchmarkDataError
from rankwise.history.task import OK
from rankwise.types import Array

_CHECKED = 200  # megabytes whose depth is checked
_DEEPEST = 100
_WIDEST = 1000
_PAST = ("meta-train-dataset.json", "meta-validation-dataset.json")


class Rows(Sequence[Mapping[str, Any]]):
    """The rows of a matrix as dicts that are created on access, because tables may be long.

    Args:
        names: names of the d columns.
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


def belongs(address: str) -> bool:
    """True for a JSON file, or a folder that contains HPO-B's files."""
    path = Path(address)
    if path.is_dir():
        return any((path / name).exists() for name in _PAST)
    return path.suffix == ".json" and path.is_file()


def read(address: str, options: ReadOptions) -> Contents:
    """Read the tables of a search space as studies.

    Args:
        address: a file, or a folder, of which the train and validation parts are read; the test
            part is for evaluation.
        options: what the user said; `space` is the id of the search space, which is needed if a
            file has several.

    Raises:
        ArchiveError: the file is of another kind, or does not have the space.
    """
    path, space = Path(address), options.space
    files = [path / name for name in _PAST if (path / name).exists()] if path.is_dir() else [path]
    for file in files:
        _check_depth(file)
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
    [width] = widths
    if width > _WIDEST:
        raise ArchiveError(
            f"{path}: the tables of space {space!r} have {width} columns; at most {_WIDEST} are "
            "read"
        )
    bounds = box(X for X, _ in tables.values())
    ranges = zip(bounds.encoder.names, bounds.lower, bounds.upper, strict=True)
    distributions = {
        name: FloatDistribution(float(low), float(high)) for name, low, high in ranges
    }
    studies = [
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
    return Contents(studies)


def _check_depth(path: Path) -> None:
    """Raise an error if a file is nested deeply: the parser would need all memory.

    The first 200 MB are checked. Brackets inside of texts count too; HPO-B has none.
    """
    depth = 0
    try:
        with path.open("rb") as file:
            for _ in range(_CHECKED):
                chunk = np.frombuffer(file.read(1_000_000), np.uint8)
                if not len(chunk):
                    return
                opening, closing = (chunk == 91) | (chunk == 123), (chunk == 93) | (chunk == 125)
                levels = depth + np.cumsum(opening.astype(np.int64) - closing)
                if levels.max() > _DEEPEST:
                    raise ArchiveError(f"{path} cannot be read: it is nested too deeply")
                depth = int(levels[-1])
    except OSError as error:
        raise ArchiveError(f"{path} cannot be read ({error})") from error


def _only_space(path: Path) -> str:
    ids = _ids(path)
    if not ids:
        raise ArchiveError(
            f"{path} has no search spaces: a JSON file holds tables as HPO-B's do, by space and "
            "data set; save trials with one JSON object per line as .jsonl"
        )
    if len(ids) != 1:
        raise ArchiveError(f"{path} has {len(ids)} search spaces; name one: space= one of {ids}")
    return ids[0]


def _ids(path: Path) -> list[str]:
    """The ids of the search spaces of a file."""
    try:
        import ijson
    except ImportError:
        raise missing("an archive of HPO-B", "ijson", "bench") from None
    try:
        with path.open("rb") as file:
            events = ijson.parse(file)
            return [key for prefix, event, key in events if (prefix, event) == ("", "map_key")]
    except (OSError, ijson.JSONError, UnicodeDecodeError) as error:
        raise ArchiveError(f"{path} cannot be read as JSON ({error})") from error
