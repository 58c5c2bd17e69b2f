"""The parts of a page as HTML, and the page itself: one file, no network.

A text becomes `Html` only here, where it is escaped; nothing else writes markup. Should that
ever fail, the page's security policy runs no script but its own two and loads nothing. (They may
make functions out of texts: parallel coordinates of older versions of plotly do.)
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

from rankwise.errors import is_number

Html = NewType("Html", str)

NOTHING = "–"
_LONGEST_LABEL = 26
_LONG = 45  # characters of a cell that may be broken into lines


@dataclass(frozen=True)
class Cell:
    """A cell of a table: what it shows, and the number that it is sorted by, if it is one."""

    text: str
    number: float | None = None


@dataclass(frozen=True)
class Figure:
    """A figure of plotly.

    Attributes:
        name: of its element in the page.
        caption: says in a sentence what it shows; also for those who cannot see it.
        data: its traces. Texts that plotly reads as markup must come from `label`.
        layout: of the figure; see `layout`.
        width: in pixels that it needs at least; a narrow page scrolls.
    """

    name: str
    caption: str
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    width: int = 0


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading; `name` is what links call it."""

    name: str
    title: str
    parts: Sequence[Html]


# ---------------------------------------------------------------------- texts


def shown(value: Any) -> str:
    """A value with five digits."""
    if is_number(value, float):
        return digits(value, 5) if math.isfinite(value) else NOTHING
    return str(value)


def digits(value: float, n: int) -> str:
    """A number with n digits; 1000, not 1e+03."""
    return f"{float(f'{value:.{n}g}'):g}"


def cell(value: Any) -> Cell:
    """A value as a cell."""
    known = is_number(value) and math.isfinite(value)
    return Cell(shown(value), float(value) if known else None)


def label(text: str, longest: int = _LONGEST_LABEL) -> str:
    """A text for plotly, which takes <b>, <a> and some more for markup; long ones are cut."""
    return escape(cut(text, longest), quote=False)


def cut(text: str, longest: int = _LONGEST_LABEL) -> str:
    """A text on one line, with an ellipsis if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def percent(share: float) -> str:
    """A share in words."""
    return "less than 1\u00a0%" if 0.0 < share < 0.005 else f"{100 * share:.0f}\u00a0%"


def duration(seconds: float) -> str:
    """Seconds in words."""
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
    """A paragraph; `kind` is "note" (a hint, set smaller) or "alarm"."""
    return Html(f"<p{_attribute('class', kind)}>{escape(text)}</p>")


def code(text: str) -> Html:
    """Code or a command, to be copied."""
    return Html(f'<pre tabindex="0"><code>{escape(text)}</code></pre>')


def details(summary: str, text: str) -> Html:
    """A long text that is shown on demand."""
    return Html(
        f"<details><summary>{escape(summary)}</summary><pre>{escape(text)}</pre></details>"
    )


def cards(facts: Sequence[tuple[str, str, str]]) -> Html:
    """Large figures: for each a name, a value and a remark."""
    inner = "".join(
        f"<div><dt>{escape(name)}</dt><dd><strong>{escape(value)}</strong>"
        f"<span>{escape(remark)}</span></dd></div>"
        for name, value, remark in facts
    )
    return Html(f'<dl class="cards">{inner}</dl>')


def pairs(facts: Mapping[str, str]) -> Html:
    """Names and values in two columns."""
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
    """A table in a box that scrolls.

    Args:
        caption: says what it holds.
        header: names of the columns.
        rows: cells, as many as there are columns.
        sortable: whether readers can sort and filter it.
        sorted_by: number of the column by which the rows are sorted already.
        descending: whether that is from large to small.
        marked: number of a row that stands out.
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
    """A figure with its caption; it is drawn when it comes into view."""
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
    """Parts side by side where there is room."""
    return Html(f'<div class="beside">{"".join(parts)}</div>')


def _attribute(name: str, value: str) -> str:
    return f' {name}="{escape(value)}"' if value else ""


def script_json(plot: Figure) -> str:
    """A figure as JSON that cannot end the script it stands in, nor begin another."""
    text = json.dumps({"data": _plain(plot.data), "layout": _plain(plot.layout)}, allow_nan=False)
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def _plain(value: Any) -> Any:
    """JSON has no NaN, and six digits are more than anybody can see."""
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
    """How all figures look; colours are variables of the page, which is light or dark."""
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
    """An axis of trials; few of them would otherwise have half numbers."""
    first, last = min(numbers), max(numbers)
    room += 0.01 * (last - first) if room else 0.0
    steps = {"dtick": 1} if last - first <= 12 else {}
    return {"title": {"text": "trial"}, "range": [first - room, last + room], **steps}


def assemble(title: str, subtitle: str, sections: Sequence[Section], footer: str) -> str:
    """The page."""
    from plotly.offline import get_plotlyjs

    folder = files("rankwise.report")
    scripts = [get_plotlyjs(), folder.joinpath("page.js").read_text(encoding="utf-8")]
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
    """How a security policy names a script that may run."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
