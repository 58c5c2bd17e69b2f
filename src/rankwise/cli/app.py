"""The entry point of the command line: the `rankwise` app, exit codes and shown warnings."""

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
from rankwise.cli import archive_commands as archive
from rankwise.cli import builtin_command, info, train
from rankwise.cli.console import Interrupted, visible
from rankwise.cli.tune import command as tune
from rankwise.cli.tune import predict
from rankwise.errors import OptionError, RankwiseError, RunWarning, UnknownNameError

USAGE, FAILURE, INTERRUPTED = 2, 1, 130
DEBUG_VARIABLE = "RANKWISE_DEBUG"

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_debugging: ContextVar[bool] = ContextVar("debugging", default=False)
_shown: set[str] = set()  # texts of warnings, so that each is shown once

app = typer.Typer(
    name="rankwise",
    help="Hyperparameter optimization that learns from past studies.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


class _Bench(TyperGroup):
    """The commands of `rankwise bench`, imported on first use to keep startup fast."""

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
app.command("predict")(predict.predict)
app.command("train")(train.train)
app.command("methods")(info.show_methods)
app.command("spaces")(info.show_spaces)
app.command("builtin")(builtin_command.show_builtin)
app.command("doctor")(info.examine)
app.add_typer(archive.app, name="archive")
app.add_typer(
    typer.Typer(cls=_Bench, help="Compare methods on published benchmarks.", no_args_is_help=True),
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
            help="Show tracebacks and the warnings of other libraries.",
        ),
    ] = False,
) -> None:
    _debugging.set(debug)


def main() -> None:
    """Run the command line. Errors are printed as one sentence, without a traceback.

    Exit codes: 1 for a failure, 2 for wrong options or unknown names, 130 after Ctrl-C.
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
            print("rankwise: interrupted; finished work is kept", file=sys.stderr)
        raise
    except Exception as error:  # a bug in Rankwise: show a traceback only with --debug
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
        text = f"{type(error).__name__}: {reason}"
        _end(error, f"unexpected {text} (rankwise --debug COMMAND shows a traceback)", FAILURE)


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
    """Print a warning as one line, once per text; other libraries' warnings only with --debug."""
    own = issubclass(category, RunWarning) or filename.startswith(_HERE)
    text = str(message)
    if text in _shown or not (own or _debugging.get()):
        return
    _shown.add(text)
    print(f"warning: {visible(text)}", file=sys.stderr)


if __name__ == "__main__":
    main()
