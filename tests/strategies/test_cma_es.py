"""CMA-ES: where it starts, and what it makes of a history."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from rankwise import Encoder, Optimizer, Task, make_space
from rankwise.errors import OptionError
from rankwise.methods.registry import make
from rankwise.strategies.cma_es import SIGMA, CmaStrategy, Gaussian

cmaes = pytest.importorskip("cmaes")

ENCODER = Encoder({"x": (0.0, 1.0), "y": (0.0, 1.0), "z": (0.0, 1.0)})
NONE = np.empty((0, 3))


def bowl(centre, n=40, seed=0, scale=1.0) -> Task:
    X = np.random.default_rng(seed).random((n, 3))
    return Task.of(X, scale * np.square(X - centre).sum(axis=1))


def test_of_one_task_the_start_is_that_of_the_package():
    task = bowl(0.3)
    start = Gaussian.promising([task], 0.1, 0.2)
    solutions = list(zip(task.X, task.y, strict=True))
    mean, sigma, covariance = cmaes.get_warm_start_mgd(solutions, gamma=0.1, alpha=0.2)
    assert start.mean == pytest.approx(mean) and start.sigma == pytest.approx(sigma)
    assert start.covariance == pytest.approx(covariance)
    assert np.linalg.det(start.covariance) == pytest.approx(1.0)


def test_of_several_tasks_the_best_of_each_count_the_same():
    tasks = [bowl(0.2, seed=1), bowl(0.8, seed=2, scale=1e6)]
    start = Gaussian.promising(tasks, 0.1, 0.1)
    best = np.concatenate([t.X[np.argsort(t.y)[:4]] for t in tasks])
    assert start.mean == pytest.approx(best.mean(axis=0))
    expected = np.cov(best, rowvar=False, bias=True) + 0.01 * np.eye(3)
    assert start.sigma**2 * start.covariance == pytest.approx(expected)


def test_of_a_short_task_its_best_counts():
    task = bowl(0.3, n=3)
    start = Gaussian.promising([task], 0.1, 0.1)
    assert start.mean.tolist() == task.X[np.argmin(task.y)].tolist()
    assert start.sigma == pytest.approx(0.1) and start.covariance == pytest.approx(np.eye(3))


def test_a_start_in_many_columns_does_not_vanish():
    X = np.random.default_rng(0).random((20, 300))
    start = Gaussian.promising([Task.of(X, np.arange(20.0))], 0.1, 0.01)
    assert start.sigma > 0.01 and np.isfinite(start.covariance).all()


def test_the_history_is_told_population_by_population():
    strategy = CmaStrategy(ENCODER, None, Gaussian.middle(3))
    known = bowl(0.3, n=17)
    expected = cmaes.CMA(
        mean=np.full(3, 0.5), sigma=SIGMA, bounds=np.array([[0.0, 1.0]] * 3), seed=5
    )
    size = expected.population_size
    for first in range(0, 17 - size + 1, size):
        rows = range(first, first + size)
        expected.tell([(known.X[k], float(known.y[k])) for k in rows])
    found = strategy.evolved(known, 5)
    assert found.generation == expected.generation == 17 // size == 2
    assert found.ask() == pytest.approx(expected.ask())


def test_failures_and_huge_losses_are_told_as_ranks():
    strategy = CmaStrategy(ENCODER, None, Gaussian.middle(3))
    known = bowl(0.3, n=7)
    strange = np.where(np.arange(7) == 2, np.nan, 1e90 * known.y)
    worst = np.where(np.arange(7) == 2, 1e9, known.y)
    found, expected = (strategy.evolved(Task.of(known.X, y), 1).mean for y in (strange, worst))
    assert found == pytest.approx(expected) and (found != 0.5).all()


def test_a_warm_start_begins_with_its_mean():
    tasks = [bowl(0.3, seed=k) for k in range(3)]
    strategy = make("ws-cma-es", ENCODER, tasks)
    first = strategy.propose(Task.of(NONE, []), NONE, np.random.default_rng(0))
    assert first == pytest.approx(strategy.start.mean, abs=1e-9)
    second = strategy.propose(Task.of(NONE, []), first[None], np.random.default_rng(0))
    assert np.abs(second - first).max() > 1e-3


def test_without_a_past_it_starts_in_the_middle():
    useless = [Task.of(np.full((4, 3), 0.5), [1.0] * 4)]
    for strategy in (make("cma-es", ENCODER), make("ws-cma-es", ENCODER, useless)):
        assert strategy.start.mean.tolist() == [0.5] * 3
        draws = [
            strategy.propose(Task.of(NONE, []), NONE, np.random.default_rng(k)) for k in (1, 2)
        ]
        assert (draws[0] != draws[1]).all()  # not the middle itself


def test_it_descends():
    optimizer = Optimizer(ENCODER, method="cma-es", seed=0)
    for _ in range(120):
        [configuration] = optimizer.ask()
        row = ENCODER.encode([configuration])[0]
        optimizer.tell(configuration, float(np.square(row - [0.2, 0.7, 0.6]).sum()))
    values = [trial.value for trial in optimizer.trials]
    assert min(values) < 1e-3 and np.mean(values[-20:]) < 0.1 * np.mean(values[:20])


def test_a_warm_start_is_ahead_of_a_cold_one():
    tasks = [bowl([0.25, 0.75, 0.6], seed=k) for k in range(3)]

    def found(method, seed, **options):
        optimizer = Optimizer(ENCODER, method=method, seed=seed, **options)
        for _ in range(14):
            [configuration] = optimizer.ask()
            row = ENCODER.encode([configuration])[0]
            optimizer.tell(configuration, float(np.square(row - [0.2, 0.8, 0.6]).sum()))
        return optimizer.best.value

    warm = [found("ws-cma-es", seed, tasks=tasks) for seed in range(5)]
    cold = [found("cma-es", seed) for seed in range(5)]
    assert np.mean(warm) < 0.5 * np.mean(cold)


def test_what_is_drawn_becomes_a_valid_configuration():
    space = make_space(
        {"kernel": ["rbf", "poly", "linear"], "gamma": (1e-4, 10.0, "log"), "n": (1, 5)},
        when={"gamma": {"kernel": "rbf"}},
        forbid=[{"kernel": "linear", "n": 5}],
    )
    encoder = Encoder(space)
    optimizer = Optimizer(encoder, method="cma-es", seed=0)
    for k in range(25):
        [configuration] = optimizer.ask()
        encoder.encode([configuration])  # refuses invalid ones
        optimizer.tell(configuration, float(configuration["n"]) + (k % 3))
    assert len({trial.configuration["kernel"] for trial in optimizer.trials}) == 3


def test_one_column_is_enough():
    optimizer = Optimizer({"x": (-1.0, 1.0)}, method="cma-es", seed=0)
    for _ in range(40):
        [configuration] = optimizer.ask()
        optimizer.tell(configuration, (configuration["x"] - 0.3) ** 2)
    assert optimizer.best.value < 1e-3


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "cmaes", None)
    for method in ("cma-es", "ws-cma-es"):
        with pytest.raises(OptionError, match=r'package cmaes.*pip install "rankwise\[bench\]"'):
            make(method, ENCODER)


@pytest.mark.parametrize("options", [{"gamma": 0.0}, {"gamma": 1.1}, {"alpha": 0}, {"alpha": "a"}])
def test_options_that_make_no_sense(options):
    with pytest.raises(OptionError, match=next(iter(options))):
        make("ws-cma-es", ENCODER, [bowl(0.3)], **options)


def test_what_failed_is_not_promising():
    X = np.random.default_rng(0).random((40, 3))
    losses = np.where(np.arange(40) < 3, np.arange(40.0), np.nan)
    start = Gaussian.promising([Task.of(X, losses)], 0.1, 0.1)
    assert start.mean.tolist() == X[0].tolist()


def test_the_order_of_past_tasks_changes_nothing():
    tasks = [bowl(0.2 * k, seed=k) for k in range(4)]
    a, b = (make("ws-cma-es", ENCODER, past).start for past in (tasks, tasks[::-1]))
    assert a.mean.tolist() == b.mean.tolist() and (a.covariance == b.covariance).all()


def test_a_choice_with_hundreds_of_values_has_no_full_covariance(monkeypatch):
    """The decomposition of a full covariance is cubic in the columns, in every proposal."""
    monkeypatch.setattr(cmaes, "CMA", None)  # calling it would fail
    encoder = Encoder({"kind": [f"v{k}" for k in range(500)], "x": (0.0, 1.0)})
    rng = np.random.default_rng(0)
    X = encoder.sample(40, rng)
    past = Gaussian.promising([Task.of(X, X[:, -1])], 0.1, 0.1)
    strategy = CmaStrategy(encoder, None, past, mean_first=True)
    history = Task.of(X, X[:, -1])
    row = strategy.propose(history, np.empty((0, 501)), rng)
    assert encoder.allowed(encoder.decode_codes(row)).all()
