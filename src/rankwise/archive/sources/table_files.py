"""Reads past studies from tables with one row per trial, in the dialects of several tools."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from rankwise._core.words import count
from rankwise.archive.sources.base import Contents, ReadOptions
from rankwise.archive.sources.cells import is_empty, number
from rankwise.archive.sources.dialects import PLAIN, Dialect, doubtful, recognise
from rankwise.archive.sources.records import Record, studies_of
from rankwise.errors import ArchiveError
from rankwise.storage.locations import is_journal

_ENDINGS = (".csv", ".parquet", ".pq", ".jsonl", ".ndjson")
_MOST_COLUMNS = 10_000

Row = Mapping[str, Any]


def belongs(address: str) -> bool:
    """True for a table, or a folder that contains tables."""
    path = Path(address)
    if path.is_dir():
        return bool(_files(path))
    if path.suffix not in _ENDINGS or not path.is_file():
        return False
    return path.stat().st_size == 0 or not is_journal(path)


def read(address: str, options: ReadOptions) -> Contents:
    """Read the studies of a table, or of all tables of a folder.

    The dialect is recognised by the columns, see `rankwise.archive.sources.dialects`. An empty
    cell means that the parameter was inactive. A file without a column of study names is one study
    with the name of the file, unless it is the only file and of no known dialect.

    Raises:
        ArchiveError: a file cannot be read, columns are missing, or the direction is not given.
    """
    path = Path(address)
    many = path.is_dir()
    records: list[Record] = []
    names: dict[str, str] = {}
    notes: list[str] = []
    directions, plain = set(), False
    for file in _files(path) if many else [path]:
        table = _read(file)
        dialect = recognise(table.columns)
        found, more = _records(file, table, dialect, options, names, many)
        records += found
        notes += [note for note in more if note not in notes]
        directions.add(dialect.direction)
        plain = plain or not dialect.params
    return studies_of(
        records,
        path,
        options,
        direction=directions.pop() if len(directions) == 1 else None,
        names=names,
        doubtful=doubtful if plain else lambda name, cells: False,
        notes=notes,
    )


# ---------------------------------------------------------------------- meaning of the columns


def _records(
    file: Path,
    table: _Table,
    dialect: Dialect,
    options: ReadOptions,
    names: dict[str, str],
    many: bool,
) -> tuple[list[Record], list[str]]:
    """The trials of one table, and notes; `names` receives the names of studies."""
    columns = table.columns
    value = dialect.value_column(file, columns, options.metric)
    study = options.study or next((c for c in dialect.study if c in columns), "")
    if (study and study not in columns) or not (study or dialect.alone or many):
        asked = study or dialect.study[0]
        if options.study is None or not many:
            raise ArchiveError(
                f"{file} has no column {asked!r}, only {_some(columns)}: say which one it is with "
                "study="
            )
        study = ""
    taken = {value, study, dialect.state, dialect.started, dialect.ended, *dialect.seconds}
    params = {
        column: column.removeprefix(dialect.params)
        for column in columns
        if column.startswith(dialect.params) and column not in taken
    }
    # A column that the user names is a hyperparameter in any dialect.
    params.update({c: c for c in columns if c in options.parameters and c not in params})
    facts = {
        column: column.removeprefix(prefix)
        for column in columns
        for prefix in dialect.facts
        if column.startswith(prefix) and not column[len(prefix) :].startswith(dialect.hidden)
    }
    parents = {str(r[dialect.parent]) for r in table.rows if not is_empty(r.get(dialect.parent))}
    folds = sum(c.startswith("split") and c.endswith(value[len("mean") :]) for c in columns)
    found: dict[Any, Record] = {}
    for k, row in enumerate(table.rows):
        if str(row.get(dialect.run)) in parents:
            names[str(row[dialect.run])] = str(row.get(dialect.title) or row[dialect.run])
            continue
        key = str(row[study]) if study and not is_empty(row.get(study)) else file.stem
        parent = None if options.study else row.get(dialect.parent)
        record = Record(
            key if is_empty(parent) else str(parent),
            {short: row[c] for c, short in params.items() if not is_empty(row.get(c))},
            _value(file, value, row.get(value)),
            str(row.get(dialect.state) or ""),
            _seconds(row, dialect) * max(folds, 1),
            moment(row.get(dialect.started)),
            {},
            {short: row[c] for c, short in facts.items() if not is_empty(row.get(c))},
        )
        trial = (record.study, row.get(dialect.trial)) if dialect.trial else k
        if trial in found or dialect.trial:
            record.curve = _longer(found.get(trial), row.get(dialect.step), record.value)
        found[trial] = record
    if dialect.trial:
        _complete(list(found.values()))
    return list(found.values()), _notes(file, table, dialect, value, study, columns, params, facts)


def _notes(
    file: Path,
    table: _Table,
    dialect: Dialect,
    value: str,
    study: str,
    columns: Sequence[str],
    params: Mapping[str, str],
    facts: Mapping[str, str],
) -> list[str]:
    notes = []
    if dialect is not PLAIN:
        where = f"value of column {study!r}" if study else "file"
        where = "parent run" if dialect.parent in columns and dialect.parent else where
        notes.append(
            f"read as a table of {dialect.name}: values from {value!r}, one study per {where}"
        )
        rest = [c for c in columns if c not in params and c not in (value, study)]
        other = [c for c in rest if c not in facts]
        if other and dialect.params:
            notes.append(f"columns without hyperparameters: {_some(other)}")
    if table.damaged:
        notes.append(
            f"{count(table.damaged, 'row')} of {file.name} left out: not as many cells as columns"
        )
    return notes


def _complete(records: Sequence[Record]) -> None:
    """Mark the trials that were stopped at the last step of all trials as complete."""
    last = max((max(record.curve) for record in records if record.curve), default=None)
    for record in records:
        if record.curve and max(record.curve) == last:
            record.state = ""


def _longer(before: Record | None, step: Any, value: float) -> Mapping[int, float]:
    """The curve of a trial with one more row."""
    curve = dict(before.curve) if before else {}
    try:
        place = int(number(step))
    except (ValueError, OverflowError):
        place = len(curve)
    if math.isfinite(value):
        curve[place] = value
    return curve


def _value(file: Path, column: str, cell: Any) -> float:
    if is_empty(cell):
        return math.nan
    try:
        return number(cell)
    except ValueError as error:
        raise ArchiveError(f"{file}: column {column!r} must hold numbers: {error}") from error


def _seconds(row: Row, dialect: Dialect) -> float:
    """The duration of a trial; NaN if it is unknown."""
    total = 0.0
    for column in dialect.seconds:
        total += seconds(row.get(column))
    if dialect.seconds:
        return total
    start, end = moment(row.get(dialect.started)), moment(row.get(dialect.ended))
    if start is None or end is None:
        return math.nan
    return (end - start).total_seconds()


def seconds(cell: Any) -> float:
    """A duration in seconds; NaN if the cell holds none.

    Args:
        cell: a number of seconds, or a text such as "0 days 00:01:20.5".
    """
    if is_empty(cell):
        return math.nan
    if hasattr(cell, "total_seconds"):
        return float(cell.total_seconds())
    try:
        return number(cell)
    except ValueError:
        days, _, clock = str(cell).rpartition("days")
    try:
        parts = [float(p) for p in clock.split(":")]
        return float(days or 0) * 86400 + sum(p * 60.0**k for k, p in enumerate(parts[::-1]))
    except ValueError:
        return math.nan


def moment(cell: Any) -> datetime | None:
    """A time; None if the cell holds none. Numbers are seconds or milliseconds since 1970."""
    if is_empty(cell):
        return None
    if isinstance(cell, datetime):
        return cell
    try:
        value = number(cell)
        return datetime.fromtimestamp(value / (1000 if value > 1e11 else 1), timezone.utc)
    except (ValueError, OverflowError, OSError):
        pass
    try:
        return datetime.fromisoformat(str(cell).strip().replace("Z", "+00:00"))
    except ValueError:
        return None


# ---------------------------------------------------------------------- files


@dataclass(frozen=True)
class _Table:
    columns: list[str]
    rows: Sequence[Row]
    damaged: int = 0


def _files(folder: Path) -> list[Path]:
    return sorted(
        p
        for p in folder.iterdir()
        if p.is_file() and p.suffix in _ENDINGS and not p.name.startswith(".")
    )


def _read(file: Path) -> _Table:
    try:
        if file.suffix == ".csv":
            table = _csv(file)
        elif file.suffix in (".jsonl", ".ndjson"):
            table = _lines(file)
        else:
            table = _parquet(file)
    except ArchiveError:
        raise
    except RecursionError:
        raise ArchiveError(f"{file} cannot be read as a table: it is nested too deeply") from None
    except Exception as error:  # pyarrow raises many types
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ArchiveError(f"{file} cannot be read as a table ({first[:200]})") from error
    if not table.rows:
        raise ArchiveError(f"{file} is empty: a table has a header and one row per trial")
    return table


def _checked(file: Path, columns: Sequence[str]) -> list[str]:
    if len(columns) > _MOST_COLUMNS:
        raise ArchiveError(
            f"{file} has {len(columns)} columns ({_some(columns)}), at most {_MOST_COLUMNS} are "
            "read; keep only the hyperparameters and the outcome"
        )
    [(name, times)] = Counter(columns).most_common(1) or [("", 1)]
    if times > 1:
        raise ArchiveError(f"{file} has {times} columns {name!r}; rename them")
    return list(columns)


def _csv(file: Path) -> _Table:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines)
        columns = _checked(file, next(reader, []))
        rows, damaged = [], 0
        for cells in reader:
            if len(cells) == len(columns):
                rows.append(dict(zip(columns, cells, strict=True)))
            else:
                damaged += bool(cells)
    if damaged and not rows:
        raise ArchiveError(f"{file}: no row has as many cells as the header has columns")
    return _Table(columns, rows, damaged)


def _lines(file: Path) -> _Table:
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
    return _Table(list(columns), rows)


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


def _parquet(file: Path) -> _Table:
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
    return _Table(
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


def _some(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(name[:60] for name in names[:most]) + more
