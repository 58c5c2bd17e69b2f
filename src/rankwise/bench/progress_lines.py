"""Progress of a benchmark run: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from typing_extensions import Self

from rankwise.bench.cells import Cell

_EVERY = 30.0  # seconds between two lines without a terminal


class Display:
    """Progress display: a bar, or a line every 30 seconds; failed cells are reported at once.

    Args:
        progress: True for a bar, False for lines; None for a bar if standard error is a terminal.
        total: number of cells.
    """

    def __init__(self, progress: bool | None, total: int) -> None:
        self._bar: Any = None
        self._total, self._done, self._failed, self._models = total, 0, 0, 0
        self._start = self._said = time.monotonic()
        if sys.stderr.isatty() if progress is None else progress:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            self._bar = Progress(
                TextColumn("[bold]cells"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[last]}"),
                console=Console(stderr=True),
            )
            self._task = self._bar.add_task("", total=total, last="")

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar:
            self._bar.stop()

    def learnt(self, cell: Cell, total: int) -> None:
        """Report that a model was learnt; this time does not count in the time left.

        Args:
            cell: a cell that needs the model.
            total: number of models.
        """
        self._models += 1
        text = f"models learnt: {self._models}/{total} ({cell.benchmark} {cell.method})"
        if self._bar:
            self._bar.update(self._task, last=text)
        elif time.monotonic() - self._said > _EVERY:
            self._said = time.monotonic()
            self._say(text)
        self._start = time.monotonic()

    def advance(self, cell: Cell, error: str) -> None:
        """Report that a cell is finished; `error` is "" if it has a result."""
        self._done += 1
        name = f"{cell.benchmark} {cell.task} {cell.method} seed {cell.seed}"
        if error:
            self._failed += 1
            self._say(f"failed: {name}: {error}")
        if self._bar:
            self._bar.update(self._task, completed=self._done, last=name)
        elif time.monotonic() - self._said > _EVERY or self._done == self._total:
            self._said = time.monotonic()
            left = (self._said - self._start) / self._done * (self._total - self._done)
            failed = f", {self._failed} failed" if self._failed else ""
            self._say(f"{self._done}/{self._total} cells{failed}, {left / 60:.1f} min left")

    def _say(self, line: str) -> None:
        if self._bar:
            self._bar.console.print(line, markup=False)
        else:
            print(line, file=sys.stderr, flush=True)
