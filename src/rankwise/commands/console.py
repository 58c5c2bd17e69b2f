"""What the commands share: how they print, and the options that several have."""

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


class Interrupted(RankwiseError):
    """A command was ended by Ctrl-C; the message says what is kept."""


_WIDE = 160  # characters where nobody looks at a terminal

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; all else goes to stderr.")]


def archive_option(help_text: str) -> Any:
    """The option --archive, with what it is for."""
    return typer.Option(
        "--archive",
        envvar=ARCHIVE_VARIABLE,
        show_envvar=True,
        help=f"{help_text} A storage URL or a file.",
    )


InArchive = Annotated[str, archive_option("Where the studies are.")]


def say(text: str) -> None:
    """A line for people, on standard error."""
    print(visible(text), file=sys.stderr, flush=True)


def visible(text: str) -> str:
    """A text that can do nothing to a terminal: what is not printed shows as an escape."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def show_json(data: Any) -> None:
    """One JSON document on standard output; what is no number is null."""
    print(json.dumps(plain(data), indent=2, allow_nan=False))


def plain(value: Any) -> Any:
    """The same as JSON has it: dicts, lists, texts, finite numbers, booleans and None."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(inner) for inner in value]
    if hasattr(value, "item") and hasattr(value, "dtype"):  # NumPy's numbers
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, bool | int | str | None) else str(value)


def show_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "", numbers: int = 0
) -> None:
    """A table on standard output.

    Args:
        columns: their headings.
        rows: of cells; None is shown as a dash.
        title: above it.
        numbers: so many of the last columns are numbers and stand to the right.
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
    """What a shell may complete the name of a method to."""
    from rankwise import methods

    return [name for name in methods.available() if name.startswith(incomplete)]


def transfer_names(incomplete: str) -> list[str]:
    """The same for methods that learn from past studies."""
    from rankwise import methods

    return [name for name in method_names(incomplete) if methods.get(name).transfer]


def estimator_names(incomplete: str) -> list[str]:
    """What a shell may complete the name of an estimator to."""
    from rankwise.learners import ready

    names = ["auto", *(row.name for row in ready())]
    return [name for name in names if name.startswith(incomplete)]


def metric_names(incomplete: str) -> list[str]:
    """What a shell may complete the name of a metric to."""
    from sklearn.metrics import get_scorer_names

    return [name for name in get_scorer_names() if name.startswith(incomplete)]
