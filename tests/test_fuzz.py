"""A slice of the random cases that `make fuzz` runs."""

from __future__ import annotations

import sys

import optuna
import pytest
from support import TESTS

sys.path.insert(0, str(TESTS / "fuzz"))

from cases import run_case


@pytest.fixture(autouse=True)
def quiet():
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    yield
    optuna.logging.set_verbosity(level)


@pytest.mark.parametrize("seed", range(40))
def test_a_random_case(seed):
    run_case(seed)  # a failing one again: python tests/fuzz/run.py --first <seed> --cases 1
