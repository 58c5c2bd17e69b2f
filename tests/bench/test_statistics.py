"""Means, ranks and intervals, against plain computations and by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.invented import METHODS, invented, run
from rankwise.bench import statistics
from rankwise.bench.run_arrays import make_panel
from rankwise.errors import OptionError


def constant(values: dict[tuple[str, str, int], float]):
    """A panel of one trial from a regret for each method, task and seed."""
    return make_panel([run(m, t, s, [1.0, value]) for (m, t, s), value in values.items()])


def ranks_by_hand(regrets):
    """Rank = 1 + how many are better + half of how many others are equal."""
    better = (regrets[None] < regrets[:, None]).sum(axis=1)
    equal = (regrets[None] == regrets[:, None]).sum(axis=1) - 1
    return 1 + better + equal / 2


# ---------------------------------------------------------------------- mean regret


def test_the_mean_is_over_tasks_and_seeds():
    panel = make_panel(invented())
    curves = statistics.mean_regrets([panel])
    np.testing.assert_allclose(curves.mean, panel.regrets.mean(axis=1))
    assert curves.methods == METHODS and (curves.blocks, curves.of) == (12, 12)
    assert (curves.low <= curves.mean + 1e-12).all() and (curves.mean <= curves.high + 1e-12).all()


def test_tasks_weigh_the_same_whatever_their_seeds():
    values = {("a", "x", 0): 0.2, ("a", "x", 1): 0.4, ("a", "x", 2): 0.6, ("a", "y", 0): 0.8}
    assert statistics.mean_regrets([constant(values)]).mean[0, 1] == pytest.approx(0.6)


def test_the_interval_is_that_of_a_plain_two_level_bootstrap():
    panel = make_panel(invented(["a"], tasks=8, seeds=3, trials=1))
    values = panel.regrets[0, :, 1].reshape(8, 3)
    rng = np.random.default_rng(1)
    means = []
    for _ in range(4000):
        tasks = rng.integers(8, size=8)
        means.append(np.mean([rng.choice(values[task], 3) for task in tasks]))
    curves = statistics.mean_regrets([panel])
    expected, width = np.quantile(means, [0.025, 0.975]), np.std(means)
    got = [curves.low[0, 1], curves.high[0, 1]]
    np.testing.assert_allclose(got, expected, atol=0.2 * width)
    assert got[1] - got[0] > 3 * width


def test_tasks_with_different_numbers_of_seeds_are_drawn_alike():
    # The mean of a draw is the share of its tasks that are y: 0, 0.5 or 1.
    values = {("a", "x", seed): 0.0 for seed in range(5)} | {("a", "y", 0): 1.0}
    tasks = constant(values).task_numbers
    rng = np.random.default_rng(0)
    weights = statistics._draw(tasks, np.array([5, 1]), rng)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    shares, counts = np.unique(weights[:, 5], return_counts=True)
    assert shares.tolist() == [0.0, 0.5, 1.0]
    np.testing.assert_allclose(counts / statistics.DRAWS, [0.25, 0.5, 0.25], atol=0.06)


def test_intervals_repeat_and_depend_on_the_seed():
    panel = make_panel(invented())
    first, again = statistics.mean_regrets([panel]), statistics.mean_regrets([panel])
    assert (first.low == again.low).all()
    assert (first.low != statistics.mean_regrets([panel], seed=1).low).any()


def test_a_method_that_misses_a_run_has_no_mean_and_the_others_keep_theirs():
    runs = invented()
    whole = statistics.mean_regrets([make_panel(runs)])
    runs[3] = replace(runs[3], regrets=None, error="no")  # dre on the first task
    curves = statistics.mean_regrets([make_panel(runs)])
    assert np.isnan(curves.mean[3]).all() and np.isnan(curves.high[3]).all()
    assert (curves.mean[:3] == whole.mean[:3]).all() and (curves.low[:3] == whole.low[:3]).all()


# ---------------------------------------------------------------------- ranks


def test_ranks_agree_with_counting():
    regrets = np.round(np.random.default_rng(0).random((5, 40, 3)), 1)
    ranks = statistics.block_ranks(regrets)
    assert len(np.unique(regrets)) <= 11  # so that there are many ties
    np.testing.assert_array_equal(ranks, ranks_by_hand(regrets))
    np.testing.assert_allclose(ranks.sum(axis=0), 15)


def test_average_ranks_are_within_pairs_of_task_and_seed():
    panel = make_panel(invented())
    curves = statistics.average_ranks([panel])
    np.testing.assert_allclose(curves.mean, ranks_by_hand(panel.regrets).mean(axis=1))
    np.testing.assert_allclose(curves.mean[:, 0], 2.5)  # all begin with the same points
    np.testing.assert_allclose(curves.low[:, 0], 2.5)
    assert (curves.low[:, -1] < curves.mean[:, -1]).all()


def test_ranks_are_over_the_pairs_that_all_methods_have():
    values = {
        (method, task, seed): value
        for method, value in (("a", 0.1), ("b", 0.2), ("c", 0.3))
        for task in "xy"
        for seed in range(2)
    }
    values["a", "x", 0] = 0.9  # where c is missing: must not count
    del values["c", "x", 0]
    curves = statistics.average_ranks([constant(values)])
    assert (curves.blocks, curves.of) == (3, 4)
    assert curves.mean[:, 1].tolist() == [1, 2, 3]


def test_a_method_without_any_run_is_left_out_of_the_ranks():
    failed = [replace(r, method="new", regrets=None) for r in invented(["gp"])]
    curves = statistics.average_ranks([make_panel([*invented(), *failed])])
    alone = statistics.average_ranks([make_panel(invented())])
    assert (curves.mean[:4] == alone.mean).all() and curves.blocks == 12
    assert np.isnan(curves.mean[4]).all()


def test_without_a_complete_pair_nobody_is_ranked():
    curves = statistics.average_ranks([constant({("a", "x", 0): 0.1, ("b", "x", 1): 0.2})])
    assert curves.blocks == 0 and np.isnan(curves.mean).all()
    nobody = [replace(r, regrets=None) for r in invented(trials=2)]
    curves = statistics.average_ranks([make_panel(nobody)])
    assert curves.blocks == 0 and np.isnan(curves.mean).all()


# ---------------------------------------------------------------------- several benchmarks


def test_benchmarks_weigh_the_same():
    small = constant({("a", "x", 0): 0.0, ("b", "x", 0): 0.5})
    large = constant({(m, str(t), 0): v for m, v in (("a", 1.0), ("b", 0.5)) for t in range(9)})
    curves = statistics.mean_regrets([small, large])
    assert curves.mean[:, 1].tolist() == [0.5, 0.5] and curves.blocks == 10
    assert statistics.average_ranks([small, large]).mean[:, 1].tolist() == [1.5, 1.5]


def test_the_interval_over_benchmarks_is_narrower():
    panels = [make_panel(invented(benchmark="b" * n)) for n in range(1, 5)]
    width = [
        np.ptp([c.low, c.high], axis=0)[:, -1] for c in map(statistics.mean_regrets, [panels])
    ]
    single = [np.ptp([c.low, c.high], axis=0)[:, -1] for c in map(_alone, panels)]
    assert (width[0] < 0.75 * np.mean(single, axis=0)).all()


def _alone(panel):
    return statistics.mean_regrets([panel])


def test_only_common_methods_are_summarised():
    first, second = make_panel(invented(["a", "b", "c"])), make_panel(invented(["c", "d", "a"]))
    with pytest.raises(OptionError, match="the same methods"):
        statistics.mean_regrets([first, second])
    shared = statistics.common([first, second])
    assert [panel.methods for panel in shared] == [("a", "c"), ("a", "c")]
    assert (shared[1].regrets == second.regrets[[2, 0]]).all()


# ---------------------------------------------------------------------- other figures


def test_seconds_are_over_all_proposals():
    seconds = np.arange(1.0, 22.0)
    runs = [
        run("a", "x", 0, [1, 1], seconds=seconds[:5]),
        run("a", "y", 0, [1, 1], seconds=seconds[5:]),
    ]
    timing = statistics.timing([make_panel(runs)], "a")
    assert (timing.mean, timing.median, timing.p95) == (11.0, 11.0, 20.0)
    assert np.isnan(statistics.timing([make_panel([run("a", "x", 0, [1, 1])])], "a").mean)


def test_optima_are_counted_among_the_runs_that_are_there():
    runs = [run("a", "x", s, [1.0, end]) for s, end in enumerate([0.0, 1e-12, 1e-6])]
    runs.append(run("a", "x", 3, None, trials=1, error="no"))
    assert statistics.found([make_panel(runs)], "a") == (2, 3)
