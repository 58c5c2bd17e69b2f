"""What every method that learns from past studies must do.

A new transfer method is tested here without further code.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from support.methods import (
    BASELINES,
    HASTE,
    NUMERIC,
    PEERS,
    QUICK,
    SPACE,
    TRANSFER,
    barely_learnt,
    check_finite,
    check_pending,
    check_pickling,
    check_trials,
    elsewhere,
    every_transfer_method,
    go_on,
    grouped,
    hasty,
    learnt,
    make,
    one_by_one,
    past,
    past_loss,
    strange_losses,
)

import rankwise
from rankwise import Encoder, TaskSet, methods
from rankwise.errors import OptionError
from rankwise.history.task import Task
from rankwise.strategies.guard.strategy import GuardedStrategy


@every_transfer_method
@pytest.mark.parametrize("name", ["mixed", "numeric"])
def test_proposes_valid_distinct_configurations_after_past_tasks(method, name):
    check_trials(go_on(learnt(method, name), 9), 9)


@every_transfer_method
def test_what_was_learnt_is_proposed_first_without_any_evaluation(method):
    for seed in range(4):
        [configuration] = learnt(method, "mixed", seed=seed).ask()
        assert configuration["kernel"] == "poly"
        assert math.log10(configuration["C"]) > 1
        [configuration] = learnt(method, "numeric", seed=seed).ask()
        assert configuration["x"] > 2.5
        [configuration] = learnt(method, "finite", seed=seed).ask()
        assert past_loss(configuration) <= 1


@every_transfer_method
def test_a_design_is_evaluated_first_if_one_is_given(method):
    design = [{"x": -4.0, "n": 3}, {"x": 0.0, "n": 50}]
    optimizer = learnt(method, "numeric", design=design)
    assert optimizer.ask(2) == design
    assert len(learnt(method, "numeric")._design_rows) == 0
    assert len(learnt(method, "numeric", design="lhs-4")._design_rows) == 4


def all_trials_after_past_tasks(seed: int = 0) -> dict:
    return {
        method: [
            t.configuration for t in go_on(barely_learnt(method, "mixed", seed=seed), 6).trials
        ]
        for method in TRANSFER
    }


def test_same_seed_same_trials_after_past_tasks_in_another_process():
    here, other = (all_trials_after_past_tasks(seed) for seed in (0, 1))
    assert elsewhere("test_transfer_conformance", "all_trials_after_past_tasks") == here
    same = [method for method in here if here[method] == other[method]]
    assert same in ([], ["fsbo"])  # which hardly varies after so little training


@every_transfer_method
def test_survives_pickling_after_past_tasks(method):
    check_pickling(*(learnt(method, "mixed", seed=3) for _ in range(2)))


@every_transfer_method
@pytest.mark.parametrize("evaluated", [0, 1, 6])
def test_pending_points_are_not_proposed_again_after_past_tasks(method, evaluated):
    check_pending(go_on(learnt(method, "mixed"), evaluated))


@every_transfer_method
def test_a_finite_space_is_used_up_after_past_tasks(method):
    check_finite(learnt(method, "finite"))


@strange_losses(TRANSFER)
def test_survives_strange_losses_after_past_tasks(method, values):
    optimizer = go_on(learnt(method, "mixed"), len(values), one_by_one(values))
    assert len(optimizer.ask(2)) == 2


@grouped(
    m for m in TRANSFER if methods.get(m).installed and "acquisition" in methods.get(m).options
)
def test_every_acquisition_works_before_the_first_evaluation(method):
    for name in rankwise.acquisition.available():
        optimizer = learnt(method, "numeric")
        acquisition = rankwise.acquisition.make_acquisition(name)
        optimizer._strategy = replace(optimizer.strategy, acquisition=acquisition)
        check_trials(go_on(optimizer, 2), 2)


@every_transfer_method
@pytest.mark.parametrize("space", [{"a": 1}, {"a": ["only"]}])
def test_a_space_with_one_point_has_nothing_to_be_learnt(method, space):
    encoder = Encoder(space)
    [only] = encoder.decode(encoder.sample(1, np.random.default_rng(0)))
    tasks = TaskSet.of(encoder, {"past": ([only] * 4, [1.0, 2.0, 3.0, 4.0])})
    assert hasty(method, space, tasks=tasks, seed=0).ask() == [only]


@every_transfer_method
def test_a_guard_lets_the_past_begin(method):
    guarded = hasty(method, NUMERIC, tasks=past("numeric"), seed=0, guard=True)
    assert isinstance(guarded.strategy, GuardedStrategy)
    assert guarded.ask() == barely_learnt(method, "numeric").ask()
    check_trials(go_on(guarded, 7), 8)


@every_transfer_method
def test_a_guard_without_a_past_guards_nothing(method):
    alone, guarded = (make(method, NUMERIC, seed=0, guard=guard) for guard in (False, True))
    assert type(guarded.strategy) is type(alone.strategy)
    with pytest.raises(OptionError, match="guard is True or False"):
        make(method, NUMERIC, guard="yes")


@every_transfer_method
def test_a_restarted_optimizer_is_like_a_new_one(method):
    used = go_on(learnt(method, "numeric", seed=5), 3)
    again = go_on(used.restarted(seed=5), 3)
    assert [t.configuration for t in again.trials] == [t.configuration for t in used.trials]
    assert used.restarted(seed=1).trials == [] and len(used.trials) == 3


@every_transfer_method
@pytest.mark.parametrize(
    "losses", [[], [1.0, 2.0], [3.0] * 5, [math.nan] * 5], ids=["none", "two", "equal", "failed"]
)
def test_past_tasks_without_an_order_are_as_good_as_none(method, losses):
    encoder = Encoder(NUMERIC)
    configurations = encoder.decode(encoder.sample(5, np.random.default_rng(0)))[: len(losses)]
    tasks = TaskSet.of(encoder, {"useless": (configurations, losses)})
    a, b = (make(method, NUMERIC, seed=0, tasks=t) for t in (tasks, ()))
    assert a.ask(5) == b.ask(5)  # the design
    assert len(a._design_rows) == len(b._design_rows)
    assert (method != "dre") or len(a._design_rows) == 4


@every_transfer_method
def test_tasks_may_come_as_a_plain_sequence_or_in_parts(method):
    whole = past("numeric")
    expected = barely_learnt(method, "numeric").ask(2)
    for tasks in (list(whole.tasks), whole.split()):
        assert hasty(method, NUMERIC, tasks=tasks, seed=0).ask(2) == expected
    other = hasty(method, NUMERIC, tasks=whole.split(0.5), seed=0).ask(2)
    assert other == expected or method in HASTE  # the others need no validation tasks
    assert other != expected or method != "dre"


@every_transfer_method
def test_past_tasks_of_another_space_are_refused(method):
    similar = {"x": (-5.0, 5.0), "n": (1, 100)}  # as many columns, another meaning
    with pytest.raises(OptionError, match="another search space than the target study"):
        make(method, similar, tasks=past("numeric"))
    with pytest.raises(OptionError, match="another search space than the target study"):
        make(method, SPACE, tasks=past("numeric"))
    tasks = [Task.of(np.ones((3, 2)), [1, 2, 3]), Task.of(np.ones((3, 5)), [1, 2, 3], name="wine")]
    with pytest.raises(OptionError, match=r"past study 'wine' has 5 columns .* has 2; encode"):
        make(method, NUMERIC, tasks=tasks)
    with pytest.raises(OptionError, match="'wine'"):
        make(method, NUMERIC, tasks=TaskSet((tasks[0],), (tasks[1],)))


def quick_minimize(method="dre", **options):
    options = {
        "trials": 3,
        "seed": 1,
        "tasks": past("numeric"),
        **QUICK.get(method, {}),
        **HASTE.get(method, {}),
        **options,
    }
    return rankwise.minimize(past_loss, NUMERIC, method=method, **options)


@every_transfer_method
def test_minimize_learns_from_past_tasks(method):
    result = quick_minimize(method)
    expected = go_on(barely_learnt(method, "numeric", seed=1), 3, past_loss)
    configurations = [t.configuration for t in result.trials]
    assert configurations == [t.configuration for t in expected.trials]


@grouped(["auto", "dre", "rgpe", "init"])
def test_a_stored_study_goes_on_with_the_same_past(method, tmp_path):
    stored = {"storage": f"sqlite:///{tmp_path}/runs.db", "name": "study"}
    straight = quick_minimize(method, trials=4)
    quick_minimize(method, trials=2, **stored)
    with warnings.catch_warnings():
        warnings.simplefilter("error", rankwise.errors.RunWarning)
        resumed = quick_minimize(method, trials=4, **stored)
    configurations = [t.configuration for t in resumed.trials]
    assert configurations == [t.configuration for t in straight.trials]
    other = TaskSet.of(NUMERIC, {"one": past("numeric").tasks[0]})
    with pytest.warns(rankwise.errors.RunWarning, match="begun with past tasks"):
        quick_minimize(method, trials=5, tasks=other, **stored)


@grouped(m for m in TRANSFER if m not in BASELINES + PEERS)
def test_the_first_batch_is_spread(method):
    if methods.get(method).options.get("liar") == "believer":
        pytest.skip("it believes its own expectation instead")
    X = learnt(method, "numeric").ask(4)
    rows = Encoder(NUMERIC).encode(X)
    apart = np.abs(rows[:, None] - rows).max(axis=2) + np.eye(4)
    assert apart.min() >= 0.1


@grouped(["icm", "scot", "ablr"])
def test_one_place_is_not_evaluated_again_and_again(method):
    optimizer = go_on(learnt(method, "numeric"), 12, lambda c: (c["x"] + 3) ** 2)
    rows = optimizer.encoder.encode([t.configuration for t in optimizer.trials])
    gaps = [np.abs(rows[:k] - rows[k]).max(axis=1).min() for k in range(1, 12)]
    assert sum(gap > 0.1 for gap in gaps) >= 3


@grouped(sorted({*TRANSFER} - {"auto", "portfolio"}))
def test_where_all_fails_it_looks_elsewhere(method):
    """The past was best at x = 4, which is out of memory this time."""
    value = lambda c: math.nan if abs(c["x"] - 4) < 1.5 else (c["x"] + 3) ** 2  # noqa: E731
    optimizer = go_on(learnt(method, "numeric"), 9, value)
    slow = method in (*PEERS, "dre", "dre-data", "scot")  # which may vary n instead
    assert sum(t.status == "ok" for t in optimizer.trials) >= (1 if slow else 3)
