"""read_table: reads a file as a data frame; never renames or shifts columns silently."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import importlib
import io
import lzma
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from rankwise.errors import TableError

if TYPE_CHECKING:
    import pandas as pd

_OPENERS: dict[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
_PARQUET = (".parquet", ".pq")
_SHEETS = {
    ".xlsx": ("openpyxl", "openpyxl"),
    ".xlsm": ("openpyxl", "openpyxl"),
    ".xls": ("xlrd", "xlrd"),
    ".ods": ("odfpy", "odf"),
}
"""Spreadsheets, and the package that pandas reads them with and its module."""
_ZIP = b"PK\x03\x04"
_DELIMITERS = ",;\t|"
_HEAD = 1 << 16  # bytes that are read to find encoding and delimiter
_LINES = 50
_MISSING = "?"  # the UCI repository's mark; pandas knows the other usual ones
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f]")
_COMMA = re.compile(r"[+-]?\d+,\d+")
_POINT = re.compile(r"[+-]?\d+\.\d+")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
_FIELDS = re.compile(r"Expected (\d+) fields in line (\d+), saw (\d+)")


def read_table(path: str | Path, *, header: bool | None = None) -> pd.DataFrame:
    """Read a table: CSV or TSV, Parquet, ARFF or Excel; text may be compressed (.gz, .bz2, .xz).

    The delimiter, the decimal mark and the encoding (UTF-8, UTF-16 with a byte order mark, else
    Latin-1) of a text file are detected. Column names are texts, and "?" is a missing value.

    Args:
        path: path of the file.
        header: True if the first line of a text file has the names of the columns. False if it
            has values: columns are then named by their index, "0", "1", ... None detects it (see
            `has_header`).

    Raises:
        TableError: the file does not exist, is not a table, has no rows, or has two columns with
            the same name.
    """
    path = Path(path)
    if path.is_dir():
        raise TableError(f"{path} is a folder; give the file of the table")
    if not path.exists():
        raise TableError(f"there is no file {path}; check the path")
    try:
        frame = _read(path, header)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise TableError(f"{path} cannot be read ({error}); check the file") from error
    if not len(frame):
        raise TableError(f"{path} has no rows, only the names of {frame.shape[1]} columns")
    return frame.reset_index(drop=True)


def has_header(path: str | Path) -> bool:
    """True if the first line of a text file seems to have the names of the columns.

    It has values if it has a number in every column whose other cells are numbers. Consecutive
    whole numbers ("0", "1", "2") may be names. Files of other formats have names.
    """
    path = Path(path)
    suffix = (path.with_suffix("") if path.suffix.lower() in _OPENERS else path).suffix.lower()
    with _open(path) as file:
        head = file.read(_HEAD)
    if suffix in (*_PARQUET, *_SHEETS, ".arff") or head.startswith((b"PAR1", _ZIP)):
        return True
    return not _dialect(head.decode(_encoding(head), errors="ignore")).values_first


def _read(path: Path, header: bool | None) -> pd.DataFrame:
    compressed = path.suffix.lower() in _OPENERS
    suffix = (path.with_suffix("") if compressed else path).suffix.lower()
    with _open(path) as file:
        head = file.read(_HEAD)
    if not head.strip():
        raise TableError(f"{path} is empty")
    if suffix in _PARQUET or head.startswith(b"PAR1"):
        return _read_parquet(path)
    if suffix in _SHEETS:
        return _read_sheet(path)
    if head.startswith(_ZIP):
        raise TableError(f"{path} is a spreadsheet or a zip file; save the table as CSV")
    encoding = _encoding(head)
    text = head.decode(encoding, errors="ignore")
    if len(_CONTROL.findall(text)) > len(text) / 100:
        raise TableError(f"{path} is not a text file; expected is CSV, TSV, Parquet or ARFF")
    try:
        return _read_text(path, suffix, encoding, text, header)
    except UnicodeDecodeError:  # beyond the head
        return _read_text(path, suffix, "latin-1", head.decode("latin-1"), header)


def _read_text(
    path: Path, suffix: str, encoding: str, head: str, header: bool | None
) -> pd.DataFrame:
    if suffix != ".arff":
        return _read_delimited(path, encoding, head, header)
    from rankwise.tabular.arff import parse_arff

    with _open(path) as file, io.TextIOWrapper(file, encoding) as lines:
        return parse_arff(lines, path)


def _open(path: Path) -> BinaryIO:
    opener = _OPENERS.get(path.suffix.lower(), open)
    opened: BinaryIO = opener(path, "rb")
    return opened


def _encoding(head: bytes) -> str:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8-sig"


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        frame = pd.read_parquet(path)
    except ImportError as error:
        raise TableError(
            f"{path} is Parquet, which needs the package pyarrow: pip install pyarrow, or save "
            "the table as CSV"
        ) from error
    except ValueError as error:  # pyarrow's errors are ValueErrors
        raise TableError(f"{path} cannot be read as Parquet ({error})") from error
    frame.columns = [str(name) for name in frame.columns]
    check_names(path, list(frame.columns))
    return frame


def _read_sheet(path: Path) -> pd.DataFrame:
    """The first sheet of a spreadsheet."""
    import pandas as pd

    package, module = _SHEETS[path.suffix.lower()]
    try:
        importlib.import_module(module)
        frame = pd.read_excel(path)
    except ImportError as error:
        raise TableError(
            f"{path} is a spreadsheet, which needs the package {package}: pip install {package}, "
            "or save the table as CSV"
        ) from error
    except Exception as error:  # each of these packages has its own errors
        raise TableError(f"{path} cannot be read as a spreadsheet ({error})") from error
    frame.columns = [str(name).strip() for name in frame.columns]
    check_names(path, list(frame.columns))
    return frame


def check_names(path: Path, names: Sequence[str]) -> None:
    """Raise if two columns have the same name; pandas would rename one silently."""
    twice = [repr(name) for name, n in Counter(names).items() if n > 1 and name]
    if twice:
        raise TableError(
            f"{path} has more than one column called {', '.join(twice)}; give each its own name"
        )


@dataclass(frozen=True)
class _Dialect:
    """The dialect of a delimited text file.

    Attributes:
        delimiter: character between fields.
        decimal: decimal mark of numbers.
        names: column names as they stand in the file.
        trailing: True if every line but the first ends with an extra delimiter.
        values_first: True if the first line seems to have values instead of names.
    """

    delimiter: str
    decimal: str
    names: list[str]
    trailing: bool
    values_first: bool


def _read_delimited(path: Path, encoding: str, head: str, header: bool | None) -> pd.DataFrame:
    import pandas as pd

    dialect = _dialect(head)
    named = not dialect.values_first if header is None else header
    if named:
        check_names(path, dialect.names)
    try:
        with _open(path) as file:
            frame = pd.read_csv(
                file,
                sep=dialect.delimiter,
                decimal=dialect.decimal,
                header=0 if named else None,
                encoding=encoding,
                na_values=[_MISSING],
                skipinitialspace=True,
                low_memory=False,  # else the type of a column may change from chunk to chunk
                # By default pandas would take the first column for names of rows.
                index_col=False if dialect.trailing else None,
            )
    except UnicodeDecodeError:
        raise
    except ValueError as error:  # pandas' parsers raise ValueErrors
        raise TableError(f"{path} cannot be read as a table: {_reason(error)}") from error
    frame.columns = [str(name).strip() for name in frame.columns]
    return frame


def _reason(error: ValueError) -> str:
    match = _FIELDS.search(str(error))
    if match:
        expected, line, found = match.groups()
        return f"line {line} has {found} fields where {expected} are expected"
    return str(error).strip().splitlines()[0]


def _dialect(head: str) -> _Dialect:
    """Detect the dialect: the delimiter that splits most lines into the same number of fields."""
    best, rows = (-1.0, 0), [[""]]
    delimiter = _DELIMITERS[0]
    for candidate in _DELIMITERS:
        found = _rows(head, candidate)
        widths = Counter(map(len, found))
        width, times = max(widths.items(), key=lambda item: (item[1], item[0]))
        score = (times / len(found) if width > 1 else 0.0, width)
        if score > best:
            best, rows, delimiter = score, found, candidate
    names, cells = [name.strip() for name in rows[0]], rows[1:]
    fields = [cell.strip() for row in cells for cell in row]
    comma = sum(bool(_COMMA.fullmatch(f)) for f in fields)
    point = sum(bool(_POINT.fullmatch(f)) for f in fields)
    longer = bool(cells) and all(len(row) == len(names) + 1 for row in cells)
    trailing = longer and not any(row[-1].strip() for row in cells)
    decimal = "," if delimiter != "," and comma > point else "."
    return _Dialect(delimiter, decimal, names, trailing, _values_first(rows))


def _values_first(rows: list[list[str]]) -> bool:
    first, *others = [[cell.strip() for cell in row] for row in rows]
    body = [row for row in others if len(row) == len(first)]
    if not body:
        return False
    columns = list(zip(*body, strict=True))
    numeric = [k for k, column in enumerate(columns) if _all_numbers(column)]
    if not _all_numbers([first[k] for k in numeric]):
        return False
    numbers = [float(first[k].replace(",", ".")) for k in numeric if _is_number(first[k])]
    steps = {after - before for before, after in pairwise(numbers)}
    return steps != {1.0}


def _all_numbers(cells: Sequence[str]) -> bool:
    """True if cells that are not missing are numbers, and there are some."""
    known = [cell for cell in cells if cell not in ("", _MISSING)]
    return bool(known) and all(_is_number(cell) for cell in known)


def _is_number(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text))


def _rows(head: str, delimiter: str) -> list[list[str]]:
    """The fields of the first lines; the last line may be incomplete and is left out."""
    lines = head.splitlines(keepends=True)
    whole = lines if len(lines) < 3 or head.endswith(("\n", "\r")) else lines[:-1]
    reader = csv.reader(iter(whole), delimiter=delimiter, skipinitialspace=True)
    try:
        return [row for row in islice(reader, _LINES) if row] or [[""]]
    except csv.Error:
        return [[""]]
