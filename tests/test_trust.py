"""How far the past is trusted."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from rankwise import builders
from rankwise.bench.synthetic import family
from rankwise.task import Task, TaskSet
from rankwise.trust import NOTHING_EXPECTED, USEFUL, Agreement, Expectation, agreement


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
        assert Expectation(mean, spread).trust(found, opposite=opposite) == pytest.approx(
            wanted, abs=1e-4
        )
    flat = norm.pdf(tau, grid, found.error) * (np.abs(grid) <= 1)
    assert NOTHING_EXPECTED.trust(found) == pytest.approx(
        flat[grid >= USEFUL].sum() / flat.sum(), abs=1e-4
    )


def test_what_is_expected_decides_where_the_evaluations_do_not():
    alike, unlike = Expectation(0.7, 0.1), Expectation(0.2, 0.1)
    assert alike.trust(after(0.4, 5)) > 0.8 > 0.2 > unlike.trust(after(0.4, 5))
    # A past that agrees with itself and not with the study is left soon, and turned around.
    assert alike.trust(after(-0.6, 8)) < 0.05
    assert alike.trust(after(-0.6, 8), opposite=True) > 0.8
    # One that agrees with itself by less is not followed backwards by more.
    assert unlike.trust(after(-0.3, 20), opposite=True) < 0.1
    # Evaluations have the last word.
    assert unlike.trust(after(0.9, 60)) > 0.9


def expected(knob, name="hartmann"):
    benchmark = family(name, relatedness=knob)
    return builders.expectation_of(benchmark.past(benchmark.test[0]))


def test_past_tasks_tell_what_to_expect():
    related, between, unrelated = expected(1.0), expected(0.5), expected(0.0)
    assert related.mean > 0.6 and related.spread < 0.1
    assert related.mean - 0.2 > between.mean > unrelated.mean
    upside_down = expected(-1.0)  # past tasks agree with each other all the same
    assert upside_down.mean == pytest.approx(related.mean, abs=0.05)


def test_of_a_past_of_two_tasks_nothing_is_expected():
    rng = np.random.default_rng(0)
    tasks = [Task.of(X := rng.random((9, 2)), X[:, 0], name=str(k)) for k in range(3)]
    assert builders.expectation_of(TaskSet(tuple(tasks[:2]))) == NOTHING_EXPECTED
    assert builders.expectation_of(TaskSet(())) == NOTHING_EXPECTED
    few = builders.expectation_of(TaskSet(tuple(tasks)))
    many = [Task.of(X := rng.random((9, 2)), X[:, 0], name=str(k)) for k in range(12)]
    assert few.spread > builders.expectation_of(TaskSet(tuple(many))).spread  # they say less


def test_tasks_of_few_evaluations_are_not_called_different_for_that():
    rng = np.random.default_rng(1)

    def of_size(n):
        tasks = [Task.of(X := rng.random((n, 1)), X[:, 0], name=str(k)) for k in range(30)]
        return builders.expectation_of(TaskSet(tuple(tasks)))

    noisy = Task.of(rng.random((5, 2)), rng.random(5))
    assert of_size(40).mean > 0.9 and of_size(40).spread < 0.12
    pure_chance = [Task.of(rng.random((6, 2)), rng.random(6), name=str(k)) for k in range(40)]
    chance = builders.expectation_of(TaskSet((*pure_chance, noisy)))
    assert abs(chance.mean) < 0.2 and chance.spread < 0.2  # taus alone have a spread of .36
