"""The package for OptunaHub: its layout, its front matter, and its example."""

from __future__ import annotations

import importlib.util
import inspect
import re
import subprocess
import sys
import types
from pathlib import Path

import optuna
import pytest
import yaml

import rankwise

REGISTRY = Path(__file__).parent.parent / "optunahub"
NAME = "samplers/rankwise"
FOLDER = REGISTRY / "package" / NAME


def load_by_hand(package: str, *, registry_root: str) -> types.ModuleType:
    """What `optunahub.load_local_module` does, for where it is not installed."""
    path = Path(registry_root) / package / "__init__.py"
    name = f"optunahub_registry.package.{package.replace('/', '.')}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hub_installed() -> bool:
    """Our own folder of the name looks like a package without code when run from the root."""
    spec = importlib.util.find_spec("optunahub")
    return spec is not None and spec.origin is not None


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The package, which `optunahub.load_module` also gives, as if it were published."""
    load = load_by_hand
    if hub_installed():
        import optunahub

        load = optunahub.load_local_module
    loaded = load(f"package/{NAME}", registry_root=str(REGISTRY))
    hub = types.ModuleType("optunahub")
    monkeypatch.setitem(sys.modules, "optunahub", hub)
    hub.load_module = lambda package: {NAME: loaded}[package]
    return loaded


def front_matter() -> dict[str, object]:
    _, head, _ = (FOLDER / "README.md").read_text().split("---\n", 2)
    return dict(yaml.safe_load(head))


def test_the_files_that_the_hub_wants_are_there_and_no_others():
    found = {p.relative_to(FOLDER).as_posix() for p in FOLDER.rglob("*") if p.is_file()}
    code = {"__init__.py", "sampler.py", "example.py", "tests/test_sampler.py"}
    texts = {"LICENSE", "README.md", "requirements.txt", "images/regret.png"}
    assert {name for name in found if "cache" not in name} == code | texts
    assert (FOLDER / "LICENSE").read_text().startswith("MIT License\n")
    assert (FOLDER / "requirements.txt").read_text().split() == ["rankwise"]


def test_the_front_matter_is_complete():
    head = front_matter()
    fields = {"author", "title", "description", "tags", "optuna_versions", "license"}
    assert set(head) == fields
    assert "sampler" in head["tags"] and head["license"] == "MIT License"
    assert all(isinstance(tag, str) for tag in head["tags"])
    assert optuna.__version__ in head["optuna_versions"]


def test_the_text_has_the_sections_of_the_registry_and_its_pictures_exist():
    text = (FOLDER / "README.md").read_text()
    sections = re.findall("^## (.+)$", text, re.MULTILINE)
    assert sections == ["Abstract", "APIs", "Installation", "Example", "Others"]
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)
    assert pictures and all((FOLDER / picture).is_file() for picture in pictures)


def test_the_arguments_in_the_text_are_those_of_the_sampler():
    (shown,) = re.findall(r"`RankwiseSampler\((.+)\)`", (FOLDER / "README.md").read_text())
    parameters = inspect.signature(rankwise.RankwiseSampler).parameters.values()
    defaults = {p.name: repr(p.default).replace("'", '"') for p in parameters}
    for argument in shown.replace("*, ", "").split(", "):
        name, _, default = argument.partition("=")
        assert defaults[name] == default


def test_the_package_gives_the_sampler_of_the_library(package):
    assert package.__all__ == ["RankwiseSampler"]
    assert package.RankwiseSampler is rankwise.RankwiseSampler


def test_the_example_runs_and_gains_from_its_past(package):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    spec = importlib.util.spec_from_file_location("hub_example", FOLDER / "example.py")
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    study = example.main(n_trials=3)
    assert len(study.trials) == 3
    assert study.trials[0].value < 2  # 1 % of the space


def test_without_the_library_one_sentence_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("optunahub_registry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rankwise", None)
    with pytest.raises(ImportError, match=r"part of the library rankwise.*pip install -U rank"):
        load_by_hand(f"package/{NAME}", registry_root=str(REGISTRY))


@pytest.mark.skipif(not hub_installed(), reason="needs the package optunahub")
def test_the_tests_of_the_package_pass():
    words = [sys.executable, "-m", "pytest", "-q", "tests", "-k", "nan or conditional"]
    done = subprocess.run(words, cwd=FOLDER, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
