"""The registry of methods: every entry is complete, and names are resolved."""

from __future__ import annotations

import pytest

from rankwise import methods
from rankwise.methods.method import FAMILIES, SPACES, load_surrogate
from rankwise.methods.rows import METHODS
from rankwise.surrogates.base import Surrogate


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_every_method_is_described(method):
    assert method.summary and "\n" not in method.summary and len(method.summary) <= 75
    assert method.idea and not method.idea.endswith(".")
    assert method.family in FAMILIES
    assert set(method.weak_on) <= set(SPACES)
    assert not methods.get(method.fallback).transfer


def test_no_name_occurs_twice():
    names = [method.name for method in METHODS]
    assert len(set(names)) == len(names)
    assert methods.available() == names


def test_every_surrogate_is_a_class_that_can_be_loaded():
    for path in {method.surrogate for method in METHODS} - {""}:
        assert issubclass(load_surrogate(path), Surrogate)


def test_four_methods_are_recommended():
    assert [m.name for m in METHODS if m.use_when] == ["auto", "mbo", "eb-gp", "dist-gp"]


@pytest.mark.parametrize(("name", "same_as"), [("none-gp", "gp"), ("multi-blr", "ablr")])
def test_an_alias_builds_the_method_that_it_names(name, same_as):
    alias, method = methods.get(name), methods.get(same_as)
    assert alias.same_as == same_as
    assert (alias.build, alias.surrogate, alias.options) == (
        method.build,
        method.surrogate,
        method.options,
    )


def test_fixed_arguments_are_no_options():
    assert not {"kind", "seed", "surrogate"} & set(methods.get("eb-gp").options)
    assert not {"similar", "points", "then"} & set(methods.get("init-gp").options)
    assert "surrogate" not in methods.get("rgpe").options
