"""How far the past is trusted."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from rankwise.bench.synthetic_families import family
from rankwise.history.task import Task, TaskSet
from rankwise.methods import build_transfer as builders
from rankwise.strategies.guard.trust import (
    NOTHING_EXPECTED,
    USEFUL,
    Agreement,
    Expectation,
    Witnesses,
    agreement,
)


def counted(foresight, losses):
    """Pairs in the same order less those in the opposite one, one by one."""
    pairs = itertools.combinations(range(len(losses)), 2)
    return sum(
        np.sign(foresight[i] - foresight[j]) * np.sign(losses[i] - losses[j]) for i, j in pairs
    )


@pytest.mark.parametrize(
    ("losses", "foresight"),
    [
        ([0, 1, 2, 3, 4], [0, 1, 3, 2, 4]),
        ([0, 0, 0, 0, 1], [0, 1, 2, 3, 4]),
        ([0, 0, 1, 1, 1], [3, 1, 0, 2, 4]),
        ([0, 0, 1, 2, 2], [0, 0, 0, 1, 2]),
        ([0, 1], [0, 1]),
    ],
)
def test_an_order_is_judged_beside_all_orders(losses, foresight):
    losses, foresight = np.array(losses, dtype=float), np.array(foresight, dtype=float)
    chance = [counted(order, losses) for order in itertools.permutations(foresight)]
    assert np.mean(chance) == pytest.approx(0.0)
    found, surplus = agreement(foresight, losses), counted(foresight, losses)
    assert found.score == pytest.approx(surplus / np.std(chance))
    pairs = sum(a != b for a, b in itertools.combinations(losses, 2))
    assert found.tau == pytest.approx(surplus / pairs)
    assert found.error == pytest.approx(np.std(chance) / pairs)


def after(tau, n):
    """n evaluations, with no ties, of which the order has an agreement of tau."""
    pairs = n * (n - 1) / 2
    return Agreement(tau * pairs, pairs, math.sqrt(n * (n - 1) * (2 * n + 5) / 18))


@pytest.mark.parametrize(("mean", "spread"), [(0.7, 0.08), (0.3, 0.25), (-0.1, 0.4)])
@pytest.mark.parametrize(("tau", "n"), [(0.6, 8), (-0.6, 8), (0.4, 40), (1.0, 5)])
def test_trust_is_what_follows_by_bayes_rule(mean, spread, tau, n):
    grid, found = np.linspace(-6, 6, 1_200_001), after(tau, n)
    alike, turned = norm.pdf(grid, mean, spread), norm.pdf(grid, -mean, spread)
    before = 0.8 * alike + 0.1 * turned + 0.1 * (np.abs(grid) <= 1) / 2
    belief = before * norm.pdf(tau, grid, found.error)
    for opposite, useful in ((False, grid >= USEFUL), (True, grid <= -USEFUL)):
        wanted = belief[useful].sum() / belief.sum()
        assert Expectation(mean, spread).usefulness(found, opposite=opposite) == pytest.approx(
            wanted, abs=1e-4
        )
    flat = norm.pdf(tau, grid, found.error) * (np.abs(grid) <= 1)
    assert NOTHING_EXPECTED.usefulness(found) == pytest.approx(
        flat[grid >= USEFUL].sum() / flat.sum(), abs=1e-4
    )


def test_what_is_expected_decides_where_the_evaluations_do_not():
    alike, unlike = Expectation(0.7, 0.1), Expectation(0.2, 0.1)
    assert alike.usefulness(after(0.4, 5)) > 0.8 > 0.2 > unlike.usefulness(after(0.4, 5))
    # A past that agrees with itself and not with the study is left soon, and turned around.
    assert alike.usefulness(after(-0.6, 8)) < 0.05
    assert alike.usefulness(after(-0.6, 8), opposite=True) > 0.8
    # One that agrees with itself by less is not followed backwards by more.
    assert unlike.usefulness(after(-0.3, 20), opposite=True) < 0.1
    # Evaluations have the last word.
    assert unlike.usefulness(after(0.9, 60)) > 0.9


def expectation_of(tasks):
    return builders.witnesses(TaskSet(tuple(tasks))).expectation


def expected(knob, name="hartmann"):
    benchmark = family(name, relatedness=knob)
    past = benchmark.past(benchmark.test[0])
    return expectation_of((*past.tasks, *past.validation))


def test_past_tasks_tell_what_to_expect():
    related, between, unrelated = expected(1.0), expected(0.5), expected(0.0)
    assert related.mean > 0.6 and related.spread < 0.1
    assert related.mean - 0.2 > between.mean > unrelated.mean
    upside_down = expected(-1.0)  # past tasks agree with each other all the same
    assert upside_down.mean == pytest.approx(related.mean, abs=0.05)


def slopes(rng, signs, n=9):
    """Tasks in which the first column is good if small, or if large."""
    return [
        Task.of(X := rng.random((n, 2)), sign * X[:, 0], name=str(k))
        for k, sign in enumerate(signs)
    ]


def test_of_a_past_of_two_tasks_nothing_is_expected():
    rng = np.random.default_rng(0)
    tasks = slopes(rng, [1.0] * 3)
    assert expectation_of(tasks[:2]) == expectation_of([]) == NOTHING_EXPECTED
    assert expectation_of(tasks[:1] * 5) == NOTHING_EXPECTED  # it is the same five times
    few, many = expectation_of(tasks), expectation_of(slopes(rng, [1.0] * 12))
    assert few.mean > 0.5 and few.spread > many.spread  # they say less


def test_a_task_that_was_given_often_counts_once():
    rng = np.random.default_rng(0)
    tasks = slopes(rng, [1.0] * 4)
    assert expectation_of(tasks * 3) == expectation_of(tasks)


def test_tasks_of_few_evaluations_are_not_called_different_for_that():
    rng = np.random.default_rng(1)
    large = expectation_of(slopes(rng, [1.0] * 20, n=40))
    assert large.mean > 0.9 and large.spread < 0.12
    chance = expectation_of(Task.of(rng.random((6, 2)), rng.random(6)) for _ in range(40))
    assert abs(chance.mean) < 0.2 and chance.spread < 0.2  # taus alone have a spread of .36


def test_tasks_of_opposite_kinds_are_not_expected_to_be_upside_down():
    rng = np.random.default_rng(2)
    found = expectation_of(slopes(rng, [1.0, -1.0] * 6, n=20))
    assert found.mean == 0.0 and found.spread > 0.5  # anything is possible: evaluations decide
    assert found.usefulness(after(0.6, 8), opposite=True) < 0.05


@pytest.mark.parametrize(("mean", "spread"), [(0.5, 0.0), (math.nan, 0.1), (0.5, math.nan)])
def test_an_expectation_has_a_mean_and_a_spread(mean, spread):
    with pytest.raises(ValueError, match="positive spread"):
        Expectation(mean, spread)


@pytest.mark.parametrize("n", [0, 2, 4])
def test_witnesses_are_the_same_after_they_were_written(tmp_path, n):
    rng = np.random.default_rng(0)
    witnesses = builders.witnesses(TaskSet(tuple(slopes(rng, [1.0] * n))))
    witnesses.save(tmp_path / "file")
    again = Witnesses.load(tmp_path / "file")
    assert again.expectation == witnesses.expectation  # of two tasks an infinite spread
    assert (again.functions is None) == (witnesses.functions is None) == (n == 0)
    if n:
        X = rng.random((5, witnesses.functions.sources[0].X.shape[1]))
        one, other = (w.functions.view(X).mean for w in (witnesses, again))
        np.testing.assert_array_equal(one, other)
