"""Encoder: exact, in agreement with ConfigSpace, and strict about what it is given."""

from __future__ import annotations

import copy
import json
import operator
import pickle
from collections import Counter

import ConfigSpace as CS
import numpy as np
import pytest
from ConfigSpace.exceptions import ForbiddenValueError, InactiveHyperparameterSetError
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from support.strategies import brute_force, is_valid, spaces

from rankwise.errors import ConfigurationError, RankwiseError, SpaceError
from rankwise.space.encoder import Encoder
from rankwise.space.shorthand import make_space

SVM = make_space(
    {
        "kernel": ["rbf", "poly", "linear"],
        "C": (1e-3, 1e3, "log"),
        "gamma": (1e-4, 10.0, "log"),
        "degree": (2, 5),
        "size": (["small", "medium", "large"], "ordered"),
        "tol": 1e-3,
    },
    when={"gamma": {"kernel": ["rbf", "poly"]}, "degree": {"kernel": "poly"}},
    forbid=[{"kernel": "linear", "size": "large"}],
)
RBF = {"kernel": "rbf", "C": 1.0, "gamma": 0.1, "size": "small", "tol": 1e-3}


@pytest.fixture
def svm() -> Encoder:
    return Encoder(SVM)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


# ---------------------------------------------------------------------- there and back


def test_a_sample_may_be_empty(svm, rng):
    assert svm.sample(0, rng).shape == (0, svm.n_columns)


@given(spaces(), st.integers(0, 99))
def test_the_way_there_and_back_is_exact(space, seed):
    encoder = Encoder(space)
    X = encoder.sample(20, np.random.default_rng(seed))
    configurations = encoder.decode(X)
    again = encoder.encode(configurations)
    assert again.tobytes() == X.tobytes()
    assert repr(encoder.decode(again)) == repr(configurations)  # types included
    assert X.min(initial=0.0) >= 0.0 and X.max(initial=1.0) <= 1.0


@given(spaces(), st.integers(0, 99))
def test_any_point_of_the_cube_snaps_to_an_exact_one(space, seed):
    encoder = Encoder(space)
    U = np.random.default_rng(seed).uniform(-0.2, 1.2, (20, encoder.n_columns))
    snapped = encoder.encode_codes(encoder.decode_codes(U))
    again = encoder.encode_codes(encoder.decode_codes(snapped))
    assert again.tobytes() == snapped.tobytes()
    allowed = encoder.allowed(encoder.decode_codes(snapped))
    for configuration, fine in zip(encoder.decode(snapped), allowed, strict=True):
        assert is_valid(space, configuration) == fine


@given(st.integers(1, 10**10), st.integers(-9, 6), st.booleans())
def test_a_number_as_one_writes_it_comes_back_the_same(digits, exponent, log):
    value = float(f"{digits}e{exponent - len(str(digits)) + 1}")
    encoder = Encoder({"x": CS.Float("x", (1e-9, 1e7) if log else (0.0, 10 * value), log=log)})
    assert encoder.decode(encoder.encode([{"x": value}])) == [{"x": value}]


@pytest.mark.parametrize("exponent", [15, 16, 17, 20])
def test_large_floats_on_a_log_scale_come_back_the_same(exponent):
    encoder = Encoder({"x": (1.0, 1e21, "log")})
    written = [{"x": float(f"{k}e{exponent}")} for k in range(1, 10)]
    assert encoder.decode(encoder.encode(written)) == written


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("upper", [10**9, 10**12, 10**15, 2**53 - 1, 2**60])
def test_large_integers_are_exact_or_refused(upper, log, rng):
    try:
        encoder = Encoder({"n": CS.Integer("n", (1, upper), log=log)})
    except SpaceError:
        assert upper > 10**12
        return
    configurations = [{"n": int(n)} for n in rng.integers(1, upper, 500, endpoint=True)]
    assert encoder.decode(encoder.encode(configurations)) == configurations


def test_a_space_of_constants_has_one_point_and_no_columns(rng):
    encoder = Encoder({"a": 1, "b": ["only"]})
    X = encoder.encode([{}, {"a": 1, "b": "only"}])
    assert X.shape == (2, 0) and encoder.size == 1
    assert encoder.decode(X) == [{"a": 1, "b": "only"}] * 2
    assert encoder.neighbours(X[0], rng).shape == (0, 0)


def test_choices_may_be_tuples_and_mixed(rng):
    encoder = Encoder({"layers": [(64,), (64, 32), None], "flag": [True, "auto", None]})
    assert encoder.size == 9
    seen = encoder.decode(encoder.sample(200, rng))
    assert {repr(c["layers"]) for c in seen} == {"(64,)", "(64, 32)", "None"}
    assert encoder.decode(encoder.encode(seen)) == seen


# ---------------------------------------------------------------------- what columns mean


def test_columns_and_activity(svm):
    assert svm.names == ("C", "kernel", "size", "tol", "degree", "gamma")  # parents first
    widths = {name: columns.stop - columns.start for name, columns in svm.columns.items()}
    assert widths == {"C": 1, "kernel": 3, "size": 1, "tol": 0, "degree": 1, "gamma": 1}
    assert set(svm.activity) == {"degree", "gamma"}
    covered = [j for s in svm.columns.values() for j in range(s.start, s.stop)]
    assert sorted([*covered, *svm.activity.values()]) == list(range(svm.n_columns))


def test_values_and_activity_are_visible(svm):
    poly = RBF | {"kernel": "poly", "degree": 3, "size": "medium"}
    linear = {"kernel": "linear", "C": 1e3, "size": "small"}
    X = svm.encode([poly, linear])
    assert X[:, svm.columns["C"]].ravel() == pytest.approx([0.5, 1.0])
    assert X[:, svm.columns["kernel"]].tolist() == [[0, 1, 0], [0, 0, 1]]
    assert X[:, svm.columns["size"]].ravel().tolist() == [0.5, 0.0]
    assert X[:, svm.columns["degree"]].ravel() == pytest.approx([1 / 3, 0.5])
    assert X[:, svm.columns["gamma"]].ravel() == pytest.approx([0.6, 0.5])
    assert X[:, svm.activity["degree"]].tolist() == [1, 0]
    assert X[:, svm.activity["gamma"]].tolist() == [1, 0]


@given(spaces(), st.integers(0, 99))
def test_what_is_inactive_stands_in_the_middle(space, seed):
    encoder = Encoder(space)
    X = encoder.sample(20, np.random.default_rng(seed))
    for x, configuration in zip(X, encoder.decode(X), strict=True):
        for j, name in enumerate(encoder.names):
            column = encoder.layout.activity[j]
            assert (column is None) == (not space.parents_of[name])
            assert (name in configuration) == (column is None or x[column] == 1)
            if name not in configuration:
                middle = 0.0 if encoder.parameters[j].width > 1 else 0.5
                assert x[column] == 0 and (x[encoder.layout.values[j]] == middle).all()


def test_facts_about_a_space():
    plain = Encoder({"x": (0.0, 1.0), "n": (1, 5), "c": 3, "k": ["a", "b"]})
    assert (plain.n_tuned, plain.n_numbers, plain.conditional) == (3, 2, False)
    assert plain.size == np.inf and plain.points is None
    conditional = Encoder(make_space({"a": (1, 5), "b": (1, 5)}, when={"b": {"a": (">", 2)}}))
    assert conditional.conditional and conditional.size == 2 + 3 * 5
    assert Encoder({"o": ([1, 2], "ordered")}).n_numbers == 1


def test_the_default_is_the_spaces_own_or_the_nearest_allowed(svm):
    assert svm.default == dict(SVM.get_default_configuration())
    space = make_space({"a": (0, 10), "k": ["x", "y"]})
    moved = Encoder(space, extra_forbidden=[CS.ForbiddenEqualsClause(space["a"], 5)])
    assert moved.default["k"] == "x" and moved.default["a"] in (4, 6)


# ---------------------------------------------------------------------- agreement with ConfigSpace


@given(spaces(), st.integers(0, 99))
def test_samples_are_valid_by_the_values(space, seed):
    encoder = Encoder(space)
    for configuration in encoder.decode(encoder.sample(20, np.random.default_rng(seed))):
        assert is_valid(space, configuration)


@given(spaces(faithful=True), st.integers(0, 99))
def test_configspace_accepts_our_samples(space, seed):
    encoder = Encoder(space)
    for configuration in encoder.decode(encoder.sample(20, np.random.default_rng(seed))):
        assert set(CS.Configuration(space, values=configuration)) == set(configuration)


@given(spaces(faithful=True), st.integers(0, 99))
def test_we_accept_samples_of_configspace(space, seed):
    encoder = Encoder(space)
    codes = encoder.from_unit(np.random.default_rng(seed).random((100, len(space))))
    assume(encoder.allowed(codes).mean() > 0.2)  # ConfigSpace would look for ever
    space.seed(seed)
    theirs = [dict(c) for c in space.sample_configuration(20)]
    theirs = [values for values in theirs if is_valid(space, values)]
    assume(theirs)
    ours = encoder.decode(encoder.encode(theirs))
    for mine, their in zip(ours, theirs, strict=True):
        assert set(mine) == set(their)
        for name, value in their.items():
            exact = not isinstance(value, float)
            assert mine[name] == (value if exact else pytest.approx(value, rel=1e-6, abs=1e-9))


def _sorted(configurations):
    return sorted(repr(sorted(c.items())) for c in configurations)


@given(spaces(finite=True))
def test_points_are_those_of_brute_force(space):
    encoder = Encoder(space)
    found = encoder.decode(encoder.points)
    assert _sorted(found) == _sorted(brute_force(space))
    assert encoder.size == len(found)
    assert encoder.grid(10).tobytes() == encoder.points.tobytes()


def test_points_of_a_log_integer_are_all_integers():
    encoder = Encoder({"n": (1, 40, "log")})
    assert [c["n"] for c in encoder.decode(encoder.points)] == list(range(1, 41))


@given(spaces(finite=True), st.data())
def test_whatever_is_not_a_point_is_refused(space, data):
    encoder = Encoder(space)
    base = data.draw(st.sampled_from(brute_force(space)))
    other = data.draw(st.sampled_from(brute_force(space)))
    names = data.draw(st.sets(st.sampled_from(list(space))))
    mixed = {n: v for n, v in base.items() if n not in names}
    mixed |= {n: v for n, v in other.items() if n in names}
    assume(all(n in mixed or space[n].size > 1 for n in space))  # others may be left out
    if is_valid(space, mixed):
        assert encoder.decode(encoder.encode([mixed])) == [mixed]
    else:
        with pytest.raises(ConfigurationError):
            encoder.encode([mixed])


def _chain() -> CS.ConfigurationSpace:
    return make_space(
        {"a": ["on", "off"], "b": (1, 4), "c": (1, 4)},
        when={"b": {"a": "on"}, "c": {"b": ("!=", 1)}},
    )


def test_an_inactive_parent_is_not_different_from_anything():
    encoder = Encoder(_chain())
    assert encoder.encode([{"a": "off"}]).shape == (1, encoder.n_columns)
    with pytest.raises(ConfigurationError, match="'c' is inactive"):
        encoder.encode([{"a": "off", "c": 2}])
    assert encoder.size == 1 + 1 + 3 * 4


@pytest.mark.parametrize(
    ("kind", "value", "left"),
    [
        (CS.ForbiddenLessThanEqualsClause, 2, [3, 4, None]),
        (CS.ForbiddenGreaterThanEqualsClause, 3, [1, 2, None]),
        (CS.ForbiddenLessThanClause, 2, [2, 3, 4, None]),
        (CS.ForbiddenGreaterThanClause, 3, [1, 2, 3, None]),
        (CS.ForbiddenInClause, [1, 4], [2, 3, None]),
        (CS.ForbiddenEqualsClause, 2, [1, 3, 4, None]),
    ],
)
@pytest.mark.parametrize("spec", [(1, 4), ([1, 2, 3, 4], "ordered")])
def test_clauses_forbid_only_what_is_active(kind, value, left, spec):
    space = make_space({"a": ["on", "off"], "b": spec}, when={"b": {"a": "on"}})
    encoder = Encoder(space, extra_forbidden=[kind(space["b"], value)])
    found = {c.get("b") for c in encoder.decode(encoder.points)}
    assert found == set(left)


@pytest.mark.parametrize(
    ("relation", "forbids"),
    [
        (CS.ForbiddenEqualsRelation, operator.eq),
        (CS.ForbiddenLessThanRelation, operator.lt),
        (CS.ForbiddenLessThanEqualsRelation, operator.le),
        (CS.ForbiddenGreaterThanRelation, operator.gt),
        (CS.ForbiddenGreaterThanEqualsRelation, operator.ge),
    ],
)
def test_relations_compare_values(relation, forbids):
    space = make_space({"a": (1, 4), "b": ([8, 4, 2, 1], "ordered")})  # values, not positions
    encoder = Encoder(space, extra_forbidden=[relation(space["a"], space["b"])])
    found = {(c["a"], c["b"]) for c in encoder.decode(encoder.points)}
    assert found == {(a, b) for a in range(1, 5) for b in (1, 2, 4, 8) if not forbids(a, b)}


def test_or_of_forbidden_clauses_and_relations_of_inactive_ones():
    space = _chain()
    either = CS.ForbiddenOrConjunction(
        CS.ForbiddenEqualsClause(space["a"], "off"),
        CS.ForbiddenLessThanRelation(space["b"], space["c"]),
    )
    encoder = Encoder(space, extra_forbidden=[either])
    found = {(c["b"], c.get("c")) for c in encoder.decode(encoder.points)}
    assert found == {(1, None)} | {(b, c) for b in (2, 3, 4) for c in range(1, b + 1)}


# ---------------------------------------------------------------------- grids and priors


def test_grid_of_a_mixed_space():
    space = make_space(
        {"x": (1.0, 100.0, "log"), "n": (1, 9), "k": ["a", "b", "c"]}, when={"n": {"k": "a"}}
    )
    grid = Encoder(space).decode(Encoder(space).grid(3))
    expected = [{"x": x, "k": "a", "n": n} for x in (1.0, 10.0, 100.0) for n in (1, 5, 9)]
    expected += [{"x": x, "k": k} for x in (1.0, 10.0, 100.0) for k in "bc"]
    assert _sorted(grid) == _sorted(expected)


@given(spaces(), st.integers(1, 4))
def test_grids_are_valid_distinct_and_not_finer_than_asked(space, levels):
    encoder = Encoder(space)
    X = encoder.grid(levels)
    configurations = encoder.decode(X)
    assert len(np.unique(X, axis=0)) == len(X) or encoder.n_columns == 0
    assert all(is_valid(space, c) for c in configurations)
    for name, hp in space.items():
        if not isinstance(hp, CS.CategoricalHyperparameter):
            assert len({c[name] for c in configurations if name in c}) <= levels


def test_a_grid_too_large_is_refused():
    encoder = Encoder({f"x{i}": (0.0, 1.0) for i in range(10)})
    with pytest.raises(SpaceError, match="too large"):
        encoder.grid(10)


def _draws(hp, rng, n=4_000):
    encoder = Encoder({"x": hp})
    return [c["x"] for c in encoder.decode(encoder.sample(n, rng))]


def test_weighted_choices_follow_their_weights(rng):
    hp = CS.CategoricalHyperparameter("x", ["a", "b", "c", "d"], weights=[0, 1, 2, 5])
    counts = Counter(_draws(hp, rng))
    assert counts["a"] == 0
    assert stats.chisquare([counts[k] for k in "bcd"], [500, 1000, 2500]).pvalue > 0.01


@pytest.mark.parametrize(
    ("hp", "distribution"),
    [
        (CS.Float("x", (2.0, 5.0)), stats.uniform(2, 3)),
        (CS.Float("x", (1.0, 100.0), log=True), stats.loguniform(1, 100)),
        (CS.NormalFloatHyperparameter("x", 1, 2, -2, 3), stats.truncnorm(-1.5, 1, 1, 2)),
        (CS.NormalFloatHyperparameter("x", 0.3, 1e-5, 0, 1), stats.norm(0.3, 1e-5)),
        (CS.BetaFloatHyperparameter("x", 3, 2, -1, 4), stats.beta(3, 2, -1, 5)),
    ],
    ids=["uniform", "log", "normal", "narrow", "beta"],
)
def test_floats_follow_their_prior(hp, distribution, rng):
    assert stats.kstest(_draws(hp, rng), distribution.cdf).pvalue > 0.01


@pytest.mark.parametrize(
    ("hp", "distribution"),
    [
        (CS.Integer("x", (1, 6)), stats.uniform(0.5, 6)),
        (CS.Integer("x", (1, 6), log=True), stats.loguniform(0.5, 6.5)),
        (CS.BetaIntegerHyperparameter("x", 1, 1, 1, 6), stats.uniform(0.5, 6)),
        (CS.BetaIntegerHyperparameter("x", 3, 2, 1, 6), stats.beta(3, 2, 0.5, 6)),
    ],
    ids=["uniform", "log", "beta-flat", "beta"],
)
def test_integers_follow_their_prior(hp, distribution, rng):
    counts = Counter(_draws(hp, rng))
    expected = np.diff(distribution.cdf(np.arange(0.5, 7))) * 4_000  # each integer has a bin
    assert stats.chisquare([counts[k] for k in range(1, 7)], expected).pvalue > 0.01


def test_a_normal_integer_peaks_at_its_mean_and_reaches_its_bounds(rng):
    counts = Counter(_draws(CS.NormalIntegerHyperparameter("x", 3, 2, 1, 6), rng))
    assert counts.most_common(1)[0][0] == 3
    assert counts[1] > 0.12 * 4_000 and counts[6] > 0.06 * 4_000  # ConfigSpace: 0.16, 0.09


def test_samples_repeat_by_seed_and_have_the_size_asked(svm):
    first = svm.sample(50, np.random.default_rng(1))
    assert first.shape == (50, svm.n_columns)
    assert first.tobytes() == svm.sample(50, np.random.default_rng(1)).tobytes()
    assert first.tobytes() != svm.sample(50, np.random.default_rng(2)).tobytes()


# ---------------------------------------------------------------------- identity


@given(spaces())
def test_the_fingerprint_survives_copies_json_and_pickle(space):
    encoder = Encoder(space)
    data = json.loads(json.dumps(encoder.description))
    assert data == encoder.description
    restored = CS.ConfigurationSpace.from_serialized_dict(data)
    for same in (copy.deepcopy(space), restored, pickle.loads(pickle.dumps(encoder)).space):
        assert Encoder(same).fingerprint == encoder.fingerprint


def test_the_fingerprint_changes_with_anything():
    base = {"x": (0.0, 1.0), "n": (1, 5), "k": ["a", "b"], "o": ([1, 2, 3], "ordered"), "c": 1}
    when, forbid = {"n": {"k": "a"}}, [{"k": "b", "o": 3}]
    weighted = CS.CategoricalHyperparameter("k", ["a", "b"], weights=[1, 2])
    variants = [
        make_space(base),
        make_space(base, when=when),
        make_space(base, when={"n": {"k": "b"}}),
        make_space(base, when={"n": {"k": ["a", "b"]}}),
        make_space(base, forbid=forbid),
        make_space(base, forbid=[{"k": "b", "o": 2}]),
        make_space(base, when=when, forbid=forbid),
        make_space(base, defaults={"x": 0.25}),
        *(
            make_space(base | change)
            for change in (
                {"x": (0.0, 2.0)},
                {"x": (0.5, 1.0)},
                {"x": (0.5, 1.0, "log")},
                {"n": (1, 6)},
                {"n": (1.0, 5.0)},
                {"k": ["b", "a"]},
                {"k": ["a", "b", "z"]},
                {"k": (["a", "b"], "ordered")},
                {"k": weighted},
                {"o": ([1, 3, 2], "ordered")},
                {"c": 2},
                {"c": "1"},
                {"c": True},
                {"new": (0.0, 1.0)},
            )
        ),
    ]
    prints = [Encoder(space).fingerprint for space in variants]
    assert len(set(prints)) == len(variants)


def test_the_fingerprint_ignores_the_name_and_the_order_of_writing():
    one = make_space({"x": (0.0, 1.0), "k": ["a", "b"]}, name="one")
    two = make_space({"k": ["a", "b"], "x": (0.0, 1.0)}, name="two")
    assert Encoder(one).fingerprint == Encoder(two).fingerprint


def test_a_pickled_encoder_does_the_same(svm):
    again = pickle.loads(pickle.dumps(svm))
    X = svm.sample(20, np.random.default_rng(3))
    assert again.sample(20, np.random.default_rng(3)).tobytes() == X.tobytes()
    assert again.decode(X) == svm.decode(X)


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depth": 3}, "unknown hyperparameter 'depth'.*C.*kernel"),
        ({"degree": 3}, "'degree' is inactive"),
        ({"C": None}, "'C' must be a number"),
        ({"C": float("nan")}, "'C' must be a number"),
        ({"C": float("inf")}, "'C' must be a number"),
        ({"C": 1e-5}, "'C' must be a number"),
        ({"C": 0.0}, "'C' must be a number"),
        ({"C": -1.0}, "'C' must be a number"),
        ({"C": 1001.0}, "'C' must be a number"),
        ({"C": 10**400}, "'C' must be a number"),
        ({"C": "1.0"}, "'C' must be a number"),
        ({"C": True}, "'C' must be a number"),
        ({"C": [1.0, 2.0]}, "'C' must be a number"),
        ({"C": 1j}, "'C' must be a number"),
        ({"kernel": "sigmoid"}, "'kernel' must be one of .*rbf.*sigmoid"),
        ({"kernel": 0}, "'kernel' must be one of"),
        ({"size": "huge"}, "'size' must be one of"),
        ({"tol": 1.0}, "'tol' must be one of"),
        ({"kernel": "poly", "degree": 2.5}, "'degree' must be an integer"),
        ({"kernel": "poly", "degree": True}, "'degree' must be an integer"),
        ({"kernel": "poly", "degree": 6}, "'degree' must be an integer"),
        ({"kernel": "poly", "degree": float("nan")}, "'degree' must be an integer"),
        ({"kernel": "poly", "degree": "3"}, "'degree' must be an integer"),
    ],
    ids=str,
)
def test_a_bad_value_gets_an_error_that_names_it(svm, change, message):
    with pytest.raises(ConfigurationError, match=message):
        svm.encode([RBF, RBF | change])


@pytest.mark.parametrize("missing", ["C", "kernel", "gamma", "size"])
def test_a_missing_value_is_an_error(svm, missing):
    configuration = {name: value for name, value in RBF.items() if name != missing}
    with pytest.raises(ConfigurationError, match=f"'{missing}'|'gamma'"):
        svm.encode([configuration])


def test_a_forbidden_combination_is_an_error(svm):
    bad = {"kernel": "linear", "C": 1.0, "size": "large", "tol": 1e-3}
    with pytest.raises(ForbiddenValueError):
        CS.Configuration(SVM, values=bad)
    with pytest.raises(ConfigurationError, match="forbidden"):
        svm.encode([bad])


def test_an_inactive_value_is_an_error_whatever_it_is():
    space = make_space({"k": ["x", "y"], "a": (1e-5, 1e7, "log")}, when={"a": {"k": "x"}})
    with pytest.raises(InactiveHyperparameterSetError):
        CS.Configuration(space, values={"k": "y", "a": 1.0})
    for value in (1.0, 0.0, 1e-6):
        with pytest.raises(ConfigurationError, match="'a'"):
            Encoder(space).encode([{"k": "y", "a": value}])


def test_a_value_far_below_a_log_range_is_out_of_range():
    encoder = Encoder({"a": (1e-5, 1e7, "log")})
    assert encoder.decode(encoder.encode([{"a": 1e-5 * (1 - 1e-13)}])) == [{"a": 1e-5}]
    for value in (1e-6, 0.0, -1e-5):
        with pytest.raises(ConfigurationError, match="'a' must be a number"):
            encoder.encode([{"a": value}])


def test_true_is_not_one():
    assert Encoder({"k": [True, False]}).decode(np.array([[1.0, 0.0]])) == [{"k": True}]
    for spec, value in (([True, False], 1), ([0, 1], True), ([True, False], "True")):
        with pytest.raises(ConfigurationError, match="'k' must be one of"):
            Encoder({"k": spec}).encode([{"k": value}])


def test_numpy_values_are_as_good_as_plain_ones(svm):
    given_ = {
        "kernel": np.str_("poly"),
        "C": np.float64(1.0),
        "gamma": np.float32(0.5),
        "degree": np.int64(3),
        "size": "small",
    }
    (decoded,) = svm.decode(svm.encode([given_]))
    assert decoded == {**RBF, "kernel": "poly", "gamma": 0.5, "degree": 3}
    assert [type(decoded[n]) for n in ("kernel", "C", "degree")] == [str, float, int]


@pytest.mark.parametrize("nothing", [{}, CS.ConfigurationSpace()], ids=["dict", "ConfigSpace"])
def test_an_empty_space_is_refused(nothing):
    with pytest.raises(SpaceError, match="no hyperparameters"):
        Encoder(nothing)


@pytest.mark.parametrize("nonsense", [None, 3, "x", [("x", (0, 1))]], ids=str)
def test_what_is_no_space_is_refused(nonsense):
    with pytest.raises(SpaceError, match="dict"):
        Encoder(nonsense)


def test_a_space_without_a_valid_point_is_refused():
    space = make_space({"a": ["x", "y"], "b": (0.0, 1.0)})
    everything = CS.ForbiddenInClause(space["a"], ["x", "y"])
    with pytest.raises(SpaceError, match="forbidden clauses exclude"):
        Encoder(space, extra_forbidden=[everything])


def test_errors_are_value_errors_of_ours():
    for kind in (SpaceError, ConfigurationError):
        assert issubclass(kind, ValueError) and issubclass(kind, RankwiseError)


def test_the_only_allowed_configuration_of_a_finite_space_is_found(rng):
    space = make_space(
        {"a": list(range(40)), "b": list(range(40))},
        forbid=[{"a": list(range(39))}, {"b": list(range(39))}],
    )
    encoder = Encoder(space)
    assert encoder.default == {"a": 39, "b": 39} and encoder.size == 1
    assert encoder.decode(encoder.sample(3, rng)) == [encoder.default] * 3


def test_choices_that_are_functions_have_stable_names():
    encoder = Encoder({"score": [np.mean, np.median]})
    assert "0x" not in str(encoder.description)
    assert encoder.encode([{"score": np.median}]).tolist() == [[0.0, 1.0]]
