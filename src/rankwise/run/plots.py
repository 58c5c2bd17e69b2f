"""Figures of a run: pictures by matplotlib, interactive pages by plotly."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise._core.atomic_write import atomic_write
from rankwise._core.extras import require
from rankwise.errors import OptionError
from rankwise.history.task import OK
from rankwise.storage.optuna_private import storage_of
from rankwise.storage.study_log import storage_errors
from rankwise.storage.trial_facts import mean_shares, sources_of, without_retried
from rankwise.types import sign_of

if TYPE_CHECKING:
    from rankwise.run.result import Result

_TRIAL, _BEST, _FAILED = "#9aa5b1", "#0b6e4f", "#c8553d"
_NAMELESS = "no-name-"  # prefix of the names that Optuna gives to unnamed studies
_PICTURES = (".png", ".svg", ".pdf")
_MOST_LINES = 8  # maximum number of past studies in one figure


def draw_progress(result: Result, path: Any = None) -> Any:
    """Draw each trial's value and the best value so far; see `Result.plot`."""
    require("a plot of a result", "plot")
    suffix = Path(path).suffix.lower() if path is not None else ""
    if suffix == ".html":
        page = _progress_page(result)
        with atomic_write(path) as unfinished:
            page.write_html(unfinished, include_plotlyjs=True)
        return page
    if path is not None and suffix not in _PICTURES:
        raise OptionError(
            f"a plot is written as .html, {', '.join(_PICTURES)}, not as {str(path)!r}"
        )
    figure = _progress_picture(result)
    if path is not None:
        with atomic_write(path) as unfinished:
            figure.savefig(unfinished, dpi=150, format=Path(path).suffix[1:])
    return figure


def draw_past(result: Result, path: Any = None) -> Any:
    """Draw the weight of each past study at each trial; see `Result.plot_past`."""
    require("a plot of a result", "plot")
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    if path is not None and Path(path).suffix.lower() not in _PICTURES:
        raise OptionError(f"this plot is written as {', '.join(_PICTURES)}, not as {str(path)!r}")
    with storage_errors(storage_of(result.study), "read"):
        trials = without_retried(result.study.get_trials(deepcopy=False))
    recorded = [(trial.number, sources_of(trial)) for trial in trials]
    recorded = [(number, sources) for number, sources in recorded if sources]
    if not recorded:
        raise OptionError("no trial recorded which past studies counted: the method cannot say")
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.subplots()
    numbers = [number for number, _ in recorded]
    by_trial = [sources for _, sources in recorded]
    for name in list(mean_shares(by_trial))[:_MOST_LINES]:
        shares = [sources.get(name, np.nan) for sources in by_trial]
        axes.plot(numbers, shares, "o-", ms=3, lw=1.5, label=" " + name.replace("$", r"\$"))
    axes.set_xlabel("trial")
    axes.set_ylabel("share of the past study")
    axes.set_ylim(bottom=0.0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    if path is not None:
        with atomic_write(path) as unfinished:
            figure.savefig(unfinished, dpi=150, format=Path(path).suffix[1:])
    return figure


def _progress_picture(result: Result) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    frame = result.history
    ok = frame["status"] == OK
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.subplots()
    low, high = _window(result)
    inside = ok & frame["value"].between(low, high)
    axes.plot(
        frame["number"][inside], frame["value"][inside], "o", color=_TRIAL, ms=5, label="trial"
    )
    _mark_at_edge(axes, result, frame["number"][ok & ~inside], "v^", _TRIAL, "worse, off scale")
    axes.step(
        frame["number"],
        frame["best_value"],
        where="post",
        color=_BEST,
        lw=2.2,
        label="best so far",
    )
    _mark_at_edge(axes, result, frame["number"][~ok], "xx", _FAILED, "no value")
    best = result.best_trial
    if best is not None:
        axes.plot(
            best.number, best.value, "*", color=_BEST, ms=14, label=f"best: {best.value:.4g}"
        )
    axes.set_ylim(low, high)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("trial")
    axes.set_ylabel(f"value ({result.direction})")
    axes.set_title(_title(result).replace("$", r"\$"), loc="left", fontsize=11)
    axes.grid(alpha=0.25, lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    return figure


def _mark_at_edge(
    axes: Any, result: Result, numbers: Any, markers: str, color: str, label: str
) -> None:
    """Mark trials at the edge of the axes where values are worst.

    Args:
        axes: matplotlib axes.
        result: the run.
        numbers: numbers of the trials.
        markers: two markers: for "maximize", then for "minimize".
        color: color of the markers.
        label: entry in the legend.
    """
    if len(numbers):
        bottom = result.direction == "maximize"
        axes.plot(
            numbers,
            np.full(len(numbers), 0.02 if bottom else 0.98),
            markers[0 if bottom else 1],
            color=color,
            ms=5,
            transform=axes.get_xaxis_transform(),
            label=label,
        )


def _window(result: Result) -> tuple[float, float]:
    """Return the range of the value axis: from the best value to the 70 % quantile of losses.

    Outliers are clipped, because one very bad trial would make the progress of the good trials
    look like a flat line.
    """
    frame = result.history
    values = frame["value"][frame["status"] == OK].to_numpy()
    if not len(values):
        return 0.0, 1.0
    sign = sign_of(result.direction)
    losses = sign * values
    good, bad = float(np.min(losses)), float(np.quantile(losses, 0.7))
    pad = 0.08 * (bad - good) or 0.05 * abs(good) or 1.0
    ends = sign * (good - pad), sign * (bad + pad)
    return min(ends), max(ends)


def _progress_page(result: Result) -> Any:
    import plotly.graph_objects as go

    frame = result.history
    ok = frame["status"] == OK
    texts = np.array([_hover(t.configuration) for t in result.trials], dtype=object)
    page = go.Figure()
    page.add_scatter(
        x=frame["number"][ok],
        y=frame["value"][ok],
        mode="markers",
        name="trial",
        marker={"color": _TRIAL, "size": 8},
        text=texts[ok.to_numpy()],
        hovertemplate="trial %{x}: %{y:.6g}<br>%{text}<extra></extra>",
    )
    page.add_scatter(
        x=frame["number"],
        y=frame["best_value"],
        mode="lines",
        name="best so far",
        line={"color": _BEST, "width": 3, "shape": "hv"},
        hovertemplate="best after trial %{x}: %{y:.6g}<extra></extra>",
    )
    for number, error in zip(frame["number"][~ok], frame["error"][~ok], strict=True):
        page.add_vline(
            x=number,
            line={"color": _FAILED, "width": 1, "dash": "dot"},
            annotation={"text": "x", "hovertext": _escape(error), "font": {"color": _FAILED}},
        )
    page.update_layout(
        title=_escape(_title(result)),
        height=560,
        xaxis_title="trial",
        yaxis={"title": f"value ({result.direction})", "range": _window(result)},
        template="plotly_white",
        legend={"orientation": "h", "y": 1.02, "x": 1, "xanchor": "right", "yanchor": "bottom"},
    )
    return page


def _title(result: Result) -> str:
    name = result.study.study_name
    run = f"{len(result.trials)} trials by {result.method}"
    return run if name.startswith(_NAMELESS) else f"{name}: {run}"


def _hover(configuration: dict[str, Any]) -> str:
    return "<br>".join(f"{_escape(k)} = {_escape(_short(v))}" for k, v in configuration.items())


def _short(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _escape(text: str) -> str:
    """Escape HTML: names and errors are data, not markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
