"""Searches that grow level by level."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from ConfigSpace import ConfigurationSpace, Float, GreaterThanCondition, Integer, OrConjunction
from ConfigSpace.conditions import EqualsCondition
from support.killing import run_and_kill
from support.objectives import tower

from rankwise import Growing, Optimizer, make_space, minimize
from rankwise.errors import ConfigurationError, OptionError, UnknownNameError
from rankwise.history.task import Task
from rankwise.methods.registry import make
from rankwise.space.encoder import Encoder


def tower_space() -> ConfigurationSpace:
    space = ConfigurationSpace(seed=0)
    depth = Integer("depth", (1, 3))
    widths = [Float(f"width_{k}", (0.0, 1.0)) for k in (1, 2, 3)]
    space.add([depth, Float("rate", (0.0, 1.0)), *widths])
    deep = OrConjunction(
        EqualsCondition(widths[1], depth, 2), EqualsCondition(widths[1], depth, 3)
    )
    space.add([deep, GreaterThanCondition(widths[2], depth, 2)])
    return space


def depths(found) -> list[int]:
    return [trial.configuration["depth"] for trial in found.trials]


def test_levels_come_one_after_the_other_with_their_shares():
    found = minimize(
        tower, tower_space(), trials=28, seed=1, method="forest", trees=20, grow="depth"
    )
    grown = depths(found)
    assert grown[:4] == [1] * 4
    assert max(grown[4:12]) == 2 and grown[4:7] == [2] * 3  # at least three of the new depth
    assert grown[12:15] == [3] * 3


def test_shares_levels_and_the_least_can_be_said():
    plan = Growing("depth", levels=(2, 3), shares=(1, 1), least=5)
    grown = depths(minimize(tower, tower_space(), trials=20, seed=0, method="random", grow=plan))
    assert set(grown[:10]) == {1, 2} and grown[10:15] == [3] * 5


def test_given_configurations_open_their_level():
    good = {"depth": 2, "rate": 0.6, "width_1": 0.2, "width_2": 0.4}
    deep = {"depth": 3, "rate": 0.6, "width_1": 0.2, "width_2": 0.4, "width_3": 0.6}
    plan = Growing("depth", given=[deep, good])
    found = minimize(tower, tower_space(), trials=14, seed=0, method="mbo", grow=plan)
    assert found.trials[2].configuration == good and found.trials[6].configuration == deep


def test_given_configurations_of_the_lowest_level_are_evaluated_too():
    flat = {"depth": 1, "rate": 0.6, "width_1": 0.2}
    found = minimize(
        tower, tower_space(), trials=14, seed=0, method="mbo", grow=Growing("depth", given=[flat])
    )
    assert found.trials[1].configuration == flat


def run(grow: Growing, trials: int, cost: float, **options) -> list[int]:
    """Depths of trials that a simulated clock gives so many seconds each."""
    optimizer = Optimizer(tower_space(), method="random", seed=0, grow=grow, **options)
    for _ in range(trials):
        [configuration] = optimizer.ask()
        optimizer.tell(configuration, tower(configuration), cost=cost)
    return [trial.configuration["depth"] for trial in optimizer.trials]


def test_no_level_is_skipped_however_long_trials_take():
    grown = run(Growing("depth", seconds=7.0, least=2), 8, cost=5.0)
    assert grown[0] == 1 and grown[1:3] == [2, 2] and grown[3:5] == [3, 3]


def test_the_design_ends_with_its_level():
    grown = run(Growing("depth", seconds=7.0, least=1), 6, cost=0.4, design="lhs-6")
    assert grown[:3] == [1] * 3 and grown[3] == 2  # level 1 has one second


def test_seconds_of_several_workers_are_divided():
    alone = run(Growing("depth", seconds=7.0, least=0), 6, cost=0.5)
    several = run(Growing("depth", seconds=7.0, least=0, workers=4), 6, cost=0.5)
    assert max(alone[3:]) > 1 and set(several) == {1}


def test_seconds_that_nobody_tells_are_asked_for():
    optimizer = Optimizer(tower_space(), seed=0, grow=Growing("depth", seconds=5.0))
    [configuration] = optimizer.ask()
    optimizer.tell(configuration, 1.0)
    with pytest.raises(OptionError, match="cost="):
        optimizer.ask()


def test_slow_proposals_count_as_seconds():
    found = minimize(
        tower, tower_space(), seconds=3.0, seed=0, method="gp", grow=Growing("depth", least=1)
    )
    assert set(depths(found)) == {1, 2, 3}


@pytest.mark.parametrize("method", ["random", "grid", "gp", "mbo", "tpe", "cma-es", "dre-ri"])
def test_every_method_keeps_to_its_level(method):
    options = {"epochs": 5} if method == "dre-ri" else {}
    found = minimize(
        tower, tower_space(), trials=14, seed=3, method=method, grow="depth", **options
    )
    grown = depths(found)
    assert set(grown[:2]) == {1} and set(grown[2:6]) <= {1, 2} and 3 in grown[6:]
    assert len({tuple(sorted(t.configuration.items())) for t in found.trials}) == 14


@pytest.mark.parametrize("method", ["portfolio", "init", "rgpe", "eb-gp"])
@pytest.mark.parametrize("guard", [False, True])
def test_methods_with_a_past_keep_to_their_level(method, guard):
    encoder = Encoder(tower_space())
    rng = np.random.default_rng(0)
    past = []
    for k in range(3):
        X = encoder.sample(15, rng)
        losses = [tower(c) + 0.01 * k for c in encoder.decode(X)]
        past.append(Task.of(X, losses, name=f"past-{k}"))
    found = minimize(
        tower, encoder, trials=14, seed=0, method=method, guard=guard, tasks=past, grow="depth"
    )
    grown = depths(found)
    assert set(grown[:2]) == {1} and set(grown[2:6]) <= {1, 2}


def test_rows_of_a_pool_are_kept_to_the_level_too():
    encoder = Encoder(tower_space())
    strategy = Growing("depth", trials=14).strategy(make("random", encoder))
    pool = encoder.sample(60, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    for n, allowed in ((0, {1}), (3, {1, 2}), (7, {1, 2, 3})):
        history = Task.of(pool[:n], np.arange(n))
        rows = pool[[strategy.choose(history, pool, rng) for _ in range(10)]]
        seen = {c["depth"] for c in encoder.decode(rows)}
        assert seen <= allowed


def test_a_level_that_is_used_up_gives_way_to_the_next():
    space = {"depth": (1, 2), "kind": ["a", "b"]}
    found = minimize(
        lambda c: c["depth"], space, trials=4, seed=0, method="random", grow=Growing("depth")
    )
    assert sorted(depths(found)) == [1, 1, 2, 2]


def seconds_until(loss: float, seed: int, grow: Growing | None) -> float:
    """Seconds that a simulated clock shows when a loss is reached; deep evaluations cost more."""
    optimizer = Optimizer(tower_space(), method="gp", seed=seed, grow=grow)
    clock = 0.0
    while clock < 1200.0:
        [configuration] = optimizer.ask()
        cost = 4.0 ** configuration["depth"]
        clock += cost
        value = tower(configuration)
        optimizer.tell(configuration, value, cost=cost)
        if value <= loss:
            break
    return clock


def test_it_needs_fewer_seconds_where_deep_evaluations_cost_more():
    """The optimum is 0.1, of depth 3."""
    plan = Growing("depth", seconds=700.0)
    grown = [seconds_until(0.12, seed, plan) for seed in range(5)]
    flat = [seconds_until(0.12, seed, None) for seed in range(5)]
    assert np.median(grown) < 0.9 * np.median(flat)


KILLED = """
import sys
from support.killing import stall_at
from support.objectives import tower
from strategies.test_growing import tower_space
from rankwise import minimize

log, call, storage = sys.argv[1:]
minimize(lambda c: stall_at(log, int(call), c, tower), tower_space(), trials=14, method="forest",
         trees=20, seed=6, grow="depth", storage=storage, name="killed", progress=False)
"""


def test_a_run_that_is_killed_within_a_level_resumes_exactly(tmp_path):
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    run_and_kill(KILLED, tmp_path / "calls", 5, url)  # in the second level
    options = {"trials": 14, "method": "forest", "trees": 20, "seed": 6, "grow": "depth"}
    resumed = minimize(tower, tower_space(), storage=url, name="killed", **options)
    whole = minimize(tower, tower_space(), **options)
    assert [t.number for t in resumed.trials] == list(range(14))
    assert [t.configuration for t in resumed.trials] == [t.configuration for t in whole.trials]


def test_another_plan_for_a_stored_study_is_noticed(tmp_path):
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    options = {"storage": url, "name": "s", "method": "random", "seed": 0, "trials": 3}
    minimize(tower, tower_space(), grow="depth", **options)
    with pytest.warns(UserWarning, match="begun with grow"):
        minimize(tower, tower_space(), grow=Growing("depth", least=1), **options)


def test_a_study_that_is_resumed_grows_as_it_was_begun(tmp_path):
    options = {"storage": f"sqlite:///{tmp_path / 'runs.db'}", "name": "s", "method": "random"}
    plan = Growing(
        "depth",
        trials=28,
        shares=np.array([1, 2, 4]),
        given=[{"depth": np.int64(1), "rate": 0.5, "width_1": 0.5}],
    )
    minimize(tower, tower_space(), seed=0, grow=plan, trials=3, **options)
    resumed = minimize(tower, tower_space(), trials=14, **options)
    whole = minimize(tower, tower_space(), trials=14, seed=0, grow=plan, method="random")
    assert [t.configuration for t in resumed.trials] == [t.configuration for t in whole.trials]


def test_a_flat_study_that_goes_on_growing_is_noticed(tmp_path):
    options = {"storage": f"sqlite:///{tmp_path / 'runs.db'}", "name": "s", "method": "random"}
    minimize(tower, tower_space(), seed=0, trials=3, **options)
    with pytest.warns(UserWarning, match="begun without growing"):
        minimize(tower, tower_space(), trials=5, grow="depth", **options)


def test_a_growing_optimizer_can_be_pickled():
    optimizer = Optimizer(tower_space(), seed=0, grow=Growing("depth", trials=14))
    optimizer.ask()
    assert pickle.loads(pickle.dumps(optimizer)).ask() == optimizer.ask()


def test_the_design_has_the_size_of_the_lowest_level():
    optimizer = Optimizer(
        tower_space(), method="mbo", design="lhs-2d", seed=0, grow=Growing("depth", seconds=9.0)
    )
    assert len(optimizer._design_rows) == 4  # rate and the width of one layer, twice


@pytest.mark.parametrize(
    ("plan", "error", "text"),
    [
        ("depht", UnknownNameError, "depht"),
        (Growing("rate"), OptionError, "integer"),
        (Growing("depth", levels=(1, 2)), OptionError, "up to 3"),
        (Growing("depth", levels=(2, 2, 3)), OptionError, "increasing order"),
        (Growing("depth", shares=(1, 2)), OptionError, "3 levels"),
        (Growing("depth", least=-1), OptionError, "least"),
        (Growing("depth", shares=(1, np.inf, 2)), OptionError, "3 levels"),
        (Growing("depth", seconds=np.inf), OptionError, "seconds"),
        (Growing("depth", trials=3, seconds=2.0), OptionError, "not of both"),
        (Growing("depth", given=[{"depth": 9}]), ConfigurationError, "depth"),
        (3, OptionError, "grow is"),
    ],
)
def test_a_wrong_plan_is_refused(plan, error, text):
    with pytest.raises(error, match=text):
        minimize(tower, tower_space(), trials=5, grow=plan)


def test_a_number_of_many_values_needs_levels():
    with pytest.raises(OptionError, match="levels="):
        minimize(lambda c: 0.0, {"trees": (1, 2000)}, trials=5, grow="trees")


def test_what_is_not_always_active_cannot_grow():
    space = make_space(
        {"kind": ["linear", "mlp"], "depth": (1, 3)}, when={"depth": {"kind": "mlp"}}
    )
    with pytest.raises(OptionError, match="not always active"):
        minimize(lambda c: 0.0, space, trials=5, grow="depth")


def test_an_optimizer_must_know_the_budget():
    with pytest.raises(OptionError, match="budget"):
        Optimizer(tower_space(), grow="depth")
