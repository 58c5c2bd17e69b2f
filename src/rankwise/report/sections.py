"""Report sections on progress, configurations, importance, time and failures."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rankwise._core.palette import PALETTE
from rankwise._core.words import count
from rankwise.report.html import (
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
from rankwise.report.importance import FEWEST_TRIALS, Importance, importance
from rankwise.report.parallel_coordinates import MOST_AXES, parallel_figure
from rankwise.report.progress_figure import progress_figure
from rankwise.report.study_record import COMPLETE, PRUNED, UNFINISHED, Record, Row

_TELLING = 0.2  # importance is shown only if the forest's rank correlation is at least this
_MOST_BARS = 20
_MOST_ERRORS = 40
_LONGEST_ERROR = 4000
_COMPARE = (
    "To see how much past studies help, run the same number of trials without them: rankwise tune "
    "--compare, or write_report(study, path, baseline=other_study)."
)


# ---------------------------------------------------------------------- progress


def progress_section(record: Record, baseline: Record | None) -> Section:
    """Make the section on progress, with and without past studies."""
    if not record.complete:
        return Section("progress", "Progress", [paragraph("No trial has a value yet.", "note")])
    caption = "Each trial's value and the best so far"
    if baseline is not None and baseline.complete:
        caption += "; dashed: the best so far without past studies"
        chance = "Each is a single run, so chance also affects the difference."
        parts = [paragraph(f"{compared(record, baseline)} {chance}")]
    else:
        baseline = None
        parts = [paragraph(_COMPARE, "note")]
    plot = progress_figure(record, baseline, f"{caption}. Hover a trial for its configuration.")
    return Section("progress", "Progress", [figure(plot), *parts])


def compared(record: Record, baseline: Record) -> str:
    """Write a sentence that compares a study with past studies to one without."""
    n = min(len(record.ended), len(baseline.ended))
    ours, theirs = record.best_so_far[:n], baseline.best_so_far[:n]
    if not n or math.isnan(ours[-1]) or math.isnan(theirs[-1]):
        return f"In the first {count(n, 'trial')} one of the two studies has no value."
    goal = record.sign * theirs[-1]
    goal += 1e-9 * abs(goal)  # equal means over folds may differ in the last digit
    text = f"After {count(n, 'trial')} each: {shown(ours[-1])} with past studies, "
    text += f"{shown(theirs[-1])} without."
    with_past, without = (np.flatnonzero(record.sign * c <= goal) for c in (ours, theirs))
    if not len(with_past):
        return text + " Past studies did not help here."
    return text + (
        f" The best value without past studies took {count(int(without[0]) + 1, 'trial')}; "
        f"with them a value as good took {count(int(with_past[0]) + 1, 'trial')}."
    )


# ---------------------------------------------------------------------- configurations


def configurations_section(record: Record) -> Section:
    """Make the section on all configurations: parallel coordinates and a table."""
    parts: list[Html] = []
    if record.complete and any(row.params for row in record.complete):
        caption = (
            "One line per trial through its value and its hyperparameters. Darker lines (brighter "
            "ones on a dark page) have a better rank. Drag along an axis to select trials; drag "
            "the name of an axis to move it."
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
    has_origin = any(row.origin for row in rows)
    metrics = dict.fromkeys(metric for row in rows for metric in row.scores)
    header = ["trial", "state", "value", *(["predicted"] if has_expected else [])]
    header += [*metrics, *record.names, *(["based on"] if has_origin else []), "seconds"]
    lines = [
        [
            cell(row.number),
            Cell(row.state),
            cell(row.value),
            *([cell(row.mean)] if has_expected else []),
            *(cell(row.scores.get(metric, math.nan)) for metric in metrics),
            *(_parameter(row, name) for name in record.names),
            *([Cell(cut(row.origin, 60) or NOTHING)] if has_origin else []),
            cell(row.seconds),
        ]
        for row in rows
    ]
    caption = (
        f"All trials, the best first. Click a column name to sort by it. "
        f"{NOTHING} means that a hyperparameter was not used or a number is unknown."
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
    """Make the section on the importance of hyperparameters."""
    return Section("importance", "Importance of hyperparameters", _importance_parts(record))


def _importance_parts(record: Record) -> list[Html]:
    if len(record.complete) < FEWEST_TRIALS:
        text = f"Importance needs at least {FEWEST_TRIALS} trials with a value; this study has "
        return [paragraph(f"{text}{count(len(record.complete), 'trial')}.", "note")]
    found = importance(record.complete_columns)
    if found is None:
        text = "Importance is unknown: the values or the hyperparameters do not vary enough."
        return [paragraph(text, "note")]
    if not found.correlation >= _TELLING or not found.shares.sum():
        text = (
            "Importance is unknown: a random forest fitted to some of the trials does not predict "
            f"the order of the others (rank correlation {found.correlation:.2f})."
        )
        return [paragraph(text, "note")]
    top = [
        f"{cut(n, 60)} ({percent(s)})" for n, s in zip(found.names[:3], found.shares, strict=False)
    ]
    text = (
        f"The most important hyperparameters: {', '.join(top)}. Importance is how much the error "
        "of a random forest grows when the values of a hyperparameter are exchanged between "
        "trials. In cross-validation the forest predicts the order of the trials with a rank "
        f"correlation of {found.correlation:.2f}. The result holds for the regions of the search "
        "space that the trials cover."
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
            "title": {"text": "share of the total importance"},
            "tickformat": ".0%",
            "range": [0, 1.05 * float(np.max(found.shares + found.errors))],
        },
        "yaxis": {
            "tickvals": list(range(n)),
            "ticktext": [label(name) for name in found.names[:n]][::-1],
            "showgrid": False,
        },
    }
    caption = "Hyperparameters by importance, with standard errors."
    return Figure("importance-plot", caption, [bars], layout(90 + 30 * n, **axes))


# ---------------------------------------------------------------------- time


def time_section(record: Record) -> Section:
    """Make the section on the seconds of evaluations and proposals."""
    rows = [r for r in record.ended if r.seconds > 0 or r.proposal_seconds > 0]
    if not rows:
        note = paragraph("The study does not record how long its trials took.", "note")
        return Section("time", "Time spent", [note])
    evaluation = np.array([r.seconds for r in rows])
    proposal = np.array([r.proposal_seconds for r in rows])
    total = float(np.nansum(evaluation))
    text = f"{count(len(rows), 'evaluation')} took {duration(total)}"
    if len(rows) > 1:
        text += f" (median {duration(float(np.nanmedian(evaluation)))})"
    if np.isnan(proposal).all():
        text += ". This includes proposals made during a trial, as by Optuna's samplers."
    else:
        own = float(np.nansum(proposal))
        share = own / (own + total) if own + total else 0.0
        text += f"; proposals took {duration(own)}, {percent(share)} of the total."
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
    return Figure("time-plot", "Seconds of each trial.", data, look)


# ---------------------------------------------------------------------- failures


def failures_section(record: Record) -> Section | None:
    """Make the section on trials without a value, grouped by error; None if there are none."""
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
        first = error.strip().splitlines()[0] if error.strip() else "no error recorded"
        which = ", ".join(str(row.number) for row in rows[:12])
        which += f" and {len(rows) - 12} more" if len(rows) > 12 else ""
        lines.append([cell(len(rows)), Cell(state), Cell(cut(first, 300)), Cell(which)])
        if len(error.strip()) > len(first):
            summary = f"The full error of trial {rows[0].number}: {cut(first, 80)}"
            parts.append(details(summary, error[:_LONGEST_ERROR]))
    n = sum(len(rows) for rows in groups.values())
    text = f"Trials without a valid value: {n} of {len(record.rows)}."
    left = len(groups) - _MOST_ERRORS
    if left > 0:
        text += f" Further kinds of errors that are not shown: {left}."
    errors = table("Failures by kind.", ["trials", "state", "error", "trial numbers"], lines)
    return Section("failures", "Failed trials", [paragraph(text), errors, *parts])
