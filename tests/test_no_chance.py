"""Tests draw the same numbers in each run, even where a seed was forgotten (tests/conftest.py)."""

from __future__ import annotations

import numpy as np
import optuna
import pytest
from sklearn.utils import check_random_state


def draws() -> list[float]:
    study = optuna.create_study()
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=3)
    generators = [np.random.default_rng(), np.random.RandomState(), check_random_state(None)]
    own = [generator.uniform() for generator in generators]
    return [trial.params["x"] for trial in study.trials] + own


@pytest.fixture(scope="module")
def earlier():
    return []


@pytest.mark.parametrize("run", range(2))
def test_what_has_no_seed_draws_the_same_numbers(run, earlier):
    earlier.append(draws())
    assert all(numbers == earlier[0] for numbers in earlier)
    assert len(set(earlier[0])) == 6
