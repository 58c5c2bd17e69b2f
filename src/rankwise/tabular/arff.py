"""Reader of the ARFF format of Weka and OpenML; sparse ARFF is not supported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.errors import TableError
from rankwise.tabular.reading import check_names

if TYPE_CHECKING:
    import pandas as pd

_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_ATTRIBUTE = re.compile(rf"@attribute\s+({_QUOTED}|[^\s{{]+)\s*(.*)", re.IGNORECASE | re.DOTALL)
_VALUE = re.compile(rf"\s*({_QUOTED}|[^,]*)\s*(?:,|$)")
_NUMBERS = ("numeric", "real", "integer")
_ESCAPE = re.compile(r"\\(.)")


def parse_arff(lines: Iterable[str], path: Path) -> pd.DataFrame:
    """Read the lines of an ARFF file.

    Args:
        lines: the lines of the file.
        path: path of the file, for messages.

    Returns:
        A data frame. Numeric attributes are numbers, dates are dates, all others are texts; "?" is
        a missing value.

    Raises:
        TableError: the lines are not valid ARFF.
    """
    import pandas as pd

    numbered = _without_comments(lines)
    kinds = _header(numbered, path)
    rows = list(_rows(numbered, len(kinds), path))
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(kinds)
    made = {
        name: _column(kind, values, name, path)
        for (name, kind), values in zip(kinds.items(), columns, strict=True)
    }
    return pd.DataFrame(made)


def _without_comments(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith("%"):
            yield number, text


def _header(lines: Iterator[tuple[int, str]], path: Path) -> dict[str, str]:
    """The type of each attribute; reads up to the line @data."""
    found: list[tuple[str, str]] = []
    for number, line in lines:
        keyword = line.split(None, 1)[0].lower()
        if keyword == "@data":
            if not found:
                raise TableError(f"{path} has no @attribute line before @data")
            check_names(path, [name for name, _ in found])
            return dict(found)
        if keyword == "@attribute":
            match = _ATTRIBUTE.match(line)
            kind = match[2].strip() if match else ""
            if match is None or not kind:
                raise TableError(f"{path}, line {number}: an attribute needs a name and a type")
            found.append((_plain(match[1]), kind.lower() if kind[0] != "{" else "nominal"))
        elif keyword != "@relation":
            raise TableError(f"{path}, line {number}: expected is @attribute or @data")
    raise TableError(f"{path} has no line @data; is it an ARFF file?")


def _rows(lines: Iterator[tuple[int, str]], width: int, path: Path) -> Iterator[list[str | None]]:
    for number, line in lines:
        if line.startswith("{"):
            raise TableError(f"{path}, line {number}: sparse ARFF is not read; save it as CSV")
        plain = "'" not in line and '"' not in line
        cells = [cell.strip() for cell in line.split(",")] if plain else _split(line)
        if len(cells) != width:
            raise TableError(
                f"{path}, line {number} has {len(cells)} values where {width} are expected"
            )
        yield [None if cell in ("?", "") else _plain(cell) for cell in cells]


def _split(line: str) -> list[str]:
    """Split a line that contains quotes into its values."""
    cells, position = [], 0
    while position <= len(line):
        match = _VALUE.match(line, position)
        assert match is not None  # anything up to the next comma is a value
        cells.append(match[1].strip())
        position = match.end() + (not match[0].endswith(","))
    return cells


def _plain(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return _ESCAPE.sub(r"\1", text[1:-1])
    return text


def _column(kind: str, values: Any, name: str, path: Path) -> Any:
    import pandas as pd

    cells = pd.Series(list(values), dtype=object)
    word = kind.split()[0]
    if word not in _NUMBERS and word != "date":
        return cells
    try:
        if word == "date":
            return pd.to_datetime(cells, format="mixed", utc=True).dt.tz_localize(None)
        return pd.to_numeric(cells)
    except (TypeError, ValueError) as error:
        raise TableError(
            f"{path}: attribute {name!r} has the type {word}, but a value is not: {error}"
        ) from error
