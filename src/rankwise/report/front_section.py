"""The report's section on several objectives: the Pareto front and what it trades off."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from rankwise.acquisition.hypervolume import hypervolume, on_front, reference_point
from rankwise.report.html import (
    Figure,
    Html,
    Section,
    cell,
    figure,
    label,
    layout,
    paragraph,
    shown,
    table,
    trial_axis,
)
from rankwise.report.study_record import Record
from rankwise.types import Array, Counts

_MOST_PAIRS = 3


def front_section(record: Record) -> Section:
    """Make the section with the front, the trade-off and the hypervolume of several objectives."""
    outcomes = record.finished.objectives
    assert outcomes is not None
    names = [kind.name or f"value {k + 1}" for k, kind in enumerate(outcomes.kinds)]
    titles = [
        f"{name} ({kind.direction})" for name, kind in zip(names, outcomes.kinds, strict=True)
    ]
    losses = np.where(record.finished.feasible[:, None], outcomes.losses, np.nan)
    front = np.flatnonzero(on_front(losses))
    if not len(front):
        text = "No trial has a value that keeps all constraints yet."
        return Section("front", "Pareto front", [paragraph(text, "note")])
    front = front[np.argsort(losses[front, 0], kind="stable")]
    numbers = [row.number for row in record.ended]
    parts: list[Html] = [paragraph(_trade_off(names, outcomes.values, losses, front, numbers))]
    for i, j in list(combinations(range(len(names)), 2))[:_MOST_PAIRS]:
        axes = [label(titles[i], 60), label(titles[j], 60)]
        parts.append(figure(_scatter(f"front-{i}-{j}", axes, outcomes.values[:, [i, j]], front)))
    header = ["trial", *titles, *record.names]
    rows = [
        [
            cell(numbers[k]),
            *[cell(float(value)) for value in outcomes.values[k]],
            *[cell(record.ended[k].params.get(name, "")) for name in record.names],
        ]
        for k in front.tolist()
    ]
    caption = "Trials that no other trial dominates"
    parts.append(table(caption, header, rows, sortable=True, sorted_by=1))
    parts.append(figure(_volumes(losses, numbers)))
    return Section("front", "Pareto front", parts)


def _trade_off(
    names: list[str], values: Array, losses: Array, front: Counts, numbers: list[int]
) -> str:
    """Write which trial of the front is best in each objective, and its other values."""
    n = len(front)
    text = f"{n} {'trial is' if n == 1 else 'trials are'} on the front."
    for k, name in enumerate(names):
        best = int(front[np.argmin(losses[front, k])])
        others = ", ".join(
            f"{other} {shown(float(values[best, j]))}" for j, other in enumerate(names) if j != k
        )
        text += f" Best {name}: {shown(float(values[best, k]))} (trial {numbers[best]}; {others})."
    return text


def _scatter(name: str, axes: list[str], values: Array, front: Counts) -> Figure:
    def trace(some: Array, colour: str, text: str, size: int) -> dict[str, object]:
        return {
            "type": "scatter",
            "mode": "markers",
            "name": text,
            "x": some[:, 0].tolist(),
            "y": some[:, 1].tolist(),
            "marker": {"color": colour, "size": size},
        }

    known = values[~np.isnan(values).any(axis=1)]
    data = [
        trace(known, "var(--line)", "trial", 6),
        trace(values[front], "var(--middle)", "front", 9),
    ]
    more = {"xaxis": {"title": {"text": axes[0]}}, "yaxis": {"title": {"text": axes[1]}}}
    return Figure(name, "All trials and the front.", data, layout(380, **more))


def _volumes(losses: Array, numbers: list[int]) -> Figure:
    """The hypervolume after each trial, as a share of the box that contains all trials."""
    reference, best = reference_point(losses), np.nanmin(losses, axis=0)
    scaled = (losses - best) / (reference - best)
    ones = np.ones(scaled.shape[1])
    volumes = [hypervolume(scaled[: n + 1], ones) for n in range(len(scaled))]
    trace = {
        "type": "scatter",
        "mode": "lines",
        "line": {"shape": "hv", "color": "var(--middle)"},
        "x": numbers,
        "y": volumes,
    }
    more = {
        "xaxis": trial_axis(numbers),
        "yaxis": {"title": {"text": "share of the hypervolume"}, "range": [0, 1]},
    }
    caption = "Hypervolume that the front dominates after each trial."
    return Figure("hypervolume", caption, [trace], layout(300, **more))
