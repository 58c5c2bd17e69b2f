"""What the documentation shows runs as shown."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import optuna
import pytest

import rankwise

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("module", ["loop", "optimizer", "shorthand", "sampler", "bench.handler"])
def test_examples_in_docstrings(module):
    result = doctest.testmod(importlib.import_module(f"rankwise.{module}"))
    assert result.attempted > 0
    assert result.failed == 0


def test_the_readmes_examples(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    for block in blocks:
        exec(block, {})
    assert len(blocks) == 2
    assert "'x'" in capsys.readouterr().out
    assert (tmp_path / "progress.html").exists()


def test_the_tutorial_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    """The blocks share one namespace, as a reader's session would."""
    monkeypatch.chdir(tmp_path)
    session: dict = {}
    blocks = BLOCK.findall((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
    for block in blocks:
        if "n_jobs" in block:  # the one on limits: shorter, and in this process
            session["accuracy"] = lambda c: 1 - session["error"](c)
            block = re.sub(r"n_jobs=2.*\n|timeout=30.*\n", "\n", block)
            block = block.replace("trials=100", "trials=12")
        exec(block.replace("trials=50", "trials=8"), session)
    assert len(blocks) >= 5
    assert isinstance(session["result"], rankwise.Result)
    assert (tmp_path / "runs.db").exists()


def test_the_page_on_past_studies(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for k in range(3):
        sampler = optuna.samplers.RandomSampler(seed=k)
        name = f"xgb-{k}"
        past = optuna.create_study(
            storage="sqlite:///studies.db", study_name=name, sampler=sampler
        )
        past.optimize(lambda trial: trial.suggest_float("eta", 0, 1), n_trials=4)
    session: dict = {}
    blocks = BLOCK.findall((ROOT / "docs" / "past-studies.md").read_text(encoding="utf-8"))
    for block in blocks:
        exec(block, session)
    assert len(blocks) == 3
    assert len(session["archive"].studies) == 3 and "eta" in capsys.readouterr().out
    assert rankwise.archive.read_context(session["study"])["rows"] == 48_000


def test_the_page_on_comparing_methods(capsys):
    [block] = BLOCK.findall((ROOT / "docs" / "bench.md").read_text(encoding="utf-8"))
    exec(block, {})
    assert capsys.readouterr().out.startswith("[0.")


def test_the_page_on_spaces(capsys):
    blocks = BLOCK.findall((ROOT / "docs" / "spaces.md").read_text(encoding="utf-8"))
    session = {"rankwise": rankwise}
    for block in blocks:
        exec(block, session)
    assert session["encoder"].activity


def test_the_page_on_methods(capsys):
    session: dict = {}
    for block in BLOCK.findall((ROOT / "docs" / "methods.md").read_text(encoding="utf-8")):
        exec(block, session)
    shown = capsys.readouterr().out
    assert "'kind': 'a'" in shown
    assert "Did you mean 'mbo'?" in shown


def test_every_method_is_in_the_table_of_methods():
    text = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    for name in rankwise.methods.available():
        assert f"| `{name}` |" in text


def test_the_page_on_the_prior(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    session: dict = {}
    blocks = BLOCK.findall((ROOT / "docs" / "prior.md").read_text(encoding="utf-8"))
    for block in blocks:
        exec(block, session)
    assert len(blocks) == 1
    assert session["result"].best_value < 1.0
    assert session["optimizer"].trust > 0.5
    assert "best_value" in capsys.readouterr().out


def test_the_page_on_ranking(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    session: dict = {}
    blocks = BLOCK.findall((ROOT / "docs" / "ranking.md").read_text(encoding="utf-8"))
    for block in blocks:
        exec(block, session)
    assert len(blocks) == 2
    assert (tmp_path / "bowls.safetensors").exists()
    assert session["result"].best_value < 5.0
