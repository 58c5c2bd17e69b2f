"""HTML building blocks of a report, and the page itself: one file that needs no network.

Only this module writes markup, and it escapes every text. As a second protection, the security
policy of the page allows its own two scripts only and loads nothing. (The scripts may compile
functions from texts, because parallel coordinates of older plotly versions do so.)
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, NewType

from rankwise._core.plotly_script import plotly_script
from rankwise.errors import is_number

Html = NewType("Html", str)

NOTHING = "–"
_LONGEST_LABEL = 26
_LONG = 45  # cells with more characters may be broken into lines


@dataclass(frozen=True)
class Cell:
    """A table cell: its text, and the number to sort by (None for texts)."""

    text: str
    number: float | None = None


@dataclass(frozen=True)
class Figure:
    """A plotly figure.

    Attributes:
        name: name of its element in the page.
        caption: one sentence that says what it shows; also the text for screen readers.
        data: plotly traces. Texts that plotly reads as markup must come from `label`.
        layout: layout of the figure; see `layout`.
        width: smallest width in pixels; a narrower page scrolls.
    """

    name: str
    caption: str
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    width: int = 0


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading; `name` is its link target."""

    name: str
    title: str
    parts: Sequence[Html]


# ---------------------------------------------------------------------- texts


def shown(value: Any) -> str:
    """Format a value as text; floats have five significant digits."""
    if is_number(value, float):
        return digits(value, 5) if math.isfinite(value) else NOTHING
    return str(value)


def digits(value: float, n: int) -> str:
    """Format a number with n significant digits, without an exponent if possible (1000)."""
    return f"{float(f'{value:.{n}g}'):g}"


def cell(value: Any) -> Cell:
    """Make a table cell from a value."""
    known = is_number(value) and math.isfinite(value)
    return Cell(shown(value), float(value) if known else None)


def label(text: str, longest: int = _LONGEST_LABEL) -> str:
    """Shorten a text and escape it for plotly, which interprets some tags."""
    return escape(cut(text, longest), quote=False)


def cut(text: str, longest: int = _LONGEST_LABEL) -> str:
    """Put a text on one line and shorten it with an ellipsis to at most `longest` characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def percent(share: float) -> str:
    """Format a share as a percentage: 0.5 is "50 %"."""
    return "less than 1\u00a0%" if 0.0 < share < 0.005 else f"{100 * share:.0f}\u00a0%"


def duration(seconds: float) -> str:
    """Format a duration with readable units, such as "2 h 1 min"."""
    if not math.isfinite(seconds):
        return "unknown"
    if seconds < 1:
        return f"{1000 * seconds:.0f}\u00a0ms"
    if seconds < 60:
        return f"{seconds:.1f}\u00a0s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}\u00a0min {rest}\u00a0s"
    return f"{minutes // 60}\u00a0h {minutes % 60}\u00a0min"


# ---------------------------------------------------------------------- parts


def paragraph(text: str, kind: str = "") -> Html:
    """Make a paragraph; `kind` is its CSS class: "note" (a hint in small print), "lead" or ""."""
    return Html(f"<p{_attribute('class', kind)}>{escape(text)}</p>")


def code(text: str) -> Html:
    """Make a block of code or of a shell command."""
    return Html(f'<pre tabindex="0"><code>{escape(text)}</code></pre>')


def details(summary: str, text: str) -> Html:
    """Make a box with a long text that opens on a click."""
    return Html(
        f"<details><summary>{escape(summary)}</summary><pre>{escape(text)}</pre></details>"
    )


def cards(facts: Sequence[tuple[str, str, str]]) -> Html:
    """Make cards; each fact has a name, a value in large type and a remark."""
    inner = "".join(
        f"<div><dt>{escape(name)}</dt><dd><strong>{escape(value)}</strong>"
        f"<span>{escape(remark)}</span></dd></div>"
        for name, value, remark in facts
    )
    return Html(f'<dl class="cards">{inner}</dl>')


def pairs(facts: Mapping[str, str]) -> Html:
    """Make a list of names and values in two columns."""
    inner = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in facts.items()
    )
    return Html(f'<dl class="pairs">{inner}</dl>')


def table(
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    sortable: bool = False,
    sorted_by: int | None = None,
    descending: bool = False,
    marked: int | None = None,
) -> Html:
    """Make a table in a box that scrolls.

    Args:
        caption: one sentence about the content.
        header: names of the columns.
        rows: cells of each row, one per column.
        sortable: True if readers can sort and filter it.
        sorted_by: index of the column by which the rows are already sorted.
        descending: True if that order is from large to small.
        marked: index of a highlighted row.
    """
    order = "descending" if descending else "ascending"
    sorts = [order if j == sorted_by else "none" for j in range(len(header))]
    numbers = [any(row[j].number is not None for row in rows) for j in range(len(header))]
    head = "".join(
        f'<th scope="col"{_attribute("class", "number" if right else "")}'
        f"{_attribute('aria-sort', sort if sortable else '')}>{escape(name)}</th>"
        for name, sort, right in zip(header, sorts, numbers, strict=True)
    )
    body = "".join(
        f"<tr{_attribute('class', 'best' if i == marked else '')}>"
        f"{''.join(map(_td, row, numbers))}</tr>"
        for i, row in enumerate(rows)
    )
    kind = _attribute("class", "sortable" if sortable else "")
    return Html(
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(cut(caption, 80))}">'
        f"<table{kind}><caption><span>{escape(caption)}</span></caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _td(entry: Cell, right: bool) -> str:
    kind = "text" if len(entry.text) > _LONG else "number" if right else ""
    value = "" if entry.number is None else repr(entry.number)
    return f"<td{_attribute('class', kind)}{_attribute('data-v', value)}>{escape(entry.text)}</td>"


def figure(plot: Figure) -> Html:
    """Make a figure with its caption; it is drawn when it is scrolled into view."""
    caption = f"{plot.name}-caption"
    width = _attribute("style", f"min-width: {plot.width}px" if plot.width else "")
    height = int(plot.layout["height"])
    return Html(
        f'<figure><div class="frame"><div class="plot" id="{plot.name}" role="img" '
        f'aria-labelledby="{caption}"{width} data-height="{height}">'
        f'<script type="application/json">{script_json(plot)}</script></div></div>'
        f'<figcaption id="{caption}">{escape(plot.caption)}</figcaption></figure>'
    )


def beside(*parts: Html) -> Html:
    """Put parts side by side if the page is wide enough."""
    return Html(f'<div class="beside">{"".join(parts)}</div>')


def _attribute(name: str, value: str) -> str:
    return f' {name}="{escape(value)}"' if value else ""


def script_json(plot: Figure) -> str:
    """Convert a figure to JSON that cannot close or open a script element."""
    text = json.dumps({"data": _plain(plot.data), "layout": _plain(plot.layout)}, allow_nan=False)
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def _plain(value: Any) -> Any:
    """Replace NaN, which JSON lacks, by None, and round to six digits."""
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, str) or value is None or isinstance(value, bool):
        return value
    if is_number(value, int):
        return int(value)
    if is_number(value):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return [_plain(part) for part in value]


# ---------------------------------------------------------------------- figures and the page


def layout(height: int, **more: Any) -> dict[str, Any]:
    """Return the common layout of all figures; colours are CSS variables for light and dark pages.

    Args:
        height: height in pixels.
        **more: additional or different plotly settings.
    """
    axis = {
        "gridcolor": "var(--line)",
        "linecolor": "var(--line)",
        "zeroline": False,
        "automargin": True,
    }
    base: dict[str, Any] = {
        "height": height,
        "margin": {"l": 56, "r": 16, "t": 16, "b": 44},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "var(--ink)", "size": 13, "family": "system-ui, sans-serif"},
        "hoverlabel": {
            "bgcolor": "var(--head)",
            "bordercolor": "var(--line)",
            "font": {"color": "var(--ink)"},
            "align": "left",
        },
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1.02,
            "xanchor": "left",
            "yanchor": "bottom",
            "traceorder": "normal",
        },
        "xaxis": {**axis, **more.pop("xaxis", {})},
        "yaxis": {**axis, **more.pop("yaxis", {})},
    }
    return {**base, **more}


def trial_axis(numbers: Sequence[int], room: float = 0.6) -> dict[str, Any]:
    """Return the settings of an axis of trial numbers with integer ticks.

    Args:
        numbers: trial numbers to show.
        room: space at both ends, in trials.
    """
    first, last = min(numbers), max(numbers)
    room += 0.01 * (last - first) if room else 0.0
    steps = {"dtick": 1} if last - first <= 12 else {}
    return {"title": {"text": "trial"}, "range": [first - room, last + room], **steps}


def assemble(title: str, subtitle: str, sections: Sequence[Section], footer: str) -> str:
    """Assemble the HTML page, with plotly and the page's own script inside."""
    folder = files("rankwise.report")
    scripts = [plotly_script(), folder.joinpath("page.js").read_text(encoding="utf-8")]
    contents = "".join(
        f'<li><a href="#{section.name}">{escape(section.title)}</a></li>' for section in sections
    )
    body = "\n".join(
        f'<section aria-labelledby="{s.name}"><h2 id="{s.name}">{escape(s.title)}</h2>\n'
        + "\n".join(s.parts)
        + "</section>"
        for s in sections
    )
    return Template(folder.joinpath("page.html").read_text(encoding="utf-8")).substitute(
        policy=f"script-src {' '.join(map(_digest, scripts))} 'unsafe-eval'",
        title=escape(title),
        subtitle=escape(subtitle),
        contents=contents,
        body=body,
        footer=escape(footer),
        plotly=scripts[0],
        script=scripts[1],
    )


def _digest(script: str) -> str:
    """Compute the hash of a script for the content security policy."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
