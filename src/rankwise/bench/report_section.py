"""A section of a report, for one benchmark or for several together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from rankwise import methods as own_methods
from rankwise.bench import figures
from rankwise.bench.figures import Style
from rankwise.bench.published import is_transfer
from rankwise.bench.report_document import Block, Heading, Picture, Table, Text
from rankwise.bench.run_arrays import Panel
from rankwise.bench.significance import Comparison, Duel, budgets, compare, duel
from rankwise.bench.statistics import ALPHA, Curves, average_ranks, found, mean_regrets, timing

PORTFOLIO, RANDOM = "portfolio", "random"
"""Baselines that all other methods are compared with, if there are runs of them."""


class Section:
    """Makes the blocks and the figures of a section.

    Args:
        title: heading of the section.
        panels: panels with the same methods and numbers of trials.
        steps: numbers of trials that tables show.
        looks: style of each method.
        stem: common prefix of the paths of the figures.

    Attributes:
        written: paths of the figures that `blocks` wrote.
    """

    def __init__(
        self,
        title: str,
        panels: Sequence[Panel],
        steps: Sequence[int],
        looks: dict[str, Style],
        stem: Path,
    ) -> None:
        self._title, self._panels, self._steps = title, panels, steps
        self._looks, self._stem = looks, stem
        self._methods = panels[0].methods
        self.written: list[Path] = []

    def blocks(self) -> Iterable[Block]:
        """Yield the blocks of the section and write their figures."""
        yield Heading(2, self._title)
        yield Text(self._facts())
        yield from self._yardsticks()
        yield from self._regrets()
        yield from self._ranks()
        yield from self._costs()
        yield from self._tests()
        yield from self._duels()

    def _facts(self) -> str:
        tasks = sum(len(set(panel.task_numbers)) for panel in self._panels)
        pairs = sum(len(panel.blocks) for panel in self._panels)
        facts = f"{tasks} tasks, {pairs} pairs of task and seed."
        if len(self._panels) > 1:
            names = ", ".join(panel.benchmark for panel in self._panels)
            facts += f" Benchmarks with equal weights: {names}."
        return facts

    # ------------------------------------------------------------------ yardsticks

    def _yardsticks(self) -> Iterable[Block]:
        """Yield comparisons with the portfolio and with random search."""
        for name in (PORTFOLIO, RANDOM):
            yardstick = next((m for m in self._methods if _base(m) == name), None)
            others = [m for m in self._methods if m != yardstick and _base(m) != RANDOM]
            if yardstick is not None and others:
                duels = {m: duel(self._panels, m, yardstick) for m in others}
                yield Text(_verdict(yardstick, duels))
                if name == PORTFOLIO:
                    yield from _worth(duels)

    # ------------------------------------------------------------------ curves

    def _regrets(self) -> Iterable[Block]:
        curves = mean_regrets(self._panels)
        yield Heading(3, "Mean regret")
        absent = self._without(curves)
        if absent:
            yield Text(f"Runs are missing, so there is no mean for: {absent}.", alarm=True)
        if np.isfinite(curves.mean).any():
            picture = figures.regret_picture(curves, self._title, self._looks)
            page = figures.regret_page(curves, self._looks)
            yield self._picture(picture, "regret", "Mean regret over trials.", page)
        yield self._curve_table(curves, "{:.4f}")

    def _ranks(self) -> Iterable[Block]:
        curves = average_ranks(self._panels)
        yield Heading(3, "Average rank")
        yield Text(
            f"Over {curves.blocks} of {curves.of} pairs of task and seed: those with runs of all "
            "methods.",
            alarm=curves.blocks < curves.of,
        )
        absent = self._without(curves)
        if absent:
            yield Text(f"Not ranked, because runs are missing: {absent}.", alarm=True)
        if np.isfinite(curves.mean).any():
            picture = figures.rank_picture(curves, self._title, self._looks)
            page = figures.rank_page(curves, self._looks)
            yield self._picture(picture, "rank", "Average rank over trials.", page)
        yield self._curve_table(curves, "{:.2f}")

    def _without(self, curves: Curves) -> str:
        """Return the names of the methods without a curve, separated by commas."""
        pairs = zip(self._methods, curves.mean[:, -1], strict=True)
        return ", ".join(method for method, end in pairs if np.isnan(end))

    def _curve_table(self, curves: Curves, form: str) -> Table:
        """Make a table of means with intervals, sorted by the last trial, best method first.

        The best value of each column is in bold type. The last column is the mean over all trials.

        Args:
            curves: curves of all methods.
            form: format of the numbers.
        """
        order = np.argsort(curves.mean[:, -1], kind="stable")
        overall = curves.mean[:, 1:].mean(axis=1)
        rows, bold = [], set()
        for row in order:
            cells = [_cell(curves, row, step, form) for step in self._steps]
            mean = form.format(overall[row]) if np.isfinite(overall[row]) else MISSING
            rows.append([self._methods[row], *cells, mean])
        columns = [*(curves.mean[order, step] for step in self._steps), overall[order]]
        for j, values in enumerate(columns, start=1):
            shown = np.array([float(form.format(value)) for value in values])
            best = shown == np.nanmin(shown, initial=np.inf)
            bold |= {(i, j) for i in np.flatnonzero(best).tolist()}
        header = ["method", *(f"after {step}" for step in self._steps)]
        return Table([*header, f"1 to {curves.mean.shape[1] - 1}"], rows, frozenset(bold))

    def _picture(self, figure: Any, name: str, caption: str, page: Any = None) -> Picture:
        png, svg = figures.save(figure, self._stem.with_name(f"{self._stem.name}-{name}"))
        self.written += [png, svg]
        return Picture(f"{self._title}: {caption}", (png, svg), page)

    # ------------------------------------------------------------------ the rest

    def _costs(self) -> Iterable[Block]:
        header = [
            "method",
            "optimum found",
            "seconds per proposal: mean",
            "median",
            "95th percentile",
        ]
        fallbacks = {m: self._sum(m, "fallbacks") for m in self._methods}
        missing = {m: self._sum(m, "missing") for m in self._methods}
        rows = []
        for method in self._methods:
            hits, runs = found(self._panels, method)
            share = f"{hits} of {runs} runs ({hits / runs:.0%})" if runs else MISSING
            times = timing(self._panels, method)
            rows.append([method, share, *map(_seconds, (times.mean, times.median, times.p95))])
        for name, counts in (("fallback proposals", fallbacks), ("missing runs", missing)):
            if any(counts.values()):
                header.append(name)
                for row in rows:
                    row.append(str(counts[row[0]]))
        yield Heading(3, "Optima found and time")
        if any(fallbacks.values()):
            yield Text("Fallback proposals were random because the surrogate failed.")
        yield Table(header, rows)

    def _sum(self, method: str, what: str) -> int:
        if what == "missing":
            return sum(run.method == method for panel in self._panels for run in panel.missing)
        return sum(panel.fallbacks[panel.methods.index(method)] for panel in self._panels)

    def _tests(self) -> Iterable[Block]:
        yield Heading(3, "Which methods differ")
        for step in budgets(self._panels[0].trials):
            result = compare(self._panels, step)
            yield Text(_sentence(result))
            if result.test:
                title = f"{self._title}\naverage rank after {step} trials"
                picture = figures.difference_picture(result, title, self._looks)
                caption = f"Average ranks over {result.tasks} tasks after {step} trials."
                yield self._picture(picture, f"difference-{step}", caption)

    def _duels(self) -> Iterable[Block]:
        if len(self._methods) < 2:
            return
        last = self._panels[0].trials
        yield Heading(3, "Wins, ties and losses")
        yield Text(
            "Each cell has the wins, ties and losses of the method in the row against the method "
            "in the column, over pairs of task and seed for which both have a run. The number in "
            "parentheses is the p value of Wilcoxon's signed-rank test over tasks, not corrected "
            "for the number of pairs."
        )
        for text, step in (
            ("In the mean regret over all trials:", None),
            (f"After {last} trials:", last),
        ):
            yield Text(text)
            rows: list[list[str]] = [[method] for method in self._methods]
            for (i, a), b in product(enumerate(self._methods), self._methods):
                rows[i].append("" if a == b else _score(duel(self._panels, a, b, step)))
            yield Table(["", *self._methods], rows)


MISSING = "missing"


def _cell(curves: Curves, row: int, step: int, form: str) -> str:
    if np.isnan(curves.mean[row, step]):
        return MISSING
    mean, low, high = (form.format(c[row, step]) for c in (curves.mean, curves.low, curves.high))
    return f"{mean} [{low}, {high}]"


def _seconds(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.4f}" if value < 1 else f"{value:.4g}"


def _score(result: Duel) -> str:
    score = f"{result.wins}/{result.ties}/{result.losses}"
    return score if np.isnan(result.p) else f"{score} ({_p(result.p)})"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _equation(value: float) -> str:
    return f"p {'' if value < 0.001 else '= '}{_p(value)}"


def _sentence(result: Comparison) -> str:
    after = f"After {result.step} trials, over {result.tasks} tasks (means over seeds)"
    if not result.test:
        return f"After {result.step} trials there is no test: {result.note}."
    if np.isnan(result.friedman):
        return f"{after}: Wilcoxon's signed-rank test, {_equation(result.pairs[0, 1])}."
    verdict = f"{after}: Friedman's test, {_equation(result.friedman)}"
    if result.friedman >= ALPHA:
        return f"{verdict}; no significant difference between the methods."
    pairs = int(result.different.sum()) // 2
    total = len(result.methods) * (len(result.methods) - 1) // 2
    return f"{verdict}; {pairs} of {total} pairs differ ({result.test}, level {ALPHA:g})."


# ---------------------------------------------------------------------- against a yardstick


def _base(method: str) -> str:
    """Return the name of a method without its options."""
    return method.split(":")[0]


def _transfers(method: str) -> bool:
    """True if a method learns from source tasks; False for an unknown method."""
    name = _base(method)
    known = name in own_methods.available() and own_methods.get(name).transfer
    return known or is_transfer(method)


def _verdict(yardstick: str, duels: dict[str, Duel]) -> str:
    better = {m: d for m, d in duels.items() if d.difference < 0}
    rest = {m: d for m, d in duels.items() if m not in better}
    parts = [
        f"{word}: {', '.join(f'{m} ({_terms(d)})' for m, d in group.items())}."
        for word, group in (("Better", better), ("Not better", rest))
        if group
    ]
    return " ".join([f"Mean regret over all trials, compared with {yardstick}.", *parts])


def _terms(result: Duel) -> str:
    if np.isnan(result.difference):
        return "no run in common"
    test = "" if np.isnan(result.p) else f", {_equation(result.p)}"
    return f"{result.difference:+.4f}{test}"


def _worth(duels: dict[str, Duel]) -> Iterable[Block]:
    """Yield a sentence about transfer methods that are not (significantly) better than portfolio.

    Args:
        duels: comparison of each method with the portfolio.
    """
    learners = {m: d for m, d in duels.items() if _transfers(m)}
    if not learners:
        return
    beaten = [m for m, d in learners.items() if not d.difference < 0]
    unsure = [m for m, d in learners.items() if d.difference < 0 and not d.p < ALPHA]
    text = "All transfer methods are better than the portfolio."
    if beaten:
        text = f"Transfer methods that are not better than the portfolio: {', '.join(beaten)}."
    if unsure:
        text += f" Better, but not significantly: {', '.join(unsure)}."
    yield Text(text, alarm=bool(beaten))
