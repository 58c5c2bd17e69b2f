"""Figures: what is drawn, in which colours, and that it can be written."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from bench.invented import METHODS, invented, run
from rankwise.bench import figures
from rankwise.bench.run_arrays import make_panel
from rankwise.bench.significance import compare
from rankwise.bench.statistics import average_ranks, mean_regrets
from rankwise.errors import BenchmarkDataError

LOOKS = figures.styles(METHODS)


def curves_of(runs=None):
    return mean_regrets([make_panel(runs or invented())])


def lines_of(figure):
    [axes] = figure.axes
    return {line.get_label(): line for line in axes.get_lines()}


def test_every_method_has_a_look_of_its_own():
    looks = figures.styles([f"m{i}" for i in range(32)])
    assert len(set(looks.values())) == 32
    assert len({look.color for look in looks.values()}) == 8
    assert {looks[f"m{i}"].dash for i in range(8)} == {"solid"}
    assert len(figures.styles([f"m{i}" for i in range(40)])) == 40


@pytest.mark.parametrize("draw", [figures.regret_picture, figures.rank_picture])
def test_pictures_show_each_method_in_its_colour_the_best_first(draw):
    curves = (
        curves_of() if draw is figures.regret_picture else average_ranks([make_panel(invented())])
    )
    figure = draw(curves, "a title", LOOKS)
    lines = lines_of(figure)
    assert {name: line.get_color() for name, line in lines.items()} == {
        name: look.color for name, look in LOOKS.items()
    }
    ends = [line.get_ydata()[-1] for line in lines.values()]
    assert ends == sorted(ends)
    [axes] = figure.axes
    assert axes.get_title("left") == "a title"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(lines)
    assert len(axes.collections) == 4  # the bands


def test_regrets_of_zero_are_drawn_at_the_floor_and_it_says_so():
    runs = [run("gp", "x", 0, [0.5, 0.01, 0.0]), run("dre", "x", 0, [0.5, 0.3, 0.2])]
    figure = figures.regret_picture(curves_of(runs), "t", LOOKS)
    assert lines_of(figure)["gp"].get_ydata().tolist() == [0.5, 0.01, 0.01]
    [axes] = figure.axes
    assert axes.get_yscale() == "log" and axes.get_ylim()[0] == pytest.approx(0.01)
    assert axes.get_ylabel() == "mean regret (0.01 or less at the bottom)"


@pytest.mark.parametrize(
    ("end", "floor"), [(0.3, 0.1), (0.02, 0.01), (0.00025, 0.0001), (1e-8, 0.0001), (0.0, 0.1)]
)
def test_the_floor_is_a_power_of_ten_near_the_means(end, floor):
    curves = curves_of([run("gp", "x", 0, [0.9, 0.5, end])])
    assert figures.regret_floor(curves) == pytest.approx(floor)


def test_methods_without_a_mean_are_not_drawn():
    runs = invented()
    runs[3] = replace(runs[3], regrets=None)
    assert set(lines_of(figures.regret_picture(curves_of(runs), "t", LOOKS))) == set(METHODS[:3])
    assert len(figures.regret_page(curves_of(runs), LOOKS).data) == 6
    nobody = curves_of([replace(r, regrets=None) for r in runs])
    assert not lines_of(figures.regret_picture(nobody, "t", LOOKS))


def test_the_diagram_of_differences_shows_ranks_and_bars():
    result = compare([make_panel(invented(tasks=15))], 30)
    figure = figures.difference_picture(result, "t", LOOKS)
    [axes] = figure.axes
    texts = {text.get_text().strip(): text.get_color() for text in axes.texts}
    assert len(texts) == 4
    for method, rank in zip(result.methods, result.ranks, strict=True):
        [color] = [c for t, c in texts.items() if method in t.split() and f"{rank:.2f}" in t]
        assert color == LOOKS[method].color
    assert "critical difference 1.2" in axes.get_title("left")
    bars = [line for line in axes.get_lines() if line.get_linewidth() > 3]
    assert 1 <= len(bars) < 4
    # Where Friedman's test sees nothing, one bar joins all.
    figure = figures.difference_picture(replace(result, friedman=0.5), "t", LOOKS)
    [bar] = [line for line in figure.axes[0].get_lines() if line.get_linewidth() > 3]
    assert len(bar.get_xdata()) == 4


def test_names_are_not_taken_for_markup(tmp_path):
    names = ["a$x_1$", "<b>bold</b>", "y" * 60, "y" * 61]
    looks = figures.styles(names)
    panel = make_panel(invented(names))
    figure = figures.regret_picture(mean_regrets([panel]), "$t", looks)
    figures.save(figure, tmp_path / "f")
    assert r"a\$x_1\$" in lines_of(figure)
    assert {"y" * 60, "y" * 61} <= set(lines_of(figure))  # cut, they would be the same
    page = figures.regret_page(mean_regrets([panel]), looks)
    assert "&lt;b&gt;bold&lt;/b&gt;" in {trace.name for trace in page.data}
    figures.save(figures.difference_picture(compare([panel], 30), "t", looks), tmp_path / "d")
    assert figures._labels(["z" * 60, "a"]) == ["z" * 33 + "…", "a"]


def test_pages_hold_lines_and_bands():
    curves = curves_of()
    page = figures.regret_page(curves, LOOKS)
    lines = [trace for trace in page.data if trace.name]
    assert len(page.data) == 8 and len(lines) == 4
    for line in lines:
        row = METHODS.index(line.name)
        np.testing.assert_allclose(line.customdata, curves.mean[row], rtol=1e-5)
        assert line.line.color == LOOKS[line.name].color
    assert page.layout.yaxis.type == "log"
    ranks = figures.rank_page(average_ranks([make_panel(invented())]), LOOKS)
    assert ranks.layout.yaxis.autorange == "reversed"
    assert "12 of 12 pairs" in ranks.layout.yaxis.title.text


def test_files_are_written_and_repeat(tmp_path):
    figure = figures.regret_picture(curves_of(), "t", LOOKS)
    png, svg = figures.save(figure, tmp_path / "new" / "a.b")
    assert (png.name, svg.name) == ("a.b.png", "a.b.svg")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    again = figures.save(figures.regret_picture(curves_of(), "t", LOOKS), tmp_path / "c")
    assert again[1].read_bytes() == svg.read_bytes()


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    figure = figures.regret_picture(curves_of(), "t", LOOKS)
    with pytest.raises(BenchmarkDataError, match="cannot be written"):
        figures.save(figure, tmp_path / "file" / "f")


def test_importing_the_report_loads_nothing_heavy():
    code = "import sys, rankwise.bench.report, rankwise.bench.published; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"matplotlib", "plotly", "pandas", "scikit_posthocs", "torch"} & set(loaded)
