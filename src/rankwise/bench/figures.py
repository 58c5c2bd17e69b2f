"""Figures of benchmarks: pictures through matplotlib, interactive ones through plotly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from rankwise.bench.significance import Comparison, import_posthocs
from rankwise.bench.statistics import Curves
from rankwise.errors import BenchmarkDataError
from rankwise.types import Array

# Okabe and Ito's colours, which colour-blind people can tell apart. Yellow and black, which one
# of the two backgrounds would swallow, are darker and lighter here.
PALETTE = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#e69f00",
    "#8a8a8a",
    "#a89600",
)
_DASHES = ("solid", "dash", "dot", "dashdot")  # as plotly calls them
_MATPLOTLIB_DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
_LOWEST, _HIGHEST = -4, -1  # powers of ten between which the floor of regrets is chosen
_LONGEST = 34  # characters of a name in a figure
_GREY = "#808080"  # readable on white and on black


@dataclass(frozen=True)
class Style:
    """How the line of a method looks.

    Attributes:
        color: of the line.
        dash: one of "solid", "dash", "dot" and "dashdot".
    """

    color: str
    dash: str


def styles(methods: Sequence[str]) -> dict[str, Style]:
    """A style for each method; colours come again after eight, with other dashes."""
    looks = [Style(color, dash) for dash, color in product(_DASHES, PALETTE)]
    return {method: looks[i % len(looks)] for i, method in enumerate(methods)}


def save(figure: Any, stem: Path) -> list[Path]:
    """Write a picture as .png and .svg; the same picture gives the same files.

    Raises:
        BenchmarkDataError: they cannot be written.
    """
    from matplotlib import rc_context

    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        with rc_context({"svg.hashsalt": "rankwise"}):
            # The layout does not see all of a long label that lies outside the axes.
            figure.savefig(paths[0], dpi=150, bbox_inches="tight")
            figure.savefig(paths[1], metadata={"Date": None}, bbox_inches="tight")
    except OSError as error:
        raise BenchmarkDataError(f"the figure {stem} cannot be written: {error}") from error
    return paths


# ---------------------------------------------------------------------- pictures


def regret_picture(curves: Curves, title: str, looks: dict[str, Style]) -> Any:
    """Mean regret over trials with its interval; the axis is logarithmic and has a floor."""
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
    """Average rank over trials with its interval; the best is at the top."""
    figure, axes = _axes(title)
    _draw(axes, curves, looks, -np.inf)
    axes.invert_yaxis()
    axes.set_ylabel(_rank_label(curves))
    return figure


def difference_picture(comparison: Comparison, title: str, looks: dict[str, Style]) -> Any:
    """Critical-difference diagram: average ranks, and bars over methods that do not differ."""
    import pandas as pd
    from matplotlib.figure import Figure

    names = _labels(comparison.methods)
    # The diagram joins what is 1 and separates what is 0: so it respects Friedman's test, too.
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
    """Lines, bands, and a legend beside them in the order of the last values, best first."""
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
    """Rows of the methods that have a curve, by its last value."""
    ends = curves.mean[:, -1]
    order = np.argsort(ends, kind="stable")
    return order[np.isfinite(ends[order])]


def regret_floor(curves: Curves) -> float:
    """Where a logarithmic axis ends: a power of ten below the means, but neither far nor near."""
    positive = curves.mean[curves.mean > 0]
    power = np.floor(np.log10(positive.min())) if len(positive) else _LOWEST
    return float(10.0 ** np.clip(power, _LOWEST, _HIGHEST))


def _regret_label(curves: Curves, floor: float) -> str:
    below = np.nanmin(curves.mean, initial=1.0) < floor
    return f"mean regret ({floor:g} or less at the bottom)" if below else "mean regret"


def _rank_label(curves: Curves) -> str:
    return f"average rank over {curves.blocks} of {curves.of} pairs of task and seed"


def _labels(methods: Sequence[str]) -> list[str]:
    """Names for a picture: long ones are cut, unless they can be told apart by their ends only."""
    short = [m if len(m) <= _LONGEST else m[: _LONGEST - 1] + "…" for m in methods]
    return [_math_free(name) for name in (short if len(set(short)) == len(short) else methods)]


def _math_free(text: str) -> str:
    return text.replace("$", r"\$")


# ---------------------------------------------------------------------- interactive


def regret_page(curves: Curves, looks: dict[str, Style]) -> Any:
    """Like `regret_picture`, as a figure of plotly."""
    floor = regret_floor(curves)
    page = _page(curves, looks, floor)
    page.update_yaxes(type="log", title=_regret_label(curves, floor), dtick="D2", tickformat="~g")
    return page


def rank_page(curves: Curves, looks: dict[str, Style]) -> Any:
    """Like `rank_picture`, as a figure of plotly."""
    page = _page(curves, looks, -np.inf)
    page.update_yaxes(autorange="reversed", title=_rank_label(curves))
    return page


def _page(curves: Curves, looks: dict[str, Style], floor: float) -> Any:
    """Lines whose bands come and go with them; colours that suit light and dark pages."""
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
    """Six digits are more than anybody can see and keep the page small."""
    return [float(f"{value:.6g}") for value in values]


def _faint(color: str) -> str:
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.12)"
