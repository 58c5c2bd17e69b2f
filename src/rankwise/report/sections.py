"""The sections of a report that say what was tried, how long it took and what went wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rankwise.bench.figures import PALETTE
from rankwise.report.importance import FEWEST_TRIALS, Importance, importance
from rankwise.report.page import (
    NOTHING,
    Cell,
    Figure,
    Html,
    Section,
    cell,
    cut,
    details,
    duration,
    figure,
    label,
    layout,
    paragraph,
    percent,
    shown,
    table,
    trial_axis,
)
from rankwise.report.parallel import MOST_AXES, parallel_figure
from rankwise.report.progress import progress_figure
from rankwise.report.record import COMPLETE, PRUNED, UNFINISHED, Record, Row

_TELLING = 0.2  # rank correlation below which a forest knows nothing of the trials
_MOST_BARS = 20
_MOST_ERRORS = 40
_LONGEST_ERROR = 4000
_COMPARE = (
    "To see what the past is worth, run the same budget without it: rankwise tune --compare, or "
    "write_report(study, path, baseline=other_study)."
)


# ---------------------------------------------------------------------- progress


def progress_section(record: Record, baseline: Record | None) -> Section:
    """Each trial and the best so far, with and without history."""
    if not record.complete:
        return Section("progress", "Progress", [paragraph("No trial has a value yet.", "note")])
    caption = "Each trial's value and the best so far"
    if baseline is not None and baseline.complete:
        caption += "; dashed, the best of as many trials without history"
        chance = "These are two single runs: chance plays a part."
        parts = [paragraph(f"{compared(record, baseline)} {chance}")]
    else:
        baseline = None
        parts = [paragraph(_COMPARE, "note")]
    plot = progress_figure(record, baseline, caption + ". Point at a trial for its configuration.")
    return Section("progress", "Progress", [figure(plot), *parts])


def compared(record: Record, baseline: Record) -> str:
    """What a study reached with the past, and another without it, in words."""
    n = min(len(record.ended), len(baseline.ended))
    ours, theirs = record.best_so_far[:n], baseline.best_so_far[:n]
    if not n or math.isnan(ours[-1]) or math.isnan(theirs[-1]):
        return "One of the two studies has no value within the trials that both have."
    goal = record.sign * theirs[-1]
    goal += 1e-9 * abs(goal)  # means over folds that are equal may differ in the last digit
    text = f"After {count(n, 'trial')} each: {shown(ours[-1])} with the past, "
    text += f"{shown(theirs[-1])} without."
    with_past, without = (np.flatnonzero(record.sign * c <= goal) for c in (ours, theirs))
    if not len(with_past):
        return text + " The past did not help here."
    return text + (
        f" What took {count(int(without[0]) + 1, 'trial')} without the past took "
        f"{count(int(with_past[0]) + 1, 'trial')} with it."
    )


def count(n: int, one: str, many: str = "") -> str:
    """A number of things in words."""
    return f"{n} {one if n == 1 else many or one + 's'}"


# ---------------------------------------------------------------------- configurations


def configurations_section(record: Record) -> Section:
    """All configurations: as lines and as a table."""
    parts: list[Html] = []
    if record.complete and any(row.params for row in record.complete):
        caption = (
            "A line per trial, from its value through its hyperparameters; the darker (on a dark "
            "page the brighter), the better its rank. Drag along an axis to choose trials, drag a "
            "name to move its axis."
        )
        if len(record.names) > MOST_AXES:
            caption += f" The first {MOST_AXES} of {len(record.names)} hyperparameters are shown."
        parts.append(figure(parallel_figure(record, caption)))
    if record.rows:
        parts.append(_trials_table(record))
    else:
        parts.append(paragraph("The study has no trials.", "note"))
    return Section("configurations", "Configurations tried", parts)


def _trials_table(record: Record) -> Html:
    rows = sorted(record.rows, key=lambda r: (not r.ok, record.sign * r.value if r.ok else 0.0))
    has_expected = any(not math.isnan(row.mean) for row in rows)
    metrics = dict.fromkeys(metric for row in rows for metric in row.scores)
    header = ["trial", "state", "value", *(["expected"] if has_expected else [])]
    header += [*metrics, *record.names, "seconds"]
    lines = [
        [
            cell(row.number),
            Cell(row.state),
            cell(row.value),
            *([cell(row.mean)] if has_expected else []),
            *(cell(row.scores.get(metric, math.nan)) for metric in metrics),
            *(_parameter(row, name) for name in record.names),
            cell(row.seconds),
        ]
        for row in rows
    ]
    caption = (
        f"All trials, the best first. Click on the name of a column to sort by it. "
        f"{NOTHING} stands for a hyperparameter that was not used, or an unknown number."
    )
    return table(
        caption,
        header,
        lines,
        sortable=True,
        sorted_by=2,
        descending=record.direction == "maximize",
        marked=0 if record.complete else None,
    )


def _parameter(row: Row, name: str) -> Cell:
    if name not in row.params:
        return Cell(NOTHING)
    found = cell(row.params[name])
    return found if found.number is not None else Cell(cut(found.text, 200))


# ---------------------------------------------------------------------- importance


def importance_section(record: Record) -> Section:
    """Which hyperparameters counted."""
    return Section("importance", "Importance of hyperparameters", _importance_parts(record))


def _importance_parts(record: Record) -> list[Html]:
    if len(record.complete) < FEWEST_TRIALS:
        text = f"It cannot be told from {count(len(record.complete), 'trial')} with a value: it "
        return [paragraph(f"{text}takes {FEWEST_TRIALS} at the least.", "note")]
    found = importance(record.complete_columns)
    if found is None:
        return [paragraph("It cannot be told: all trials are alike in what was tuned.", "note")]
    if not found.correlation >= _TELLING or not found.shares.sum():
        text = (
            "It cannot be told from these trials: a model that learns some of them does not "
            f"foresee the order of the others (rank correlation {found.correlation:.2f})."
        )
        return [paragraph(text, "note")]
    top = [
        f"{cut(n, 60)} ({percent(s)})" for n, s in zip(found.names[:3], found.shares, strict=False)
    ]
    text = (
        f"What decided most over how good a trial was: {', '.join(top)}. It is the part of the "
        "error that a random forest makes more when the values of a hyperparameter are exchanged "
        "between trials. The forest foresees the order of trials that it has not seen with a rank "
        f"correlation of {found.correlation:.2f}; the search did not look everywhere alike, so "
        "this holds where it looked."
    )
    return [paragraph(text), figure(_bars(found))]


def _bars(found: Importance) -> Figure:
    n = min(len(found.names), _MOST_BARS)
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": found.shares[:n][::-1],
        "y": list(range(n)),
        "marker": {"color": "var(--middle)"},
        "error_x": {
            "type": "data",
            "array": found.errors[:n][::-1],
            "color": "var(--ink)",
            "thickness": 1.2,
            "width": 4,
        },
        "hovertemplate": "%{x:.1%}<extra></extra>",
    }
    axes = {
        "xaxis": {
            "title": {"text": "share of the importance"},
            "tickformat": ".0%",
            "range": [0, 1.05 * float(np.max(found.shares + found.errors))],
        },
        "yaxis": {
            "tickvals": list(range(n)),
            "ticktext": [label(name) for name in found.names[:n]][::-1],
            "showgrid": False,
        },
    }
    caption = "Hyperparameters by importance, with the standard error of each."
    return Figure("importance-plot", caption, [bars], layout(90 + 30 * n, **axes))


# ---------------------------------------------------------------------- time


def time_section(record: Record) -> Section:
    """What evaluations and proposals took."""
    rows = [r for r in record.ended if r.seconds > 0 or r.proposal_seconds > 0]
    if not rows:
        note = paragraph("How long the trials took is not known.", "note")
        return Section("time", "Time spent", [note])
    evaluation = np.array([r.seconds for r in rows])
    proposal = np.array([r.proposal_seconds for r in rows])
    total = float(np.nansum(evaluation))
    text = f"{count(len(rows), 'evaluation')} took {duration(total)}"
    if len(rows) > 1:
        text += f", half of them at most {duration(float(np.nanmedian(evaluation)))} each"
    if np.isnan(proposal).all():
        text += ". How long proposals took is not recorded."
    else:
        own = float(np.nansum(proposal))
        share = own / (own + total) if own + total else 0.0
        text += f"; to propose them took {duration(own)}, {percent(share)} of all."
    return Section("time", "Time spent", [paragraph(text), figure(_time_figure(rows))])


def _time_figure(rows: Sequence[Row]) -> Figure:
    numbers = [row.number for row in rows]
    kinds = [
        ("evaluation", [row.seconds for row in rows], PALETTE[0]),
        ("proposal", [row.proposal_seconds for row in rows], PALETTE[5]),
    ]
    data = [
        {
            "type": "bar",
            "x": numbers,
            "y": seconds,
            "name": name,
            "marker": {"color": color, "line": {"width": 0}},
            "hovertemplate": f"trial %{{x}}: {name} %{{y:.3g}} s<extra></extra>",
        }
        for name, seconds, color in kinds
        if not all(math.isnan(s) for s in seconds)
    ]
    axes = {
        "xaxis": trial_axis(numbers),
        "yaxis": {"title": {"text": "seconds"}, "rangemode": "tozero"},
    }
    look = layout(300, barmode="stack", bargap=0.15, showlegend=True, **axes)
    return Figure("time-plot", "Seconds that each trial took.", data, look)


# ---------------------------------------------------------------------- failures


def failures_section(record: Record) -> Section | None:
    """The trials that brought no value, by what went wrong; None if there are none."""
    usual = (COMPLETE, PRUNED, *UNFINISHED)
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in record.rows:
        if row.state not in usual:
            groups.setdefault((row.state, row.error), []).append(row)
    if not groups:
        return None
    largest = sorted(groups.items(), key=lambda item: -len(item[1]))
    lines, parts = [], []
    for (state, error), rows in largest[:_MOST_ERRORS]:
        first = error.strip().splitlines()[0] if error.strip() else "no error is recorded"
        which = ", ".join(str(row.number) for row in rows[:12])
        which += f" and {len(rows) - 12} more" if len(rows) > 12 else ""
        lines.append([cell(len(rows)), Cell(state), Cell(cut(first, 300)), Cell(which)])
        if len(error.strip()) > len(first):
            summary = f"The whole error of trial {rows[0].number}: {cut(first, 80)}"
            parts.append(details(summary, error[:_LONGEST_ERROR]))
    n = sum(len(rows) for rows in groups.values())
    text = f"{count(n, 'trial')} of {len(record.rows)} brought no value that counts."
    left = len(groups) - _MOST_ERRORS
    if left > 0:
        text += f" {count(left, 'more kind of error is', 'more kinds of errors are')} not shown."
    errors = table("Failures by kind.", ["trials", "state", "error", "which"], lines)
    return Section("failures", "Failed trials", [paragraph(text), errors, *parts])
