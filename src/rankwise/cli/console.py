"""Printing, shared options and shell completion for all commands."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

from rankwise.errors import RankwiseError

ARCHIVE_VARIABLE = "RANKWISE_ARCHIVE"
DEFAULT_ARCHIVE = "sqlite:///rankwise.db"
NOWHERE = "none"
"""The value of --archive that keeps no study."""


class Interrupted(RankwiseError):
    """Raised after Ctrl-C; the message says which trials are kept."""


_WIDE = 160  # width in characters if the output is not a terminal

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document; messages go to stderr.")
]


def archive_option(help_text: str) -> Any:
    """The option --archive, with a help text that starts with `help_text`."""
    return typer.Option(
        "--archive",
        envvar=ARCHIVE_VARIABLE,
        show_envvar=True,
        help=f"{help_text} An Optuna storage URL or a file.",
    )


InArchive = Annotated[str, archive_option("The archive of studies.")]


def say(text: str) -> None:
    """Print a message for the user on standard error."""
    print(visible(text), file=sys.stderr, flush=True)


def visible(text: str) -> str:
    """Replace unprintable characters by escapes, so that no text can control the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def show_json(data: Any) -> None:
    """Print one JSON document on standard output; NaN and infinity become null."""
    print(json.dumps(plain(data), indent=2, allow_nan=False))


def plain(value: Any) -> Any:
    """Convert a value to JSON types: dict, list, str, finite number, bool or None."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(inner) for inner in value]
    if hasattr(value, "item") and hasattr(value, "dtype"):  # a NumPy scalar
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, bool | int | str | None) else str(value)


def show_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "", numbers: int = 0
) -> None:
    """Print a table on standard output.

    Args:
        columns: column headings.
        rows: one sequence of cells per row; None and NaN are shown as a dash.
        title: text above the table.
        numbers: how many of the last columns hold numbers; these are aligned to the right.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(visible(title)) if title else None, title_justify="left")
    for k, heading in enumerate(columns):
        right = k >= len(columns) - numbers
        table.add_column(Text(heading), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(cell)) for cell in row))
    Console(width=None if sys.stdout.isatty() else _WIDE).print(table)


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.5g}" if isinstance(value, float) else visible(str(value))


def method_names(incomplete: str) -> list[str]:
    """Shell completions for the name of a method."""
    from rankwise import methods

    return [name for name in methods.available() if name.startswith(incomplete)]


def transfer_names(incomplete: str) -> list[str]:
    """Shell completions for the name of a method that learns from past studies."""
    from rankwise import methods

    return [name for name in method_names(incomplete) if methods.get(name).transfer]


def estimator_names(incomplete: str) -> list[str]:
    """Shell completions for the name of an estimator."""
    from rankwise.estimators import ready

    names = ["auto", *(row.name for row in ready())]
    return [name for name in names if name.startswith(incomplete)]


def metric_names(incomplete: str) -> list[str]:
    """Shell completions for the name of a metric."""
    from sklearn.metrics import get_scorer_names

    return [name for name in get_scorer_names() if name.startswith(incomplete)]
