"""Reads past studies from tables with one row per trial, in the dialects of several tools."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rankwise._core.words import count, listed
from rankwise.archive.sources.base import Contents, ReadOptions
from rankwise.archive.sources.cells import is_empty, number
from rankwise.archive.sources.dialects import PLAIN, Dialect, doubtful, recognise
from rankwise.archive.sources.records import Record, studies_of
from rankwise.archive.sources.table_rows import (
    ENDINGS,
    Row,
    Table,
    files_of,
    read_table,
    unpacked,
)
from rankwise.errors import ArchiveError
from rankwise.storage.locations import is_journal


def belongs(address: str) -> bool:
    """True for a table, or a folder that contains tables."""
    path = Path(address)
    if path.is_dir():
        return bool(files_of(path))
    if path.suffix.lower() not in ENDINGS or not path.is_file():
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
    many = path.is_dir() or options.several
    records: list[Record] = []
    names: dict[str, str] = {}
    notes: list[str] = []
    directions, plain = set(), False
    for file in files_of(path) if path.is_dir() else [path]:
        table = read_table(file)
        dialect = recognise(table.columns)
        table = unpacked(table) if dialect is PLAIN else table
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
    table: Table,
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
                f"{file} has no column {asked!r}, only {listed(columns)}: say which one it is "
                "with study=, or give a folder or a list in which each file is a study"
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
    parents = {
        str(r[dialect.parent]) for r in table.rows if not is_empty(_cell(r, dialect.parent))
    }
    folds = sum(c.startswith("split") and c.endswith(value[len("mean") :]) for c in columns)
    found: dict[Any, Record] = {}
    for k, row in enumerate(table.rows):
        if str(_cell(row, dialect.run)) in parents:
            names[str(row[dialect.run])] = str(_cell(row, dialect.title) or row[dialect.run])
            continue
        key = str(row[study]) if study and not is_empty(row.get(study)) else file.stem
        parent = None if options.study else _cell(row, dialect.parent)
        record = Record(
            key if is_empty(parent) else str(parent),
            {short: row[c] for c, short in params.items() if not is_empty(row.get(c))},
            _value(file, value, row.get(value)),
            str(_cell(row, dialect.state) or ""),
            _seconds(row, dialect) * max(folds, 1),
            moment(_cell(row, dialect.started)),
            {},
            {short: row[c] for c, short in facts.items() if not is_empty(row.get(c))},
        )
        trial = (record.study, _cell(row, dialect.trial)) if dialect.trial else k
        if trial in found or dialect.trial:
            record.curve = _longer(found.get(trial), _cell(row, dialect.step), record.value)
        found[trial] = record
    if dialect.trial:
        _complete(list(found.values()), bool(dialect.state))
    return list(found.values()), _notes(file, table, dialect, value, study, columns, params, facts)


def _notes(
    file: Path,
    table: Table,
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
            notes.append(f"columns without hyperparameters: {listed(other)}")
    if table.damaged:
        notes.append(
            f"{count(table.damaged, 'row')} of {file.name} left out: not as many cells as columns"
        )
    return notes


def _complete(records: Sequence[Record], stated: bool) -> None:
    """Mark the trials that reached the last step of all trials as complete."""
    last = max((max(record.curve) for record in records if record.curve), default=None)
    for record in records:
        if record.curve and max(record.curve) == last:
            record.state = ""
        elif record.curve and not stated:
            record.state = "stopped"


def _cell(row: Row, column: str) -> Any:
    """A cell; None if the dialect has no such column."""
    return row.get(column) if column else None


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
    start, end = moment(_cell(row, dialect.started)), moment(_cell(row, dialect.ended))
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
