"""CommonSpace: from parameters to the cube and back, exactly, for whatever studies did."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

import rankwise
from archive.past import SPACE, past
from rankwise.archive import CommonSpace
from rankwise.errors import SpaceError
from rankwise.history.task import FAILED, OK

KERNEL = CategoricalDistribution(["rbf", "poly", "linear"])
GAMMA = FloatDistribution(1e-3, 10.0, log=True)


def same(a, b) -> bool:
    """Equal, types included; floats to the twelve digits that the encoder keeps."""
    if isinstance(a, float) and not math.isnan(a):
        return type(b) is float and math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return type(a) is type(b) and repr(a) == repr(b)


@st.composite
def distributions(draw: st.DrawFn) -> BaseDistribution:
    kind = draw(st.sampled_from(["float", "log", "step", "int", "int log", "int step", "choice"]))
    low = draw(st.integers(-50, 50))
    width = draw(st.integers(0, 40))
    if kind == "float":
        return FloatDistribution(low / 8, (low + width) / 8)
    if kind == "log":
        return FloatDistribution(10.0**-8, 10.0 ** (low % 4), log=True)
    if kind == "step":
        step = draw(st.sampled_from([0.1, 0.25, 1.0, 3.0]))
        return FloatDistribution(round(low * step, 9), round((low + width) * step, 9), step=step)
    if kind == "int":
        return IntDistribution(low, low + width)
    if kind == "int log":
        return IntDistribution(abs(low) + 1, abs(low) + 1 + width, log=True)
    if kind == "int step":
        step = draw(st.integers(2, 7))
        return IntDistribution(low, low + width * step, step=step)
    values = [None, True, False, 0, 1, 2.5, "1", "None", "a b", "ü"]
    return CategoricalDistribution(
        draw(st.lists(st.sampled_from(values), min_size=1, unique_by=repr))
    )


@st.composite
def values(draw: st.DrawFn, distribution: BaseDistribution):
    if isinstance(distribution, CategoricalDistribution):
        return draw(st.sampled_from(distribution.choices))
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high = distribution.low, distribution.high
    if distribution.step is not None:
        k = draw(st.integers(0, round((high - low) / distribution.step)))
        return min(low + k * distribution.step, high)
    return draw(st.floats(low, high))


@given(st.data())
def test_the_way_there_and_back_is_exact(data):
    names = [f"p {k}" for k in range(data.draw(st.integers(1, 5)))]
    space = {name: data.draw(distributions()) for name in names}
    trials = [
        {name: data.draw(values(space[name])) for name in names if data.draw(st.integers(0, 3))}
        for _ in range(data.draw(st.integers(0, 6)))
    ]
    common, left_out = CommonSpace.of([past("a", space, trials)])
    assert not left_out and set(common.distributions) == set(names)
    X = common.encode(trials)
    assert X.shape == (len(trials), common.encoder.n_columns)
    assert X.min(initial=0.0) >= 0.0 and X.max(initial=1.0) <= 1.0
    seen = {name for trial in trials for name in trial}
    for trial, row in zip(trials, X, strict=True):
        decoded = common.decode(row)
        # A parameter that no trial had is not known to be conditional.
        assert {n for n in decoded if n in seen} == set(trial)
        assert all(same(trial[n], decoded[n]) for n in trial)


@given(st.data(), st.integers(0, 99))
def test_any_row_decodes_to_legal_values(data, seed):
    names = [f"p{k}" for k in range(data.draw(st.integers(1, 4)))]
    space = {name: data.draw(distributions()) for name in names}
    common = CommonSpace(space)
    rng = np.random.default_rng(seed)
    rows = [*common.encoder.sample(5, rng), *rng.random((5, common.encoder.n_columns))]
    for row in rows:
        decoded = common.decode(row)
        assert set(decoded) == set(names)
        for name, value in decoded.items():
            distribution = space[name]
            assert distribution._contains(distribution.to_internal_repr(value))
            if not isinstance(distribution, CategoricalDistribution):
                assert type(value) is (int if isinstance(distribution, IntDistribution) else float)


# ---------------------------------------------------------------------- conditions


def conditional() -> CommonSpace:
    trials = [
        {"kernel": "rbf", "gamma": 0.1},
        {"kernel": "poly", "gamma": 1.0},
        {"kernel": "linear"},
    ]
    common, _ = CommonSpace.of([past("a", {"kernel": KERNEL, "gamma": GAMMA}, trials)])
    return common


def test_a_condition_on_a_parent_needs_no_switch():
    common = conditional()
    assert set(common.encoder.names) == {"kernel", "gamma"}
    assert set(common.encoder.activity) == {"gamma"}
    rows = common.encoder.sample(50, np.random.default_rng(0))
    for params in map(common.decode, rows):
        assert ("gamma" in params) == (params["kernel"] != "linear")
    assert common.condition_text("gamma") == "if kernel is 'rbf' or 'poly'"


def test_a_parameter_that_a_study_lacks_altogether_gets_a_switch_that_nobody_sees():
    x, y = FloatDistribution(0, 1), IntDistribution(0, 9)
    studies = [
        past("a", {"x": x}, [{"x": 0.1}, {"x": 0.2}]),
        past("b", {"x": x, "y": y}, [{"x": 0.1, "y": 3}, {"x": 0.2, "y": 4}]),
    ]
    common, _ = CommonSpace.of(studies)
    assert set(common.encoder.names) == {"x", "y", "y?"} and set(common.distributions) == {
        "x",
        "y",
    }
    for study in studies:
        assert [common.decode(row) for row in common.encode(study.params)] == study.params
    [switch] = [common.encoder.columns["y?"]]
    assert common.encode([{"x": 0.1}, {"x": 0.1, "y": 3}])[:, switch].ravel().tolist() == [0, 1]


def test_a_study_without_the_parent_is_explained_by_it():
    studies = [
        past("a", {"kernel": KERNEL, "C": GAMMA}, [{"kernel": "linear", "C": 1.0}]),
        past(
            "b",
            {"kernel": KERNEL, "gamma": GAMMA, "C": GAMMA},
            [{"kernel": "rbf", "gamma": 1.0, "C": 1.0}],
        ),
    ]
    common, _ = CommonSpace.of(studies)
    assert common.conditions["gamma"].parent == "kernel"


def test_a_failed_trial_does_not_make_a_parameter_conditional():
    study = past(
        "a",
        {"x": GAMMA, "y": GAMMA},
        [{"x": 1.0, "y": 1.0}, {"x": 1.0}],
        [1.0, math.nan],
        status=[OK, FAILED],
    )
    common, _ = CommonSpace.of([study])
    assert common.conditions == {}
    assert common.complete(study.params).tolist() == [True, False]


def test_complete_follows_conditions():
    common = conditional()
    trials = [{"kernel": "linear"}, {"kernel": "rbf"}, {"kernel": "linear", "gamma": 1.0}, {}]
    assert common.complete(trials).tolist() == [True, False, False, False]


# ---------------------------------------------------------------------- what does not fit


def test_whatever_was_evaluated_has_a_place():
    common = conditional()
    trials = [
        {"kernel": "rbf", "gamma": 1e9, "unknown": object()},
        {"kernel": "rbf", "gamma": -5.0},
        {"kernel": "cosine"},
        {"kernel": "rbf", "gamma": "text"},
        {"kernel": "rbf", "gamma": math.inf},
    ]
    X = common.encode(trials)
    gamma = X[:, common.encoder.columns["gamma"]].ravel()
    assert gamma.tolist() == [1.0, 0.0, 0.5, 0.5, 1.0]
    assert X[2, common.encoder.columns["kernel"]].tolist() == [0, 0, 0]
    assert [common.encodable(t) for t in trials] == [True, True, False, False, True]
    assert common.encode([]).shape == (0, common.encoder.n_columns)


def test_a_number_off_the_grid_keeps_its_place_but_is_decoded_to_the_grid():
    studies = [past("a", {"x": FloatDistribution(0, 1)}, [{"x": 0.33}])]
    common, _ = CommonSpace.of(studies, {"x": FloatDistribution(0, 1, step=0.25)})
    [row] = common.encode([{"x": 0.33}])
    assert row.tolist() == [0.33]
    assert common.decode(row) == {"x": 0.25}


def test_parameters_with_one_value_are_fine():
    space = {
        "a": FloatDistribution(1.5, 1.5),
        "b": IntDistribution(3, 3),
        "c": CategoricalDistribution([None]),
    }
    trials = [{"a": 1.5, "b": 3, "c": None}]
    common, _ = CommonSpace.of([past("s", space, trials)])
    assert [repr(common.decode(row)) for row in common.encode(trials)] == [repr(trials[0])]
    assert common.restricted(space).decode(common.encode(trials)[0]) == trials[0]


def test_without_any_parameter_there_is_no_space():
    with pytest.raises(SpaceError, match="without parameters"):
        CommonSpace.of([])


def test_a_search_space_alone_is_a_space():
    common, _ = CommonSpace.of([], SPACE)
    assert common.distributions == SPACE


def test_what_only_the_search_space_has_is_always_active():
    trials = [{"x": 0.5}]
    common, _ = CommonSpace.of(
        [past("a", {"x": FloatDistribution(0, 1)}, trials)], {"new": IntDistribution(0, 3)}
    )
    assert common.conditions == {} and set(common.distributions) == {"x", "new"}


def test_params_without_a_distribution_are_ignored():
    study = past("a", {"x": FloatDistribution(0, 1)}, [{"x": 0.5, "other": "?"}])
    common, _ = CommonSpace.of([study])
    assert common.decode(common.encode(study.params)[0]) == {"x": 0.5}


def test_very_small_log_ranges_are_cut():
    common = CommonSpace({"x": FloatDistribution(1e-20, 1.0, log=True)})
    assert common.decode(common.encode([{"x": 1e-15}])[0]) == {"x": pytest.approx(1e-12)}


# ---------------------------------------------------------------------- narrower spaces


def test_covers():
    common = CommonSpace(SPACE)
    assert common.covers(SPACE) and common.covers({}) and not common.covers({"new": GAMMA})
    assert common.covers({"unusual": IntDistribution(0, 2**62)})
    assert common.covers({"lr": FloatDistribution(0.1, 0.2)})
    assert common.covers({"optimizer": CategoricalDistribution(["adam"])})
    assert not common.covers({"lr": FloatDistribution(1e-5, 0.2, log=True)})
    assert not common.covers({"lr": FloatDistribution(0.1, 1.1)})
    assert not common.covers({"layers": FloatDistribution(1, 2)})
    assert not common.covers({"layers": CategoricalDistribution([1, 2])})
    assert not common.covers({"optimizer": CategoricalDistribution(["adam", "lion"])})


def test_a_grid_covers_what_is_on_it():
    common = CommonSpace({"x": FloatDistribution(0, 1, step=0.1), "n": IntDistribution(8, 64)})
    assert common.covers({"x": FloatDistribution(0.2, 0.6, step=0.2)})
    assert not common.covers({"x": FloatDistribution(0.25, 0.75, step=0.1)})
    assert not common.covers({"x": FloatDistribution(1e-10, 1e-9)})
    assert common.covers({"n": IntDistribution(8, 64, step=8)})
    common = CommonSpace({"n": IntDistribution(8, 64, step=8)})
    assert common.covers({"n": IntDistribution(16, 64, step=16)})
    assert not common.covers({"n": IntDistribution(8, 64)})


def test_a_range_that_cannot_be_logarithmic_covers_a_logarithmic_one():
    common = CommonSpace({"n": IntDistribution(1, 2**45)})
    assert common.covers({"n": IntDistribution(1, 64, log=True)})


def test_true_does_not_cover_one():
    common = CommonSpace({"flag": CategoricalDistribution([True, False])})
    assert not common.covers({"flag": CategoricalDistribution([1, 0])})
    assert not common.encodable({"flag": 1}) and common.encodable({"flag": True})


def test_restricted_proposals_stay_inside_and_the_past_stays_where_it_was():
    common = CommonSpace(SPACE)
    narrow = common.restricted(
        {
            "lr": FloatDistribution(0.01, 0.1),
            "layers": IntDistribution(1, 5, step=2),
            "optimizer": CategoricalDistribution(["adam"]),
            "new": GAMMA,
        }
    )
    assert narrow.encoder.fingerprint == common.encoder.fingerprint
    for params in map(narrow.decode, narrow.encoder.sample(50, np.random.default_rng(0))):
        assert 0.01 <= params["lr"] <= 0.1 and params["layers"] in (1, 3, 5)
        assert params["optimizer"] == "adam"
    outside = [{"lr": 1.0, "layers": 2, "optimizer": "sgd", "momentum": 0.5}]
    assert narrow.encode(outside).tobytes() == common.encode(outside).tobytes()
    assert common.decode(common.encode(outside)[0]) == outside[0]  # itself unchanged


def test_restricting_decides_the_switches():
    x, y = FloatDistribution(0, 1), FloatDistribution(0, 1)
    common, _ = CommonSpace.of(
        [past("a", {"x": x}, [{"x": 0.1}]), past("b", {"x": x, "y": y}, [{"x": 0.1, "y": 0.2}])]
    )
    rng = np.random.default_rng(0)
    proposed = [set(common.decode(row)) for row in common.encoder.sample(50, rng)]
    assert {"x"} in proposed and {"x", "y"} in proposed
    with_y, without = common.restricted({"x": x, "y": y}), common.restricted({"x": x})
    assert all("y" in with_y.decode(row) for row in with_y.encoder.sample(20, rng))
    assert not any("y" in without.decode(row) for row in without.encoder.sample(20, rng))


def test_restricting_decides_the_parents_that_a_study_does_not_have():
    rng, common = np.random.default_rng(0), conditional()
    narrow = common.restricted({"gamma": GAMMA})
    for params in map(narrow.decode, narrow.encoder.sample(20, rng)):
        assert params["kernel"] in ("rbf", "poly") and "gamma" in params
    both = common.restricted({"gamma": GAMMA, "kernel": KERNEL})
    assert not all("gamma" in both.decode(row) for row in both.encoder.sample(20, rng))


def layered() -> CommonSpace:
    unit = IntDistribution(1, 9)
    space = {"layers": IntDistribution(1, 4), **{f"units_{k}": unit for k in range(4)}}
    trials = [
        {"layers": n, **{f"units_{k}": 5 for k in range(n)}} for n in (1, 2, 3, 4, 4, 2, 1, 3)
    ]
    return CommonSpace.of([past("a", space, trials)])[0]


def test_an_integer_decides_what_is_active():
    common = layered()
    assert common.condition_text("units_2") == "if layers > 2"
    assert common.condition_text("units_0") == ""
    rows = common.encoder.sample(40, np.random.default_rng(0))
    for found in map(common.decode, rows):
        assert set(found) == {"layers", *(f"units_{k}" for k in range(found["layers"]))}


def test_restricting_decides_an_integer_that_a_study_does_not_have():
    common = layered()
    narrow = common.restricted({name: common.distributions[name] for name in ("units_2",)})
    rows = narrow.encoder.sample(40, np.random.default_rng(0))
    assert {narrow.decode(row)["layers"] for row in rows} == {3, 4}


def test_children_that_exclude_each_other_leave_something():
    trials = [{"kernel": "rbf", "a": 1.0}, {"kernel": "poly", "b": 1.0}]
    space = {"kernel": KERNEL, "a": GAMMA, "b": GAMMA}
    common, _ = CommonSpace.of([past("s", space, trials)])
    narrow = common.restricted({"a": GAMMA, "b": GAMMA})
    decoded = narrow.decode(narrow.encoder.sample(1, np.random.default_rng(0))[0])
    assert set(decoded) == {"kernel", "a"}


def test_a_restricted_space_speaks_as_the_study_does():
    common = CommonSpace({"c": CategoricalDistribution([1, 2, True])})
    narrow = common.restricted({"c": CategoricalDistribution([2.0, True])})
    rows = narrow.encoder.sample(20, np.random.default_rng(0))
    assert {repr(narrow.decode(row)["c"]) for row in rows} == {"2.0", "True"}


def test_a_choice_that_is_listed_twice_is_one():
    common, _ = CommonSpace.of([past("a", {"c": CategoricalDistribution(["a", "a", "b"])}, [])])
    assert common.distributions["c"].choices == ("a", "b")


@pytest.mark.parametrize("method", ["tpe", "random", "forest"])
def test_methods_propose_on_the_grid(method):
    space = {"x": FloatDistribution(0.1, 0.7, step=0.1), "n": IntDistribution(2, 20, step=3)}
    common = CommonSpace(space).restricted({"x": FloatDistribution(0.2, 0.6, step=0.2)})
    optimizer = rankwise.Optimizer(common.encoder, method=method, seed=0)
    for _ in range(6):
        [configuration] = optimizer.ask()
        assert round(configuration["x"], 9) in (0.2, 0.4, 0.6)
        assert configuration["n"] in range(2, 21, 3)
        optimizer.tell(configuration, configuration["x"])


def test_restricting_to_another_kind_is_an_error():
    with pytest.raises(SpaceError, match="'layers' is an integer and not categorical"):
        CommonSpace(SPACE).restricted({"layers": CategoricalDistribution([1])})


# ---------------------------------------------------------------------- what a study lacks


def test_a_typical_value_that_is_not_legal_is_fixed_at_the_nearest_one():
    """Good trials of studies that have a parameter as a float, where most have an integer."""
    common = CommonSpace({"n": IntDistribution(0, 8, step=4), "x": FloatDistribution(0, 1)})
    rng = np.random.default_rng(0)
    for value, nearest in ((9e-6, 0), (3.2, 4), (100.0, 8)):
        narrow = common.restricted({"x": FloatDistribution(0, 1)}, {"n": value})
        assert {narrow.decode(row)["n"] for row in narrow.encoder.sample(5, rng)} == {nearest}


def test_what_a_study_lacks_is_fixed():
    params = [
        {"kernel": "rbf", "gamma": 0.1, "C": 1.0},
        {"kernel": "poly", "C": 3.0},
        {"kernel": "rbf", "gamma": 1.0, "C": 9.0},
    ]
    space, _ = CommonSpace.of(
        [past("a", {"kernel": KERNEL, "gamma": GAMMA, "C": FloatDistribution(0.0, 10.0)}, params)]
    )
    assert space.typical(params) == {"kernel": "rbf", "gamma": 0.1, "C": 3.0}
    odd = [{"C": "large"}, {"C": math.nan}, {"C": 7.0}, {"C": None}]
    assert space.typical(odd) == {"C": 7.0} and space.typical(odd[:2]) == {}
    assert space.unasked([]) == [] and space.unasked(params) == []
    assert space.unasked([{"kernel": "poly"}]) == ["C"]
    assert set(space.unasked([{"kernel": "rbf"}])) == {"C", "gamma"}
    narrow = space.restricted({"kernel": KERNEL}, {"C": 3.0, "gamma": 0.1})
    rng = np.random.default_rng(0)
    proposed = [narrow.decode(row) for row in narrow.encoder.sample(50, rng)]
    assert {p["kernel"] for p in proposed} == {"rbf", "poly", "linear"}
    for one in proposed:
        assert one["C"] == pytest.approx(3.0) and one.get("gamma", 0.1) == pytest.approx(0.1)
        mine = {"kernel": one["kernel"]}
        assert (narrow.encode([mine]) == narrow.encode([one])).all()
        assert (narrow.encode([{**one, "C": 7.0}]) == narrow.encode([mine])).all()
    assert (space.encode([{"kernel": "rbf"}]) != narrow.encode([{"kernel": "rbf"}])).any()


def test_a_parent_that_a_study_lacks_goes_with_its_children():
    params = [{"kernel": k, **({"gamma": 0.1} if k == "rbf" else {})} for k in KERNEL.choices]
    space, _ = CommonSpace.of([past("a", {"kernel": KERNEL, "gamma": GAMMA}, params)])
    narrow = space.restricted({"gamma": GAMMA}, {"kernel": "poly"})  # with which there is no gamma
    row = narrow.encode([{"gamma": 0.5}])[0]
    assert narrow.decode(row) == {"kernel": "rbf", "gamma": pytest.approx(0.5)}
