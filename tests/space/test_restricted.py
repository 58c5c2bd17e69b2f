"""Encoder.restricted: the same columns, fewer legal values."""

from __future__ import annotations

import ConfigSpace as CS
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import is_valid, spaces

from rankwise.errors import ConfigurationError, SpaceError
from rankwise.space.design import Design
from rankwise.space.encoder import Encoder
from rankwise.space.neighbours import perturb
from rankwise.space.parameters import Choice, Number
from rankwise.space.shorthand import make_space

SPACE = make_space(
    {
        "kernel": ["rbf", "poly", "linear"],
        "C": (1e-3, 1e3, "log"),
        "gamma": (0.0, 1.0),
        "degree": (2, 9),
        "size": (["s", "m", "l", "xl"], "ordered"),
    },
    when={"gamma": {"kernel": "rbf"}},
    forbid=[{"kernel": "linear", "size": "xl"}],
)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def encoder() -> Encoder:
    return Encoder(SPACE)


@st.composite
def restrictions(draw: st.DrawFn, encoder: Encoder) -> dict:
    """What may be legal in a space, so that its clauses leave something."""
    [kept] = encoder.codes(encoder.decode(encoder.sample(1, np.random.default_rng(0))))
    legal = {}
    for parameter, code in zip(encoder.parameters, kept, strict=True):
        if not draw(st.booleans()):
            continue
        if isinstance(parameter, Choice):
            values = draw(st.lists(st.sampled_from(parameter.values), unique_by=repr))
            if np.isnan(code):
                legal[parameter.name] = values or [parameter.values[0]]
            else:  # repr: True is not 1
                legal[parameter.name] = [parameter.value(code), *values]
            continue
        middle = parameter.levels(1)[0] if np.isnan(code) else code
        width = parameter.upper - parameter.lower
        low = middle - draw(st.sampled_from([0.0, 0.1, 2.0])) * width
        high = middle + draw(st.sampled_from([0.0, 0.1, 2.0])) * width
        step = draw(st.sampled_from([None, None, 0.04 * width]))
        if step and not parameter.log:
            step = max(1, round(step)) if parameter.integer else step
            first = middle if np.isnan(code) else code
            legal[parameter.name] = (first - 2 * step, high, step)
        else:
            legal[parameter.name] = (low, high)
    return legal


def is_legal(configuration: dict, legal: dict) -> bool:
    for name, value in configuration.items():
        what = legal.get(name)
        if isinstance(what, list):
            fine = repr(value) in map(repr, what)
        elif what is not None:
            low, high, *step = what
            tiny = 1e-9 * max(1.0, abs(low), abs(high))
            fine = low - tiny <= value <= high + tiny
            if step:
                k = (value - low) / step[0]
                fine &= abs(k - round(k)) < 1e-6
        else:
            fine = True
        if not fine:
            return False
    return True


@settings(max_examples=60)
@given(spaces(), st.data(), st.integers(0, 99))
def test_whatever_it_makes_is_legal_and_goes_there_and_back(space, data, seed):
    encoder, rng = Encoder(space), np.random.default_rng(seed)
    legal = data.draw(restrictions(encoder))
    narrow = encoder.restricted(legal)
    X = narrow.sample(20, rng)
    U = rng.uniform(-0.2, 1.2, (20, narrow.n_columns))
    snapped = narrow.encode_codes(narrow.decode_codes(U))
    moved, _ = perturb(narrow, narrow.decode_codes(X), rng, np.full(20, 0.3), 0.5)
    made = [X, narrow.neighbours(X[0], rng), narrow.encode_codes(moved)]
    for rows in made:
        for configuration in narrow.decode(rows):
            assert is_legal(configuration, legal)
            assert is_valid(space, configuration)
        assert narrow.encode(narrow.decode(rows)).tobytes() == rows.tobytes()
    for configuration in narrow.decode(snapped):
        assert is_legal(configuration, legal)
    again = narrow.encode_codes(narrow.decode_codes(snapped))
    assert again.tobytes() == snapped.tobytes()
    assert is_legal(narrow.default, legal) and is_valid(space, narrow.default)


@given(spaces(), st.data(), st.integers(0, 99))
def test_columns_and_fingerprint_are_those_of_the_whole_space(space, data, seed):
    encoder = Encoder(space)
    narrow = encoder.restricted(data.draw(restrictions(encoder)))
    assert narrow.fingerprint == encoder.fingerprint and narrow.layout == encoder.layout
    codes = narrow.sample_codes(20, np.random.default_rng(seed))
    assert narrow.encode_codes(codes).tobytes() == encoder.encode_codes(codes).tobytes()
    anything = encoder.sample_codes(20, np.random.default_rng(seed))  # the past may be illegal
    assert narrow.encode_codes(anything).tobytes() == encoder.encode_codes(anything).tobytes()


@given(spaces(), st.integers(0, 99))
def test_a_restriction_that_contains_everything_changes_nothing(space, seed):
    encoder = Encoder(space)
    everything = {
        p.name: list(p.values) if isinstance(p, Choice) else (p.lower - 1, p.upper + 1)
        for p in encoder.parameters
    }
    same = encoder.restricted(everything)
    one, two = np.random.default_rng(seed), np.random.default_rng(seed)
    X = encoder.sample(10, one)
    assert same.sample(10, two).tobytes() == X.tobytes()
    assert same.neighbours(X[0], two).tobytes() == encoder.neighbours(X[0], one).tobytes()
    U = np.random.default_rng(seed).random((10, encoder.n_columns))
    assert same.decode_codes(U).tobytes() == encoder.decode_codes(U).tobytes()
    assert same.default == encoder.default and same.size == encoder.size


@given(spaces(finite=True), st.data())
def test_a_finite_space_has_its_legal_points_and_no_others(space, data):
    encoder = Encoder(space)
    encoder.points  # noqa: B018  (kept by the whole space; must not leak into the narrow one)
    legal = data.draw(restrictions(encoder))
    narrow = encoder.restricted(legal)
    wanted = {repr(c) for c in encoder.decode(encoder.points) if is_legal(c, legal)}
    found = {repr(c) for c in narrow.decode(narrow.points)}
    # A child of a number off the grid has its place in the whole space only.
    assert found == wanted and narrow.size == len(wanted)


def test_a_grid_is_inside(encoder):
    encoder.grid(3)
    narrow = encoder.restricted({"C": (0.1, 10.0), "gamma": (0.0, 1.0, 0.25), "size": ["m", "xl"]})
    found = narrow.decode(narrow.grid(4))
    assert {c["size"] for c in found} == {"m", "xl"}
    assert min(c["C"] for c in found) == 0.1 and max(c["C"] for c in found) == 10.0
    assert {c["gamma"] for c in found if "gamma" in c} <= {0.0, 0.25, 0.5, 0.75, 1.0}
    assert len(found) < len(encoder.grid(4))


def test_a_design_is_inside_and_fills_the_narrow_range(encoder, rng):
    narrow = encoder.restricted({"C": (1.0, 10.0), "kernel": ["poly"]})
    rows = Design.parse("sobol-32").make(narrow, rng)
    C = np.array([c["C"] for c in narrow.decode(rows)])
    assert 1.0 <= C.min() < 1.3 and 8.0 < C.max() <= 10.0
    assert {c["kernel"] for c in narrow.decode(rows)} == {"poly"}


def test_a_child_whose_parent_lost_its_value_is_never_active(encoder, rng):
    narrow = encoder.restricted({"kernel": ["poly", "linear"]})
    configurations = narrow.decode(narrow.sample(50, rng))
    assert not any("gamma" in c for c in configurations)
    assert not any(c["kernel"] == "linear" and c["size"] == "xl" for c in configurations)


def test_the_default_becomes_legal(encoder):
    narrow = encoder.restricted({"kernel": ["linear"], "size": ["xl", "l"], "degree": (8, 9)})
    assert narrow.default["kernel"] == "linear" and narrow.default["degree"] == 8
    assert narrow.default["size"] == "l"  # xl is forbidden then


def test_illegal_values_are_refused(encoder):
    narrow = encoder.restricted({"C": (1.0, 10.0), "degree": (3, 9, 3), "kernel": ["poly"]})
    fine = {"kernel": "poly", "C": 2.0, "degree": 6, "size": "s"}
    assert narrow.decode(narrow.encode([fine])) == [fine]
    for wrong in ({"C": 20.0}, {"degree": 4}, {"kernel": "linear"}):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            narrow.encode([{**fine, **wrong}])


def test_restricting_again_only_narrows(encoder):
    narrow = encoder.restricted({"C": (0.1, 10.0), "kernel": ["rbf", "poly"]})
    narrower = narrow.restricted({"C": (1.0, 1e3), "kernel": ["poly", "linear"]})
    [C] = [p for p in narrower.parameters if p.name == "C"]
    assert (C.lower, C.upper) == (1.0, 10.0)
    assert {c["kernel"] for c in narrower.decode(narrower.grid(2))} == {"poly"}


def test_a_step_within_a_step_stays_on_the_first_grid(encoder):
    narrow = encoder.restricted({"gamma": (0.0, 1.0, 0.25)}).restricted({"gamma": (0.3, 0.9)})
    [gamma] = [p for p in narrow.parameters if p.name == "gamma"]
    assert gamma.levels(10).tolist() == [0.5, 0.75] and gamma.size == 2


@pytest.mark.parametrize(
    "legal",
    [{"C": (2e3, 3e3)}, {"degree": (2.2, 2.8)}, {"kernel": ["cosine"]}, {"kernel": []}, {"D": 1}],
)
def test_what_leaves_nothing_is_an_error(encoder, legal):
    with pytest.raises(SpaceError, match=next(iter(legal))):
        encoder.restricted(legal)


def test_a_prior_keeps_its_shape_inside():
    space = CS.ConfigurationSpace()
    space.add(CS.NormalFloatHyperparameter("x", 0.5, 0.1, 0.0, 1.0))
    narrow = Encoder(space).restricted({"x": (0.5, 1.0)})
    x = np.array([c["x"] for c in narrow.decode(narrow.sample(2_000, np.random.default_rng(0)))])
    assert x.min() >= 0.5
    assert abs(np.median(x) - 0.5 - 0.0674) < 0.01  # the median of half a normal distribution


def test_every_legal_integer_is_drawn_equally_often(rng):
    number = Encoder({"n": (0, 100)}).restricted({"n": (10, 30, 5)}).parameters[0]
    assert isinstance(number, Number)
    codes, counts = np.unique(number.from_unit(rng.random(5_000)), return_counts=True)
    assert codes.tolist() == [10, 15, 20, 25, 30]
    assert counts.min() > 850
