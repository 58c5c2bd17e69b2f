"""The report: what stands in it, for complete, incomplete and odd runs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.work import count_calls

from bench.invented import METHODS, invented, run
from rankwise.bench.report import write_report
from rankwise.bench.run_arrays import make_panel
from rankwise.bench.statistics import mean_regrets
from rankwise.errors import BenchmarkDataError, OptionError


def report(runs, out, **options):
    """Markdown and HTML of a report."""
    write_report(runs, out, **options)
    return (out / "report.md").read_text(), (out / "report.html").read_text()


def section(text, heading):
    """The text of a heading of any level, up to the next of that level."""
    level, rest = re.split(f"(?m)^(#+) {re.escape(heading)}\n", text)[1:3]
    return re.split(f"(?m)^{level} ", rest)[0]


def rows(text):
    """The cells of the tables in a text, headers included."""
    lines = [line for line in text.splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Two benchmarks, one of them also without initial points, and some missing runs."""
    out = tmp_path_factory.mktemp("report")
    runs = invented() + invented(benchmark="other") + invented(initial=0, tasks=4, trials=10)
    error = "Traceback:\nMemoryError: <too> much"
    runs[7] = replace(runs[7], regrets=None, error=error, seconds=np.empty(0))  # dre
    del runs[50]  # gp on the other benchmark
    runs[-1] = replace(runs[-1], fallbacks=3)
    facts = {"commit": "abc", "packages": {"numpy": "2"}, "command": ["bench", "a b"]}
    paths = write_report(runs, out, environment=facts)
    return out, paths, (out / "report.md").read_text(), (out / "report.html").read_text()


def test_the_files_are_there(full):
    out, paths, markdown, _ = full
    assert paths[:2] == [out / "report.md", out / "report.html"]
    assert all(path.stat().st_size > 1000 for path in paths)
    assert len(set(paths)) == len(paths)
    shown = re.findall(r"!\[.*?\]\((.*?)\)", markdown)
    assert {out / name for name in shown} == {path for path in paths if path.suffix == ".png"}
    assert {path.with_suffix(".svg") for path in paths if path.suffix == ".png"} <= set(paths)


def test_protocols_and_benchmarks_have_sections_of_their_own(full):
    _, _, markdown, html = full
    titles = [
        "Overall: 2 benchmarks, 5 initial points, 30 trials",
        "made, 5 initial points, 30 trials",
        "other, 5 initial points, 30 trials",
        "made, no initial points, 10 trials",
        "Environment",
    ]
    assert re.findall(r"(?m)^## (.*)$", markdown) == titles
    assert re.findall(r"<h2 id=.*?>(.*?)</h2>", html) == titles


def test_missing_runs_come_first_with_their_reason(full):
    _, _, markdown, html = full
    opening = markdown[: markdown.index("\n## ")]
    assert "**Missing runs: 2 of 128**" in opening
    assert rows(opening)[1:] == [
        [
            "dre",
            "made, 5 initial points, 30 trials",
            "1",
            "task 0: seed 1",
            "MemoryError: &lt;too> much",
        ],
        ["gp", "other, 5 initial points, 30 trials", "1", "task 0: seed 0", "not run"],
    ]
    assert "MemoryError: &lt;too&gt; much" in html and "<too>" not in html


def test_missing_runs_are_not_averaged_away(full):
    _, _, markdown, _ = full
    part = section(markdown, "made, 5 initial points, 30 trials")
    regrets = {row[0]: row[1:] for row in rows(section(part, "Mean regret"))}
    assert set(regrets["dre"]) == {"missing"}
    assert "there is no mean for: dre" in part
    assert "Over 11 of 12 pairs of task and seed" in part
    overall = section(markdown, "Overall: 2 benchmarks, 5 initial points, 30 trials")
    assert "there is no mean for: gp, dre" in overall


def test_means_in_the_table_are_those_of_the_statistics(full):
    _, _, markdown, _ = full
    part = section(markdown, "made, no initial points, 10 trials")
    header, *body = rows(section(part, "Mean regret"))
    assert header == ["method", "after 1", "after 5", "after 10", "1 to 10"]
    runs = invented(initial=0, tasks=4, trials=10)
    curves = mean_regrets([make_panel(runs)])
    assert [row[0] for row in body] == [METHODS[i] for i in np.argsort(curves.mean[:, -1])]
    for method, *cells in body:
        row = METHODS.index(method)
        numbers = [float(text) for text in re.findall(r"\d\.\d{4}\b", cells[1])]
        expected = [c[row, 5] for c in (curves.mean, curves.low, curves.high)]
        np.testing.assert_allclose(numbers, expected, atol=5.1e-5)
        overall = np.mean([np.mean(run.regrets[1:]) for run in runs if run.method == method])
        assert float(cells[-1].strip("*")) == pytest.approx(overall, abs=5.1e-5)
    best = [row[0] for row in body if "**" in row[3]]
    assert best == [body[0][0]]


def test_the_best_of_ten_methods_is_not_the_tenth(tmp_path):
    # As texts, "10.00" would be before "2.00".
    regrets = {f"m{i}": [0.5, 0.05 * (10 - i)] for i in range(10)} | {"m0": [0.5, 0.9]}
    markdown, _ = report([run(m, "x", 0, r) for m, r in regrets.items()], tmp_path)
    bold = [row[0] for row in rows(section(markdown, "Average rank")) if "**" in row[1]]
    assert bold == ["m9"]


def test_time_optima_and_fallbacks_are_counted(full):
    _, _, markdown, _ = full
    part = section(
        section(markdown, "made, no initial points, 10 trials"), "Optima found and time"
    )
    header, *body = rows(part)
    assert header[-1] == "fallback proposals" and [row[-1] for row in body] == ["0", "0", "0", "3"]
    runs = [r for r in invented(initial=0, tasks=4, trials=10) if r.method == "dre"]
    hits = sum(r.regrets[-1] == 0 for r in runs)
    assert body[3][:2] == ["dre", f"{hits} of 8 runs ({hits / 8:.0%})"]
    seconds = np.concatenate([r.seconds for r in runs])
    assert float(body[3][2]) == pytest.approx(seconds.mean(), rel=1e-3)
    part = section(section(markdown, "made, 5 initial points, 30 trials"), "Optima found and time")
    assert rows(part)[0][-1] == "missing runs" and rows(part)[4][-1] == "1"


def test_tests_are_at_the_budgets_that_exist(full):
    _, _, markdown, _ = full
    part = section(section(markdown, "made, 5 initial points, 30 trials"), "Which methods differ")
    assert re.findall(r"(?m)^After (\d+) trials, over 6 tasks .*Friedman", part) == ["25", "30"]
    assert len(re.findall(r"!\[", part)) == 2
    part = section(section(markdown, "made, no initial points, 10 trials"), "Which methods differ")
    assert "After 10 trials there is no test: a test needs 5 tasks, there are 4." in part
    assert "![" not in part


def test_wins_and_losses_of_all_pairs(full):
    _, _, markdown, _ = full
    part = section(section(markdown, "made, 5 initial points, 30 trials"), "Wins, ties and losses")
    header, *body = rows(part[: part.index("After 30")])
    assert header[1:] == list(METHODS) and [row[0] for row in body] == list(METHODS)
    for i in range(4):
        assert body[i][i + 1] == ""
        for j in range(i):
            there, back = body[i][j + 1], body[j][i + 1]
            counts = [int(count) for count in there.split(" ")[0].split("/")]
            assert sum(counts) == (11 if 3 in (i, j) else 12)
            assert back.split(" ")[0] == "/".join(map(str, counts[::-1]))
            assert there.split(" ", 1)[1] == back.split(" ", 1)[1]


def test_transfer_methods_are_held_against_the_portfolio(full, tmp_path):
    _, _, markdown, _ = full
    assert "All transfer methods are better than the portfolio." in markdown
    assert "compared with random. Better: portfolio (-0." in markdown
    swapped = {"dre": "portfolio", "portfolio": "dre"}
    runs = [replace(r, method=swapped.get(r.method, r.method)) for r in invented()]
    markdown, html = report(runs, tmp_path)
    sentence = "Transfer methods that are not better than the portfolio: dre."
    assert f"**{sentence}**" in markdown
    assert f'<p class="alarm">{sentence}</p>' in html
    assert re.search(r"compared with portfolio\. .*Not better: .*dre \(\+0\.", markdown)


def test_an_advantage_that_may_be_chance_is_named(tmp_path):
    ends = {"portfolio": [0.3] * 6, "dre": [0.31, 0.29, 0.31, 0.29, 0.31, 0.2]}
    runs = [
        run(m, str(t), 0, [0.5, v]) for m, values in ends.items() for t, v in enumerate(values)
    ]
    markdown, _ = report(runs, tmp_path)
    assert "better than the portfolio. Better, but not significantly: dre." in markdown


def test_the_environment_closes_the_report(full, tmp_path):
    _, _, markdown, _ = full
    facts = dict(rows(section(markdown, "Environment"))[1:])
    assert facts == {"commit": "abc", "packages": "numpy 2", "command": "bench 'a b'"}
    parts = [
        {"commit": "abc", "settings": {"trials": 5, "seeds": list(range(40))}},
        {"commit": "def", "settings": {"trials": 5, "seeds": [0, 1]}},
    ]
    markdown, _ = report(invented(trials=2), tmp_path, environment=parts)
    facts = dict(rows(section(markdown, "Environment"))[1:])
    assert facts["commit"] == "abc; def" and facts["trials"] == "5"
    assert facts["seeds"] == "40: 0, 1, 2, ...; 0, 1"


def test_misleading_pasts_have_an_overall_of_their_own(tmp_path):
    names = ("a", "b", "a:inverted", "b:inverted", "c:shuffled")
    runs = [
        r for name in names for r in invented(["gp", "dre"], benchmark=name, tasks=2, trials=3)
    ]
    markdown, _ = report(runs, tmp_path)
    titles = re.findall(r"(?m)^## (Overall.*)$", markdown)
    assert titles == [
        "Overall: 2 benchmarks, 5 initial points, 3 trials",
        "Overall: 2 benchmarks, 5 initial points, 3 trials, inverted past",
    ]
    assert "Benchmarks with equal weights: a:inverted, b:inverted." in markdown


def test_methods_of_some_benchmarks_are_left_out_of_the_overall(tmp_path):
    runs = invented(["gp", "dre"], trials=3) + invented(["gp"], benchmark="other", trials=3)
    markdown, _ = report(runs, tmp_path)
    overall = section(markdown, "Overall: 2 benchmarks, 5 initial points, 3 trials")
    assert "Left out, as not every benchmark has them: dre." in overall
    assert markdown.count("Left out") == 1


@pytest.mark.parametrize(
    ("marks", "expected"),
    [([2, 1, 99], ["after 1", "after 2"]), ([50], ["after 3"]), (None, ["after 1", "after 3"])],
)
def test_marks_choose_the_columns(tmp_path, marks, expected):
    markdown, _ = report(invented(["gp"], trials=3), tmp_path, marks=marks)
    assert rows(section(markdown, "Mean regret"))[0][1:] == [*expected, "1 to 3"]


def test_names_are_escaped_everywhere(tmp_path):
    nasty = '<img src=x onerror="a">|$&'
    runs = invented([nasty, "gp"], benchmark="b</script>/..", trials=3)
    runs = [replace(r, task=f"<i>{r.task}") for r in runs]
    runs[0] = replace(runs[0], regrets=None, error="<u>")
    markdown, html = report(runs, tmp_path / "new", environment={"<s>": "</table>"})
    before = html[: html.index("</main>")]
    for tag in ("<img src=x", "<i>", "<u>", "<s>", "b</script>"):
        assert tag not in before and tag not in markdown
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "figures",
        "report.html",
        "report.md",
    ]
    duels = section(markdown, "Wins, ties and losses")
    assert {len(row) for row in rows(duels[: duels.index("## ")])} == {3}


@pytest.mark.parametrize(
    "runs",
    [
        [run("gp", "x", 0, [0.5, 0.4])],
        [run("gp", "x", 0, None, trials=4, error="failed")],
        [run(m, str(t), 0, [0.0] * 4) for m in "abc" for t in range(6)],
        [run("portfolio", "x", 0, [0.5, 0.4]), run("dre", "y", 0, [0.5, 0.4])],
    ],
    ids=["one run", "none that worked", "all the same", "nothing in common"],
)
@pytest.mark.filterwarnings("error")
def test_odd_runs_are_reported(tmp_path, runs):
    markdown, _ = report(runs, tmp_path)
    assert "nan" not in markdown.lower()


def test_what_makes_no_sense_is_refused(tmp_path):
    with pytest.raises(OptionError, match="no runs"):
        write_report([], tmp_path)
    with pytest.raises(OptionError, match="marks are numbers of trials, not -1"):
        write_report(invented(), tmp_path, marks=[5, -1])
    (tmp_path / "file").write_text("")
    with pytest.raises(BenchmarkDataError, match="cannot be written"):
        write_report(invented(trials=2), tmp_path / "file")


def test_the_work_of_a_report_does_not_grow_with_the_runs(tmp_path):
    names = [f"m{i}" for i in range(9)]
    few, many = (invented(names, tasks=n, seeds=5, trials=20) for n in (5, 40))
    report(few, tmp_path)  # imports what it needs
    calls = [count_calls(lambda runs=runs: report(runs, tmp_path)) for runs in (few, many)]
    assert calls[1] < 1.5 * calls[0]


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    write_report(invented(trials=2), tmp_path)
    before = (tmp_path / "report.html").read_bytes()

    def full(self, *_, **__):
        self.write_bytes(b"cut")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(BenchmarkDataError, match="No space"):
        write_report(invented(trials=2), tmp_path)
    assert (tmp_path / "report.html").read_bytes() == before
