"""What docs/seeds.md names exists, and its figures are on the pages to which it links."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from rankwise import methods

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "seeds.md").read_text("utf-8")
ROWS = [
    cells
    for line in PAGE.splitlines()
    if line.startswith("| ") and len(cells := [c.strip() for c in line.split("|")[1:-1]]) == 5
]
ENTRIES = [cells for cells in ROWS if cells[0] != "part"]
SOURCE = {p: p.read_text("utf-8") for p in sorted((ROOT / "src").rglob("*.py"))}


@cache
def names_of(module: Path) -> set[str]:
    """The classes, functions and constants of a module."""
    found = set()
    for node in ast.parse(SOURCE[module]).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def problem(code: str, modules: list[Path]) -> str | None:
    """Why a name in backticks is wrong, or None; `modules` are those named before it."""
    if code.startswith(("rankwise bench ", "--")) or code == "MetaTraining":
        return None
    if code.startswith("rankwise."):
        *path, name = code.split(".")
        module = (ROOT / "src").joinpath(*path).with_suffix(".py")
        modules.append(module)
        if module not in SOURCE:
            return "no such module"
        return None if name in names_of(module) else "no such name in the module"
    if "/" in code:
        script = next(word for word in code.split() if "/" in word)
        return None if (ROOT / script).is_file() else "no such file"
    if "=" in code:
        option, value = code.split("=", 1)
        text = "\n".join(SOURCE.values())
        if not re.search(rf"\b{option}\s*[:=]", text):
            return "no such option"
        return None if not value.startswith('"') or value in text else "no such value"
    if code in methods.available() or code == "mboinl":  # the name of mbo in the network study
        return None
    if any(code in names_of(m) for m in modules):
        return None
    return "neither a method nor a name of a module"


@pytest.mark.parametrize("document", re.findall(r"^## (.+)$", PAGE, re.MULTILINE))
def test_what_a_table_names_exists(document):
    section = PAGE.split(f"## {document}\n")[1].split("\n## ")[0]
    codes = re.findall(r"`([^`]+)`", section)
    modules: list[Path] = []
    wrong = {code: why for code in codes if (why := problem(code, modules))}
    assert codes and not wrong


def test_links_lead_to_pages():
    targets = re.findall(r"\]\(([^)#]+)", PAGE)
    assert targets and not [t for t in targets if not (ROOT / "docs" / t).is_file()]


def test_every_row_has_a_state():
    assert len(ENTRIES) == len(ROWS) - 5
    assert {row[2] for row in ENTRIES} <= {"done", "partly", "not done", "no data"}


def passages(page: Path) -> list[str]:
    """The lines of tables and the paragraphs of a page."""
    found = []
    for paragraph in page.read_text("utf-8").split("\n\n"):
        found += paragraph.splitlines() if "\n|" in paragraph else [paragraph]
    return found


def test_our_figures_are_on_a_linked_page_beside_their_method():
    missing = []
    for part, here, _, _, ours in ENTRIES:
        links = re.findall(r"\]\(([^)#]+)", here)
        text = [passage for link in links for passage in passages(ROOT / "docs" / link)]
        method = ""
        for name, figure in re.findall(r"(`[^`]+`)|(\d*\.\d+|\d+ %)", ours):
            method = name or method
            value = re.compile(rf"(?<![\d.]){re.escape(figure)}(?!\d)")
            if figure and not any(method in one and value.search(one) for one in text):
                missing.append((part, method, figure))
    assert not missing
