"""Figure of the values of the trials and the best so far."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwise.report.html import Figure, label, layout, shown, trial_axis
from rankwise.report.study_record import COMPLETE, PRUNED, Record, Row
from rankwise.types import Array

_ROOM = 2.5  # the value axis covers this many times the spread of the best 70 % of the trials
_HOVER_LINES = 16


def window(losses: Array) -> tuple[float, float]:
    """Return the range of losses to show, from the best one; very bad losses are outside.

    Otherwise, one very bad trial would make the progress look like a flat line.
    """
    good, middle, worst = (float(q) for q in np.quantile(losses, [0.0, 0.7, 1.0]))
    return good, min(worst, good + _ROOM * (middle - good)) if middle > good else worst


def hover(row: Row) -> str:
    """Format the configuration of a trial as lines of text for plotly."""
    lines = [f"{label(k)} = {label(shown(v))}" for k, v in row.params.items()]
    more = len(lines) - _HOVER_LINES
    return "<br>".join([*lines[:_HOVER_LINES], *([f"and {more} more"] if more > 0 else [])])


def progress_figure(record: Record, baseline: Record | None, caption: str) -> Figure:
    """Make the figure of each trial's value and the best so far.

    Args:
        record: study of the report.
        baseline: study without past studies, drawn for comparison, or None.
        caption: caption of the figure.
    """
    studies = [record] if baseline is None else [record, baseline]
    low, high = window(np.array([s.sign * r.value for s in studies for r in s.complete]))
    pad = 0.06 * (high - low) or 0.05 * abs(low) or 1.0
    edge = record.sign * (high + pad / 2)
    data: list[dict[str, Any]] = []
    if baseline is not None:
        suffix = "without past studies"
        data += _trials(baseline, high, edge, suffix, "var(--other)", "circle-open")
    data += _trials(record, high, edge, "", "var(--mark)", "circle")
    if baseline is not None:
        data.append(_best_line(baseline, "best without past studies", "var(--other)", "dash"))
    data.append(_best_line(record, "best so far", "var(--accent)", "solid"))
    best = record.best
    if best is not None:
        data.append(
            {
                "x": [best.number],
                "y": [best.value],
                "mode": "markers",
                "name": f"best: {shown(best.value)}",
                "marker": {"symbol": "star", "size": 15, "color": "var(--accent)"},
                "text": [hover(best)],
                "hovertemplate": "best, trial %{x}: %{y:.6g}<br>%{text}<extra></extra>",
            }
        )
    ends = sorted([record.sign * (low - pad), record.sign * (high + pad)])
    better = "smaller" if record.direction == "minimize" else "larger"
    axes = {
        "xaxis": trial_axis([row.number for study in studies for row in study.ended]),
        "yaxis": {"title": {"text": f"value ({better} is better)"}, "range": ends},
    }
    return Figure("progress-plot", caption, data, layout(420, hovermode="closest", **axes))


def _trials(
    record: Record, limit: float, edge: float, suffix: str, color: str, symbol: str
) -> list[dict[str, Any]]:
    """Draw the trials of a study as points; outliers and trials without a value are at the edge.

    Args:
        record: the study.
        limit: largest loss inside the axis.
        edge: value at which outliers and trials without a value are drawn.
        suffix: end of the names in the legend; "" for the study of the report.
        color: color of the points.
        symbol: plotly symbol of the points.
    """
    inside = [r for r in record.complete if record.sign * r.value <= limit]
    beyond = [r for r in record.complete if record.sign * r.value > limit]
    pruned = [r for r in record.ended if r.state == PRUNED]
    failed = [r for r in record.ended if r.state not in (COMPLETE, PRUNED)]
    arrow = "triangle-up" if record.sign > 0 else "triangle-down"
    groups = [
        (inside, "trial", color, symbol, False),
        (beyond, "worse than the axis shows", color, f"{arrow}-open", True),
        (pruned, "pruned", color, "diamond-open", True),
        (failed, "no value", "var(--alarm)", "x-thin-open", True),
    ]
    return [
        {
            "x": [r.number for r in rows],
            "y": [edge if at_edge else r.value for r in rows],
            "mode": "markers",
            "name": f"{name} {suffix}".strip(),
            "marker": {
                "color": shade,
                "symbol": mark,
                "size": 8,
                "line": {"width": 1.5 * at_edge + bool(suffix), "color": shade},
            },
            "opacity": 0.55 if suffix else 0.9,
            "showlegend": not suffix,
            "text": [hover(r) for r in rows],
            "customdata": [f"{r.state} {shown(r.value)}" for r in rows],
            "hovertemplate": "trial %{x}: %{customdata}<br>%{text}<extra></extra>",
        }
        for rows, name, shade, mark, at_edge in groups
        if rows
    ]


def _best_line(record: Record, name: str, color: str, dash: str) -> dict[str, Any]:
    return {
        "x": [r.number for r in record.ended],
        "y": record.best_so_far,
        "mode": "lines",
        "name": name,
        "line": {"color": color, "width": 3, "shape": "hv", "dash": dash},
        "hovertemplate": f"{name} after trial %{{x}}: %{{y:.6g}}<extra></extra>",
    }
