"""One space out of many: kinds, ranges, scales, steps and choices."""

from __future__ import annotations

import math
import warnings

import pytest
from optuna.distributions import (
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from archive.past import past
from rankwise.archive.merge_distributions import as_choice, choice_key, merge, unify, unusable

F, I, C = FloatDistribution, IntDistribution, CategoricalDistribution  # noqa: E741


def of(name, distribution, year=None):
    return past(name, {"x": distribution}, [{}], year=year)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([F(0, 1), F(-1, 0.5)], F(-1, 1)),
        ([F(0.1, 1, log=True), F(0.01, 0.5, log=True)], F(0.01, 1, log=True)),
        ([F(0.1, 1, log=True), F(0.2, 2, log=True), F(0.1, 1)], F(0.1, 2, log=True)),
        ([F(0.1, 1, log=True), F(0.2, 2, log=True), F(0, 1)], F(0, 2)),  # no log of 0
        ([F(0, 1, step=0.1), F(0.5, 2, step=0.1)], F(0, 2, step=0.1)),
        ([F(0, 1, step=0.1), F(0.05, 2.05, step=0.1)], F(0, 2.05)),  # two grids
        ([F(0, 1, step=0.1), F(0, 1, step=0.2)], F(0, 1)),
        ([F(0, 1, step=0.1), F(0, 1)], F(0, 1)),
        ([I(1, 5), I(3, 9)], I(1, 9)),
        ([I(2, 8, step=2), I(4, 12, step=2)], I(2, 12, step=2)),
        ([I(2, 8, step=2), I(1, 7, step=2)], I(1, 8)),
        ([I(2, 8, step=2), I(2, 8)], I(2, 8)),
        ([I(1, 8, log=True), I(2, 64, log=True)], I(1, 64, log=True)),
        ([I(1, 8, log=True), I(2, 64, log=True), I(1, 2**45)], I(1, 2**45)),  # too large for log
        ([C(["a", "b"]), C(["c", "a"])], C(["a", "b", "c"])),
        ([C([True, False]), C([0, 1, None])], C([True, False, 0, 1, None])),
        ([C([1, 2]), C([1.0, 2.5])], C([1, 2, 2.5])),
        ([C(["1", None]), C([1, "None"])], C(["1", None, 1, "None"])),
    ],
)
def test_the_union(given, wanted):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Optuna warns of ranges off the grid
        merged = merge([(d, float(k)) for k, d in enumerate(given)])
    assert repr(merged) == repr(wanted)


@pytest.mark.parametrize(
    ("given", "search", "wanted"),
    [
        ([F(0.1, 1), F(0.1, 1)], F(0.5, 2, log=True), F(0.1, 2, log=True)),
        ([F(0.1, 1, log=True)] * 2, F(0.5, 2), F(0.1, 2)),
        ([F(0.0, 1)], F(0.05, 0.45, step=0.1), F(0.05, 0.95, step=0.1)),
        ([I(1, 20)], I(5, 9, step=2), I(1, 19, step=2)),
        ([I(1, 20)], I(6, 10, step=2), I(2, 20, step=2)),
        ([C(["a"])], C(["b"]), C(["a", "b"])),
        ([], I(5, 9, step=2), I(5, 9, step=2)),
    ],
)
def test_the_search_space_takes_part_and_its_scale_and_step_win(given, search, wanted):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert repr(merge([(d, 0.0) for d in given], search)) == repr(wanted)


def test_the_majority_decides_on_the_kind():
    studies = [of("a", I(1, 5)), of("b", I(2, 9)), of("c", C(["small", "large"]))]
    assert unify(studies) == ({"x": I(1, 9)}, {})


def test_a_tie_is_decided_by_the_newest_study():
    studies = [of("new", F(0, 1), 2024), of("old", I(0, 3), 2020), of("ageless", C(["a"]))]
    assert unify(studies) == ({"x": F(0, 3)}, {})


@pytest.mark.parametrize(
    ("given", "search", "merged"),
    [
        ([I(1, 5), I(2, 9), F(0, 3)], F(1, 2), F(0, 9)),
        ([F(0.5, 9.5)], I(1, 3), I(1, 9)),
        ([F(0.2, 0.4)], I(1, 3), I(0, 3)),
        ([F(0.5, 8, log=True)], I(1, 3), I(1, 8)),
        ([C([16, 32, 64])], I(1, 3), I(1, 64)),
        ([C(["16", "32", "auto"])], F(1, 3), F(1, 32)),
        ([C(["low", "high"])], F(1, 3), F(1, 3)),
        ([I(1, 100)], C([10, 50]), C([10, 50])),
        ([F(-1e300, 1e300)], F(0, 1), F(0, 1)),
    ],
)
def test_numbers_are_cast_to_the_kind_in_the_search_space(given, search, merged):
    studies = [of(str(k), d) for k, d in enumerate(given)]
    found, left_out = unify(studies, {"x": search})
    assert repr(found) == repr({"x": merged})
    assert set(left_out) <= {"0"} and (not left_out or given[0] == F(-1e300, 1e300))


@pytest.mark.parametrize(
    ("value", "choices", "index"),
    [
        (32, [16, 32], 1),
        ("32", [16, 32], 1),
        (32, ["16", "32"], 1),
        (37, [16, 32, 64], 1),
        ("37", [16, 32, 64], None),
        (37, ["a", 32], None),
        (True, [0, 1], None),
        (math.nan, [0, 1], None),
        ("adam", ["sgd"], None),
        (2**60 + 1, [2**60, 2**60 + 1], 1),
    ],
)
def test_values_are_cast_to_choices(value, choices, index):
    assert as_choice(value, choices) == index


def test_a_parameter_that_cannot_be_cast_is_missing_and_the_study_is_used():
    odd = past("odd", {"x": C(["a"]), "y": F(0, 100)}, [{}])
    fine = [past(n, {"x": I(1, 5), "y": F(0, 1)}, [{}]) for n in "ab"]
    distributions, left_out = unify([odd, *fine])
    assert distributions == {"x": I(1, 5), "y": F(0, 100)} and not left_out


@pytest.mark.parametrize(
    ("distribution", "reason"),
    [
        (I(0, 2**60), "too large"),
        (I(1, 10**14, log=True), "too large"),
        (F(0, 1e-14), "narrow"),
        (F(-1e300, 1e300), "wide"),
    ],
)
def test_what_cannot_be_encoded_is_missing(distribution, reason):
    distributions, left_out = unify([of("a", distribution), of("b", F(0, 1))])
    assert distributions == {"x": F(0, 1)} and reason in left_out["a"]
    assert reason in unusable(distribution)
    both = past("both", {"x": distribution, "y": F(0, 1)}, [{}])
    assert unify([both]) == ({"y": F(0, 1)}, {})
    assert unify([of("b", F(0, 1)), both], {"x": distribution}) == ({"y": F(0, 1)}, {})


@pytest.mark.parametrize(
    ("low", "step", "width"), [(-1099511627780.0, 3.0, 3.5e13), (0.05, 0.1, 3.5e9)]
)
def test_grids_of_many_steps_end_on_a_step(low, step, width):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grid = F(low, low, step=step)
        merged = merge([(F(low, low + width), 0.0)], wanted=grid)
    assert merged.low == low and merged.step == step and merged.high > low + 0.99 * width


def test_a_study_without_parameters_is_left_out():
    assert unify([past("empty", {}, [{}])]) == ({}, {"empty": "it has no parameters"})


def test_choices_are_told_apart_as_people_do():
    different = [True, False, 0, 2, "1", "True", None, "None", 0.5, math.nan, "nan", (1, 2)]
    assert len({choice_key(c) for c in different}) == len(different)
    assert choice_key(1) == choice_key(1.0) and choice_key(math.nan) == choice_key(-math.nan)
    assert choice_key([1, 2]) == choice_key([1, 2])
