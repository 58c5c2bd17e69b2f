"""Conformance: what every method of the table must do, whatever it is made of.

A new row of `methods.py` is tested here by itself.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

import rankwise
from rankwise import Encoder, Optimizer, make_space, methods
from rankwise.errors import OptionError, SpaceExhausted, UnknownNameError
from rankwise.proposal import Seen

SPACE = make_space(
    {
        "kernel": ["rbf", "poly", "linear"],
        "C": (1e-3, 1e3, "log"),
        "gamma": (1e-4, 10.0, "log"),
        "degree": (2, 5),
        "shrinking": [True, False],
    },
    when={"gamma": {"kernel": "rbf"}, "degree": {"kernel": "poly"}},
    forbid=[{"kernel": "linear", "shrinking": False}],
)
NUMERIC = {"x": (-5.0, 5.0), "n": (1, 100, "log")}
FINITE = {"a": ["x", "y", "z"], "b": (0, 3)}  # 12 configurations
every_method = pytest.mark.parametrize("method", methods.available())


@pytest.fixture(autouse=True)
def no_fallback():
    """A surrogate that fails is replaced by a random proposal and a warning: not in tests."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="the surrogate failed")
        yield


def loss(configuration) -> float:
    x = math.log10(configuration["C"]) if "C" in configuration else configuration["x"]
    return (x - 1) ** 2 + 0.1 * len(configuration)


def run(method, space, n, value=loss, **options):
    optimizer = Optimizer(space, method=method, design=5, seed=7, **options)
    for _ in range(n):
        [configuration] = optimizer.ask()
        optimizer.tell(configuration, value(configuration), cost=0.5)
    return optimizer


@every_method
@pytest.mark.parametrize("space", [SPACE, NUMERIC], ids=["mixed", "numeric"])
def test_proposes_valid_distinct_configurations(method, space):
    optimizer = run(method, space, 9)
    encoder = Encoder(space)
    rows = encoder.encode([t.configuration for t in optimizer.trials])  # refuses invalid ones
    assert len(np.unique(rows, axis=0)) == 9
    assert all(
        type(v) in (str, int, float, bool)
        for t in optimizer.trials
        for v in t.configuration.values()
    )


SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[2])
from test_methods import SPACE, run
print(json.dumps([t.configuration for t in run(sys.argv[1], SPACE, 8).trials]))
"""


@every_method
def test_same_seed_same_trials_in_another_process(method):
    out = subprocess.run(
        [sys.executable, "-c", SCRIPT, method, os.path.dirname(__file__)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "123"},
    ).stdout
    assert json.loads(out) == [t.configuration for t in run(method, SPACE, 8).trials]


@every_method
def test_another_seed_gives_other_trials(method):
    a, b = (Optimizer(NUMERIC, method=method, seed=s).ask(3) for s in (1, 2))
    assert a != b


@every_method
def test_survives_pickling_between_ask_and_tell(method):
    straight, pickled = (Optimizer(SPACE, method=method, design=4, seed=3) for _ in range(2))
    for _ in range(7):
        [expected], [configuration] = straight.ask(), pickled.ask()
        assert configuration == expected
        pickled = pickle.loads(pickle.dumps(pickled))
        straight.tell(expected, loss(expected))
        pickled.tell(configuration, loss(configuration))


@every_method
def test_pending_points_are_not_proposed_again(method):
    optimizer = run(method, SPACE, 6)
    first, second = optimizer.ask(3), optimizer.ask(2)
    rows = optimizer.encoder.encode(first + second)
    assert len(np.unique(rows, axis=0)) == 5
    assert Seen(optimizer.history.X).new(rows).all()


@every_method
def test_a_finite_space_is_used_up_without_repetition(method):
    optimizer = Optimizer(FINITE, method=method, design=4, seed=0)
    seen = []
    for _ in range(4):
        batch = optimizer.ask(3)
        optimizer.tell(batch[0], 1.0)  # the other two stay pending for a while
        seen += batch
        for configuration in batch[1:]:
            optimizer.tell(configuration, float(configuration["b"]))
    assert len({tuple(sorted(c.items())) for c in seen}) == 12
    with pytest.raises(SpaceExhausted):
        optimizer.ask()


@every_method
def test_a_batch_larger_than_what_is_left_is_shorter(method):
    assert len(Optimizer({"a": (1, 3)}, method=method, seed=0).ask(10)) == 3


@every_method
@pytest.mark.parametrize(
    "values",
    [
        pytest.param([3.0] * 9, id="constant"),
        pytest.param([0.0, 1.0, 1.0] * 3, id="tied"),
        pytest.param([math.nan] * 9, id="all-failed"),
        pytest.param(
            [1.0, math.nan, 2.0, math.inf, -math.inf, 3.0, 1.0, 0.5, 2.0], id="some-failed"
        ),
        pytest.param([1e300, -1e300, 1.0, 2.0, 1e308, 0.0, 5.0, 6.0, 7.0], id="huge"),
        pytest.param([1e-300, 2e-300, 3e-300] * 3, id="tiny"),
        pytest.param([4e7, 0.1, 0.2, 0.15, 3e6, 0.12, 0.3, 0.5, 0.4], id="outliers"),
    ],
)
def test_survives_strange_losses(method, values):
    optimizer = run(method, SPACE, len(values), _give(values))
    assert len(optimizer.ask(2)) == 2


def _give(values):
    remaining = iter(values)
    return lambda configuration: next(remaining)


@every_method
def test_one_trial_and_duplicate_tells(method):
    optimizer = Optimizer(SPACE, method=method, design=1, seed=0)
    [configuration] = optimizer.ask()
    for value in (1.0, 1.1, 0.9):  # a noisy objective told three times
        optimizer.tell(configuration, value)
    assert [t.value for t in optimizer.trials] == [1.0, 1.1, 0.9]
    [second] = optimizer.ask()
    assert second != configuration


@every_method
@pytest.mark.parametrize("space", [{"a": 1}, {"a": ["only"]}, {"a": "x", "b": True}])
def test_a_space_with_one_point(method, space):
    optimizer = Optimizer(space, method=method, seed=0)
    [configuration] = optimizer.ask()
    optimizer.tell(configuration, 1.0)
    assert configuration == optimizer.encoder.default
    with pytest.raises(SpaceExhausted):
        optimizer.ask()


@every_method
def test_told_only_histories_are_used(method):
    """Evaluations made elsewhere count: no design is repeated over them."""
    optimizer = Optimizer(NUMERIC, method=method, design=3, seed=0)
    encoder = optimizer.encoder
    for configuration in encoder.decode(encoder.sample(6, np.random.default_rng(0))):
        optimizer.tell(configuration, loss(configuration))
    assert len(optimizer.ask(2)) == 2
    assert len(optimizer.trials) == 8


@pytest.mark.parametrize(("method", "factor"), [("gp", 0.05), ("forest", 0.6), ("mbo", 0.05)])
def test_models_find_a_valley_that_random_search_misses(method, factor):
    space = {"x": (-5.0, 5.0), "y": (-5.0, 5.0)}

    def valley(c):
        return (c["x"] - 2) ** 2 + (c["y"] + 1) ** 2

    def best(m, s):
        optimizer = Optimizer(space, method=m, seed=s)
        for _ in range(22):
            [c] = optimizer.ask()
            optimizer.tell(c, valley(c))
        return optimizer.best.value

    modelled, random = (np.mean([best(m, s) for s in range(3)]) for m in (method, "random"))
    assert modelled < factor * random


@pytest.mark.parametrize("method", ["gp", "forest"])
@pytest.mark.parametrize("acquisition", rankwise.acquisition.available())
def test_every_acquisition_works_with_every_surrogate(method, acquisition):
    optimizer = run(method, SPACE, 8, acquisition=acquisition)
    assert len(optimizer.ask(2)) == 2


@pytest.mark.parametrize("liar", ["min", "mean", "max", "sampled-lambda"])
def test_batches_are_spread_by_every_liar(liar):
    optimizer = run(
        "gp", {"x": (0.0, 1.0), "y": (0.0, 1.0)}, 8, lambda c: c["x"] + c["y"], liar=liar
    )
    X = optimizer.encoder.encode(optimizer.ask(3))
    gaps = [np.linalg.norm(X[i] - X[j]) for i in range(3) for j in range(i)]
    assert min(gaps) > 1e-4


def test_mbo_is_kriging_on_mostly_numeric_spaces_and_a_forest_on_others():
    def made(space):
        strategy = methods.make("mbo", Encoder(space))
        return type(strategy.make_surrogate(0)).__name__, type(strategy.acquisition).__name__

    kriging = ("GaussianProcess", "ExpectedImprovement")
    forest = ("RandomForest", "LowerConfidenceBound")
    assert made(NUMERIC) == kriging
    assert made({**NUMERIC, "c": 3, "k": ["a", "b"]}) == kriging
    assert made({"x": (0.0, 1.0), "k": ["a", "b"], "l": ["a", "b"]}) == forest
    assert made(SPACE) == forest  # conditional


def test_a_failing_surrogate_gives_a_random_proposal_and_a_warning(monkeypatch):
    from rankwise.surrogates.forest import RandomForest

    optimizer = run("forest", SPACE, 6)

    def broken(self, task):
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr(RandomForest, "fit", broken)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        with pytest.warns(RuntimeWarning, match="singular"):
            [configuration] = optimizer.ask()
    optimizer.encoder.encode([configuration])


def test_grid_visits_coarse_points_first_and_fixed_levels_end():
    first = Optimizer({"x": (0.0, 1.0), "y": (0.0, 1.0)}, method="grid", seed=0).ask(9)
    assert {c["x"] for c in first[:4]} == {0.0, 1.0}
    assert {c["x"] for c in first} == {0.0, 0.5, 1.0}
    fixed = Optimizer({"x": (0.0, 1.0)}, method="grid", seed=0, levels=3)
    assert sorted(c["x"] for c in fixed.ask(9)) == [0.0, 0.5, 1.0]


def test_grid_of_a_space_too_large_to_list_goes_on():
    space = {f"x{i}": (0.0, 1.0) for i in range(30)}
    assert len(Optimizer(space, method="grid", seed=0).ask(5)) == 5


def test_unknown_methods_and_options_list_the_valid_ones():
    with pytest.raises(
        UnknownNameError, match=r"forest, gp, grid, mbo, random.*Did you mean 'mbo'"
    ):
        Optimizer(NUMERIC, method="mb0")
    with pytest.raises(UnknownNameError, match=r"option of method 'forest'.*acquisition.*trees"):
        Optimizer(NUMERIC, method="forest", tree=3)
    with pytest.raises(UnknownNameError, match=r"liar.*max, mean, min"):
        Optimizer(NUMERIC, method="gp", liar="worst")
    with pytest.raises(UnknownNameError, match=r"transform.*copula"):
        Optimizer(NUMERIC, method="gp", transform="log")
    with pytest.raises(OptionError, match="levels"):
        Optimizer(NUMERIC, method="grid", levels=0)


def test_the_table_describes_itself():
    for name in methods.available():
        row = methods.get(name)
        assert row.name == name
        assert row.summary
        assert set(row.options) >= (
            {"acquisition", "liar"} if name in ("gp", "forest", "mbo") else set()
        )
