"""The dict shorthand: what each form means, and one clear error for each mistake."""

from __future__ import annotations

import ConfigSpace as CS
import numpy as np
import pytest
from ConfigSpace.hyperparameters import (
    UniformFloatHyperparameter,
    UniformIntegerHyperparameter,
)
from scipy import stats

from rankwise.errors import SpaceError
from rankwise.space.encoder import Encoder
from rankwise.space.shorthand import make_space

BASE = {"k": ["a", "b", "c"], "n": (1, 9), "x": (0.1, 1.0), "o": (["low", "high"], "ordered")}


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ((1, 9), UniformIntegerHyperparameter),
        ((1, 9, "log"), UniformIntegerHyperparameter),
        ((1, 9.5), UniformFloatHyperparameter),
        ((1.0, 9.0, "log"), UniformFloatHyperparameter),
        ((-3.0, 9.0), UniformFloatHyperparameter),
        (["a", "b"], CS.CategoricalHyperparameter),
        ([True, False], CS.CategoricalHyperparameter),
        (["a"], CS.Constant),
        ((["a", "b"], "ordered"), CS.OrdinalHyperparameter),
        ("fixed", CS.Constant),
        (0.5, CS.Constant),
        (True, CS.Constant),
        (None, CS.Constant),
        (CS.BetaFloatHyperparameter("p", 2, 2, 0, 1), CS.BetaFloatHyperparameter),
    ],
    ids=str,
)
def test_each_form_has_its_kind(spec, kind):
    hp = make_space({"p": spec})["p"]
    assert type(hp) is kind
    if isinstance(spec, tuple) and isinstance(spec[0], int | float):
        assert (hp.lower, hp.upper, hp.log) == (*spec[:2], "log" in spec)
    configuration = Encoder({"p": spec}).default
    assert Encoder({"p": spec}).encode([configuration]).shape[0] == 1


@pytest.mark.parametrize(
    ("test", "active"),
    [
        ({"n": 3}, [3]),
        ({"n": [2, 5]}, [2, 5]),
        ({"n": (">", 7)}, [8, 9]),
        ({"n": ("<", 3)}, [1, 2]),
        ({"n": ("==", 4)}, [4]),
        ({"n": ("!=", 4)}, [1, 2, 3, 5, 6, 7, 8, 9]),
        ([{"n": 1}, {"n": (">", 8)}], [1, 9]),
        ([{"n": 2}], [2]),
        ({"n": [1, 2], "k": "a"}, [1, 2]),
        ({"n": [1, 2], "k": "b"}, []),
        ([{"n": [1, 2], "k": "b"}, {"k": "a", "n": 6}], [6]),
    ],
    ids=str,
)
def test_when(test, active):
    encoder = Encoder(make_space(BASE | {"child": 7}, when={"child": test}))
    rows = [{"k": "a", "n": n, "x": 0.5, "o": "low"} for n in range(1, 10)]
    found = encoder.decode(encoder.encode(rows))  # a constant may be left out
    assert [c["n"] for c in found if "child" in c] == active


def test_conditions_may_be_nested_and_written_in_any_order():
    space = make_space(
        {"c": (0.0, 1.0), "b": ["on", "off"], "a": ["on", "off"]},
        when={"c": {"b": "on"}, "b": {"a": "on"}},
    )
    assert list(space) == ["a", "b", "c"]
    sizes = {len(c) for c in Encoder(space).decode(Encoder(space).grid(2))}
    assert sizes == {1, 2, 3}


def test_forbid_excludes_combinations_and_only_those():
    parameters = {"k": ["a", "b", "c"], "n": (1, 4)}
    encoder = Encoder(make_space(parameters, forbid=[{"k": "a", "n": [1, 2]}, {"n": 4}]))
    found = {(c["k"], c["n"]) for c in encoder.decode(encoder.points)}
    assert found == {(k, n) for k in "abc" for n in (1, 2, 3)} - {("a", 1), ("a", 2)}


def test_defaults():
    wanted = {"k": "c", "n": 2, "x": 0.25, "o": "high"}
    assert Encoder(make_space(BASE, defaults=wanted)).default == wanted
    assert Encoder(make_space(BASE)).default == {"k": "a", "n": 5, "x": 0.55, "o": "low"}


def test_a_forbidden_default_moves_to_the_nearest_allowed_one():
    space = make_space(BASE, forbid=[{"k": ["a", "b"]}, {"n": 5, "o": "low"}])
    default = dict(space.get_default_configuration())
    assert default == Encoder(space).default
    assert default["k"] == "c" and (default["n"], default["o"]) != (5, "low")


def test_forbid_reaches_inactive_defaults():
    space = make_space(
        {"k": ["a", "b"], "n": (1, 3)}, when={"n": {"k": "b"}}, forbid=[{"k": "a"}, {"n": [2, 3]}]
    )
    assert Encoder(space).decode(Encoder(space).points) == [{"k": "b", "n": 1}]


def test_the_name_is_kept():
    assert make_space(BASE, name="mine").name == "mine"


@pytest.mark.parametrize(
    "spec",
    [
        (5, 5),
        (9, 1),
        (1.0, float("nan")),
        (0.0, float("inf")),
        (float("-inf"), 0.0),
        (-1e308, 1e308),
        (0, 10, "log"),
        (-1.0, 1.0, "log"),
        (1e-13, 1.0, "log"),
        (0.0, 1e-14),
        (1,),
        (),
        (1, 2, 3),
        (1, 2, "linear"),
        (1, 2, "ordered"),
        ("a", "b"),
        (False, True),
        (None, 3),
        ([1, 2], "log"),
        ([1, 2],),
        ([], "ordered"),
        ([1, 1], "ordered"),
        [],
        ["a", "a"],
        [True, 1],
        CS.Float("other", (0, 1)),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of ConfigSpace
def test_a_bad_hyperparameter_is_named(spec):
    with pytest.raises(SpaceError, match="'bad'"):
        make_space({"fine": (0, 1), "bad": spec})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ((9, 1), r"'bad'.*\[9, 1\] is empty"),
        ((0, 10, "log"), r"'bad'.*above 0, not at 0"),
        ((1e-13, 1.0, "log"), r"'bad'.*above 1e-12"),
        ([], r"'bad'.*choices is empty"),
        (["a", "a"], r"'bad'.*'a' is listed twice"),
        (("a", "b"), r"'bad'.*choices are a list"),
        (([1, 2], "log"), r"'bad'.*\(choices, \"ordered\"\)"),
    ],
    ids=str,
)
def test_the_message_says_what_is_wrong(spec, message):
    with pytest.raises(SpaceError, match=message):
        make_space({"bad": spec})


@pytest.mark.parametrize("name", [1, None, ("a",)])
def test_a_name_must_be_a_string(name):
    with pytest.raises(SpaceError, match=r"(?i)name must be a string"):
        make_space({name: (0, 1)})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"when": {"y": {"k": "a"}}}, "when names 'y'.*k, n, o, x"),
        ({"when": {"x": {"y": "a"}}}, "'x' names 'y'.*k, n, o, x"),
        ({"when": {"x": {"k": "z"}}}, "'x' on 'k'"),
        ({"when": {"x": {"k": ["a", "z"]}}}, "'x' on 'k'"),
        ({"when": {"x": {"k": (">", "a")}}}, "'x' on 'k'"),
        ({"when": {"x": {"n": ("~", 2)}}}, "'x' on 'n'.*== != < >"),
        ({"when": {"x": {"n": (">", 2, 3)}}}, "'x' on 'n'"),
        ({"when": {"x": {"n": 99}}}, "'x' on 'n'"),
        ({"when": {"x": {"x": 0.5}}}, "'x' cannot be its own condition"),
        ({"when": {"x": "rbf"}}, "condition of 'x'"),
        ({"when": {"x": {}}}, "condition of 'x'"),
        ({"when": {"x": []}}, "condition of 'x'"),
        ({"when": {"x": None}}, "condition of 'x'"),
        ({"when": {"n": {"k": "a"}, "k": {"n": 3}}}, "'n', 'k'.*cycle"),
        (
            {"when": {"n": {"k": "a"}, "k": {"o": "low"}, "o": {"n": 3}}},
            "'n', 'k', 'o'.*cycle",
        ),
        ({"forbid": [{"y": 1}]}, "forbidden combination names 'y'.*k, n, o, x"),
        ({"forbid": [{"k": "z"}]}, "'k'"),
        ({"forbid": [{"n": [1, 99]}]}, "'n'"),
        ({"forbid": [{}]}, "non-empty dict"),
        ({"forbid": ["k"]}, "non-empty dict.*'k'"),
        ({"forbid": [{"k": ["a", "b", "c"]}]}, "exclude .*everything"),
        ({"forbid": [{"k": "a"}, {"k": "b"}, {"k": "c"}]}, "exclude .*everything"),
        ({"defaults": {"y": 1}}, "defaults names 'y'.*k, n, o, x"),
        ({"defaults": {"n": 99}}, "'n'"),
        ({"defaults": {"n": 1.5}}, "'n'"),
        ({"defaults": {"k": "z"}}, "'k'"),
        ({"defaults": {"o": "z"}}, "'o'"),
    ],
    ids=str,
)
def test_a_bad_rule_is_named(options, message):
    with pytest.raises(SpaceError, match=message):
        make_space(BASE, **options)


@pytest.mark.parametrize("spec", [1, CS.Float("c", (0, 1), default=0.5)], ids=str)
def test_a_default_that_cannot_be_set_is_an_error(spec):
    with pytest.raises(SpaceError, match="'c'"):
        make_space({"c": spec}, defaults={"c": 0.25})


def test_integers_too_large_to_tell_apart_are_refused_by_the_encoder():
    with pytest.raises(SpaceError, match=r"'n'.*2\^53"):
        Encoder({"n": (0, 2**60)})


@pytest.mark.parametrize(
    "spec",
    [range(5), np.arange(3.0), iter("ab"), {"a": 1}.values(), stats.uniform(0, 1)],
    ids=type,
)
def test_collections_and_distributions_are_no_constants(spec):
    with pytest.raises(SpaceError, match=r"'x': .*write choices as a list"):
        make_space({"x": spec})


@pytest.mark.parametrize("spec", [{1, 10}, frozenset({"a"}), {"a": 1}.keys()])
def test_a_set_is_neither_a_range_nor_choices(spec):
    with pytest.raises(SpaceError, match="'x': a set has no order"):
        make_space({"x": spec})
