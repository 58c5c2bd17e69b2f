"""Figures of benchmark reports: pictures (matplotlib) and interactive figures (plotly)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from rankwise._core.atomic_write import atomic_write
from rankwise._core.palette import PALETTE
from rankwise.bench.significance import Comparison, import_posthocs
from rankwise.bench.statistics import Curves
from rankwise.errors import BenchmarkDataError
from rankwise.types import Array

_DASHES = ("solid", "dash", "dot", "dashdot")  # plotly's names
_MATPLOTLIB_DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
_LOWEST, _HIGHEST = -4, -1  # bounds of the exponent of `regret_floor`
_LONGEST = 34  # maximum number of characters of a name in a figure
_GREY = "#808080"  # readable on white and on black


@dataclass(frozen=True)
class Style:
    """Colour and dashes of a method's line.

    Attributes:
        color: color of the line.
        dash: one of "solid", "dash", "dot" and "dashdot".
    """

    color: str
    dash: str


def styles(methods: Sequence[str]) -> dict[str, Style]:
    """Return a style for each method; colours repeat after eight methods, with other dashes."""
    looks = [Style(color, dash) for dash, color in product(_DASHES, PALETTE)]
    return {method: looks[i % len(looks)] for i, method in enumerate(methods)}


def save(figure: Any, stem: Path) -> list[Path]:
    """Write a matplotlib figure as .png and .svg; equal figures give equal files.

    Args:
        figure: matplotlib figure.
        stem: path of the files without the suffix.

    Returns:
        Paths of the two files.

    Raises:
        BenchmarkDataError: a file cannot be written.
    """
    from matplotlib import rc_context

    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        with rc_context({"svg.hashsalt": "rankwise"}):
            # "tight", because the layout ignores a part of long labels outside the axes.
            with atomic_write(paths[0]) as png:
                figure.savefig(png, format="png", dpi=150, bbox_inches="tight")
            with atomic_write(paths[1]) as svg:
                when = {"Date": None}
                figure.savefig(svg, format="svg", metadata=when, bbox_inches="tight")
    except OSError as error:
        raise BenchmarkDataError(f"the figure {stem} cannot be written: {error}") from error
    return paths


# ---------------------------------------------------------------------- pictures


def regret_picture(curves: Curves, title: str, looks: dict[str, Style]) -> Any:
    """Draw mean regret over trials with intervals, on a logarithmic axis from `regret_floor`."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    floor = regret_floor(curves)
    figure, axes = _axes(title)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    _draw(axes, curves, looks, floor)
    low = np.nanmin(np.maximum(curves.mean, floor), initial=1.0)
    axes.set_ylim(bottom=max(low / 1.3, floor))
    axes.set_ylabel(_regret_label(curves, floor))
    return figure


def rank_picture(curves: Curves, title: str, looks: dict[str, Style]) -> Any:
    """Draw the average rank over trials with intervals; the best is at the top."""
    figure, axes = _axes(title)
    _draw(axes, curves, looks, -np.inf)
    axes.invert_yaxis()
    axes.set_ylabel(_rank_label(curves))
    return figure


def difference_picture(comparison: Comparison, title: str, looks: dict[str, Style]) -> Any:
    """Draw a critical-difference diagram: average ranks, with bars that join equal methods."""
    import pandas as pd
    from matplotlib.figure import Figure

    names = _labels(comparison.methods)
    # The diagram joins methods with value 1 and separates those with value 0. `different` also
    # takes Friedman's test into account.
    same = pd.DataFrame(1.0 - comparison.different, index=names, columns=names)
    figure = Figure(figsize=(8.4, 1.7 + 0.17 * len(names)), layout="constrained")
    axes = figure.subplots()
    cd = comparison.critical_difference
    import_posthocs().critical_difference_diagram(
        dict(zip(names, comparison.ranks, strict=True)),
        same,
        ax=axes,
        label_fmt_left="{label}  {rank:.2f} ",
        label_fmt_right=" {rank:.2f}  {label}",
        label_props={"fontsize": 9},
        marker_props={"s": 18, "clip_on": False},
        elbow_props={"linewidth": 1.2, "clip_on": False},
        crossbar_props={"linewidth": 3.5, "color": "#333333", "clip_on": False},
        color_palette={n: looks[m].color for n, m in zip(names, comparison.methods, strict=True)},
        text_h_margin=0.03 * (len(names) - 1),
    )
    axes.set_xlim(1, len(names))
    axes.set_xticks(range(1, len(names) + 1))
    axes.tick_params(labelsize=8)
    if np.isfinite(cd):
        title += f" (critical difference {cd:.2f})"
    axes.set_title(_math_free(title), loc="left", fontsize=11, pad=16)
    return figure


def _axes(title: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(8.4, 4.4), layout="constrained")
    axes = figure.subplots()
    axes.set_title(_math_free(title), loc="left", fontsize=11)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.set_xlabel("trial")
    axes.grid(alpha=0.25, lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _draw(axes: Any, curves: Curves, looks: dict[str, Style], floor: float) -> None:
    """Draw curves and intervals, and a legend on the right, sorted by last value, best first."""
    steps, labels = np.arange(curves.mean.shape[1]), _labels(curves.methods)
    opacity = 0.10 if len(curves.methods) <= len(PALETTE) else 0.05
    for row in _by_end(curves):
        method = curves.methods[row]
        mean, low, high = (
            np.maximum(c[row], floor) for c in (curves.mean, curves.low, curves.high)
        )
        style = {"color": looks[method].color, "ls": _MATPLOTLIB_DASHES[looks[method].dash]}
        axes.plot(steps, mean, lw=1.8, label=labels[row], **style)
        axes.fill_between(steps, low, high, color=style["color"], alpha=opacity, lw=0)
    axes.margins(x=0.01)
    if len(_by_end(curves)):
        axes.legend(
            loc="upper left",
            bbox_to_anchor=(1.01, 1.0),
            frameon=False,
            fontsize=9,
            handlelength=2.6,
        )


def _by_end(curves: Curves) -> np.ndarray:
    """Row numbers of the methods that have a curve, sorted by its last value."""
    ends = curves.mean[:, -1]
    order = np.argsort(ends, kind="stable")
    return order[np.isfinite(ends[order])]


def regret_floor(curves: Curves) -> float:
    """Return the lower end of a logarithmic axis: the power of ten below the smallest mean.

    The exponent is limited to `_LOWEST` and `_HIGHEST`.
    """
    positive = curves.mean[curves.mean > 0]
    power = np.floor(np.log10(positive.min())) if len(positive) else _LOWEST
    return float(10.0 ** np.clip(power, _LOWEST, _HIGHEST))


def _regret_label(curves: Curves, floor: float) -> str:
    below = np.nanmin(curves.mean, initial=1.0) < floor
    return f"mean regret ({floor:g} or less at the bottom)" if below else "mean regret"


def _rank_label(curves: Curves) -> str:
    return f"average rank over {curves.blocks} of {curves.of} pairs of task and seed"


def _labels(methods: Sequence[str]) -> list[str]:
    """Return names for a picture; long names are cut unless the cut names would be equal."""
    short = [m if len(m) <= _LONGEST else m[: _LONGEST - 1] + "…" for m in methods]
    return [_math_free(name) for name in (short if len(set(short)) == len(short) else methods)]


def _math_free(text: str) -> str:
    return text.replace("$", r"\$")


# ---------------------------------------------------------------------- interactive


def regret_page(curves: Curves, looks: dict[str, Style]) -> Any:
    """Like `regret_picture`, as a plotly figure."""
    floor = regret_floor(curves)
    page = _page(curves, looks, floor)
    page.update_yaxes(type="log", title=_regret_label(curves, floor), dtick="D2", tickformat="~g")
    return page


def rank_page(curves: Curves, looks: dict[str, Style]) -> Any:
    """Like `rank_picture`, as a plotly figure."""
    page = _page(curves, looks, -np.inf)
    page.update_yaxes(autorange="reversed", title=_rank_label(curves))
    return page


def _page(curves: Curves, looks: dict[str, Style], floor: float) -> Any:
    """Make a plotly figure of curves and intervals, for light and dark pages.

    The legend shows or hides a curve together with its interval.
    """
    import plotly.graph_objects as go

    page = go.Figure()
    steps = list(range(curves.mean.shape[1]))
    for row in _by_end(curves):
        look, name = looks[curves.methods[row]], escape(curves.methods[row], quote=False)
        ends = [_digits(np.maximum(c[row], floor)) for c in (curves.high, curves.low)]
        page.add_scatter(
            x=[*steps, *steps[::-1]],
            y=[*ends[0], *ends[1][::-1]],
            fill="toself",
            fillcolor=_faint(look.color),
            line={"width": 0},
            mode="lines",
            hoverinfo="skip",
            legendgroup=name,
            showlegend=False,
        )
        page.add_scatter(
            x=steps,
            y=_digits(np.maximum(curves.mean[row], floor)),
            customdata=_digits(curves.mean[row]),
            name=name,
            mode="lines",
            legendgroup=name,
            line={"color": look.color, "dash": look.dash, "width": 2.2},
            hovertemplate="%{customdata:.4f}<extra>%{fullData.name}</extra>",
        )
    page.update_layout(
        template="none",
        height=430,
        margin={"l": 64, "r": 12, "t": 12, "b": 48},
        hovermode="x",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": _GREY, "size": 13},
        legend={"itemclick": "toggle"},
    )
    grid = {"gridcolor": "rgba(128,128,128,0.25)", "zeroline": False}
    page.update_xaxes(title="trial", **grid)
    page.update_yaxes(**grid)
    return page


def _digits(values: Array) -> list[float]:
    """Round values (n,) to six digits, which keeps the page small."""
    return [float(f"{value:.6g}") for value in values]


def _faint(color: str) -> str:
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.12)"
