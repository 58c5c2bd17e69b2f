"""Neighbours and perturbations: near, valid, and different where they should be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import descendants, is_valid, spaces

from rankwise.space.encoder import Encoder
from rankwise.space.neighbours import activate, perturb
from rankwise.space.shorthand import make_space

TREE = make_space(
    {"k": ["a", "b", "c"], "n": (1, 9), "x": (0.0, 1.0), "o": ([1, 2, 3, 4], "ordered"), "c": 1},
    when={"n": {"k": ["a", "b"]}},
)
AT = {"k": "a", "n": 4, "x": 0.5, "o": 2, "c": 1}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _neighbours(at, rng, space=TREE, **options):
    encoder = Encoder(space)
    return encoder.decode(encoder.neighbours(encoder.encode([at])[0], rng, **options))


@given(spaces(), st.integers(0, 99))
def test_neighbours_are_valid_and_one_step_away(space, seed):
    encoder, rng = Encoder(space), np.random.default_rng(seed)
    x = encoder.sample(1, rng)[0]
    (here,) = encoder.decode(x)
    X = encoder.neighbours(x, rng)
    assert len({row.tobytes() for row in X}) == len(X)
    assert encoder.encode(encoder.decode(X)).tobytes() == X.tobytes()
    for there in encoder.decode(X):
        assert is_valid(space, there)
        (changed,) = (n for n in here.keys() & there.keys() if here[n] != there[n])
        assert here.keys() ^ there.keys() <= descendants(space, changed)


@given(spaces(clauses=False), st.integers(0, 99))
def test_every_tuned_active_hyperparameter_moves(space, seed):
    encoder, rng = Encoder(space), np.random.default_rng(seed)
    x = encoder.sample(1, rng)[0]
    (here,) = encoder.decode(x)
    neighbours = encoder.decode(encoder.neighbours(x, rng))
    for parameter in encoder.parameters:
        if parameter.name in here and parameter.size > 1:
            name = parameter.name
            assert any(name in c and c[name] != here[name] for c in neighbours)


def test_choices_move_to_all_others_and_ordered_ones_to_the_next(rng):
    found = _neighbours(AT, rng)
    assert sorted(c["k"] for c in found if c["k"] != "a") == ["b", "c"]
    assert sorted(c["o"] for c in found if c["o"] != 2) == [1, 3]
    assert {3, 5} <= {c["n"] for c in found if c["k"] == "a"}
    assert all("n" not in c for c in found if c["k"] == "c")
    assert len([c for c in found if c["x"] != 0.5]) == 4
    assert [c["o"] for c in _neighbours(AT | {"o": 4}, rng) if c["o"] != 4] == [3]


def test_what_becomes_active_takes_any_value(rng):
    at = {"k": "c", "x": 0.5, "o": 2}
    drawn = [c["n"] for _ in range(100) for c in _neighbours(at, rng) if c["k"] != "c"]
    assert len(drawn) == 200 and set(drawn) == set(range(1, 10))


def test_the_scale_sets_the_step_of_floats(rng):
    def spread(scale: float) -> float:
        steps = [c["x"] - 0.5 for _ in range(200) for c in _neighbours(AT, rng, scale=scale)]
        return float(np.std([s for s in steps if s]))

    assert spread(0.01) == pytest.approx(0.01, rel=0.1)
    assert spread(0.1) == pytest.approx(0.1, rel=0.1)


def test_steps_beyond_a_bound_end_on_it(rng):
    at = AT | {"x": 0.9}
    steps = [c["x"] for _ in range(50) for c in _neighbours(at, rng) if c["x"] != 0.9]
    assert max(steps) == 1.0 and steps.count(1.0) > 25 and min(steps) < 0.8
    encoder = Encoder(TREE)
    out, _ = perturb(encoder, np.repeat(encoder.codes([at]), 50, axis=0), rng, np.full(50, 0.2), 0)
    assert out[:, encoder.names.index("x")].max() == 1.0


def test_forbidden_neighbours_are_left_out(rng):
    space = make_space({"k": ["a", "b", "c"], "n": (1, 3)}, forbid=[{"k": "b", "n": 2}])
    found = _neighbours({"k": "a", "n": 2}, rng, space)
    assert {(c["k"], c["n"]) for c in found} == {("c", 2), ("a", 1), ("a", 3)}


@given(spaces(), st.integers(0, 99))
def test_perturbed_rows_are_valid_and_know_their_origin(space, seed):
    encoder, rng = Encoder(space), np.random.default_rng(seed)
    rows = encoder.sample_codes(20, rng)
    out, kept = perturb(encoder, rows, rng, np.full(20, 0.3), rate=0.5)
    assert len(out) == len(kept) <= 20 and (np.diff(kept) > 0).all()
    for configuration in encoder.decode(encoder.encode_codes(out)):
        assert is_valid(space, configuration)
    same, kept = perturb(encoder, rows, rng, np.zeros(20), rate=0.0)
    np.testing.assert_array_equal(same, rows[kept])
    assert len(kept) == 20


def test_the_rate_and_the_scale_say_how_much_changes(rng):
    encoder = Encoder(TREE)
    rows = np.repeat(encoder.codes([AT]), 3_000, axis=0)
    scale = np.repeat([0.01, 0.1], 1_500)
    out, kept = perturb(encoder, rows, rng, scale, rate=0.3)
    assert len(kept) == 3_000
    k, x = encoder.names.index("k"), encoder.names.index("x")
    assert np.mean(out[:, k] != rows[:, k]) == pytest.approx(0.3 * 2 / 3, abs=0.03)
    moved = out[:, x] != 0.5
    assert np.mean(moved) == pytest.approx(0.5, abs=0.03)
    for part in (scale == 0.01, scale == 0.1):
        assert np.std(out[moved & part, x]) == pytest.approx(scale[part][0], rel=0.1)


def test_what_a_perturbation_activates_takes_any_value(rng):
    encoder = Encoder(TREE)
    rows = np.repeat(encoder.codes([{"k": "c", "x": 0.5, "o": 2}]), 300, axis=0)
    out, _ = perturb(encoder, rows, rng, np.full(300, 0.01), rate=1.0)
    drawn = [c["n"] for c in encoder.decode(encoder.encode_codes(out)) if "n" in c]
    assert len(drawn) > 150 and set(drawn) == set(range(1, 10))
    assert drawn.count(5) < 0.25 * len(drawn)  # not where an inactive number stands


def test_activate_keeps_what_is_set_and_fills_what_is_missing(rng):
    encoder = Encoder(TREE)
    codes = encoder.codes([AT, {"k": "c", "x": 0.5, "o": 2}])
    k, n = encoder.names.index("k"), encoder.names.index("n")
    codes[:, k] = codes[::-1, k]  # the first loses n, the second gains it
    out = activate(encoder, codes, rng)
    assert np.isnan(out[0, n]) and 1 <= out[1, n] <= 9
    others = [j for j in range(len(encoder.names)) if j != n]
    np.testing.assert_array_equal(out[:, others], codes[:, others])
