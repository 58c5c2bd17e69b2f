"""Results, their plots and the live display."""

from __future__ import annotations

import io
import re
import warnings

import numpy as np
import pytest
from rich.console import Console
from support.objectives import bowl, moody

from rankwise import make_space, minimize
from rankwise.errors import OptionError, RunWarning
from rankwise.run.display import Display, Lines, Silent, make_display

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}


@pytest.fixture(scope="module")
def result():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        return minimize(moody, SPACE, trials=20, method="random", seed=0)


def test_history_has_a_row_per_trial(result):
    frame = result.history
    assert frame["number"].tolist() == list(range(20))
    assert {"status", "value", "best_value", "seconds", "proposal_seconds", "error"} <= set(frame)
    assert frame["params_x"].tolist() == [t.configuration["x"] for t in result.trials]
    best = np.fmin.accumulate(frame["value"])
    assert frame["best_value"].to_numpy() == pytest.approx(best.to_numpy(), nan_ok=True)


def test_inactive_parameters_are_missing_in_the_history():
    space = make_space({"k": ["a", "b"], "g": (0.0, 1.0)}, when={"g": {"k": "a"}})
    frame = minimize(lambda c: len(c), space, trials=12, method="random", seed=0).history
    assert frame["params_g"].isna().tolist() == (frame["params_k"] == "b").tolist()


def test_integers_stay_integers_where_some_are_missing():
    space = make_space({"k": ["a", "b"], "n": (1, 9)}, when={"n": {"k": "a"}})
    frame = minimize(lambda c: len(c), space, trials=12, method="random", seed=0).history
    assert frame["params_n"].dtype == "Int64"


def test_top_lists_the_best_first(result):
    values = result.top(4)["value"]
    assert values.is_monotonic_increasing
    assert values.iloc[0] == result.best_value


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_plots_are_written_as_pictures(result, tmp_path, suffix):
    path = tmp_path / f"progress{suffix}"
    result.plot(path)
    assert path.stat().st_size > 5000


def test_the_page_is_self_contained_and_shows_every_trial(result, tmp_path):
    path = tmp_path / "progress.html"
    page = result.plot(str(path))
    html = path.read_text(encoding="utf-8")
    assert not re.search(r"<script[^>]+src=", html)
    trials, best = page.data[:2]
    assert len(trials.x) == sum(t.status == "ok" for t in result.trials)
    assert min(best.y[~np.isnan(best.y)]) == result.best_value


def test_names_cannot_inject_markup(tmp_path):
    space = {"<script>alert(1)</script>": (0.0, 1.0)}
    run = minimize(lambda c: 1.0, space, trials=2, method="random", seed=0, name="<b>bad</b>")
    run.plot(tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script>alert" not in html
    assert "<b>bad" not in html


def test_a_plot_of_nothing_but_failures_is_still_a_plot(tmp_path):
    def broken(configuration):
        raise ValueError

    with pytest.warns(RunWarning):
        run = minimize(broken, SPACE, trials=2, method="random", seed=0)
    run.plot(tmp_path / "p.png")
    run.plot(tmp_path / "p.html")
    assert (tmp_path / "p.png").stat().st_size > 0


def test_unknown_formats_are_refused(result, tmp_path):
    with pytest.raises(OptionError, match=r"\.html, \.png"):
        result.plot(tmp_path / "progress.bmp")


@pytest.mark.parametrize(("trials", "seconds"), [(5, None), (None, 2.0), (5, 60.0)])
def test_the_display_shows_progress_and_the_best_value(trials, seconds):
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120)
    display = Display(trials, seconds, "minimize", console)
    with display:
        run = minimize(
            bowl, SPACE, trials=5, method="random", seed=0, callbacks=[display], progress=False
        )
    shown = out.getvalue()
    assert f"{run.best_value:.5g}" in shown
    assert "5/5" in shown if trials else "5 trials" in shown


def test_the_display_is_chosen_by_the_terminal():
    assert isinstance(make_display(None, 5, None, "minimize"), Silent)  # tests have no terminal
    assert isinstance(make_display(True, 5, None, "minimize"), Display)


def test_without_a_terminal_there_is_a_line_now_and_then():
    said: list[str] = []
    clock = iter([0.0, 10.0, 31.0, 31.0, 40.0, 62.0, 62.0, 70.0])  # each line asks twice
    lines = Lines(5, said.append, clock=lambda: next(clock))
    run = minimize(bowl, SPACE, trials=5, method="random", seed=0, callbacks=[lines])
    firsts = [min(t.value for t in run.trials[:n]) for n in (2, 4)]
    assert [line.split(" (trial")[0] for line in said] == [
        f"{n} of 5 trials, best {best:.5g}" for n, best in zip((2, 4), firsts, strict=True)
    ]


@pytest.mark.parametrize("name", ["plot.html", "plot.png"])
def test_a_plot_that_cannot_be_written_leaves_the_old_one(name, tmp_path, monkeypatch):
    from pathlib import Path

    result = minimize(lambda c: c["x"], {"x": (0.0, 1.0)}, trials=2, method="random", seed=0)
    path = tmp_path / name
    result.plot(path)
    before = path.read_bytes()

    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)  # the new file was cut
    with pytest.raises(OSError, match="No space"):
        result.plot(path)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == [name]
