"""One run of a method on a problem."""

from __future__ import annotations

import numpy as np
import pytest

from rankwise import Optimizer
from rankwise.bench import TableProblem, load
from rankwise.bench.protocol import run
from rankwise.strategies.model_based import ModelStrategy

ENCODER = load("quadratics").encoder


def table(n: int = 30, seed: int = 0) -> TableProblem:
    X = ENCODER.sample(n, np.random.default_rng(seed))
    return TableProblem.of("made up", X, ((X - 0.4) ** 2).sum(axis=1))


def optimizer(method: str = "random") -> Optimizer:
    return Optimizer(ENCODER, method=method, seed=0)


def test_a_table_is_run_as_the_protocol_says():
    problem = table()
    trace = run(problem, optimizer(), seed=1, initial=5, trials=8)
    assert trace.points[:5] == problem.initial(1).tolist()
    assert len(set(trace.points)) == len(trace.points) == 13
    assert trace.losses == problem.losses[trace.points].tolist()
    best = np.minimum.accumulate(trace.losses)
    expected = (best - problem.best) / (problem.worst - problem.best)
    assert trace.regrets == pytest.approx(expected[4:])
    assert len(trace.seconds) == 8 and trace.fallbacks == 0


def test_without_initial_points_nothing_counts_as_the_worst():
    trace = run(table(), optimizer(), seed=1, initial=0, trials=4)
    assert len(trace.points) == 4 and len(trace.regrets) == 5 and trace.regrets[0] == 1.0


def test_a_run_ends_at_the_optimum_and_is_filled_up():
    problem = table(8)
    trace = run(problem, optimizer(), seed=0, initial=5, trials=20)
    assert len(trace.regrets) == 21 and trace.regrets[-1] == 0.0
    assert trace.points[-1] == np.argmin(problem.losses) or len(trace.points) == 5
    assert len(trace.points) <= 8


def test_a_used_up_table_ends_without_an_optimum():
    problem = TableProblem("odd", -1.0, 1.0, *(lambda t: (t.X, t.losses))(table(6)))
    trace = run(problem, optimizer(), seed=0, initial=2, trials=9)
    assert len(trace.points) == 6 and len(trace.regrets) == 10 and trace.regrets[-1] > 0


@pytest.mark.parametrize("method", ["random", "gp", "portfolio", "tpe", "default", "grid"])
def test_the_same_seed_gives_the_same_run(method):
    problem = table()
    traces = [run(problem, optimizer(method), seed=s, initial=3, trials=7) for s in (4, 4, 5)]
    assert traces[0].points == traces[1].points != traces[2].points


def test_an_open_problem_is_run_in_its_space():
    benchmark = load("quadratics")
    problem = benchmark.problem(benchmark.test[0])
    trace = run(problem, optimizer("gp"), seed=2, initial=5, trials=6)
    np.testing.assert_allclose(trace.points[:5], problem.initial(2), atol=1e-9)
    assert len(trace.points) == len(trace.losses) == 11 and len(trace.seconds) == 6
    for point, loss in zip(trace.points, trace.losses, strict=True):
        [configuration] = benchmark.encoder.decode(np.array([point]))
        assert problem.evaluate(configuration) == pytest.approx(loss)
    again = run(problem, optimizer("gp"), seed=2, initial=5, trials=6)
    assert again.points == trace.points


def test_an_open_problem_without_initial_points_begins_with_the_methods_design():
    benchmark = load("quadratics")
    problem = benchmark.problem(benchmark.test[0])
    trace = run(problem, optimizer("gp"), seed=2, initial=0, trials=7)
    design = Optimizer(ENCODER, method="gp", seed=2).ask(6)
    np.testing.assert_allclose(trace.points[:6], ENCODER.encode(design))
    assert trace.regrets[0] == 1.0 and len(trace.seconds) == 7


def test_fallbacks_are_counted(monkeypatch):
    def fail(*_):
        raise RuntimeError("no")

    monkeypatch.setattr(ModelStrategy, "_utility", fail)
    trace = run(table(), optimizer("gp"), seed=0, initial=5, trials=4)
    assert trace.fallbacks == 4 and len(trace.points) == 9
