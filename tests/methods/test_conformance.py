"""What every method must do without past studies, whatever it is made of.

A new method is tested here without further code.
"""

from __future__ import annotations

import numpy as np
import pytest
from support.methods import (
    BASELINES,
    CHECKED,
    FINITE,
    NUMERIC,
    PEERS,
    QUICK,
    SPACE,
    check_finite,
    check_pending,
    check_pickling,
    check_trials,
    elsewhere,
    every_method,
    loss,
    make,
    one_by_one,
    run,
    strange_losses,
)

from rankwise import methods
from rankwise.errors import SpaceExhausted


@every_method
@pytest.mark.parametrize("space", [SPACE, NUMERIC], ids=["mixed", "numeric"])
def test_proposes_valid_distinct_configurations(method, space):
    check_trials(run(method, space, 9), 9)


def all_trials() -> dict:
    return {method: [t.configuration for t in run(method, SPACE, 7).trials] for method in CHECKED}


def test_same_seed_same_trials_in_another_process():
    assert elsewhere("test_conformance", "all_trials") == all_trials()


@every_method
def test_another_seed_gives_other_trials(method):
    a, b = (make(method, NUMERIC, seed=s).ask(3) for s in (1, 2))
    assert a != b


@every_method
def test_survives_pickling_between_ask_and_tell(method):
    check_pickling(*(make(method, SPACE, design=4, seed=3) for _ in range(2)))


@every_method
def test_pending_points_are_not_proposed_again(method):
    check_pending(run(method, SPACE, 6))


@every_method
def test_a_finite_space_is_used_up_without_repetition(method):
    check_finite(make(method, FINITE, design=4, seed=0))


@every_method
def test_a_batch_larger_than_what_is_left_is_shorter(method):
    assert len(make(method, {"a": (1, 3)}, seed=0).ask(10)) == 3


@strange_losses(CHECKED)
def test_survives_strange_losses(method, values):
    optimizer = run(method, SPACE, len(values), one_by_one(values))
    assert len(optimizer.ask(2)) == 2


@every_method
def test_one_trial_and_duplicate_tells(method):
    optimizer = make(method, SPACE, design=1, seed=0)
    [configuration] = optimizer.ask()
    for value in (1.0, 1.1, 0.9):  # a noisy objective told three times
        optimizer.tell(configuration, value)
    assert [t.value for t in optimizer.trials] == [1.0, 1.1, 0.9]
    [second] = optimizer.ask()
    assert second != configuration


@every_method
@pytest.mark.parametrize("space", [{"a": 1}, {"a": ["only"]}, {"a": "x", "b": True}])
def test_a_space_with_one_point(method, space):
    optimizer = make(method, space, seed=0)
    [configuration] = optimizer.ask()
    optimizer.tell(configuration, 1.0)
    assert configuration == optimizer.encoder.default
    with pytest.raises(SpaceExhausted):
        optimizer.ask()


@every_method
def test_told_only_histories_are_used(method):
    """Evaluations made elsewhere count: no design is repeated over them."""
    optimizer = make(method, NUMERIC, design=3, seed=0)
    encoder = optimizer.encoder
    for configuration in encoder.decode(encoder.sample(6, np.random.default_rng(0))):
        optimizer.tell(configuration, loss(configuration))
    assert len(optimizer.ask(2)) == 2
    assert len(optimizer.trials) == 8


def test_the_table_describes_itself():
    for name in methods.available():
        row = methods.get(name)
        assert row.name == name
        assert row.summary
        modelled = name not in (*BASELINES, *PEERS)
        assert set(row.options) >= ({"acquisition", "liar"} if modelled else set())
        assert set(row.options) >= set(QUICK.get(name, {}))
        assert "seed" not in row.options
    assert {"model", "checkpoint", "progress", "training"} <= set(methods.get("dre").options)
    assert not {"model", "checkpoint", "progress"} & set(methods.get("dre-ri").options)


@pytest.mark.parametrize("method", methods.available())
def test_defaults_can_be_checked_before_there_is_a_study(method):
    assert methods.check_values(method, {}) is None
