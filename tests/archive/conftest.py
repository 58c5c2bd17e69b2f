"""Optuna says nothing while these tests run."""

from __future__ import annotations

import optuna
import pytest


@pytest.fixture(autouse=True, scope="package")
def _quiet():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)
