"""What was expected of the trials before they were evaluated, and what came of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import binomtest, norm, rankdata

from rankwise.archive.agreement import rank_correlation
from rankwise.report.page import (
    Figure,
    Html,
    Section,
    beside,
    figure,
    layout,
    paragraph,
    percent,
)
from rankwise.report.record import Record, Row
from rankwise.types import Array

LEVELS = (0.5, 0.8, 0.95)
_FEWEST = 5
_HOW = (
    "The study does not say what was expected of its trials. A search with a method that predicts "
    "values (RankwiseSearchCV or rankwise tune) records it."
)


def forecast_section(record: Record) -> Section:
    """The section on predictions."""
    rows = [row for row in record.complete if not math.isnan(row.mean)]
    parts: list[Html]
    if not rows:
        parts = [paragraph(_HOW, "note")]
    elif len(rows) < _FEWEST:
        parts = [
            paragraph(
                f"Of {len(rows)} trials it is known what was expected of them: too few to judge.",
                "note",
            )
        ]
    else:
        parts = _parts(record, rows)
    return Section("predictions", "Expected and actual results", parts)


def _parts(record: Record, rows: Sequence[Row]) -> list[Html]:
    expected = rankdata([record.sign * row.mean for row in rows])
    actual = rankdata([record.sign * row.value for row in rows])
    figures = [figure(_ranks(rows, expected, actual))]
    texts = [_ranks_in_words(len(rows), rank_correlation(expected, actual))]
    spread = [row for row in rows if row.std > 0]
    if len(spread) >= _FEWEST:
        shares = coverage(spread)
        figures.append(figure(_coverage_figure(shares, len(spread))))
        texts.append(coverage_in_words(shares, len(spread)))
    return [*(paragraph(text) for text in texts), beside(*figures)]


def _ranks_in_words(n: int, correlation: float) -> str:
    if math.isnan(correlation):
        return f"All of the {n} expectations or all outcomes are equal: their order says nothing."
    how = "well" if correlation >= 0.7 else "roughly" if correlation >= 0.4 else "hardly"
    return (
        f"The model foresaw the order of {n} trials {how}: the rank correlation (Spearman) of "
        f"what it expected with what came is {correlation:.2f}, where 1 is perfect and 0 is "
        "chance. Trials are chosen because they promise to be good, which makes their order "
        "harder to foresee than that of random ones."
    )


def coverage(rows: Sequence[Row]) -> Array:
    """The shares (3,) of outcomes inside the 50, 80 and 95 % intervals of normal predictions."""
    z = np.array([abs(row.value - row.mean) / row.std for row in rows])
    shares: Array = np.array([np.mean(z <= norm.ppf((1 + level) / 2)) for level in LEVELS])
    return shares


def coverage_in_words(shares: Array, n: int) -> str:
    """Whether the predictions are as uncertain as they say, as far as chance lets it be told."""
    listed = ", ".join(
        f"{percent(share)} in the {percent(level)} interval"
        for share, level in zip(shares, LEVELS, strict=True)
    )
    verdicts = {_verdict(share, level, n) for share, level in zip(shares, LEVELS, strict=True)}
    if verdicts == {0}:
        judgement = "That is as it should be, as far as so many trials can tell: the model knows "
        judgement += "how uncertain it is."
    elif verdicts <= {0, -1}:
        judgement = "That is too few: the model is surer of itself than it should be."
    elif verdicts <= {0, 1}:
        judgement = "That is too many: the model is more careful than it would have to be."
    else:
        judgement = "The spread of its errors has another shape than the model thinks."
    return f"Where {n} outcomes fell: {listed}. {judgement}"


def _verdict(share: float, level: float, n: int) -> int:
    """-1 for clearly too few inside an interval, 1 for clearly too many, else 0."""
    if binomtest(round(share * n), n, level).pvalue >= 0.02:
        return 0
    return -1 if share < level else 1


# ---------------------------------------------------------------------- figures


def _ranks(rows: Sequence[Row], expected: Array, actual: Array) -> Figure:
    from matplotlib.ticker import MaxNLocator

    n = len(rows)
    diagonal = {
        "x": [1, n],
        "y": [1, n],
        "mode": "lines",
        "line": {"color": "var(--mark)", "dash": "dot", "width": 1.5},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    points = {
        "x": expected,
        "y": actual,
        "mode": "markers",
        "marker": {"color": "var(--accent)", "size": 9, "opacity": 0.75},
        "customdata": [[row.number, row.mean, row.value] for row in rows],
        "hovertemplate": "trial %{customdata[0]}<br>expected %{customdata[1]:.5g}, rank %{x}<br>"
        "came %{customdata[2]:.5g}, rank %{y}<extra></extra>",
        "showlegend": False,
    }
    room = 0.04 * n + 0.5
    ticks = [t for t in MaxNLocator(5, integer=True).tick_values(1, n) if 1 < t <= n]
    axis = {"range": [n + room, 1 - room], "tickvals": [1, *ticks]}
    axes = {
        "xaxis": {"title": {"text": "expected rank (1 is best)"}, **axis},
        "yaxis": {"title": {"text": "actual rank"}, **axis},
    }
    caption = (
        "Expected against actual rank of each trial; perfect predictions lie on the dotted line, "
        "the best trials at the top right."
    )
    return Figure("ranks-plot", caption, [diagonal, points], layout(360, **axes))


def _coverage_figure(shares: Array, n: int) -> Figure:
    names = [percent(level) for level in LEVELS]
    limits = [binomtest(round(share * n), n).proportion_ci(method="wilson") for share in shares]
    bars: dict[str, Any] = {
        "type": "bar",
        "x": names,
        "y": shares,
        "name": "inside",
        "marker": {"color": "var(--middle)"},
        "width": 0.5,
        "error_y": {
            "type": "data",
            "array": [limit.high - share for limit, share in zip(limits, shares, strict=True)],
            "arrayminus": [share - limit.low for limit, share in zip(limits, shares, strict=True)],
            "color": "var(--ink)",
            "thickness": 1.2,
            "width": 5,
        },
        "hovertemplate": "%{y:.0%} inside<extra></extra>",
    }
    wanted = {
        "x": names,
        "y": LEVELS,
        "mode": "markers",
        "name": "as it should be",
        "marker": {
            "symbol": "line-ew-open",
            "size": 46,
            "color": "var(--other)",
            "line": {"width": 3, "color": "var(--other)"},
        },
        "hovertemplate": "should be %{y:.0%}<extra></extra>",
    }
    axes = {
        "xaxis": {"title": {"text": "interval of the prediction"}, "type": "category"},
        "yaxis": {
            "title": {"text": "outcomes inside"},
            "range": [0, 1.02],
            "tickformat": ".0%",
        },
    }
    caption = (
        "Share of the outcomes that fell inside the intervals of the predictions, with what "
        "chance may have done to it (95 %); the orange lines show how many it should be."
    )
    return Figure("coverage-plot", caption, [bars, wanted], layout(360, **axes))
