"""Live display of a run: progress, best value and remaining time."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from typing_extensions import Self

from rankwise.history.task import OK
from rankwise.history.trial import Trial
from rankwise.run.result import Result


class Silent:
    """Display that shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, trial: Trial, result: Result) -> None:
        return None


class Display:
    """Progress bar with the best value and the remaining time; the last trial is below it.

    Args:
        trials: maximum number of trials; None if it is unlimited.
        seconds: maximum number of seconds; None if it is unlimited.
        direction: "minimize" or "maximize".
        console: a rich console; by default on standard error.
    """

    def __init__(
        self, trials: int | None, seconds: float | None, direction: str, console: Any = None
    ) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._seconds = seconds
        self._trials = trials
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn() if trials else TextColumn("{task.fields[done]} trials"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[best]}"),
            console=console or Console(stderr=True),
            transient=False,
        )
        self._bar = self._progress.add_task(direction, total=trials or seconds, best="", done=0)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def __call__(self, trial: Trial, result: Result) -> None:
        """Add a finished trial to the display."""
        n = len(result.trials)
        completed = n if self._trials else min(result.seconds, self._seconds or math.inf)
        best = result.best_trial
        text = f"best [green]{best.value:.5g}[/] (trial {best.number})" if best else "no value yet"
        if trial.status != OK:
            text += f" [red]trial {trial.number} {trial.status}[/]"
        self._progress.update(self._bar, completed=completed, best=text, done=n)


class Lines:
    """Callback that prints a line now and then, for commands whose output is not a terminal.

    Args:
        trials: maximum number of trials.
        say: prints a line.
        every: least number of seconds between two lines.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        trials: int,
        say: Callable[[str], None],
        every: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._trials, self._say, self._every, self._clock = trials, say, every, clock
        self._last = clock()

    def __call__(self, trial: Trial, result: Result) -> None:
        """Print a line if the last one was printed long enough ago."""
        if self._clock() - self._last < self._every:
            return
        self._last = self._clock()
        best = result.best_trial
        known = f"best {best.value:.5g} (trial {best.number})" if best else "no value yet"
        self._say(f"{len(result.trials)} of {self._trials} trials, {known}")


def make_display(
    progress: bool | None, trials: int | None, seconds: float | None, direction: str
) -> Silent | Display:
    """Make the display of a run; None shows it only if standard error is a terminal."""
    if progress is None:
        progress = sys.stderr.isatty()
    return Display(trials, seconds, direction) if progress else Silent()
