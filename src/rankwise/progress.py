"""The live display of a run: how far, how good, how long to go."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from typing_extensions import Self

from rankwise.optimizer import Trial
from rankwise.result import Result
from rankwise.task import OK


class Silent:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, trial: Trial, result: Result) -> None:
        return None


class Display:
    """A bar with the best value so far and the time left, and the last trial below it.

    Args:
        trials: the number to reach, if there is one.
        seconds: the time to use, if it is limited.
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
        """Show one more trial."""
        n = len(result.trials)
        completed = n if self._trials else min(result.seconds, self._seconds or math.inf)
        best = result.best_trial
        text = f"best [green]{best.value:.5g}[/] (trial {best.number})" if best else "no value yet"
        if trial.status != OK:
            text += f" [red]trial {trial.number} {trial.status}[/]"
        self._progress.update(self._bar, completed=completed, best=text, done=n)


@contextmanager
def training_bar(
    progress: bool | None, steps: int, console: Any = None
) -> Iterator[Callable[[int, float, float], None] | None]:
    """A bar for meta-training, as a function of the step, training and validation loss.

    Args:
        progress: whether to show it; None: if standard error is a terminal.
        steps: the number to reach.
        console: a rich console; by default on standard error.
    """
    if not (sys.stderr.isatty() if progress is None else progress):
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("[bold]learning from past tasks"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[losses]}"),
    )
    with Progress(*columns, console=console or Console(stderr=True)) as bar:
        task = bar.add_task("", total=steps, losses="")

        def show(step: int, training: float, validation: float) -> None:
            text = "" if math.isnan(training) else f"loss {training:.4f}"
            if not math.isnan(validation):
                text += f", validation [green]{validation:.4f}[/]"
            bar.update(task, completed=step, losses=text)

        yield show


def make_display(
    progress: bool | None, trials: int | None, seconds: float | None, direction: str
) -> Silent | Display:
    """The display for a run: None shows it if standard error is a terminal."""
    if progress is None:
        progress = sys.stderr.isatty()
    return Display(trials, seconds, direction) if progress else Silent()
