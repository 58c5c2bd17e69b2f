"""Initial designs: exactly the size asked, distinct, valid, reproducible, well spread."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist
from scipy.stats import qmc
from support.strategies import is_valid, spaces

from rankwise.errors import OptionError, SpaceError, UnknownNameError
from rankwise.space.design import Design, initial_design, lhs_design
from rankwise.space.encoder import Encoder
from rankwise.space.shorthand import make_space

KINDS = ["default", "grid", "lhs", "random", "sobol"]
CUBE = Encoder({"a": (0.0, 1.0), "b": (-5.0, 5.0), "c": (1e-3, 1e3, "log")})
MIXED = Encoder(
    make_space(
        {"k": ["a", "b"], "n": (1, 4), "x": (0.0, 1.0), "o": ([1, 2, 3], "ordered")},
        when={"x": {"k": "a"}},
        forbid=[{"k": "a", "n": [1, 2]}, {"o": 2}],
    )
)
FINITE = Encoder(make_space({"k": ["a", "b"], "n": (1, 5)}, forbid=[{"k": "a", "n": 2}]))


@settings(max_examples=40)
@given(spaces(), st.integers(1, 12), st.sampled_from(KINDS), st.integers(0, 99))
def test_designs_have_exactly_the_size_asked(space, n, kind, seed):
    encoder = Encoder(space)
    n = int(min(n, encoder.size))
    X = initial_design(encoder, n, kind, np.random.default_rng(seed))
    assert X.shape == (n, encoder.n_columns)
    assert n == 1 or len(np.unique(X, axis=0)) == n
    configurations = encoder.decode(X)
    assert all(is_valid(space, c) for c in configurations)
    assert encoder.encode(configurations).tobytes() == X.tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoder", [CUBE, MIXED, FINITE], ids=["cube", "mixed", "finite"])
def test_designs_repeat_by_seed(encoder, kind):
    first, same, other = (
        initial_design(encoder, 7, kind, np.random.default_rng(s)) for s in (1, 1, 2)
    )
    assert first.tobytes() == same.tobytes()
    assert first.tobytes() != other.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_finite_space_can_be_used_up_but_not_exceeded(kind):
    rng = np.random.default_rng(0)
    assert FINITE.size == 9
    X = initial_design(FINITE, 9, kind, rng)
    assert sorted(map(bytes, X)) == sorted(map(bytes, FINITE.points))
    with pytest.raises(SpaceError, match=r"design of 10 .* 9 configurations"):
        initial_design(FINITE, 10, kind, rng)


@pytest.mark.parametrize("kind", KINDS)
def test_a_space_with_one_point_has_a_design(kind):
    encoder = Encoder({"a": 1})
    assert initial_design(encoder, 1, kind, np.random.default_rng(0)).shape == (1, 0)
    assert Design(kind, "4d").n(encoder) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_design_survives_clauses_that_leave_little(kind):
    space = make_space({"n": (1, 50), "m": (1, 50)}, forbid=[{"n": list(range(3, 51))}])
    X = initial_design(Encoder(space), 20, kind, np.random.default_rng(0))
    assert len(np.unique(X, axis=0)) == 20


def test_a_design_is_smaller_where_nearly_all_is_forbidden():
    space = make_space(
        {"x": (0.0, 1.0), "k": ["a", "b"]}, when={"x": {"k": "b"}}, forbid=[{"k": "b"}]
    )
    encoder = Encoder(space)
    assert encoder.size == np.inf
    assert Design("default", "few").make(encoder, np.random.default_rng(0)).shape[0] == 1
    with pytest.raises(SpaceError, match="only 1 different"):
        initial_design(encoder, 4, "lhs", np.random.default_rng(0))


@given(st.integers(2, 30), st.integers(0, 99))
def test_a_latin_hypercube_uses_each_part_of_each_range_once(n, seed):
    X = initial_design(CUBE, n, "lhs", np.random.default_rng(seed))
    for column in X.T:
        assert sorted(np.floor(column * n * (1 - 1e-9)).astype(int)) == list(range(n))


def test_maximin_spreads_better_than_any_latin_hypercube():
    def gap(X: np.ndarray) -> float:
        return float(np.min(pdist(X)))

    seeds = range(30)
    ours = [gap(lhs_design(CUBE, 10, np.random.default_rng(s))) for s in seeds]
    plain = [gap(qmc.LatinHypercube(3, rng=np.random.default_rng(s)).random(10)) for s in seeds]
    assert np.mean(ours) > 1.3 * np.mean(plain)


def test_sobol_fills_more_evenly_than_random():
    def discrepancy(kind: str) -> float:
        designs = (initial_design(CUBE, 32, kind, np.random.default_rng(s)) for s in range(10))
        return float(np.mean([qmc.discrepancy(X) for X in designs]))

    assert discrepancy("sobol") < 0.5 * discrepancy("random")


def test_the_default_comes_first():
    X = initial_design(MIXED, 5, "default", np.random.default_rng(0))
    assert MIXED.decode(X)[0] == MIXED.default
    assert MIXED.decode(initial_design(MIXED, 1, "default", np.random.default_rng(0))) == [
        MIXED.default
    ]


def test_a_grid_design_is_part_of_the_coarsest_grid_that_suffices():
    X = initial_design(CUBE, 20, "grid", np.random.default_rng(0))
    grid = {row.tobytes() for row in CUBE.grid(3)}
    assert len(grid) == 27 and all(row.tobytes() in grid for row in X)


def test_a_grid_of_too_many_dimensions_still_gives_a_design():
    encoder = Encoder({f"x{i}": (0.0, 1.0) for i in range(25)})
    X = initial_design(encoder, 8, "grid", np.random.default_rng(0))
    assert X.shape == (8, 25)


@pytest.mark.parametrize(
    ("text", "kind", "n"),
    [
        ("lhs", "lhs", 12),
        ("sobol-2d", "sobol", 6),
        ("random-10", "random", 10),
        ("grid-1", "grid", 1),
        (5, "lhs", 5),
        (Design("default", "1d"), "default", 3),
    ],
)
def test_parse(text, kind, n):
    design = Design.parse(text)
    assert (design.kind, design.n(CUBE)) == (kind, n)
    assert design.make(CUBE, np.random.default_rng(0)).shape == (n, 3)


def test_a_multiple_counts_tuned_hyperparameters_and_stops_at_the_size_of_the_space():
    encoder = Encoder({"a": (0.0, 1.0), "k": ["x", "y"], "constant": 3})
    assert Design("lhs", "4d").n(encoder) == 8
    assert Design("lhs", "9d").n(FINITE) == 9
    assert Design("lhs", 100).n(FINITE) == 9


@pytest.mark.parametrize("size", [0, -1, "0", "0d", "d", "-1", "2x", "", 2.5, None], ids=repr)
def test_a_bad_size_is_an_error(size):
    with pytest.raises(OptionError, match="design"):
        Design("lhs", size)


@pytest.mark.parametrize("make", [Design, Design.parse])
def test_an_unknown_kind_lists_the_valid_ones(make):
    with pytest.raises(UnknownNameError, match=r"'lsh'.*default, grid, lhs, random, sobol.*'lhs'"):
        make("lsh")
    with pytest.raises(UnknownNameError, match="design"):
        initial_design(CUBE, 3, "halton", np.random.default_rng(0))
