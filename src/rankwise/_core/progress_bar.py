"""The progress bar of learning from source tasks."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def steps_only(
    bar: Callable[[int, float, float], None] | None,
) -> Callable[[int], None] | None:
    """Convert the function of `training_bar` to one of the step alone; None stays None."""
    return None if bar is None else lambda step: bar(step, math.nan, math.nan)


@contextmanager
def training_bar(
    progress: bool | None, steps: int, console: Any = None
) -> Iterator[Callable[[int, float, float], None] | None]:
    """Context manager that shows a progress bar.

    It yields a function of the step, training loss and validation loss, or None without a bar.

    Args:
        progress: True shows the bar; None shows it if standard error is a terminal.
        steps: total number of steps.
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
        TextColumn("[bold]learning from past studies"),
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
