"""The command line: `rankwise`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import rankwise
from rankwise.bench.commands import app as bench
from rankwise.errors import OptionError, RankwiseError, UnknownNameError

app = typer.Typer(
    name="rankwise",
    help="Hyperparameter optimization that learns to rank.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.add_typer(bench, name="bench")

USAGE, FAILURE, INTERRUPTED = 2, 1, 130


def _version(asked: bool) -> None:
    if asked:
        print(f"rankwise {rankwise.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command; what went wrong is said in a sentence.

    Exit codes: 1 for a failure, 2 for a command that makes no sense, 130 after Ctrl-C.
    """
    try:
        app()
    except (OptionError, UnknownNameError) as error:
        print(f"rankwise: {error}", file=sys.stderr)
        sys.exit(USAGE)
    except RankwiseError as error:
        print(f"rankwise: {error}", file=sys.stderr)
        sys.exit(FAILURE)
    except SystemExit as end:
        if end.code == INTERRUPTED:  # typer turns Ctrl-C into this
            print("rankwise: interrupted; what is finished is kept", file=sys.stderr)
        raise


if __name__ == "__main__":
    main()
