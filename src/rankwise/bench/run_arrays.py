"""`Panel`: the runs of one benchmark and one protocol as arrays, and the list of missing runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rankwise.bench.results import Run
from rankwise.errors import BenchmarkDataError, OptionError, check_name
from rankwise.types import Array, Mask

DIGITS = 10
"""Number of decimals of a regret. Regrets are rounded, because the same regret computed in two
ways differs in the last bits, which must not decide which method is better."""


@dataclass(frozen=True)
class Missing:
    """A missing run.

    Attributes:
        method: name of the method.
        task: name of the task.
        seed: seed of the run.
        reason: last line of the error, or "not run".
    """

    method: str
    task: str
    seed: int
    reason: str


@dataclass(frozen=True)
class Panel:
    """Runs of M methods on B blocks over T trials; a block is a pair of task and seed.

    Attributes:
        benchmark: name of the benchmark.
        initial: number of given initial points.
        trials: number of trials T.
        methods: names of the M methods in the order of their first run.
        blocks: task and seed of each of the B blocks.
        regrets: regrets (M, B, T + 1), rounded to `DIGITS`; NaN for missing runs.
        seconds: seconds of all proposals (n,) of each method.
        fallbacks: number of proposals of each method that were random because the surrogate
            failed.
        missing: missing runs.
    """

    benchmark: str
    initial: int
    trials: int
    methods: tuple[str, ...]
    blocks: tuple[tuple[str, int], ...]
    regrets: Array
    seconds: tuple[Array, ...]
    fallbacks: tuple[int, ...]
    missing: tuple[Missing, ...]

    @property
    def present(self) -> Mask:
        """Mask (M, B), True if the method has a run in the block."""
        there: Mask = ~np.isnan(self.regrets[:, :, 0])
        return there

    @property
    def task_numbers(self) -> np.ndarray:
        """Task number (B,) of each block, in order of first appearance."""
        numbers: dict[str, int] = {}
        return np.array([numbers.setdefault(task, len(numbers)) for task, _ in self.blocks])

    def only(self, methods: Iterable[str]) -> Panel:
        """Return a copy with only the given methods, in the given order."""
        chosen = tuple(methods)
        rows = [self.methods.index(check_name("method", m, self.methods)) for m in chosen]
        return replace(
            self,
            methods=chosen,
            regrets=self.regrets[rows],
            seconds=tuple(self.seconds[row] for row in rows),
            fallbacks=tuple(self.fallbacks[row] for row in rows),
            missing=tuple(m for m in self.missing if m.method in chosen),
        )


def make_panels(runs: Iterable[Run]) -> list[Panel]:
    """Make a panel for each benchmark and protocol of the runs, in order of first appearance."""
    groups: dict[tuple[str, int, int], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.benchmark, run.initial, run.trials), []).append(run)
    return [make_panel(group) for group in groups.values()]


def make_panel(runs: Sequence[Run]) -> Panel:
    """Make the panel of runs of one benchmark and one protocol.

    A method without a run in a block where another method has one counts as missing there.

    Raises:
        OptionError: there are no runs, or they belong to several benchmarks or protocols.
        BenchmarkDataError: there are two runs of the same cell, or regrets are damaged.
    """
    kinds = {(run.benchmark, run.initial, run.trials) for run in runs}
    if len(kinds) != 1:
        raise OptionError(
            f"a panel has runs of one benchmark and one protocol, not of {len(kinds)}: "
            "use make_panels, which divides the runs"
        )
    [(benchmark, initial, trials)] = kinds
    methods = tuple(dict.fromkeys(run.method for run in runs))
    blocks = tuple(dict.fromkeys((run.task, run.seed) for run in runs))
    cells = _by_cell(runs)
    regrets = np.full((len(methods), len(blocks), trials + 1), np.nan)
    missing = []
    for i, method in enumerate(methods):
        for j, (task, seed) in enumerate(blocks):
            run = cells.get((method, task, seed))
            if run is None or run.regrets is None:
                missing.append(Missing(method, task, seed, _reason(run)))
            else:
                regrets[i, j] = _checked(run, run.regrets)
    own = [[run for run in runs if run.method == method] for method in methods]
    return Panel(
        benchmark,
        initial,
        trials,
        methods,
        blocks,
        np.round(regrets, DIGITS),
        tuple(np.concatenate([run.seconds for run in group]) for group in own),
        tuple(sum(run.fallbacks for run in group) for group in own),
        tuple(missing),
    )


def _by_cell(runs: Sequence[Run]) -> dict[tuple[str, str, int], Run]:
    cells: dict[tuple[str, str, int], Run] = {}
    for run in runs:
        if cells.setdefault((run.method, run.task, run.seed), run) is not run:
            raise BenchmarkDataError(f"{_place(run)} is given twice; leave one of the two out")
    return cells


def _checked(run: Run, regrets: Array) -> Array:
    if np.shape(regrets) != (run.trials + 1,):
        raise BenchmarkDataError(
            f"{_place(run)} has regrets of shape {np.shape(regrets)}; "
            f"{run.trials} trials need the shape ({run.trials + 1},)"
        )
    if not np.all(np.isfinite(regrets)):
        raise BenchmarkDataError(
            f"{_place(run)} has regrets that are not finite; a failed run must have no regrets"
        )
    return regrets


def _place(run: Run) -> str:
    return (
        f"the run of {run.method!r} on task {run.task!r} of {run.benchmark!r} with seed {run.seed}"
    )


def _reason(run: Run | None) -> str:
    lines = run.error.strip().splitlines() if run is not None else []
    return lines[-1].strip() if lines else "not run"
