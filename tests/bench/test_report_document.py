"""Reports as Markdown and HTML: nothing in them is taken for markup."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from rankwise.bench.report_document import (
    Heading,
    Picture,
    Table,
    Text,
    slug,
    to_html,
    to_markdown,
    unique,
)

NASTY = '<script>alert(1)</script> & "quotes" | pipe *star* `tick` _under_ [a](b) &lt;'


class Reader(HTMLParser):
    """Collects the text and the tags of a page, and whether they are balanced."""

    VOID = ("meta", "img", "br")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_blocks_become_markdown(tmp_path):
    blocks = [
        Heading(2, "A heading"),
        Text("A sentence."),
        Text("Look here.", alarm=True),
        Table(("method", "after 5"), [["gp", "0.1"], ["dre", "0.2"]], frozenset({(0, 1)})),
        Picture("A picture", (tmp_path / "figures" / "a.png", tmp_path / "figures" / "a.svg")),
    ]
    assert to_markdown(blocks, tmp_path).split("\n") == [
        "## A heading",
        "",
        "A sentence.",
        "",
        "**Look here.**",
        "",
        "| method | after 5 |",
        "| --- | --- |",
        "| gp | **0.1** |",
        "| dre | 0.2 |",
        "",
        "![A picture](figures/a.png)",
        "",
    ]


def test_texts_survive_markdown():
    markdown = pytest.importorskip("markdown")
    [shown] = Reader(markdown.markdown(to_markdown([Text(NASTY)], Path()).strip())).texts
    assert shown == NASTY
    table = to_markdown([Table(("a|b", "c"), [[NASTY, "x\ny"]])], Path())
    reader = Reader(markdown.markdown(table, extensions=["tables"]))
    assert reader.tags.count("td") == 2 and reader.tags.count("th") == 2
    assert "script" not in reader.tags
    assert [text for text in reader.texts if text.strip()] == ["a|b", "c", NASTY, "x y"]


@pytest.mark.parametrize(
    "text", ["p < 0.001", "0.1 [0.0, 0.2]", "rbv2_rpart and dre:epochs=100", "a & b", "6-7 %"]
)
def test_ordinary_texts_stay_as_they_are(text):
    assert to_markdown([Text(text)], Path()) == f"{text}\n"


def test_texts_survive_html():
    blocks = [
        Heading(1, NASTY),
        Heading(2, NASTY),
        Text(NASTY),
        Table((NASTY, "b"), [[NASTY, "c"]], frozenset({(0, 0)})),
    ]
    reader = Reader(to_html(blocks, NASTY))
    assert reader.texts.count(NASTY) == 7  # the title and the contents, too
    assert reader.tags.count("script") == 2


def test_headings_have_names_and_the_contents_lead_to_them():
    page = to_html([Heading(2, "A, b"), Heading(2, "a b"), Heading(3, "A b")], "t")
    assert re.findall(r'id="(.*?)"', page) == ["a-b", "a-b-2", "a-b-3"]
    assert re.findall(r'href="#(.*?)"', page) == ["a-b", "a-b-2"]


def test_pictures_are_part_of_the_page(tmp_path):
    import plotly.graph_objects as go

    path = tmp_path / "a.svg"
    path.write_text("<svg/>")
    still = Picture("still </figure>", (path, path))
    page = go.Figure(go.Scatter(x=[1], y=[2], name="</script><b>"))
    moving = Picture("moving", (path, path), page)
    html = to_html([still, moving], "t")
    assert 'src="data:image/svg+xml;base64,PHN2Zy8+"' in html
    data = re.search(r'application/json">(.*?)</script>', html, re.DOTALL)
    assert json.loads(data[1])["data"][0]["name"] == "</script><b>"
    assert len(html) > 1e6  # plotly's program is in it
    assert len(to_html([still], "t")) < 20_000  # and left out where it is not needed
    assert not re.search(r'(src|href)="(https?:)?//', html[: html.index("</main>")])


def test_tables_can_be_scrolled_and_alarms_stand_out():
    blocks = [Table(("a",), [["b"]], alarm=True), Text("c", alarm=True), Text("d")]
    page = to_html(blocks, "t")
    assert '<div class="wide alarm"><table>' in page
    assert '<p class="alarm">c</p>' in page and "<p>d</p>" in page


def test_slugs_are_names_of_files():
    assert slug("tst-svm:inverted/5 points") == "tst-svm-inverted-5-points"
    assert slug("../..") == "x" and len(slug("a" * 200)) == 80
    assert unique("a", {"a", "a-2"}) == "a-3" and unique("b", {"a"}) == "b"
