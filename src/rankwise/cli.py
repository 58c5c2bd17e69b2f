"""The command line: `rankwise`."""

from __future__ import annotations

import os
import sys
import warnings
from contextvars import ContextVar
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup
from typing_extensions import override

import rankwise
from rankwise.commands import archive, info, train, tune
from rankwise.commands.console import Interrupted, visible
from rankwise.errors import OptionError, RankwiseError, RunWarning, UnknownNameError

USAGE, FAILURE, INTERRUPTED = 2, 1, 130
DEBUG_VARIABLE = "RANKWISE_DEBUG"

_HERE = os.path.dirname(os.path.abspath(__file__))

_debugging: ContextVar[bool] = ContextVar("debugging", default=False)
_said: set[str] = set()  # warnings that were shown

app = typer.Typer(
    name="rankwise",
    help="Hyperparameter optimization that learns to rank.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


class _Bench(TyperGroup):
    """The commands of `rankwise bench`, imported when one of them is asked for."""

    def _real(self) -> Any:
        from rankwise.bench.commands import app as bench

        return typer.main.get_group(bench)

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return list(self._real().list_commands(ctx))

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self._real().get_command(ctx, cmd_name)


app.command("tune")(tune.tune)
app.command("resume")(tune.resume)
app.command("report")(tune.report_study)
app.command("train")(train.train)
app.command("methods")(info.show_methods)
app.command("spaces")(info.show_spaces)
app.command("doctor")(info.examine)
app.add_typer(archive.app, name="archive")
app.add_typer(
    typer.Typer(
        cls=_Bench, help="Compare methods on benchmarks, as the papers do.", no_args_is_help=True
    ),
    name="bench",
)


def _version(asked: bool) -> None:
    if asked:
        print(f"rankwise {rankwise.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug",
            envvar=DEBUG_VARIABLE,
            show_envvar=True,
            help="Show where an error came from, and all warnings.",
        ),
    ] = False,
) -> None:
    _debugging.set(debug)


def main() -> None:
    """Run the command; what went wrong is said in a sentence.

    Exit codes: 1 for a failure, 2 for a command that makes no sense, 130 after Ctrl-C.
    """
    warnings.showwarning = _warn
    _debugging.set(False)
    try:
        app()
    except (OptionError, UnknownNameError) as error:
        _end(error, str(error), USAGE)
    except Interrupted as error:
        _end(error, str(error), INTERRUPTED)
    except RankwiseError as error:
        _end(error, str(error), FAILURE)
    except SystemExit as end:
        if end.code == INTERRUPTED:  # typer turns Ctrl-C into this
            print("rankwise: interrupted; what is finished is kept", file=sys.stderr)
        raise
    except Exception as error:  # a mistake of ours: still no page of code unless it is wanted
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
        text = f"{type(error).__name__}: {reason}"
        _end(error, f"unexpected {text} (rankwise --debug COMMAND shows where)", FAILURE)


def _end(error: Exception, text: str, code: int) -> None:
    if _debugging.get():
        raise error
    print(f"rankwise: {visible(text)}", file=sys.stderr)
    sys.exit(code)


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show a warning as a line, once; what other libraries warn of is for --debug."""
    own = issubclass(category, RunWarning) or filename.startswith(_HERE)
    text = str(message)
    if text in _said or not (own or _debugging.get()):
        return
    _said.add(text)
    print(f"warning: {visible(text)}", file=sys.stderr)


if __name__ == "__main__":
    main()
