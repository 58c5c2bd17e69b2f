"""While a study makes no progress, every second late proposal uses its own trials only."""

from dataclasses import replace

import numpy as np
import pytest

from rankwise import Optimizer, TaskSet, methods
from rankwise.history.task import Task
from rankwise.space.encoder import Encoder

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}


@pytest.fixture(scope="module")
def strategy():
    """`eb-gp` with eight past studies of the same bowl, without checks of past studies."""
    tasks = []
    for k in range(8):
        X = np.random.default_rng(k).random((30, 2))
        tasks.append(Task.of(X, np.square(X - 0.3).sum(axis=1), name=f"study {k}"))
    optimizer = Optimizer(SPACE, method="eb-gp", tasks=TaskSet(tuple(tasks)), seed=0)
    return replace(optimizer.strategy, checks=False)


def study(n, best):
    """n trials at random places, of which the one with index `best` has the smallest loss."""
    losses = np.linspace(1.0, 2.0, n)
    losses[best] = 0.0
    return Task.of(np.random.default_rng(n).random((n, 2)), losses)


def proposers(strategy, best, pending=0):
    """For 8 to 15 trials: does the next proposal use the study's own trials only?"""
    return [
        strategy.origin(study(n, best if best >= 0 else n + best), pending) == "this study"
        for n in range(8, 16)
    ]


def test_every_second_proposal_from_the_tenth_trial_on(strategy):
    assert proposers(strategy, best=0) == [False, False, True, False, True, False, True, False]


def test_none_while_one_of_the_last_six_trials_is_the_best(strategy):
    assert not any(proposers(strategy, best=-6))
    assert any(proposers(strategy, best=-7))


def test_trials_that_are_running_count(strategy):
    assert proposers(strategy, best=0, pending=1)[1:4] == [True, False, True]


def test_such_a_proposal_is_that_of_mbo(strategy):
    history, nothing = study(12, 0), np.empty((0, 2))
    mbo = methods.make("mbo", Encoder(SPACE))
    rows = [each.propose(history, nothing, np.random.default_rng(0)) for each in (strategy, mbo)]
    np.testing.assert_array_equal(*rows)
    informed = replace(strategy, alone=None).propose(history, nothing, np.random.default_rng(0))
    assert not np.array_equal(informed, rows[0])
    pool = np.random.default_rng(1).random((40, 2))
    chosen = [each.choose(history, pool, np.random.default_rng(0)) for each in (strategy, mbo)]
    assert chosen[0] == chosen[1]


def test_a_plateau_is_no_progress(strategy):
    flat = Task.of(np.random.default_rng(0).random((10, 2)), np.ones(10))
    assert strategy.origin(flat) == "this study"


def test_the_guard_has_its_own_method_without_past_studies():
    X = np.random.default_rng(0).random((30, 2))
    past = TaskSet((Task.of(X, X.sum(axis=1), name="one"), Task.of(X, X[:, 0], name="two")))
    guarded = Optimizer(SPACE, method="eb-gp", tasks=past, guard=True).strategy
    assert guarded.transfer.alone is None
