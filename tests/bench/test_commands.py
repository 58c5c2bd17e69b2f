"""The commands of `rankwise bench`, as a user types them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

import rankwise
from rankwise.cli.app import app, main

runner = CliRunner()


def bench(*words: str):
    return runner.invoke(app, ["bench", *words])


def ran(tmp_path, *more: str):
    words = (
        "--on",
        "quadratics",
        "--methods",
        "random,portfolio",
        "--seeds",
        "2",
        "--trials",
        "5",
    )
    return bench("run", *words, "--out", str(tmp_path), *more)


def test_the_list_says_what_is_missing(monkeypatch):
    monkeypatch.delenv("RANKWISE_DATA", raising=False)
    result = bench("list", "--json")
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert result.exit_code == 0 and list(rows) == rankwise.bench.available()
    assert rows["quadratics"]["missing"] == "" and rows["quadratics"]["tasks"] == 5
    assert "--data" in rows["tst-svm"]["missing"] or "RANKWISE_DATA" in rows["tst-svm"]["missing"]
    assert "quadratics" in bench("list").stdout


def test_run_then_report(tmp_path):
    result = ran(tmp_path)
    assert result.exit_code == 0, result.output
    assert "20 of 20 cells have a result" in result.output
    report = bench("report", "--out", str(tmp_path), "--marks", "1,5")
    assert report.exit_code == 0, report.output
    names = {line.rsplit("/", 1)[-1] for line in report.stdout.split()}
    assert {"report.md", "report.html"} <= names and any(n.endswith(".png") for n in names)
    text = (tmp_path / "report.md").read_text()
    assert "quadratics" in text and "portfolio" in text and "No run is missing" in text


def test_a_report_of_some_methods_somewhere_else(tmp_path):
    ran(tmp_path / "runs")
    words = ("--out", str(tmp_path / "runs"), "--to", str(tmp_path / "here"))
    assert bench("report", *words, "--methods", "portfolio,random").exit_code == 0
    text = (tmp_path / "here" / "report.md").read_text()
    assert "Methods: portfolio, random." in text
    assert not (tmp_path / "runs" / "report.md").exists()


@pytest.mark.parametrize(("text", "seeds"), [("2", {0, 1}), ("0,3", {0, 3}), ("3,", {3})])
def test_seeds_are_a_number_or_a_list(tmp_path, text, seeds):
    result = ran(tmp_path, "--methods", "random", "--seeds", text)
    assert result.exit_code == 0, result.output
    found = {path.stem.split("__")[1] for path in tmp_path.glob("cells/*/*/*.json")}
    assert found == {f"seed-{seed}" for seed in seeds}


def test_failed_cells_change_the_exit_code_and_are_tried_again(tmp_path):
    result = ran(tmp_path, "--methods", "random,rgpe:model=nowhere")
    assert result.exit_code == 1 and "10 failed" in result.output
    again = ran(tmp_path, "--methods", "random,rgpe:model=nowhere")
    assert again.exit_code == 1 and again.output.count("failed: quadratics") == 10


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("bench run --on quadratic", 2, "unknown benchmark 'quadratic'"),
        ("bench run --on quadratics --methods dree", 2, "unknown method 'dree'"),
        ("bench run --on quadratics --methods portfolio:length=0", 2, "a positive integer, not 0"),
        ("bench run --on quadratics --seeds x", 2, "--seeds is a number"),
        ("bench run --on quadratics --seeds 0", 2, "--seeds is a number"),
        ("bench run --on tst-svm --data nowhere", 1, "there is no data folder nowhere"),
        ("bench report --out nowhere", 1, "there are no results in nowhere"),
    ],
)
def test_mistakes_get_a_sentence_and_an_exit_code(words, code, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["rankwise", *words.split()])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == code
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error


def test_reports_refuse_what_makes_no_sense(tmp_path, monkeypatch, capsys):
    ran(tmp_path)
    for more in (["--marks", "a"], ["--methods", "gp"], ["--on", "branin"]):
        words = ["rankwise", "bench", "report", "--out", str(tmp_path), *more]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as caught:
            main()
        assert caught.value.code == 2 and "rankwise: " in capsys.readouterr().err


def test_the_version_and_help():
    assert runner.invoke(app, ["--version"]).stdout.strip() == f"rankwise {rankwise.__version__}"
    for command in ("list", "run", "report"):
        assert "Example: rankwise bench" in " ".join(bench(command, "--help").stdout.split())


def test_ctrl_c_keeps_what_is_finished(tmp_path):
    words = "-m rankwise.cli bench run --on quadratics --methods gp --trials 30 --jobs 2 --out"
    process = subprocess.Popen(
        [sys.executable, *words.split(), str(tmp_path)],
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
        # A shell that runs this in the background lets its children ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        for _ in range(6000):
            if list(tmp_path.glob("cells/*/*/*.json")):
                break
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 130 and "finished work is kept" in errors
    assert 1 <= len(list(tmp_path.glob("cells/*/*/*.json"))) < 25
