"""The generated tables of the pages are up to date, and every results file is shown."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import generate  # noqa: E402

RESULTS = generate.results()
FACTS = {"title", "date", "machine", "versions", "command", "protocol", "tables", "views"}
IN_METHODS = {"method-cost/relative"}  # two columns of the table of methods


def shown() -> set[str]:
    """The names in the markers of all pages."""
    return {m[1] for page in generate.pages() for m in generate.BLOCK.finditer(page.read_text())}


def test_pages_are_up_to_date():
    known = generate.sources()
    stale = [
        p.name for p in generate.pages() if generate.render(p.read_text(), known) != p.read_text()
    ]
    assert not stale, "run: python docs/generate.py"


def test_every_marker_names_a_source_and_is_closed():
    assert shown() <= set(generate.sources())
    for page in generate.pages():
        text = page.read_text()
        opened = re.findall(r"^<!-- generated: ", text, re.MULTILINE)
        assert len(opened) == len(generate.BLOCK.findall(text)), page.name


def test_every_table_and_view_is_on_a_page():
    names = {f"{stem}/{table}" for stem, content in RESULTS.items() for table in content["tables"]}
    views = {view for content in RESULTS.values() for view in content.get("views", {})}
    assert (names | views) - IN_METHODS <= shown()


def test_every_result_has_its_command_on_a_page():
    assert {f"{stem}/setup" for stem in RESULTS} <= shown()


def test_every_page_is_in_the_navigation_and_every_record_in_the_index():
    navigation = set(re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    docs = ROOT / "docs"
    assert {p.relative_to(docs).as_posix() for p in docs.rglob("*.md")} == navigation
    for name in ("decisions/index.md", "benchmarks.md"):
        folder = "decisions" if name.startswith("decisions") else "results"
        text = (docs / name).read_text()
        pages = {p.name for p in (docs / folder).glob("*.md")} - {"index.md"}
        assert not [page for page in pages if page not in text], name


@pytest.mark.parametrize("stem", RESULTS)
def test_a_results_file_is_complete(stem):
    content = RESULTS[stem]
    assert set(content) <= FACTS
    assert content["title"] and content["command"] and content["protocol"]
    for table in content["tables"].values():
        assert table["about"]
        assert {len(row) for row in table["rows"]} == {len(table["columns"])}


def test_pages_have_their_sizes():
    sizes = {p.relative_to(ROOT).as_posix(): p.stat().st_size for p in generate.pages()}
    assert sizes["docs/benchmarks.md"] <= 12_000
    assert not {page: size for page, size in sizes.items() if size > 25_000}


def test_a_table_is_written_as_asked():
    table = {
        "columns": [
            {"name": "method", "code": True},
            {"name": "regret", "digits": 2, "best": "min"},
            {"name": "ms", "significant": 3},
            {"name": "gain", "digits": 1, "signed": True},
        ],
        "rows": [
            ["gp", {"value": 0.2, "low": 0.1, "high": 0.3}, 1006, 1],
            ["forest", {"value": 0.5, "se": 0.25}, 0.0243, None],
        ],
    }
    assert generate.markdown(table).splitlines()[2:] == [
        "| `gp` | **0.20 [0.10, 0.30]** | 1006 | +1.0 |",
        "| `forest` | 0.50 ± 0.25 | 0.0243 | – |",
    ]


def test_a_view_has_the_rows_and_columns_that_it_names():
    table = {
        "columns": [{"name": "method"}, {"name": "after 1"}, {"name": "after 5"}],
        "rows": [["a", 1, 2], ["b", 3, 4], ["c", 5, 6]],
    }
    view = {
        "rows": {"method": ["c", "a"]},
        "columns": ["method", "after 5"],
        "rename": {"after 5": "regret after 5"},
    }
    assert generate.markdown(generate.select(table, view)).splitlines() == [
        "| method | regret after 5 |",
        "| --- | --- |",
        "| c | 6 |",
        "| a | 2 |",
    ]
