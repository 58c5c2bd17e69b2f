"""Examples in docstrings."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize("module", ["user_spaces", "ready_spaces"])
def test_examples_in_docstrings(module):
    result = doctest.testmod(importlib.import_module(f"rankwise.estimators.{module}"))
    assert result.attempted > 0
    assert result.failed == 0
