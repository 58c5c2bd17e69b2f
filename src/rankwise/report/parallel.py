"""Configurations as lines through parallel axes, one per hyperparameter."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from rankwise.archive.unify import choice_key
from rankwise.report.page import Figure, cut, digits, label, layout, shown
from rankwise.report.progress import window
from rankwise.report.record import Record, Row
from rankwise.types import Array

MOST_AXES = 30
_AXIS_WIDTH = 106  # pixels that a hyperparameter needs
_LEVEL = 0.12  # how far below its axis "not used" stands, as a share of the axis
_MOST_CHOICES = 16
_LONGEST = 17  # characters of a name; of longer ones the end tells more: "svc__kernel"
_NOT_USED = "not used"

Places = tuple[Array, list[float], list[str]]
"""Where n trials stand on an axis (n,), NaN for those that do not, its ticks and their texts."""


def parallel_figure(record: Record, caption: str) -> Figure:
    """A line per trial from its value through its hyperparameters; the best are drawn on top."""
    rows = sorted(record.complete, key=lambda r: record.sign * r.value, reverse=True)
    names = [name for name in record.names if any(name in row.params for row in rows)]
    # The value comes first: it must be in view where the figure is wider than the page.
    axes = [_value_axis(record, rows), *(_axis(record, name, rows) for name in names[:MOST_AXES])]
    n = len(rows)
    line = {
        "color": [(k + 1) / n for k in range(n)],
        "cmin": 0,
        "cmax": 1,
        "colorscale": [[0, "var(--low)"], [0.6, "var(--middle)"], [1, "var(--high)"]],
        "showscale": False,
    }
    trace = {
        "type": "parcoords",
        "line": line,
        "dimensions": axes,
        "labelfont": {"size": 12, "color": "var(--ink)"},
        "tickfont": {"size": 11, "color": "var(--ink)"},
        "unselected": {"line": {"color": "var(--line)", "opacity": 0.25}},
    }
    look = layout(440, margin={"l": 100, "r": 52, "t": 48, "b": 20})
    return Figure("parallel-plot", caption, [trace], look, _AXIS_WIDTH * len(axes) + 30)


def _axis(record: Record, name: str, rows: Sequence[Row]) -> dict[str, Any]:
    distribution = record.finished.distributions[name]
    if isinstance(distribution, FloatDistribution | IntDistribution):
        places, ticks, texts = _number_places(name, rows, distribution)
        below = _LEVEL * (ticks[-1] - ticks[0]) or 1.0
    else:
        assert isinstance(distribution, CategoricalDistribution)
        places, ticks, texts = _choice_places(name, rows, distribution)
        below = 1.0
    low, high = ticks[0], ticks[-1]
    if np.isnan(places).any():
        level = low - below
        places = np.where(np.isnan(places), level, places)
        ticks, texts, low = [level, *ticks], [_NOT_USED, *texts], level
    room = 0.5 if high == low else 0.0
    return {
        "label": label(name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"),
        "values": places,
        "range": [low - room, high + room],
        "tickvals": ticks,
        "ticktext": texts,  # unlike the label, plotly shows these as they are
    }


def _number_places(
    name: str, rows: Sequence[Row], distribution: FloatDistribution | IntDistribution
) -> Places:
    """Where numbers stand on an axis; both of its ends are ticks."""
    from matplotlib.ticker import MaxNLocator

    values = np.array([r.params.get(name, math.nan) for r in rows], dtype=float)
    low, high = float(distribution.low), float(distribution.high)
    if not distribution.log:
        inner = MaxNLocator(5, integer=isinstance(distribution, IntDistribution))
        ticks = [float(t) for t in inner.tick_values(low, high)] if low < high else []
        return values, *_with_ends(low, high, ticks, lambda place: digits(place, 3))
    decades = math.log10(high) - math.log10(low)
    steps = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    every = max(1, round(decades / 6))
    ticks = [float(k) for k in steps if k % every == 0]
    ends = math.log10(low), math.log10(high)
    return np.log10(values), *_with_ends(*ends, ticks, lambda place: digits(10.0**place, 3))


def _with_ends(
    low: float, high: float, ticks: Sequence[float], text: Callable[[float], str]
) -> tuple[list[float], list[str]]:
    """Ticks strictly between two ends and not too close to them, and the ends."""
    gap = 0.07 * (high - low)
    kept = [low, *(t for t in ticks if low + gap < t < high - gap), high]
    kept = kept if low < high else [low]
    return kept, [text(t) for t in kept]


def _choice_places(
    name: str, rows: Sequence[Row], distribution: CategoricalDistribution
) -> Places:
    """Where choices stand, in the order that the space gives them; rare ones may share a level."""
    keys = [choice_key(r.params[name]) if name in r.params else None for r in rows]
    counts = Counter(key for key in keys if key is not None)
    often = [key for key, _ in counts.most_common(_MOST_CHOICES)]
    used = [choice for choice in distribution.choices if choice_key(choice) in often]
    levels = {choice_key(choice): float(k) for k, choice in enumerate(used)}
    texts = [cut(str(choice), 14) for choice in used]
    if len(counts) > len(levels):
        texts.append("others")
    places = [math.nan if key is None else levels.get(key, float(len(levels))) for key in keys]
    return np.array(places), [float(k) for k in range(len(texts))], texts


def _value_axis(record: Record, rows: Sequence[Row]) -> dict[str, Any]:
    """Values with the better end up; those off the scale stand at its end."""
    from matplotlib.ticker import MaxNLocator

    losses = np.array([record.sign * r.value for r in rows], dtype=float)
    good, bad = window(losses)
    low, high = sorted((record.sign * good, record.sign * bad))
    ticks = [float(t) for t in MaxNLocator(5).tick_values(low, high)] if low < high else []
    places, texts = _with_ends(low, high, ticks, shown)
    if losses.max() > bad:
        worst = -1 if record.sign > 0 else 0
        texts[worst] = f"{digits(places[worst], 3)} or worse"
    room = 0.5 if good == bad else 0.0
    return {
        "label": "<b>value</b>",
        "values": record.sign * np.minimum(losses, bad),
        "range": [record.sign * bad - record.sign * room, record.sign * good + record.sign * room],
        "tickvals": places,
        "ticktext": texts,
    }
