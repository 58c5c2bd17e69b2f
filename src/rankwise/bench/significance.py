"""Which methods differ: tests over tasks, wins and losses.

Tests take tasks as independent: the seeds of a task are averaged first. Regrets that are equal to
the last digit that counts are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from rankwise.bench.files import EXTRA
from rankwise.bench.panel import DIGITS, Panel
from rankwise.bench.statistics import ALPHA, block_ranks, complete_blocks, rankable
from rankwise.errors import BenchmarkDataError, check_name
from rankwise.types import Array, Mask

FEWEST_TASKS = 5  # of a test: with fewer, no difference could become significant
BUDGETS = (25, 50, 100)  # trials after which methods are tested, as far as they exist
POSTHOCS = ("nemenyi", "wilcoxon")
_EXACT = 50  # differences up to which the signed-rank test is exact, as in SciPy


@dataclass(frozen=True)
class Comparison:
    """Tests of M methods after a number of trials.

    Attributes:
        step: the number of trials.
        methods: names (M,) of those that were compared.
        tasks: how many tasks the tests are over.
        ranks: average rank (M,) over tasks, of the means over seeds.
        friedman: p value of Friedman's test that all are the same; NaN without one.
        pairs: p values (M, M) of the differences between pairs.
        test: the name of the test behind `pairs`; "" if there is none.
        critical_difference: of average ranks in Nemenyi's test; NaN without one.
        note: why there is no test; "" if there is one.
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
        """Which pairs (M, M) differ; none if Friedman's test sees no difference at all."""
        if self.friedman >= ALPHA:
            return np.zeros_like(self.pairs, dtype=bool)
        below: Mask = self.pairs < ALPHA
        return below


@dataclass(frozen=True)
class Duel:
    """One method against another, over the runs that both have.

    Attributes:
        wins: pairs of task and seed in which the first has the smaller regret.
        ties: pairs in which both have the same.
        losses: pairs in which it has the larger one.
        difference: mean regret of the first minus that of the second; NaN without runs.
        tasks: how many tasks the test is over.
        p: of Wilcoxon's signed-rank test over tasks; NaN if they are too few.
    """

    wins: int
    ties: int
    losses: int
    difference: float
    tasks: int
    p: float


def budgets(trials: int) -> list[int]:
    """The trials after which methods are tested: those of `BUDGETS` that exist, and the last."""
    return sorted({step for step in BUDGETS if step < trials} | {trials})


def compare(panels: Sequence[Panel], step: int, *, posthoc: str = "nemenyi") -> Comparison:
    """Friedman's test over tasks and, if it sees a difference, tests between pairs.

    Args:
        panels: what to compare; a task of any of them counts once.
        step: trials after which the regrets are compared.
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
        return replace(untested, note="there are no two methods to compare")
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
    """The difference of average ranks from which on two methods differ in Nemenyi's test."""
    from scipy.stats import studentized_range

    quantile = studentized_range.ppf(1 - ALPHA, methods, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6 * tasks)))


def duel(panels: Sequence[Panel], first: str, second: str, step: int | None = None) -> Duel:
    """Compare two methods after `step` trials, or in the mean of the regret over all trials."""
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
    """Regrets (M, B) after a number of trials, or in the mean over all trials."""
    if step is None:
        return np.asarray(np.round(panel.regrets[:, :, 1:].mean(axis=2), DIGITS))
    return np.asarray(panel.regrets[:, :, step])


def _task_means(values: Array, panel: Panel) -> Array:
    """Means (M, K) of values (M, B) over the seeds of a task, where all methods have them."""
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
    """P value of Wilcoxon's test; a difference of zero speaks for nobody and is left out."""
    from scipy.stats import rankdata, wilcoxon

    differences = differences[differences != 0]
    if len(differences) > _EXACT:
        return float(wilcoxon(differences).pvalue)
    # SciPy's exact test knows no ties, and its permutations take a second.
    ranks = np.rint(2 * rankdata(np.round(np.abs(differences), DIGITS))).astype(int)
    chances = np.zeros(ranks.sum() + 1)  # of the sum of twice the ranks of one sign
    chances[0] = 1.0
    for rank in ranks:
        chances = 0.5 * (chances + np.r_[np.zeros(rank), chances[: len(chances) - rank]])
    smaller = min(ranks[differences > 0].sum(), ranks[differences < 0].sum())
    return float(min(1.0, 2.0 * chances[: smaller + 1].sum()))


def _holm(pairs: Array) -> Array:
    """P values (M, M) corrected for the number of pairs: the smallest by all, and so on."""
    upper = np.triu_indices(len(pairs), 1)
    order = np.argsort(pairs[upper])
    factors = np.arange(len(order), 0, -1)
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(np.maximum.accumulate(pairs[upper][order] * factors), 1.0)
    result = np.ones_like(pairs)
    result[upper] = corrected
    return np.minimum(result, result.T)


def import_posthocs() -> Any:
    """The package scikit-posthocs, or a sentence about how to get it."""
    try:
        import scikit_posthocs
    except ImportError:
        raise BenchmarkDataError(
            f"tests between methods need scikit-posthocs, which is not installed: run {EXTRA}"
        ) from None
    return scikit_posthocs
