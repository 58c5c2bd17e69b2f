"""Imports point one way: a package imports only packages that stand before it in `LAYERS`.

The test reads the source, so it also sees imports inside functions and those for type checkers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import ROOT

SOURCE = ROOT / "src" / "rankwise"

LAYERS = (
    "errors",
    "types",
    "_core",
    "space",
    "context",
    "tabular",
    "history",
    "storage",
    "surrogates",
    "acquisition",
    "strategies",
    "methods",
    "run",
    "archive",
    "builtin",
    "estimators",
    "networks",
    "report",
    "integrations",
    "bench",
    "cli",
)
FACADES = ("__init__", "losses", "learners")
"""Modules of the top folder that only re-export names."""


def modules() -> Iterator[tuple[str, Path]]:
    """The dotted name below `rankwise` and the file of every module."""
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts), path


def imported(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The dotted names below `rankwise` that a module imports, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("rankwise."):
                    yield alias.name.removeprefix("rankwise."), node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module:
            base, _, rest = node.module.partition(".")
            if base == "rankwise":
                for alias in node.names:
                    yield (f"{rest}.{alias.name}" if rest else alias.name), node.lineno


def back_edges(sources: dict[str, str]) -> list[str]:
    """The imports that turn back, as "importer:line imports package"."""
    found = []
    for name, text in sources.items():
        layer = name.partition(".")[0]
        if layer in FACADES:
            continue
        for target, line in imported(ast.parse(text)):
            package = target.partition(".")[0]
            if package == "__version__":
                continue
            if package not in LAYERS or LAYERS.index(package) > LAYERS.index(layer):
                found.append(f"{name}:{line} imports {target}")
    return found


def test_every_module_has_a_layer():
    unknown = {name.partition(".")[0] for name, _ in modules()} - {*LAYERS, *FACADES}
    assert not unknown


def test_no_import_turns_back():
    sources = {name: path.read_text(encoding="utf-8") for name, path in modules()}
    assert back_edges(sources) == []


@pytest.mark.parametrize(
    "text",
    [
        "from rankwise.cli import main",
        "import rankwise.methods.registry",
        "from rankwise import report",
        "def f():\n    from rankwise.run.loop import minimize",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from rankwise.bench import Run",
        "from rankwise import minimize",
    ],
)
def test_an_edge_that_turns_back_is_found(text):
    assert len(back_edges({"surrogates.base": text})) == 1


def test_an_edge_that_points_forward_is_no_finding():
    assert not back_edges({"cli.app": "from rankwise.methods import registry"})
