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
from rankwise.archive.unify import choice_key, merge, unify

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
    distributions, left_out = unify(studies)
    assert distributions == {"x": I(1, 9)}
    assert left_out == {"c": "parameter 'x' is categorical here and an integer elsewhere"}


def test_a_tie_is_decided_by_the_newest_study():
    studies = [of("new", F(0, 1), 2024), of("old", I(0, 1), 2020), of("ageless", C(["a"]))]
    distributions, left_out = unify(studies)
    assert distributions == {"x": F(0, 1)}
    assert set(left_out) == {"old", "ageless"}


def test_the_kind_in_the_search_space_always_wins():
    studies = [of("a", I(1, 5)), of("b", I(2, 9)), of("c", F(0, 3))]
    distributions, left_out = unify(studies, {"x": F(1, 2)})
    assert distributions == {"x": F(0, 3)}
    assert left_out["a"] == "parameter 'x' is an integer here and a float in the search space"


def test_a_study_that_is_left_out_does_not_widen_other_parameters():
    odd = past("odd", {"x": C(["a"]), "y": F(0, 100)}, [{}])
    fine = [past(n, {"x": I(1, 5), "y": F(0, 1)}, [{}]) for n in "ab"]
    distributions, _ = unify([odd, *fine])
    assert distributions["y"] == F(0, 1)


@pytest.mark.parametrize(
    ("distribution", "reason"),
    [
        (I(0, 2**60), "too large"),
        (I(1, 10**14, log=True), "too large"),
        (F(0, 1e-14), "narrow"),
        (F(-1e300, 1e300), "wide"),
    ],
)
def test_what_cannot_be_encoded_is_left_out(distribution, reason):
    _, left_out = unify([of("a", distribution), of("b", F(0, 1))])
    assert reason in left_out["a"]


def test_a_study_without_parameters_is_left_out():
    assert unify([past("empty", {}, [{}])]) == ({}, {"empty": "it has no parameters"})


def test_choices_are_told_apart_as_people_do():
    different = [True, False, 0, 2, "1", "True", None, "None", 0.5, math.nan, "nan", (1, 2)]
    assert len({choice_key(c) for c in different}) == len(different)
    assert choice_key(1) == choice_key(1.0) and choice_key(math.nan) == choice_key(-math.nan)
    assert choice_key([1, 2]) == choice_key([1, 2])
