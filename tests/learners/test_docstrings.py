"""Examples in docstrings."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize("module", ["given", "table"])
def test_examples_in_docstrings(module):
    result = doctest.testmod(importlib.import_module(f"rankwise.learners.{module}"))
    assert result.attempted > 0
    assert result.failed == 0
