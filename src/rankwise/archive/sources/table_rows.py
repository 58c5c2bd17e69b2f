"""Reads the rows of a table: CSV, JSON lines or Parquet."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from rankwise._core.words import listed
from rankwise.archive.sources.json_files import flat
from rankwise.errors import ArchiveError

ENDINGS = (".csv", ".parquet", ".pq", ".jsonl", ".ndjson")
"""Endings of the names of tables."""
_MOST_COLUMNS = 10_000
_GROUPS = frozenset(["params", "user_attrs", "system_attrs", "values", "intermediate_values"])
"""Columns of `trials_dataframe(multi_index=True)` with a name in the second row of the file."""
_PACKED = ("params", "parameters", "hyperparameters", "config")

Row = Mapping[str, Any]
"""Cells by column."""


@dataclass(frozen=True)
class Table:
    """The content of a table.

    Attributes:
        columns: names of the columns.
        rows: cells by column, for each row; an empty cell may be missing.
        damaged: number of rows that were left out.
    """

    columns: list[str]
    rows: Sequence[Row]
    damaged: int = 0


def files_of(folder: Path) -> list[Path]:
    """The tables of a folder, in alphabetical order; hidden files are left out."""
    return sorted(
        p
        for p in folder.iterdir()
        if p.is_file() and p.suffix.lower() in ENDINGS and not p.name.startswith(".")
    )


def read_table(file: Path) -> Table:
    """Read a table.

    Raises:
        ArchiveError: it cannot be read, or it has no rows.
    """
    try:
        if file.suffix.lower() == ".csv":
            table = _csv(file)
        elif file.suffix.lower() in (".jsonl", ".ndjson"):
            table = _lines(file)
        else:
            table = _parquet(file)
    except ArchiveError:
        raise
    except RecursionError:
        raise ArchiveError(f"{file} cannot be read as a table: it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ArchiveError(
            f"{file} cannot be read as a table: it is not UTF-8 (byte {error.start}); save it as "
            "UTF-8"
        ) from error
    except Exception as error:  # pyarrow raises many types
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ArchiveError(f"{file} cannot be read as a table ({first[:200]})") from error
    if not table.rows:
        raise ArchiveError(f"{file} is empty: a table has a header and one row per trial")
    return table


def unpacked(table: Table) -> Table:
    """The table with a column for each entry of cells that hold a trial's hyperparameters.

    Lines of JSON often have them as {"value": 0.5, "params": {"lr": 0.1}}.
    """
    packed = [name for name in table.columns if name.lower() in _PACKED]
    packed = [name for name in packed if all(isinstance(r.get(name), dict) for r in table.rows)]
    if not packed:
        return table
    rows = []
    for row in table.rows:
        inner: dict[str, Any] = {}
        for name in packed:
            inner.update(flat(row[name]))
        rows.append({**inner, **{name: v for name, v in row.items() if name not in packed}})
    kept = [name for name in table.columns if name not in packed]
    return Table([*kept, *{n: 0 for row in rows for n in row if n not in kept}], rows)


def _checked(file: Path, columns: Sequence[str]) -> list[str]:
    if len(columns) > _MOST_COLUMNS:
        raise ArchiveError(
            f"{file} has {len(columns)} columns ({listed(columns)}), at most {_MOST_COLUMNS} are "
            "read; keep only the hyperparameters and the outcome"
        )
    [(name, times)] = Counter(columns).most_common(1) or [("", 1)]
    if times > 1:
        raise ArchiveError(f"{file} has {times} columns {name!r}; rename them")
    return list(columns)


def _csv(file: Path) -> Table:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines)
        header, second = next(reader, []), next(reader, [])
        if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
            raise ArchiveError(
                f"{file} has one column {header[0]!r:.60}: separate columns by commas, and write "
                "numbers with a decimal point"
            )
        both = len(header) == len(second) and all(
            bool(cell) == (name in _GROUPS) for name, cell in zip(header, second, strict=True)
        )
        if both and "params" in header:  # a table with two rows of names
            header = ["_".join(pair).rstrip("_") for pair in zip(header, second, strict=True)]
        # pandas writes the index of a table without a name.
        columns = _checked(file, [name or f"unnamed: {k}" for k, name in enumerate(header)])
        rows, damaged = [], 0
        for cells in reader if both else chain([second], reader):
            if len(cells) == len(columns):
                rows.append(dict(zip(columns, cells, strict=True)))
            else:
                damaged += bool(cells)
    if damaged and not rows:
        raise ArchiveError(f"{file}: no row has as many cells as the header has columns")
    return Table(columns, rows, damaged)


def _lines(file: Path) -> Table:
    columns: dict[str, None] = {}
    rows: list[Row] = []
    with file.open(encoding="utf-8") as lines:
        for k, row in _objects(file, lines):
            if not isinstance(row, dict):
                raise ArchiveError(f"{file}, line {k}: a row is a JSON object, not {row!r:.60}")
            columns.update(dict.fromkeys(row))
            if len(columns) > _MOST_COLUMNS:
                _checked(file, list(columns))
            rows.append(row)
    return Table(list(columns), rows)


def _objects(file: Path, lines: Iterable[str]) -> Iterator[tuple[int, Any]]:
    for k, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield k, json.loads(line)
        except RecursionError:
            raise ArchiveError(f"{file}, line {k}: nested too deeply") from None
        except ValueError as error:
            raise ArchiveError(f"{file} cannot be read, line {k}: {error}") from error


def _parquet(file: Path) -> Table:
    import pandas as pd

    try:
        frame = pd.read_parquet(file)
    except ImportError as error:
        raise ArchiveError(
            f"{file} cannot be read: Parquet needs the package pyarrow; install it, or save the "
            "table as CSV"
        ) from error
    columns = _checked(file, [str(c) for c in frame.columns])
    frame.columns = columns
    there = frame.notna().to_numpy()
    rows = frame.astype(object).to_numpy()
    return Table(
        columns,
        [
            {c: _flat(v) for c, v, known in zip(columns, row, mask, strict=True) if known}
            for row, mask in zip(rows, there, strict=True)
        ],
    )


def _flat(cell: Any) -> Any:
    """A cell as it is, or a list or a mapping as text, as in files of lines."""
    if isinstance(cell, dict | list | tuple | np.ndarray):
        return json.dumps(cell, default=lambda v: v.tolist() if hasattr(v, "tolist") else str(v))
    return cell
