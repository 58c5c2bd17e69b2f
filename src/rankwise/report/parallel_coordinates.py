"""The parallel-coordinates figure: one line per configuration, one axis per hyperparameter."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from rankwise._core.ticks import round_ticks
from rankwise.archive.merge_distributions import choice_key
from rankwise.report.html import Figure, cut, digits, label, layout, shown
from rankwise.report.progress_figure import window
from rankwise.report.study_record import Record, Row
from rankwise.types import Array

MOST_AXES = 30
_AXIS_WIDTH = 106  # pixels per axis
_LEVEL = 0.12  # distance of the tick "not used" below the axis, as a fraction of its length
_MOST_CHOICES = 16
_LONGEST = 17  # maximum length of a name; longer names are cut at the front: "…svc__kernel"
_NOT_USED = "not used"

Places = tuple[Array, list[float], list[str]]
"""Positions (n,) of n trials on an axis (NaN if the hyperparameter is inactive), the positions of
the ticks, and their texts."""


def parallel_figure(record: Record, caption: str) -> Figure:
    """Make the figure: one line per trial through its value and hyperparameters, best on top."""
    rows = sorted(record.complete, key=lambda r: record.sign * r.value, reverse=True)
    names = [name for name in record.names if any(name in row.params for row in rows)]
    # The value axis comes first, so that it is visible if the figure is wider than the page.
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
        "ticktext": texts,  # plotly does not interpret markup here, unlike in the label
    }


def _number_places(
    name: str, rows: Sequence[Row], distribution: FloatDistribution | IntDistribution
) -> Places:
    """Compute positions of numbers on an axis, and its ticks, which include both ends."""
    values = np.array([r.params.get(name, math.nan) for r in rows], dtype=float)
    low, high = float(distribution.low), float(distribution.high)
    if not distribution.log:
        ticks = round_ticks(low, high, integer=isinstance(distribution, IntDistribution))
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
    """Return the ends of an axis and the ticks that are not too close to an end, with texts."""
    gap = 0.07 * (high - low)
    kept = [low, *(t for t in ticks if low + gap < t < high - gap), high]
    kept = kept if low < high else [low]
    return kept, [text(t) for t in kept]


def _choice_places(
    name: str, rows: Sequence[Row], distribution: CategoricalDistribution
) -> Places:
    """Compute positions of choices on an axis, in the order of the space.

    If there are too many choices, the rare ones share the position "others".
    """
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
    """Make the value axis with the best on top; outliers are clipped."""
    losses = np.array([record.sign * r.value for r in rows], dtype=float)
    good, bad = window(losses)
    low, high = sorted((record.sign * good, record.sign * bad))
    places, texts = _with_ends(low, high, round_ticks(low, high), shown)
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
