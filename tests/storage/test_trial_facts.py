"""Facts of trials: whatever another program wrote, they are numbers or nothing."""

from __future__ import annotations

import math

import optuna
import pytest
from optuna.trial import create_trial

from rankwise.storage.trial_facts import (
    mean_shares,
    number_of,
    numbers_of,
    sources_of,
    without_retried,
)


@pytest.mark.parametrize(
    ("value", "expected"), [(2, 2.0), (0.5, 0.5), (-1, -1.0), (10**3, 1000.0)]
)
def test_numbers_are_floats(value, expected):
    assert number_of(value) == expected and isinstance(number_of(value), float)


@pytest.mark.parametrize("value", [None, "2", math.nan, math.inf, [1.0], {}], ids=repr)
def test_anything_else_is_nan(value):
    assert math.isnan(number_of(value))


@pytest.mark.parametrize("facts", [None, "text", 3, [1, 2]], ids=repr)
def test_what_is_no_mapping_has_no_numbers(facts):
    assert numbers_of(facts) == {}


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ({"a": 0.5, "b": 1.0}, {"a": 0.5, "b": 1.0}),
        ({"a": 0.0, "b": -1.0, "c": 1.5, "d": "much", "e": None}, {}),
        ("all of them", {}),
        (None, {}),
    ],
    ids=repr,
)
def test_weights_of_past_studies_are_shares(stored, expected):
    trial = create_trial(value=1.0, user_attrs={"rankwise:sources": stored})
    assert sources_of(trial) == expected


def test_the_mean_share_counts_trials_that_do_not_name_a_study():
    found = mean_shares([{"a": 0.2, "b": 0.6}, {"a": 0.4}])
    assert found == pytest.approx({"a": 0.3, "b": 0.3})
    assert list(mean_shares([{"a": 0.1, "b": 0.6}])) == ["b", "a"]
    assert mean_shares([]) == {}


def test_a_trial_that_was_started_again_is_left_out():
    study = optuna.create_study()
    study.add_trial(create_trial(state=optuna.trial.TrialState.FAIL))
    study.add_trial(create_trial(value=1.0, system_attrs={"retry_history": [0]}))
    assert [trial.number for trial in without_retried(study.trials)] == [1]
