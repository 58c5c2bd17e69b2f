"""What the documentation shows runs as shown."""

from __future__ import annotations

import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import rankwise
from rankwise.archive.sources import registry
from rankwise.methods import added

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import execute  # noqa: E402


@pytest.mark.parametrize(
    "module",
    [
        "run.loop",
        "run.optimizer",
        "space.shorthand",
        "integrations.optuna.sampler",
        "methods.added",
        "bench.hpob_handler",
    ],
)
def test_examples_in_docstrings(module):
    result = doctest.testmod(importlib.import_module(f"rankwise.{module}"))
    assert result.attempted > 0
    assert result.failed == 0


def test_the_readmes_examples(tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    _, shown = execute.run(text, "README.md", tmp_path)
    assert "'x'" in shown
    assert (tmp_path / "progress.html").exists()


def run(page: str, folder: Path) -> tuple[dict, str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return execute.run(text, page, folder)


@pytest.fixture(autouse=True)
def _without_plug_ins_of_pages(monkeypatch):
    """What a page registers is forgotten after it."""
    monkeypatch.setattr(added, "_ADDED", dict(added._ADDED))
    monkeypatch.setattr(registry, "_ADDED", list(registry._ADDED))


PAGES = sorted(
    path.name for path in (ROOT / "docs").glob("*.md") if execute.blocks(path.read_text("utf-8"))
)


@pytest.mark.parametrize("page", PAGES)
def test_a_page(page, tmp_path):
    session, shown = run(page, tmp_path)
    CLAIMS.get(page, lambda *_: None)(session, shown, tmp_path)


def minimize_page(session, shown, folder):
    assert isinstance(session["result"], rankwise.Result)
    assert (folder / "runs.db").exists()


def past_studies_page(session, shown, folder):
    assert len(session["archive"].studies) == 3 and "eta" in shown
    assert rankwise.archive.read_context(session["study"])["rows"] == 48_000


def parts_page(session, shown, folder):
    assert "'kind': 'a'" in shown and "Did you mean 'mbo'?" in shown
    assert "positive integer, not 0" in shown


def guard_page(session, shown, folder):
    assert "4 True" in shown


def prior_page(session, shown, folder):
    assert session["result"].best_value < 1.0 and session["optimizer"].trust > 0.5
    assert "best_value" in shown


def ranking_page(session, shown, folder):
    assert (folder / "bowls.safetensors").exists() and session["result"].best_value < 5.0


def estimators_page(session, shown, folder):
    assert "'svc__gamma': 'scale'" in shown and "1:model__C" in shown
    assert shown.endswith("random-forest|svc\n")


def networks_page(session, shown, folder):
    assert session["network"].score(session["X"][1200:], session["y"][1200:]) > 0.9
    assert "layer 2: a kernel of 5 x 5 is larger than what is left of the image, 2 x 2\n" in shown
    assert all(trial.status == "ok" for trial in session["result"].trials)
    assert "preserved: True ()" in shown


def past_page(session, shown, folder):
    assert "Optuna (trials_dataframe)" in shown and "'sweep-1'" in shown
    assert len(session["folder"].studies) == 3 and "['depth', 'lr'] ['a1b2', '2'," in shown
    assert session["search"].studies[0].direction == "maximize"
    assert session["curves"].studies[0].pruned.sum() == 4 and len(session["ray_table"].tasks) == 1


def re_tune_page(session, shown, folder):
    assert session["archive"].ageing.half_life is not None and "halved every" in shown
    assert len(session["ageless"].tasks) == 18


def plugins_page(session, shown, folder):
    assert session["result"].best_value < 0.1 and "'warm': True" in shown


CLAIMS = {
    "where-is-my-past.md": past_page,
    "re-tune.md": re_tune_page,
    "plugins.md": plugins_page,
    "minimize.md": minimize_page,
    "past-studies.md": past_studies_page,
    "guard.md": guard_page,
    "parts.md": parts_page,
    "prior.md": prior_page,
    "ranking.md": ranking_page,
    "estimators.md": estimators_page,
    "networks.md": networks_page,
    "spaces.md": lambda session, *_: session["encoder"].activity,
}


def test_an_error_on_a_page_is_told_with_its_line(tmp_path):
    text = "# A page\n\n```python\nx = 1\n```\n\n```python\ny = x / 0\n```\n"
    with pytest.raises(ZeroDivisionError) as caught:
        execute.run(text, "a.md", tmp_path)
    last = caught.traceback[-1]
    assert (str(last.path), last.lineno + 1) == ("a.md", 8)


def test_every_method_is_in_the_table_of_methods():
    text = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    for name in rankwise.methods.available():
        assert f"| `{name}` |" in text


def test_commands_of_a_page_are_run_with_the_site(tmp_path):
    text = "<!-- run -->\n\n```bash\necho hello > file\nfalse\n```\n\n```bash\nexit 3\n```\n"
    execute.run(text, "a.md", tmp_path)
    assert not (tmp_path / "file").exists()
    with pytest.raises(subprocess.CalledProcessError):
        execute.run(text, "a.md", tmp_path, shell=True)
    assert (tmp_path / "file").read_text() == "hello\n"
    execute.run(text.replace("false\n", ""), "a.md", tmp_path, shell=True)  # the second is not
