"""Report section on past studies: their weights over the trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankwise._core.palette import PALETTE
from rankwise.archive.used_past import UsedPast
from rankwise.report.html import (
    NOTHING,
    Cell,
    Figure,
    Html,
    Section,
    cell,
    cut,
    figure,
    label,
    layout,
    paragraph,
    percent,
    table,
    trial_axis,
)
from rankwise.report.study_record import Record, Row
from rankwise.storage.trial_facts import mean_shares

_NAMED = 7  # past studies with their own colour in the figure
_MOST_STUDIES = 50
_MOST_FACTS = 12
_HOW = (
    "The study does not record which past studies were used. A search with an archive "
    "(RankwiseSearchCV(..., archive=...) or rankwise tune --archive ...) records it."
)
_READING = (
    "The coloured area is the weight of past studies in the model that proposes: each has a share "
    "in proportion to how well it predicts the order of the trials so far. The dotted line is the "
    "transfer trust: the probability that past studies predict this study's order better than "
    "chance."
)


def past_section(record: Record) -> Section:
    """Make the section on past studies; a note if the study does not record their weights."""
    rows = [row for row in record.rows if row.sources or not math.isnan(row.trust)]
    parts = [] if record.past is None else [paragraph(str(record.past))]
    if rows:
        parts += _parts(record, rows)
    elif record.past is None:
        parts.append(paragraph(_HOW, "note"))
    if record.past is not None and record.past.left_out:
        parts.append(_left_out(record.past))
    return Section("past", "Influence of past studies", parts)


def _left_out(past: UsedPast) -> Html:
    """A table of the past studies that were not used, with the reasons."""
    lines = [[Cell(cut(n, 80)), Cell(cut(why, 200))] for n, why in past.left_out.items()]
    return table("Past studies that were left out.", ["study", "reason"], lines[:_MOST_STUDIES])


def shares_of(rows: Sequence[Row]) -> dict[str, float]:
    """Compute the mean weight of each past study over trials, the largest first."""
    return mean_shares([row.sources for row in rows])


def trust_in_words(trust: float) -> str:
    """Return a short text that explains a transfer trust."""
    if trust >= 0.8:
        return "past studies predict this study"
    if trust >= 0.5:
        return "past studies probably predict this study"
    if trust >= 0.2:
        return "past studies may not predict this study"
    return "past studies hardly predict this study"


def _parts(record: Record, rows: Sequence[Row]) -> list[Html]:
    """Make a summary, the figure of weights over trials, and the table of past studies."""
    shares = shares_of(rows)
    parts = [paragraph(_in_words(record, rows, shares))]
    if len(rows) > 1:
        parts.append(figure(_areas(rows, shares)))
    else:
        parts.append(paragraph("A figure over trials needs at least two trials.", "note"))
    if shares:
        parts.append(_studies(record, rows, shares))
    return parts


def _in_words(record: Record, rows: Sequence[Row], shares: Mapping[str, float]) -> str:
    sentences = []
    trusts = [row.trust for row in rows if not math.isnan(row.trust)]
    if trusts:
        ends = [percent(trust) for trust in (trusts[0], record.trust)]
        course = f"was {ends[0]}" if ends[0] == ends[1] else f"went from {ends[0]} to {ends[1]}"
        sentences.append(f"The transfer trust {course}: {trust_in_words(record.trust)}.")
    if record.evidence is not None and record.evidence.trials > 1:
        why = str(record.evidence)
        sentences.append(f"{why[:1].upper()}{why[1:]}.")
    top = [f"{cut(name, 60) or 'unnamed'} ({percent(share)})" for name, share in shares.items()]
    if top:
        sentences.append(f"The largest mean weights over all trials: {', '.join(top[:3])}.")
    return " ".join(sentences)


def _areas(rows: Sequence[Row], shares: Mapping[str, float]) -> Figure:
    """Draw the weights of past studies over trials as stacked areas."""
    numbers = [row.number for row in rows]
    named = list(shares)[:_NAMED]
    heights = {name: np.array([r.sources.get(name, 0.0) for r in rows]) for name in named}
    listed = np.array([sum(row.sources.values()) for row in rows])
    trust = np.array([row.trust for row in rows])
    # Only the largest weights are recorded, and the sum of all.
    influence = np.array([row.influence for row in rows])
    total = np.where(np.isnan(influence), listed, np.maximum(influence, listed))
    others = total - sum(heights.values(), np.zeros(len(rows)))
    data = [
        _area(numbers, heights[name], label(name, 34) or "unnamed", color)
        for name, color in zip(named, PALETTE, strict=False)
    ]
    if others.max() > 0.005:
        data.append(_area(numbers, np.maximum(others, 0.0), "other past studies", "var(--mark)"))
    if not np.isnan(trust).all():
        data.append(
            {
                "x": numbers,
                "y": trust,
                "mode": "lines",
                "name": "transfer trust",
                "line": {"color": "var(--ink)", "width": 2, "dash": "dot"},
                "hovertemplate": "%{y:.0%}<extra>transfer trust</extra>",
            }
        )
    axes = {
        "xaxis": trial_axis(numbers, room=0.0),
        "yaxis": {"title": {"text": "weight"}, "range": [0, 1.005], "tickformat": ".0%"},
    }
    return Figure("past-plot", _READING, data, layout(400, hovermode="x", **axes))


def _area(x: Sequence[int], y: Any, name: str, color: str) -> dict[str, Any]:
    return {
        "x": x,
        "y": y,
        "name": name,
        "mode": "lines",
        "stackgroup": "past",
        "line": {"width": 0.8, "color": color},
        "fillcolor": f"{color}cc" if color.startswith("#") else color,
        "hovertemplate": "%{y:.0%}<extra>%{fullData.name}</extra>",
    }


def _studies(record: Record, rows: Sequence[Row], shares: Mapping[str, float]) -> Html:
    """Make a table with one row per past study: its weight and facts about its data set."""
    own = _scalars(record.own_context)
    facts = {name: _scalars(record.contexts.get(name, {})) for name in shares}
    names = dict.fromkeys([*own, *(key for known in facts.values() for key in known)])
    # Meta-features have logarithms of other numbers, for methods.
    columns = [name for name in names if not name.startswith("log_")][:_MOST_FACTS]
    first, last = rows[0].sources, rows[-1].sources
    lines = [
        [
            Cell(name or "unnamed"),
            *(Cell(percent(s), s) for s in (share, first.get(name, 0.0), last.get(name, 0.0))),
            *(_fact(facts[name], key) for key in columns),
        ]
        for name, share in list(shares.items())[:_MOST_STUDIES]
    ]
    if columns:
        lines.insert(
            0, [Cell("this study"), *[Cell(NOTHING)] * 3, *(_fact(own, k) for k in columns)]
        )
    header = ["past study", "mean weight", "first trial", "last trial", *columns]
    caption = "Past studies by mean weight" + (
        ", with facts about their data sets." if columns else "."
    )
    return table(caption, header, lines, marked=0 if columns else None)


def _scalars(context: Mapping[str, Any]) -> dict[str, Any]:
    return {
        str(key): value
        for key, value in context.items()
        if isinstance(value, str | int | float | bool)
    }


def _fact(facts: Mapping[str, Any], key: str) -> Cell:
    if key not in facts:
        return Cell(NOTHING)
    value = facts[key]
    return Cell(cut(value, 60)) if isinstance(value, str) else cell(value)
