"""Significance tests between methods, and their wins and losses.

Tests assume that tasks are independent; the regrets of a task are averaged over seeds first.
Regrets count as equal if they are equal after rounding to `DIGITS` decimals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from rankwise._core.data_errors import EXTRA
from rankwise.bench.run_arrays import DIGITS, Panel
from rankwise.bench.statistics import ALPHA, block_ranks, complete_blocks, rankable
from rankwise.errors import BenchmarkDataError, check_name
from rankwise.types import Array, Mask

FEWEST_TASKS = 5  # smallest number of tasks for a test; with fewer, nothing can be significant
BUDGETS = (25, 50, 100)  # numbers of trials after which methods are compared
POSTHOCS = ("nemenyi", "wilcoxon")
_EXACT = 50  # largest number of differences for an exact signed-rank test, as in SciPy


@dataclass(frozen=True)
class Comparison:
    """Tests of M methods after a number of trials.

    Attributes:
        step: number of trials.
        methods: names of the M methods.
        tasks: number of tasks.
        ranks: average rank (M,) over tasks; regrets are averaged over seeds before ranking.
        friedman: p value of Friedman's test of equal ranks; NaN without a test.
        pairs: p values (M, M) of the differences between pairs.
        test: name of the test that gave `pairs`; "" if there is none.
        critical_difference: critical difference of Nemenyi's test; NaN without a test.
        note: reason if there is no test, else "".
    """

    step: int
    methods: tuple[str, ...]
    tasks: int
    ranks: Array
    friedman: float
    pairs: Array
    test: str
    critical_difference: float
    note: str

    @property
    def different(self) -> Mask:
        """Mask (M, M) of pairs that differ significantly.

        No pair differs if Friedman's test is not significant.
        """
        if self.friedman >= ALPHA:
            return np.zeros_like(self.pairs, dtype=bool)
        below: Mask = self.pairs < ALPHA
        return below


@dataclass(frozen=True)
class Duel:
    """Comparison of two methods on pairs of task and seed for which both have a run.

    Attributes:
        wins: number of pairs in which the first method has the smaller regret.
        ties: number of pairs with equal regrets.
        losses: number of pairs in which the first method has the larger regret.
        difference: mean regret of the first minus that of the second; NaN without runs.
        tasks: number of tasks.
        p: p value of Wilcoxon's signed-rank test over tasks; NaN if there are too few tasks.
    """

    wins: int
    ties: int
    losses: int
    difference: float
    tasks: int
    p: float


def budgets(trials: int) -> list[int]:
    """Return the numbers of trials for tests: those of `BUDGETS` below `trials`, and `trials`."""
    return sorted({step for step in BUDGETS if step < trials} | {trials})


def compare(panels: Sequence[Panel], step: int, *, posthoc: str = "nemenyi") -> Comparison:
    """Compare methods with Friedman's test over tasks, and all pairs of methods.

    Args:
        panels: runs to compare; each task of each panel counts once.
        step: number of trials after which regrets are compared.
        posthoc: "nemenyi" compares average ranks; "wilcoxon" is the signed-rank test with Holm's
            correction. Two methods are compared with the signed-rank test in any case.
    """
    check_name("test between pairs", posthoc, POSTHOCS)
    able = rankable(panels)
    values = [_task_means(_at(panel.only(able), step), panel) for panel in panels]
    table = np.concatenate(values, axis=1)
    m, n = table.shape
    ranks = block_ranks(table).mean(axis=1) if n else np.full(m, np.nan)
    untested = Comparison(
        step, tuple(able), n, ranks, np.nan, np.full((m, m), np.nan), "", np.nan, ""
    )
    if m < 2:
        return replace(untested, note="a test needs two methods")
    if n < FEWEST_TASKS:
        return replace(untested, note=f"a test needs {FEWEST_TASKS} tasks, there are {n}")
    if m == 2:
        return replace(untested, pairs=_signed_ranks(table), test="Wilcoxon")
    friedman = _friedman(table)
    if posthoc == "wilcoxon":
        pairs = _holm(_signed_ranks(table))
        return replace(untested, friedman=friedman, pairs=pairs, test="Wilcoxon-Holm")
    return replace(
        untested,
        friedman=friedman,
        pairs=_nemenyi(table),
        test="Nemenyi",
        critical_difference=critical_difference(m, n),
    )


def critical_difference(methods: int, tasks: int) -> float:
    """Return the smallest significant difference of average ranks in Nemenyi's test."""
    from scipy.stats import studentized_range

    quantile = studentized_range.ppf(1 - ALPHA, methods, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6 * tasks)))


def duel(panels: Sequence[Panel], first: str, second: str, step: int | None = None) -> Duel:
    """Compare two methods.

    Args:
        panels: runs of the methods.
        first: name of the first method.
        second: name of the second method.
        step: number of trials after which regrets are compared; None compares the mean regret
            over all trials.
    """
    counts = np.zeros(3, dtype=int)
    means, per_task = [], []
    for panel in panels:
        pair = panel.only((first, second))
        values = _at(pair, step)
        a, b = values[:, complete_blocks(pair)]
        counts += [(a < b).sum(), (a == b).sum(), (a > b).sum()]
        a, b = _task_means(values, pair)
        per_task.append(np.round(a - b, DIGITS))
        means.append(np.mean(a - b) if len(a) else np.nan)
    differences = np.concatenate(per_task)
    p = _signed_rank(differences) if len(differences) >= FEWEST_TASKS else np.nan
    wins, ties, losses = counts.tolist()
    return Duel(wins, ties, losses, float(np.mean(means)), len(differences), p)


def _at(panel: Panel, step: int | None) -> Array:
    """Return regrets (M, B) after `step` trials; if that is None, means over all trials."""
    if step is None:
        return np.asarray(np.round(panel.regrets[:, :, 1:].mean(axis=2), DIGITS))
    return np.asarray(panel.regrets[:, :, step])


def _task_means(values: Array, panel: Panel) -> Array:
    """Average values (M, B) over the seeds of each of K tasks; return means (M, K).

    Only blocks with a value of every method count.
    """
    whole = ~np.isnan(values).any(axis=0)
    tasks = panel.task_numbers[whole]
    columns = [values[:, whole][:, tasks == task].mean(axis=1) for task in np.unique(tasks)]
    return np.round(np.stack(columns, axis=1) if columns else np.empty((len(values), 0)), DIGITS)


def _friedman(table: Array) -> float:
    from scipy.stats import friedmanchisquare

    if np.all(table == table[0]):
        return 1.0  # the statistic would be 0 / 0
    return float(friedmanchisquare(*table).pvalue)


def _nemenyi(table: Array) -> Array:
    pairs: Array = import_posthocs().posthoc_nemenyi_friedman(table.T).to_numpy()
    return pairs


def _signed_ranks(table: Array) -> Array:
    pairs = np.ones((len(table), len(table)))
    for i, j in combinations(range(len(table)), 2):
        pairs[i, j] = pairs[j, i] = _signed_rank(np.round(table[i] - table[j], DIGITS))
    return pairs


def _signed_rank(differences: Array) -> float:
    """P value of Wilcoxon's signed-rank test of differences (n,); zeros are left out."""
    from scipy.stats import rankdata, wilcoxon

    differences = differences[differences != 0]
    if len(differences) > _EXACT:
        return float(wilcoxon(differences).pvalue)
    # SciPy's exact test does not support ties, and its permutation test takes a second.
    ranks = np.rint(2 * rankdata(np.round(np.abs(differences), DIGITS))).astype(int)
    chances = np.zeros(ranks.sum() + 1)  # distribution of twice the rank sum of one sign
    chances[0] = 1.0
    for rank in ranks:
        chances = 0.5 * (chances + np.r_[np.zeros(rank), chances[: len(chances) - rank]])
    smaller = min(ranks[differences > 0].sum(), ranks[differences < 0].sum())
    return float(min(1.0, 2.0 * chances[: smaller + 1].sum()))


def _holm(pairs: Array) -> Array:
    """Correct p values (M, M) for the number of pairs with Holm's method."""
    upper = np.triu_indices(len(pairs), 1)
    order = np.argsort(pairs[upper])
    factors = np.arange(len(order), 0, -1)
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(np.maximum.accumulate(pairs[upper][order] * factors), 1.0)
    result = np.ones_like(pairs)
    result[upper] = corrected
    return np.minimum(result, result.T)


def import_posthocs() -> Any:
    """Import the package scikit-posthocs.

    Raises:
        BenchmarkDataError: the package is not installed.
    """
    try:
        import scikit_posthocs
    except ImportError:
        raise BenchmarkDataError(
            f"tests between methods need scikit-posthocs, which is not installed: run {EXTRA}"
        ) from None
    return scikit_posthocs
