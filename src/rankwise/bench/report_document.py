"""Blocks of a report (headings, paragraphs, tables, figures), written as Markdown and as HTML.

The texts of blocks are plain texts; characters with a meaning in Markdown or HTML are escaped.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from rankwise._core.plotly_script import plotly_script


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the title."""

    level: int
    text: str


@dataclass(frozen=True)
class Text:
    """A paragraph; it is highlighted if `alarm` is True."""

    text: str
    alarm: bool = False


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        header: names of the columns.
        rows: cells of each row, one per column.
        bold: row and column numbers of cells in bold type.
        alarm: True to highlight the table.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    bold: frozenset[tuple[int, int]] = frozenset()
    alarm: bool = False


@dataclass(frozen=True)
class Picture:
    """A figure.

    Attributes:
        caption: description of the figure.
        paths: paths of the picture as .png and as .svg.
        page: interactive plotly figure for HTML; None shows the picture instead.
    """

    caption: str
    paths: tuple[Path, Path]
    page: Any = None


_LONG = 45  # number of characters above which a cell may be broken into lines

Block = Heading | Text | Table | Picture


# ---------------------------------------------------------------------- Markdown


def to_markdown(blocks: Sequence[Block], folder: Path) -> str:
    """Convert blocks to Markdown.

    Args:
        blocks: blocks of the report.
        folder: folder of the Markdown file; paths of pictures are relative to it.
    """
    return "\n\n".join(_markdown(block, folder) for block in blocks) + "\n"


def _markdown(block: Block, folder: Path) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {_marked(block.text)}"
    if isinstance(block, Text):
        return f"**{_marked(block.text)}**" if block.alarm else _marked(block.text)
    if isinstance(block, Picture):
        return f"![{_marked(block.caption)}]({block.paths[0].relative_to(folder).as_posix()})"
    lines = [list(map(_marked_cell, block.header)), ["---"] * len(block.header)]
    for i, row in enumerate(block.rows):
        cells = enumerate(map(_marked_cell, row))
        lines.append([f"**{cell}**" if (i, j) in block.bold else cell for j, cell in cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _marked(text: str) -> str:
    """Escape a text for Markdown."""
    text = re.sub(r"[\\`*]", r"\\\g<0>", " ".join(text.split()))
    text = re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text).replace("](", r"]\(")
    # Escape only "&" and "<" that could begin an entity or a tag, so "p < 0.001" stays readable.
    text = re.sub(r"&(?=#?\w+;)", "&amp;", text)
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)


def _marked_cell(text: str) -> str:
    return _marked(text).replace("|", r"\|")


# ---------------------------------------------------------------------- HTML


def to_html(blocks: Sequence[Block], title: str) -> str:
    """Convert blocks to one HTML page that needs no other files and no network.

    Args:
        blocks: blocks of the report.
        title: title of the page.
    """
    identify = _identifiers()
    named = [(block, identify(block) if isinstance(block, Heading) else "") for block in blocks]
    contents = "".join(
        f'<li><a href="#{name}">{escape(block.text)}</a></li>'
        for block, name in named
        if isinstance(block, Heading) and block.level == 2
    )
    template = files("rankwise.bench").joinpath("page.html").read_text(encoding="utf-8")
    return Template(template).substitute(
        title=escape(title),
        contents=contents,
        body="\n".join(_html(block, name) for block, name in named),
        plotly=plotly_script() if any(getattr(block, "page", None) for block in blocks) else "",
    )


def _identifiers() -> Callable[[Heading], str]:
    """Return a function that gives each heading a unique identifier for links."""
    given: set[str] = set()

    def identify(heading: Heading) -> str:
        name = unique(slug(heading.text), given)
        given.add(name)
        return name

    return identify


def slug(text: str) -> str:
    """Convert a text to a part of a file name or a link."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.").lower()[:80] or "x"


def unique(name: str, given: set[str]) -> str:
    """Return the name, with a number appended if it is already in `given`."""
    number, result = 1, name
    while result in given:
        number += 1
        result = f"{name}-{number}"
    return result


def _html(block: Block, name: str) -> str:
    if isinstance(block, Heading):
        return f'<h{block.level} id="{name}">{escape(block.text)}</h{block.level}>'
    if isinstance(block, Text):
        return f"<p{_kind(block)}>{escape(block.text)}</p>"
    if isinstance(block, Picture):
        return _html_picture(block)
    head = "".join(f"<th>{escape(cell)}</th>" for cell in block.header)
    rows = []
    for i, row in enumerate(block.rows):
        cells = (_html_cell(cell, (i, j) in block.bold) for j, cell in enumerate(row))
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f"<div{_kind(block, 'wide')}><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _html_cell(text: str, bold: bool) -> str:
    start = '<td class="long">' if len(text) > _LONG else "<td>"
    return start + (f"<b>{escape(text)}</b>" if bold else escape(text)) + "</td>"


def _kind(block: Text | Table, *others: str) -> str:
    kinds = " ".join([*others, *(["alarm"] if block.alarm else [])])
    return f' class="{kinds}"' if kinds else ""


def _html_picture(picture: Picture) -> str:
    caption = escape(picture.caption)
    if picture.page is not None:
        figure = picture.page.to_json()  # plotly escapes what would end the script
        inner = f'<div class="plot"><script type="application/json">{figure}</script></div>'
    else:
        data = base64.b64encode(picture.paths[1].read_bytes()).decode()
        inner = f'<img alt="{caption}" src="data:image/svg+xml;base64,{data}">'
    return f"<figure>{inner}<figcaption>{caption}</figcaption></figure>"
