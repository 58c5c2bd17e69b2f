"""Which past studies were similar, and how much they counted as the study went on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankwise.bench.figures import PALETTE
from rankwise.report.page import (
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
from rankwise.report.record import Record, Row

_NAMED = 7  # past studies with a colour of their own
_MOST_STUDIES = 50
_MOST_FACTS = 12
_HOW = (
    "The study does not say which past studies counted. A search with an archive "
    "(RankwiseSearchCV(..., archive=...) or rankwise tune --archive ...) records it."
)
_READING = (
    "The whole area is what the model goes by. The coloured part is the past: a study counts in "
    "proportion to how well it orders the trials so far, and all of them together count as much "
    "as the past is trusted. The rest is this study alone."
)


def past_section(record: Record) -> Section:
    """The section on past studies."""
    rows = [row for row in record.rows if row.sources or not math.isnan(row.trust)]
    parts = [paragraph(_HOW, "note")] if not rows else list(_parts(record, rows))
    return Section("past", "What the past gave", parts)


def shares_of(rows: Sequence[Row]) -> dict[str, float]:
    """The mean share of each past study over trials, the largest first."""
    totals: dict[str, float] = {}
    for row in rows:
        for name, share in row.sources.items():
            totals[name] = totals.get(name, 0.0) + share / len(rows)
    return dict(sorted(totals.items(), key=lambda pair: -pair[1]))


def trust_in_words(trust: float) -> str:
    """What a trust means."""
    if trust >= 0.8:
        return "the past applies"
    if trust >= 0.5:
        return "the past probably applies"
    return "the past hardly applies" if trust < 0.2 else "the past may not apply"


def _parts(record: Record, rows: Sequence[Row]) -> list[Html]:
    shares = shares_of(rows)
    parts = [paragraph(_in_words(rows, shares))]
    if len(rows) > 1:
        parts.append(figure(_areas(rows, shares)))
    else:
        parts.append(paragraph("With one trial there is no course over time to show.", "note"))
    if shares:
        parts.append(_studies(record, rows, shares))
    return parts


def _in_words(rows: Sequence[Row], shares: Mapping[str, float]) -> str:
    sentences = []
    trusts = [row.trust for row in rows if not math.isnan(row.trust)]
    if trusts:
        ends = [percent(trust) for trust in (trusts[0], trusts[-1])]
        course = f"was {ends[0]}" if ends[0] == ends[1] else f"went from {ends[0]} to {ends[1]}"
        sentences.append(f"Trust in the past {course}: {trust_in_words(trusts[-1])}.")
    top = [f"{cut(name, 60) or 'unnamed'} ({percent(share)})" for name, share in shares.items()]
    if top:
        sentences.append(f"Over all trials these counted most: {', '.join(top[:3])}.")
    return " ".join(sentences)


def _areas(rows: Sequence[Row], shares: Mapping[str, float]) -> Figure:
    numbers = [row.number for row in rows]
    named = list(shares)[:_NAMED]
    heights = {name: np.array([r.sources.get(name, 0.0) for r in rows]) for name in named}
    listed = np.array([sum(row.sources.values()) for row in rows])
    trust = np.array([row.trust for row in rows])
    # Only the past studies that count most are recorded; the trust says what all count.
    total = np.where(np.isnan(trust), listed, np.maximum(trust, listed))
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
                "name": "trust in the past",
                "line": {"color": "var(--ink)", "width": 2, "dash": "dot"},
                "hovertemplate": "%{y:.0%}<extra>trust in the past</extra>",
            }
        )
    axes = {
        "xaxis": trial_axis(numbers, room=0.0),
        "yaxis": {"title": {"text": "share"}, "range": [0, 1.005], "tickformat": ".0%"},
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
    """A row per past study: how much it counted, and what is known of its data set."""
    own = _scalars(record.own_context)
    facts = {name: _scalars(record.contexts.get(name, {})) for name in shares}
    names = dict.fromkeys([*own, *(key for known in facts.values() for key in known)])
    columns = list(names)[:_MOST_FACTS]
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
    header = ["past study", "mean share", "at first", "at last", *columns]
    caption = "Past studies by how much they counted" + (
        ", with what is known of their data." if columns else "."
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
