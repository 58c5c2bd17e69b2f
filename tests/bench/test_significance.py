"""Tests between methods, against SciPy, the literature and by hand."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from bench.invented import METHODS, invented, run
from rankwise.bench import significance
from rankwise.bench.run_arrays import make_panel
from rankwise.bench.significance import budgets, compare, critical_difference, duel
from rankwise.errors import BenchmarkDataError, UnknownNameError

# Demsar, Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 7 (2006), table 6:
# areas under the curve of C4.5, and with m, cf, and both tuned. In the row before the last, the
# paper's ranks show that the third is larger by less than the digits printed.
DEMSAR = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
)
NAMES = ("C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf")


def panel_of(table, names=NAMES, seeds=1):
    """A panel of one trial from accuracies (tasks, methods), the same for every seed."""
    return make_panel(
        [
            run(name, f"task {i}", seed, [1.0, 1.0 - value])
            for i, row in enumerate(table)
            for name, value in zip(names, row, strict=True)
            for seed in range(seeds)
        ]
    )


# ---------------------------------------------------------------------- all methods together


def test_the_worked_example_of_the_literature():
    result = compare([panel_of(DEMSAR)], 1)
    np.testing.assert_allclose(result.ranks, [3.143, 2.000, 2.893, 1.964], atol=6e-4)
    assert result.critical_difference == pytest.approx(1.25, abs=0.005)
    assert result.friedman == scipy.stats.friedmanchisquare(*DEMSAR.T).pvalue < 0.05
    # The paper: Friedman's test rejects, Nemenyi's is not powerful enough to say where.
    assert not result.different.any() and result.pairs[0, 3] < 0.1
    assert (result.test, result.tasks, result.note) == ("Nemenyi", 14, "")


@pytest.mark.parametrize(
    ("methods", "quantile"),
    list(enumerate([1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164], start=2)),
)
def test_critical_values_are_those_of_the_table(methods, quantile):
    scale = np.sqrt(methods * (methods + 1) / (6 * 20))
    assert critical_difference(methods, 20) / scale == pytest.approx(quantile, abs=1e-3)


def test_pairs_differ_where_ranks_are_further_apart_than_the_critical_difference():
    panel = make_panel(invented(tasks=15))
    result = compare([panel], 30)
    gaps = np.abs(result.ranks[:, None] - result.ranks)
    assert result.different.any() and not result.different.all()
    np.testing.assert_array_equal(result.different, gaps > result.critical_difference)


def test_seeds_of_a_task_are_one_observation():
    once, often = compare([panel_of(DEMSAR)], 1), compare([panel_of(DEMSAR, seeds=4)], 1)
    assert often.tasks == 14 and often.friedman == once.friedman
    np.testing.assert_array_equal(often.pairs, once.pairs)


def test_tasks_of_all_benchmarks_count():
    halves = [panel_of(DEMSAR[:7]), replace(panel_of(DEMSAR[7:]), benchmark="other")]
    assert compare(halves, 1).friedman == compare([panel_of(DEMSAR)], 1).friedman


def test_pairs_with_a_missing_method_do_not_count():
    runs = [r for r in invented(tasks=7) if (r.method, r.task) != ("gp", "task 2")]
    kept = [r for r in invented(tasks=7) if r.task != "task 2"]
    assert compare([make_panel(runs)], 30).tasks == 6
    assert compare([make_panel(runs)], 30).friedman == compare([make_panel(kept)], 30).friedman


def test_signed_rank_tests_with_holms_correction():
    from statsmodels.stats.multitest import multipletests

    result = compare([panel_of(DEMSAR)], 1, posthoc="wilcoxon")
    upper = np.triu_indices(4, 1)
    plain = [
        duel([panel_of(DEMSAR)], NAMES[i], NAMES[j], 1).p for i, j in zip(*upper, strict=True)
    ]
    np.testing.assert_allclose(result.pairs[upper], multipletests(plain, method="holm")[1])
    np.testing.assert_array_equal(result.pairs, result.pairs.T)
    assert result.test == "Wilcoxon-Holm" and np.isnan(result.critical_difference)


def test_two_methods_are_compared_with_the_signed_rank_test():
    result = compare([panel_of(DEMSAR[:, :2], NAMES[:2])], 1)
    assert result.test == "Wilcoxon" and np.isnan(result.friedman)
    # The paper finds R+ = 93 and R- = 12: the difference is significant.
    assert result.pairs[0, 1] == duel([panel_of(DEMSAR)], *NAMES[:2], 1).p < 0.05
    assert result.different.tolist() == [[False, True], [True, False]]


@pytest.mark.parametrize("posthoc", significance.POSTHOCS)
@pytest.mark.parametrize("methods", [2, 4])
def test_methods_that_are_all_the_same_do_not_differ(methods, posthoc):
    names = NAMES[:methods]
    result = compare([panel_of(np.full((8, methods), 0.5), names)], 1, posthoc=posthoc)
    assert not result.different.any() and not result.friedman < 1
    np.testing.assert_allclose(result.pairs, 1.0)
    np.testing.assert_allclose(result.ranks, (methods + 1) / 2)


def test_without_friedman_no_pair_differs():
    result = compare([panel_of(DEMSAR)], 1)
    pairs = np.full((4, 4), 0.01)
    assert replace(result, pairs=pairs).different.any()
    assert not replace(result, pairs=pairs, friedman=0.2).different.any()


@pytest.mark.parametrize(
    ("runs", "note"),
    [
        (invented(["a"]), "a test needs two methods"),
        (invented(tasks=4), "a test needs 5 tasks, there are 4"),
        ([replace(r, regrets=None) for r in invented()], "a test needs two methods"),
        (invented(["a"])[:1] + invented(["b"])[1:2], "a test needs 5 tasks, there are 0"),
    ],
)
def test_where_no_test_is_possible_it_says_why(runs, note):
    result = compare([make_panel(runs)], 30)
    assert (result.note, result.test) == (note, "")
    assert not result.different.any()


def test_an_unknown_test_is_refused():
    with pytest.raises(UnknownNameError, match="unknown test between pairs 'tukey'"):
        compare([panel_of(DEMSAR)], 1, posthoc="tukey")


def test_a_missing_package_is_named_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "scikit_posthocs", None)
    with pytest.raises(BenchmarkDataError, match=r'run pip install "rankwise\[bench\]"'):
        compare([panel_of(DEMSAR)], 1)


@pytest.mark.parametrize(
    ("trials", "steps"),
    [(10, [10]), (25, [25]), (30, [25, 30]), (50, [25, 50]), (120, [25, 50, 100, 120])],
)
def test_budgets_are_those_that_exist_and_the_last(trials, steps):
    assert budgets(trials) == steps


# ---------------------------------------------------------------------- pairs


def test_wins_ties_and_losses_by_hand():
    ends = {"a": [0.1, 0.2, 0.3, 0.4], "b": [0.2, 0.2, 0.1, 0.5]}
    blocks = [("x", 0), ("x", 1), ("y", 0), ("y", 1)]
    runs = [
        run(m, *block, [1.0, v]) for m in ends for block, v in zip(blocks, ends[m], strict=True)
    ]
    result = duel([make_panel(runs)], "a", "b", 1)
    assert (result.wins, result.ties, result.losses) == (2, 1, 1)
    assert result.difference == pytest.approx(0.0) and result.tasks == 2
    assert np.isnan(result.p)


def test_a_duel_is_the_mirror_of_its_reverse():
    panel = make_panel(invented())
    there, back = duel([panel], "gp", "dre"), duel([panel], "dre", "gp")
    assert (there.wins, there.losses) == (back.losses, back.wins)
    assert there.p == back.p and there.difference == -back.difference


def test_the_mean_over_steps_leaves_the_initial_points_out():
    panel = make_panel([run("a", "x", 0, [0.9, 0.4, 0.2]), run("b", "x", 0, [0.1, 0.5, 0.3])])
    result = duel([panel], "a", "b")
    assert result.wins == 1 and result.difference == pytest.approx(-0.1)
    assert duel([panel], "a", "b", 0).losses == 1


def test_a_duel_is_over_the_runs_that_both_have():
    runs = invented()
    there = [r for r in runs if (r.method, r.task) != ("gp", "task 0")]
    without = [r for r in runs if r.task != "task 0"]
    assert duel([make_panel(there)], "gp", "dre") == duel([make_panel(without)], "gp", "dre")
    alone = [r for r in runs if (r.method, r.task) in (("gp", "task 0"), ("dre", "task 1"))]
    result = duel([make_panel(alone)], "gp", "dre")
    assert (result.wins, result.ties, result.losses, result.tasks) == (0, 0, 0, 0)
    assert np.isnan(result.difference) and np.isnan(result.p)


def test_the_test_of_a_duel_is_that_of_scipy_over_task_means():
    panel = make_panel(invented(tasks=9, seeds=3))
    ends = panel.regrets[:, :, 30].reshape(len(METHODS), 9, 3).mean(axis=2)
    difference = ends[0] - ends[2]
    assert duel([panel], "random", "gp", 30).p == scipy.stats.wilcoxon(difference).pvalue
    assert duel([panel], "random", "gp", 30).difference == pytest.approx(difference.mean())


@pytest.mark.parametrize("tasks", [5, 12, 50, 60])
def test_signed_ranks_without_ties_are_those_of_scipy(tasks):
    differences = np.random.default_rng(tasks).normal(0.3, 1.0, tasks)
    expected = scipy.stats.wilcoxon(differences).pvalue
    assert significance._signed_rank(differences) == pytest.approx(expected, rel=1e-9)


def test_signed_ranks_with_ties_are_those_of_all_signs():
    differences = np.array([0.1, -0.1, 0.2, 0.2, 0.2, -0.3, 0.5, 0.5])
    ranks = scipy.stats.rankdata(np.abs(differences))
    signs = np.array(list(itertools.product([0, 1], repeat=8)))
    sums = signs @ ranks
    expected = 2 * np.mean(sums <= ranks[differences < 0].sum())
    assert significance._signed_rank(differences) == pytest.approx(expected)
    assert significance._signed_rank(-differences) == pytest.approx(expected)
    assert significance._signed_rank(np.array([0.1, -0.1])) == 1.0


def test_tasks_on_which_both_are_equal_speak_for_nobody():
    table = np.vstack([DEMSAR[:, :2], np.full((30, 2), 0.7)])
    more, less = (panel_of(part, NAMES[:2]) for part in (table, DEMSAR[:, :2]))
    assert duel([more], *NAMES[:2], 1).p == duel([less], *NAMES[:2], 1).p
    same = panel_of(np.full((6, 2), 0.5), NAMES[:2])
    assert duel([same], *NAMES[:2], 1).p == 1.0


def test_benchmarks_weigh_the_same_in_the_difference_of_a_duel():
    small = panel_of([[1.0, 0.0]], ("a", "b"))
    large = panel_of([[0.0, 1.0]] * 9, ("a", "b"))
    result = duel([small, large], "a", "b", 1)
    assert result.difference == 0.0 and (result.wins, result.losses) == (1, 9)
