"""Report section on calibration: predictions before each trial against its outcome."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import binomtest, norm, rankdata

from rankwise._core.ticks import round_ticks
from rankwise.archive.agreement import rank_correlation
from rankwise.report.html import Figure, Html, Section, beside, figure, layout, paragraph, percent
from rankwise.report.study_record import Record, Row
from rankwise.types import Array

LEVELS = (0.5, 0.8, 0.95)
"""Probabilities of the prediction intervals that are checked."""
_FEWEST = 5  # trials with predictions that the section needs
_HOW = (
    "The study does not record predictions for its trials. RankwiseSearchCV and rankwise tune "
    "record them if the method predicts values."
)


def forecast_section(record: Record) -> Section:
    """Make the section on predicted and actual values; a note if there are too few predictions."""
    rows = [row for row in record.complete if not math.isnan(row.mean)]
    parts: list[Html]
    if not rows:
        parts = [paragraph(_HOW, "note")]
    elif len(rows) < _FEWEST:
        parts = [
            paragraph(
                f"Only {len(rows)} trials have a prediction: too few to judge.",
                "note",
            )
        ]
    else:
        parts = _parts(record, rows)
    return Section("predictions", "Predicted and actual values", parts)


def _parts(record: Record, rows: Sequence[Row]) -> list[Html]:
    """Make texts and figures about ranks, and about intervals if there are standard deviations."""
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
        return f"All {n} predictions or all {n} values are equal: their ranks cannot be compared."
    how = "well" if correlation >= 0.7 else "roughly" if correlation >= 0.4 else "hardly at all"
    return (
        f"The model predicted the order of {n} trials {how}: the rank correlation (Spearman) of "
        f"predicted and actual values is {correlation:.2f}, where 1 is perfect and 0 is chance. "
        "The order of proposed trials is harder to predict than that of random ones, because all "
        "of them were expected to be good."
    )


def coverage(rows: Sequence[Row]) -> Array:
    """Compute the shares (3,) of values inside the predicted 50, 80 and 95 % intervals.

    Predictions are normal distributions.
    """
    z = np.array([abs(row.value - row.mean) / row.std for row in rows])
    shares: Array = np.array([np.mean(z <= norm.ppf((1 + level) / 2)) for level in LEVELS])
    return shares


def coverage_in_words(shares: Array, n: int) -> str:
    """Describe whether the predicted intervals contain as many values as they should.

    Deviations that are not significant in a binomial test are ignored.

    Args:
        shares: shares (3,) of values inside the intervals of `LEVELS`.
        n: number of values.
    """
    listed = ", ".join(
        f"{percent(share)} in the {percent(level)} interval"
        for share, level in zip(shares, LEVELS, strict=True)
    )
    verdicts = {_verdict(share, level, n) for share, level in zip(shares, LEVELS, strict=True)}
    if verdicts == {0}:
        judgement = "The intervals are well calibrated, as far as this number of trials can show."
    elif verdicts <= {0, -1}:
        judgement = "These are too few: the intervals are too narrow, the model is overconfident."
    elif verdicts <= {0, 1}:
        judgement = "These are too many: the intervals are too wide, the model is underconfident."
    else:
        judgement = "Some intervals have too few values and others too many: the errors are not "
        judgement += "normally distributed."
    return f"Values inside the predicted intervals, of {n}: {listed}. {judgement}"


def _verdict(share: float, level: float, n: int) -> int:
    """Return -1 if significantly too few values are inside an interval, 1 if too many, else 0."""
    if binomtest(round(share * n), n, level).pvalue >= 0.02:
        return 0
    return -1 if share < level else 1


# ---------------------------------------------------------------------- figures


def _ranks(rows: Sequence[Row], expected: Array, actual: Array) -> Figure:
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
        "hovertemplate": "trial %{customdata[0]}<br>predicted %{customdata[1]:.5g}, rank %{x}<br>"
        "actual %{customdata[2]:.5g}, rank %{y}<extra></extra>",
        "showlegend": False,
    }
    room = 0.04 * n + 0.5
    ticks = [t for t in round_ticks(1, n, integer=True) if t > 1]
    axis = {"range": [n + room, 1 - room], "tickvals": [1, *ticks]}
    axes = {
        "xaxis": {"title": {"text": "predicted rank (1 is best)"}, **axis},
        "yaxis": {"title": {"text": "actual rank"}, **axis},
    }
    caption = (
        "Predicted and actual rank of each trial. Perfect predictions lie on the dotted line; "
        "the best trials are at the top right."
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
        "name": "calibrated",
        "marker": {
            "symbol": "line-ew-open",
            "size": 46,
            "color": "var(--other)",
            "line": {"width": 3, "color": "var(--other)"},
        },
        "hovertemplate": "should be %{y:.0%}<extra></extra>",
    }
    axes = {
        "xaxis": {"title": {"text": "predicted interval"}, "type": "category"},
        "yaxis": {
            "title": {"text": "values inside"},
            "range": [0, 1.02],
            "tickformat": ".0%",
        },
    }
    caption = (
        "Share of the values inside the predicted intervals, with 95 % confidence intervals. The "
        "orange lines show the shares of a well calibrated model."
    )
    return Figure("coverage-plot", caption, [bars, wanted], layout(360, **axes))
