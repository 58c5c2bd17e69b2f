"""The runs of one benchmark and one protocol as arrays; what is missing stays visible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rankwise.bench.results import Run
from rankwise.errors import BenchmarkDataError, OptionError, check_name
from rankwise.types import Array, Mask

DIGITS = 10
"""Decimals of a regret that count. The same regret computed in two ways differs in the last bits,
and that must not decide who is better."""


@dataclass(frozen=True)
class Missing:
    """A run that is not there.

    Attributes:
        method: of the run.
        task: of the run.
        seed: of the run.
        reason: the last line of the error, or "not run".
    """

    method: str
    task: str
    seed: int
    reason: str


@dataclass(frozen=True)
class Panel:
    """M methods on B blocks over T trials; a block is a task with a seed.

    Attributes:
        benchmark: name of the benchmark.
        initial: given points that the runs began with.
        trials: T.
        methods: names (M,) in the order of their first run.
        blocks: task and seed of each of the B blocks.
        regrets: (M, B, T + 1), rounded to `DIGITS`; NaN where a run is missing.
        seconds: for each method, of all its proposals (n,).
        fallbacks: for each method, its proposals that were random because the surrogate failed.
        missing: the runs that are not there.
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
        """Which method has a run in which block (M, B)."""
        there: Mask = ~np.isnan(self.regrets[:, :, 0])
        return there

    @property
    def task_numbers(self) -> np.ndarray:
        """For each block (B,) the number of its task, by first appearance."""
        numbers: dict[str, int] = {}
        return np.array([numbers.setdefault(task, len(numbers)) for task, _ in self.blocks])

    def only(self, methods: Iterable[str]) -> Panel:
        """The same with some of the methods, in the order given."""
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
    """A panel for every benchmark and protocol among the runs, by first appearance."""
    groups: dict[tuple[str, int, int], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.benchmark, run.initial, run.trials), []).append(run)
    return [make_panel(group) for group in groups.values()]


def make_panel(runs: Sequence[Run]) -> Panel:
    """The panel of runs of one benchmark and one protocol.

    Every method is expected in every block in which any of them was run.

    Raises:
        OptionError: there are no runs, or they are of several benchmarks or protocols.
        BenchmarkDataError: a run is there twice, or its regrets are damaged.
    """
    kinds = {(run.benchmark, run.initial, run.trials) for run in runs}
    if len(kinds) != 1:
        raise OptionError(
            f"a panel is of one benchmark and one protocol, not of {len(kinds)}; "
            "make_panels divides the runs"
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
            raise BenchmarkDataError(f"{_place(run)} is there twice; leave one of the two out")
    return cells


def _checked(run: Run, regrets: Array) -> Array:
    if np.shape(regrets) != (run.trials + 1,):
        raise BenchmarkDataError(
            f"{_place(run)} has regrets of shape {np.shape(regrets)}; "
            f"{run.trials} trials make ({run.trials + 1},)"
        )
    if not np.all(np.isfinite(regrets)):
        raise BenchmarkDataError(
            f"{_place(run)} has regrets that are no numbers; a run that failed has none"
        )
    return regrets


def _place(run: Run) -> str:
    return (
        f"the run of {run.method!r} on task {run.task!r} of {run.benchmark!r} with seed {run.seed}"
    )


def _reason(run: Run | None) -> str:
    lines = run.error.strip().splitlines() if run is not None else []
    return lines[-1].strip() if lines else "not run"
