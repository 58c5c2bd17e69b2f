"""The page of a report: hostile texts do nothing, and it works in a real browser."""

from __future__ import annotations

import json
import re

import pytest
from support.browser import Browser, find
from support.reports import HOSTILE, check, full_report, hostile_study, made, page_of

from rankwise.report import write_report


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return full_report(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def hostile():
    return hostile_study()


@pytest.fixture(scope="module")
def thousand(tmp_path_factory):
    return write_report(made(1000), tmp_path_factory.mktemp("large") / "report.html")


# ---------------------------------------------------------------------- hostile texts


def test_hostile_texts_are_shown_as_they_are(hostile, tmp_path):
    page = page_of(hostile, tmp_path, baseline=hostile)
    reader = check(page)
    assert not {"img", "svg", "iframe", "b"} & set(reader.tags)
    assert [v for tag, name, v in reader.attributes if tag == "a" and not v.startswith("#")] == []
    for text in HOSTILE:
        assert text in "".join(reader.texts)
    for data in re.findall(r'<script type="application/json">(.*?)</script>', page, re.S):
        assert not set(data) & set("<>&\u2028")


def strings(value, path=()):
    """All texts of a figure with the way to them."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from strings(part, (*path, key))
    elif isinstance(value, list):
        for part in value:
            yield from strings(part, path)


def test_hostile_texts_are_no_markup_for_plotly(hostile, tmp_path):
    """Plotly takes some tags for markup everywhere but at the ticks of parallel coordinates."""
    for figure in check(page_of(hostile, tmp_path)).figures:
        for path, text in strings(figure):
            if path[-2:] != ("dimensions", "ticktext"):
                tags = re.findall(r"<[^>]*>?", text)
                assert set(tags) <= {"<br>", "<b>", "</b>", "<extra>", "</extra>"}


# ---------------------------------------------------------------------- in a browser

ALL_DRAWN = "[...document.querySelectorAll('.plot')].every(p => p.dataset.drawn)"
COLUMN = (
    "[...document.querySelectorAll('table.sortable tbody tr')].map(r => r.cells[{}].innerText)"
)


@pytest.fixture(scope="module")
def browser():
    if find() is None:
        pytest.skip("there is no Chromium")
    with Browser() as started:
        yield started
    assert not started.folder.exists()


def opened(browser, path):
    browser.look()
    browser.open(path)
    browser.run("window.dispatchEvent(new Event('beforeprint'))")  # what is out of view, too
    browser.wait(ALL_DRAWN)
    return browser


@pytest.fixture(scope="module")
def shown(browser, full):
    """The full report in a browser."""
    return opened(browser, full[1])


def test_every_figure_is_drawn(shown, full):
    drawn = shown.run(
        "Object.fromEntries([...document.querySelectorAll('.plot')].map(p => [p.id, p."
        "querySelectorAll('.points path, .bars path, .lines path, .fills path, .y-axis').length]))"
    )
    assert len(drawn) == 7 and min(drawn.values()) >= 4
    assert drawn["parallel-plot"] == 5 and drawn["progress-plot"] > 25
    canvas = shown.run("document.querySelector('canvas.gl-canvas-focus').toDataURL().length")
    assert canvas > 5000
    assert shown.errors == [] and shown.requests == [full[1].as_uri()]


def test_the_table_sorts_and_filters(shown):
    header = shown.run("[...document.querySelectorAll('table.sortable th')].map(h => h.innerText)")
    column = header.index("C")
    head = f"table.sortable th:nth-child({column + 1})"
    shown.click(f"{head} button")
    numbers = [float(text) for text in shown.run(COLUMN.format(column))]
    assert numbers == sorted(numbers) and len(numbers) == 26
    assert shown.run(f"document.querySelector('{head}').ariaSort") == "ascending"
    shown.press("Enter")  # the button has the focus
    assert [float(text) for text in shown.run(COLUMN.format(column))] == numbers[::-1]
    assert shown.run(f"document.querySelector('{head}').ariaSort") == "descending"
    shown.click(f"table.sortable th:nth-child({header.index('degree') + 1}) button")
    degrees = shown.run(COLUMN.format(header.index("degree")))
    used = [text for text in degrees if text != "–"]
    assert used == sorted(used) and degrees[len(used) :] == ["–"] * (26 - len(used))

    shown.click(".filter input")
    shown.type("kernel=rbf c>1")
    left = shown.run(
        "[...document.querySelectorAll('table.sortable tbody tr')].filter(r => !r.hidden)"
        f".map(r => [r.cells[{header.index('kernel')}].innerText, r.cells[{column}].innerText])"
    )
    assert 0 < len(left) < 26
    assert all(kernel == "rbf" and float(c) > 1 for kernel, c in left)
    assert shown.run("document.querySelector('.filter output').innerText") == (
        f"{len(left)} of 26 rows"
    )
    assert shown.errors == []


def test_pages_follow_the_screen(shown):
    ink = "getComputedStyle(document.querySelector('#time-plot .xtick text')).fill"
    paper = "getComputedStyle(document.body).backgroundColor"
    shown.look(width=380)
    shown.wait("document.querySelector('#time-plot .main-svg').clientWidth < 380")
    assert shown.run("document.documentElement.scrollWidth") == 380
    assert shown.run(f"[{ink}, {paper}]") == ["rgb(31, 41, 51)", "rgb(255, 255, 255)"]
    shown.look(width=380, dark=True)
    shown.wait(f"{ink} === 'rgb(223, 229, 234)'")
    assert shown.run(paper) == "rgb(21, 25, 29)"
    assert shown.errors == []


def test_hostile_texts_do_nothing(browser, hostile, tmp_path):
    path = write_report(hostile, tmp_path / "report.html", baseline=hostile, title=HOSTILE[1])
    page = path.read_text(encoding="utf-8")
    # Escaping must do without the second line of defence.
    page, policies = re.subn('<meta http-equiv="Content-Security.*?>', "", page)
    assert policies == 1
    path.write_text(page, encoding="utf-8")
    opened(browser, path)
    for text in HOSTILE:
        browser.click("table.sortable th button")
        browser.run(f"document.querySelector('.filter input').value = {json.dumps(text)}")
        browser.run("document.querySelector('.filter input').dispatchEvent(new Event('input'))")
    assert browser.run("window.pwned") is None and browser.dialogs == []
    assert browser.run("document.querySelectorAll('img, iframe, [onerror], [onload]').length") == 0
    assert browser.run("document.querySelectorAll('a:not([href^=\"#\"])').length") == 0
    assert browser.run("document.scripts.length") == 2
    labels = browser.run("[...document.querySelectorAll('.plot text')].map(t => t.textContent)")
    assert any(label.startswith("<script>window.pwned=1") for label in labels)
    assert browser.errors == [] and browser.requests == [path.as_uri()]


def test_a_thousand_trials_fit(thousand):
    assert thousand.stat().st_size < 10e6
    assert check(thousand.read_text(encoding="utf-8")).tags.count("tr") >= 1001


def test_a_thousand_trials_open(browser, thousand):
    opened(browser, thousand)
    assert browser.run("document.querySelectorAll('table.sortable tbody tr').length") == 1000
    assert browser.errors == []
