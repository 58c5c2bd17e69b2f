"""Statistics of the runs of a benchmark: mean regrets and ranks with intervals, and seconds.

Functions take panels with the same methods and numbers of trials. Results are those of one
benchmark for one panel, and averages over benchmarks for several. All benchmarks have the same
weight in a mean, and within a benchmark all tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankwise.bench.run_arrays import Panel
from rankwise.errors import OptionError
from rankwise.types import Array, Mask

ALPHA = 0.05  # significance level; intervals cover 1 - ALPHA
DRAWS = 1000  # number of bootstrap draws


@dataclass(frozen=True)
class Curves:
    """Means with intervals of M methods after 0 to T trials.

    Attributes:
        methods: names of the M methods.
        mean: means (M, T + 1); NaN for a method with missing runs.
        low: lower end of the 95 % interval (M, T + 1).
        high: upper end of the 95 % interval (M, T + 1).
        blocks: number of pairs of task and seed that the means use.
        of: number of all pairs of task and seed.
    """

    methods: tuple[str, ...]
    mean: Array
    low: Array
    high: Array
    blocks: int
    of: int


@dataclass(frozen=True)
class Timing:
    """Seconds per proposal of a method: mean, median and 95th percentile; NaN if there is none."""

    mean: float
    median: float
    p95: float


# ---------------------------------------------------------------------- several benchmarks


def common(panels: Sequence[Panel]) -> list[Panel]:
    """Return the panels with only the methods that all of them have, in the first one's order."""
    shared = [m for m in panels[0].methods if all(m in panel.methods for panel in panels)]
    return [panel.only(shared) for panel in panels]


def rankable(panels: Sequence[Panel]) -> list[str]:
    """Return the methods that have at least one run in each panel.

    Other methods cannot be ranked, because no block would be complete with them.
    """
    _check_alike(panels)
    able = np.all([panel.present.any(axis=1) for panel in panels], axis=0)
    return [method for method, yes in zip(panels[0].methods, able, strict=True) if yes]


def complete_blocks(panel: Panel) -> Mask:
    """Mask (B,) of the blocks in which every method has a run."""
    return np.asarray(panel.present.all(axis=0))


def _check_alike(panels: Sequence[Panel]) -> None:
    if len({(panel.methods, panel.trials) for panel in panels}) != 1:
        raise OptionError(
            "panels must have the same methods in the same order and the same number of trials; "
            "see common"
        )


# ---------------------------------------------------------------------- curves


def mean_regrets(panels: Sequence[Panel], *, seed: int = 0) -> Curves:
    """Compute the mean regret of each method over tasks and seeds.

    Intervals come from a two-level bootstrap: tasks are drawn with replacement, then seeds within
    each drawn task. They show how much the mean would change with other tasks of the same kind. A
    method with a missing run has no mean, because the missing runs may be the difficult ones.

    Args:
        panels: runs of the same methods.
        seed: seed of the bootstrap.
    """
    _check_alike(panels)
    blocks = sum(len(panel.blocks) for panel in panels)
    parts = [(panel.regrets, panel.task_numbers) for panel in panels]
    return Curves(panels[0].methods, *_means(parts, seed), blocks, blocks)


def average_ranks(panels: Sequence[Panel], *, seed: int = 0) -> Curves:
    """Compute the average rank of each method; 1 is the best.

    Methods are ranked within each pair of task and seed, after each trial; equal regrets share
    their ranks. Only pairs in which all methods have a run count. A method without any run is
    left out, because otherwise no pair would count. Intervals are computed as in `mean_regrets`.

    Args:
        panels: runs of the same methods.
        seed: seed of the bootstrap.
    """
    able = rankable(panels)
    shape = (len(panels[0].methods), panels[0].trials + 1)
    mean, low, high = (np.full(shape, np.nan) for _ in range(3))
    chosen = [panel.only(able) for panel in panels]
    whole = [complete_blocks(panel) for panel in chosen]
    if able and all(mask.any() for mask in whole):
        parts = [
            (block_ranks(panel.regrets[:, mask]), panel.task_numbers[mask])
            for panel, mask in zip(chosen, whole, strict=True)
        ]
        rows = [panels[0].methods.index(method) for method in able]
        mean[rows], low[rows], high[rows] = _means(parts, seed)
    used = sum(int(mask.sum()) for mask in whole) if able else 0
    return Curves(
        panels[0].methods, mean, low, high, used, sum(len(panel.blocks) for panel in panels)
    )


def block_ranks(regrets: Array) -> Array:
    """Rank regrets (M, ...) along the first axis; the smallest has rank 1, ties share ranks."""
    from scipy.stats import rankdata

    ranks: Array = rankdata(regrets, method="average", axis=0)
    return ranks


def _means(parts: Sequence[tuple[Array, np.ndarray]], seed: int) -> tuple[Array, Array, Array]:
    """Compute means and intervals, averaged over benchmarks.

    Args:
        parts: for each benchmark, values (M, B, T + 1) and the task number (B,) of each block.
        seed: seed of the bootstrap.

    Returns:
        Mean, lower end and upper end of the interval, each (M, T + 1).
    """
    rng = np.random.default_rng(seed)
    means, draws = [], []
    for values, tasks in parts:
        _, tasks, sizes = np.unique(tasks, return_inverse=True, return_counts=True)
        weights = 1.0 / (len(sizes) * sizes[tasks])
        means.append(np.tensordot(weights, values, (0, 1)))
        draws.append(np.tensordot(_draw(tasks, sizes, rng), values, (1, 1)))
    ends = np.quantile(np.mean(draws, axis=0), [ALPHA / 2, 1 - ALPHA / 2], axis=0)
    return np.mean(means, axis=0), ends[0], ends[1]


def _draw(tasks: np.ndarray, sizes: np.ndarray, rng: np.random.Generator) -> Array:
    """Draw bootstrap samples; return the weights (`DRAWS`, B) of the blocks in each.

    Args:
        tasks: task number (B,) of each block.
        sizes: number of blocks (K,) of each task.
        rng: random generator.
    """
    blocks = np.argsort(tasks, kind="stable")  # sorted by task
    first = np.cumsum(sizes) - sizes
    drawn = rng.integers(len(sizes), size=(DRAWS, len(sizes)))[:, :, None]
    picks = np.floor(rng.random((DRAWS, len(sizes), sizes.max())) * sizes[drawn]).astype(int)
    share = np.where(np.arange(sizes.max()) < sizes[drawn], 1.0 / (len(sizes) * sizes[drawn]), 0.0)
    cells = np.arange(DRAWS)[:, None, None] * len(tasks) + blocks[first[drawn] + picks]
    weights: Array = np.bincount(cells.ravel(), share.ravel(), DRAWS * len(tasks)).astype(float)
    return weights.reshape(DRAWS, len(tasks))


# ---------------------------------------------------------------------- other figures


def timing(panels: Sequence[Panel], method: str) -> Timing:
    """Compute the seconds per proposal of a method, over all its proposals."""
    seconds = np.concatenate([p.seconds[p.methods.index(method)] for p in panels])
    if not len(seconds):
        return Timing(np.nan, np.nan, np.nan)
    return Timing(
        float(seconds.mean()), float(np.median(seconds)), float(np.quantile(seconds, 0.95))
    )


def found(panels: Sequence[Panel], method: str) -> tuple[int, int]:
    """Return the number of runs of a method that found the optimum, and the number of its runs."""
    ends = np.concatenate([p.regrets[p.methods.index(method), :, -1] for p in panels])
    return int((ends == 0).sum()), int((~np.isnan(ends)).sum())
