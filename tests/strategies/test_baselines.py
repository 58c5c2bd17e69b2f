"""Portfolios, and strategies that choose from a pool."""

from __future__ import annotations

import numpy as np
import pytest

from rankwise import Encoder, Optimizer, Task, TaskSet
from rankwise.methods.registry import available, get, make
from rankwise.strategies.baselines import PortfolioStrategy, greedy_portfolio
from rankwise.strategies.optuna_samplers import OptunaStrategy

ENCODER = Encoder({"x": (0.0, 1.0), "y": (0.0, 1.0)})
GRID = np.stack(np.meshgrid(*[np.linspace(0, 1, 5)] * 2), axis=-1).reshape(-1, 2)


def task(centre, name="", X=GRID) -> Task:
    return Task.of(X, ((X - centre) ** 2).sum(axis=1), name=name)


def test_a_portfolio_begins_with_what_is_best_on_average_and_complements_it():
    tasks = [task([0.0, 0.0]), task([0.0, 0.0]), task([1.0, 1.0])]
    rows = greedy_portfolio(tasks, 10)
    regrets = np.stack([(t.losses - t.losses.min()) / np.ptp(t.losses) for t in tasks])
    np.testing.assert_array_equal(rows[0], GRID[np.argmin(regrets.mean(axis=0))])
    np.testing.assert_array_equal(greedy_portfolio(tasks, 1), rows[:1])
    found = {tuple(row) for row in rows}
    assert {(0.0, 0.0), (1.0, 1.0)} <= found and len(rows) == 3  # nothing is left to gain


def test_a_portfolio_is_the_greedy_optimum():
    rng = np.random.default_rng(0)
    tasks = [Task.of(GRID, rng.random(len(GRID))) for _ in range(6)]
    regrets = np.stack([(t.losses - t.losses.min()) / np.ptp(t.losses) for t in tasks])
    best, expected = np.ones(6), []
    for _ in range(4):
        means = [np.minimum(best, column).mean() for column in regrets.T]
        expected.append(int(np.argmin(means)))
        best = np.minimum(best, regrets[:, expected[-1]])
    np.testing.assert_array_equal(greedy_portfolio(tasks, 4), GRID[expected])


def test_tasks_with_other_configurations_count_by_their_nearest():
    near = GRID + 0.01
    rows = greedy_portfolio([task([0.5, 0.5]), task([0.5, 0.5], X=near)], 5)
    assert np.abs(rows[0] - 0.5).max() <= 0.011 and len(rows) <= 2


@pytest.mark.parametrize(
    "tasks",
    [[], [Task.of(GRID[:0], [])], [Task.of(GRID[:3], [1.0, 1.0, 1.0])]],
    ids=["none", "empty", "constant"],
)
def test_without_an_order_there_is_no_portfolio(tasks):
    assert len(greedy_portfolio(tasks, 5)) == 0


def test_a_portfolio_is_proposed_in_turn_then_random():
    strategy = PortfolioStrategy(ENCODER, None, GRID[[3, 7]])
    rng, none = np.random.default_rng(0), np.empty((0, 2))
    np.testing.assert_array_equal(strategy.propose(Task.of(none, []), none, rng), GRID[3])
    np.testing.assert_array_equal(strategy.propose(Task.of(none, []), GRID[[3]], rng), GRID[7])
    last = strategy.propose(Task.of(GRID[[3, 7]], [1, 2]), none, rng)
    assert not (last == GRID).all(axis=1).any()


def test_a_portfolio_is_chosen_from_a_pool_by_the_nearest_rows():
    strategy = PortfolioStrategy(ENCODER, None, GRID[[3, 7]] + 0.02)
    history, rest = Task.of(GRID[[3]], [1.0]), np.delete(np.arange(25), 3)
    rng = np.random.default_rng(0)
    assert rest[strategy.choose(history, GRID[rest], rng)] == 7  # 3 was evaluated
    assert GRID[strategy.choose(Task.of(GRID[:0], []), GRID, rng)].tolist() == GRID[3].tolist()


def test_the_default_configuration_comes_first():
    optimizer = Optimizer(ENCODER, method="default", seed=0)
    first, second = optimizer.ask(2)
    assert first == ENCODER.default != second
    strategy, rng = make("default", ENCODER), np.random.default_rng(0)
    middle = int(np.flatnonzero((GRID == 0.5).all(axis=1))[0])
    assert strategy.choose(Task.of(GRID[:0], []), GRID, rng) == middle


@pytest.mark.parametrize("method", available())
def test_every_method_chooses_from_a_pool(method):
    quick = {"members": 2, "epochs": 3}
    options = {name: n for name, n in quick.items() if name in get(method).options}
    strategy = make(method, ENCODER, **options)
    seen, rest = np.arange(8), np.arange(8, 25)
    history = Task.of(GRID[seen], GRID[seen].sum(axis=1))
    for known in (history, Task.of(GRID[:0], [])):
        rng = np.random.default_rng(3)
        first = strategy.choose(known, GRID[rest], rng)
        assert isinstance(first, int) and 0 <= first < len(rest)
        assert strategy.choose(known, GRID[rest], np.random.default_rng(3)) == first
    assert strategy.choose(history, GRID[[9]], np.random.default_rng(0)) == 0


@pytest.mark.parametrize("method", ["gp", "forest", "tpe", "gp-optuna"])
def test_models_choose_good_rows(method):
    rng = np.random.default_rng(0)
    X = ENCODER.sample(150, rng)
    losses = ((X - [0.8, 0.2]) ** 2).sum(axis=1)
    strategy, rows = make(method, ENCODER), list(range(15))
    for k in range(12):
        rest = np.setdiff1d(np.arange(150), rows)
        history = Task.of(X[rows], losses[rows])
        rows.append(int(rest[strategy.choose(history, X[rest], np.random.default_rng(k))]))
    assert losses[rows[15:]].min() < np.quantile(losses, 0.06)
    assert losses[rows[15:]].mean() < losses.mean()


def test_samplers_of_optuna_respect_pending_points_and_conditions():
    space = {"kind": ["a", "b"], "deep": (1, 4), "rate": (1e-4, 1.0, "log")}
    encoder = Encoder(space)
    strategy = OptunaStrategy(encoder, None, "tpe")
    X = encoder.sample(12, np.random.default_rng(0))
    history, seen = Task.of(X[:8], np.arange(8.0)), set()
    for k in range(5):
        row = strategy.propose(history, X[8:], np.random.default_rng(k))
        assert encoder.encode(encoder.decode(row[None]))[0] == pytest.approx(row)
        seen.add(tuple(row))
    assert len(seen) == 5


def test_a_portfolio_needs_no_validation_tasks():
    tasks = tuple(task(np.random.default_rng(k).random(2), str(k)) for k in range(6))
    asked = [
        Optimizer(ENCODER, method="portfolio", tasks=past, seed=0).ask(3)
        for past in (TaskSet(tasks), TaskSet(tasks[:3], tasks[3:]))
    ]
    assert asked[0] == asked[1]


def test_the_gp_sampler_of_optuna_takes_integers_with_many_values():
    """It would list all of them."""
    optimizer = Optimizer({"n": (0, 2**40), "x": (0.0, 1.0)}, method="gp-optuna", seed=0)
    for k in range(12):
        [configuration] = optimizer.ask()
        assert type(configuration["n"]) is int and 0 <= configuration["n"] <= 2**40
        optimizer.tell(configuration, float(k))
