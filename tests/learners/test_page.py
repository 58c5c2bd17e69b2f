"""What the page on estimators shows runs as shown, and so do the examples in docstrings."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "estimators.md"


def test_the_page_on_estimators(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    session: dict = {}
    for block in blocks:
        exec(block, session)
    shown = capsys.readouterr().out
    assert len(blocks) == 3
    assert "'svc__gamma': 'scale'" in shown and "1:model__C" in shown
    assert shown.endswith("random-forest|svc\n")


@pytest.mark.parametrize("module", ["given", "table"])
def test_examples_in_docstrings(module):
    result = doctest.testmod(importlib.import_module(f"rankwise.learners.{module}"))
    assert result.attempted > 0
    assert result.failed == 0
