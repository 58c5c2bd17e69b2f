"""When parameters are active, guessed from trials."""

from __future__ import annotations

import numpy as np

from rankwise.archive.infer_conditions import Column, Condition, find_conditions

N = np.nan


def number(name, *present):
    return Column(name, np.where(np.array(present, dtype=bool), 0.5, np.nan), 0)


def choice(name, *codes, n=2):
    return Column(name, np.array(codes, dtype=float), n)


def test_what_is_always_there_has_no_condition():
    assert find_conditions([number("x", 1, 1), choice("k", 0, 1)]) == {}


def test_a_parent_that_decides_is_found():
    columns = [choice("kernel", 0, 1, 2, 1, n=4), number("gamma", 0, 1, 1, 1)]
    assert find_conditions(columns) == {"gamma": Condition("kernel", (1, 2))}


def test_one_exception_is_enough_for_a_hidden_switch():
    columns = [choice("kernel", 0, 1, 1, 1), number("gamma", 0, 1, 0, 1)]
    assert find_conditions(columns) == {"gamma": Condition("gamma?", (1,), hidden=True)}


def integer(name, *values):
    return Column(name, np.array(values, dtype=float), 0, whole=True)


def test_a_number_that_is_no_integer_is_no_parent():
    rate = Column("rate", np.array([1.0, 2.0, 3.0, 4.0]), 0)
    assert find_conditions([rate, number("x", 0, 0, 1, 1)])["x"].hidden


def test_an_integer_decides_by_a_bound():
    columns = [
        integer("layers", 1, 2, 4, 3, 1, 4),
        number("units_1", 0, 1, 1, 1, 0, 1),
        number("units_3", 0, 0, 1, 0, 0, 1),
        number("short", 1, 0, 0, 0, 1, 0),
    ]
    assert find_conditions(columns) == {
        "units_1": Condition("layers", (), beyond=(">", 1)),
        "units_3": Condition("layers", (), beyond=(">", 3)),
        "short": Condition("layers", (), beyond=("<", 2)),
    }


def test_values_of_an_integer_that_were_not_seen_count_as_beyond_the_bound():
    columns = [integer("layers", 1, 1, 4, 4), number("units_2", 0, 0, 1, 1)]
    assert find_conditions(columns)["units_2"].beyond == (">", 1)


def test_one_trial_or_one_exception_is_no_bound():
    once = [integer("layers", 1, 2, 4), number("x", 0, 0, 1)]
    assert find_conditions(once)["x"].hidden
    exception = [integer("layers", 1, 2, 4, 4, 4), number("x", 0, 1, 0, 1, 1)]
    assert find_conditions(exception)["x"].hidden


def test_a_choice_is_preferred_to_an_integer():
    columns = [integer("n", 1, 2, 3, 4), choice("k", 0, 0, 1, 1), number("x", 0, 0, 1, 1)]
    assert find_conditions(columns)["x"] == Condition("k", (1,))


def test_a_parent_that_is_always_active_is_preferred_then_the_one_with_fewer_choices():
    many = choice("many", 0, 1, 2, 0, n=3)
    few = choice("few", 0, 1, 1, 0)
    inner = choice("inner", N, 0, 1, N)
    columns = [inner, many, few, number("x", 0, 1, 1, 0)]
    found = find_conditions(columns)
    assert found == {"x": Condition("few", (1,)), "inner": Condition("few", (1,))}


def test_chains():
    columns = [
        number("nesterov", 0, 0, 1, 0),
        choice("schedule", N, 0, 1, N),
        choice("optimizer", 0, 1, 1, 0),
    ]
    assert find_conditions(columns) == {
        "schedule": Condition("optimizer", (1,)),
        "nesterov": Condition("schedule", (1,)),
    }


def test_a_chain_may_hang_on_a_switch():
    # Two trials of a study without an optimizer, three of one with.
    columns = [
        number("momentum", 0, 0, 1, 0, 1),
        choice("optimizer", N, N, 1, 0, 1),
    ]
    assert find_conditions(columns) == {
        "optimizer": Condition("optimizer?", (1,), hidden=True),
        "momentum": Condition("optimizer", (1,)),
    }


def test_two_that_explain_each_other_do_not_go_round_in_a_circle():
    columns = [choice("a", N, 0, 1), choice("b", N, 1, 0)]
    found = find_conditions(columns)
    assert found["a"] == Condition("a?", (1,), hidden=True)
    assert found["b"].parent in ("a", "a?")


def test_parameters_that_are_missing_together_share_a_switch():
    columns = [number("x", 0, 1, 1), number("y", 0, 1, 1), number("z", 1, 0, 1)]
    found = find_conditions(columns)
    assert found["x"].parent == found["y"].parent != found["z"].parent


def test_a_switch_that_is_off_explains_nothing():
    found = find_conditions([number("x", 0, 1), number("y", 1, 0)])
    assert found["x"] == Condition("x?", (1,), hidden=True)
    assert found["y"] == Condition("y?", (1,), hidden=True)


def test_a_choice_that_no_trial_took_does_not_activate():
    columns = [choice("kernel", 0, 1, n=3), number("gamma", 0, 1)]
    assert find_conditions(columns)["gamma"].choices == (1,)


def test_a_child_without_its_parent_is_not_explained_by_it():
    columns = [choice("k", 1, N, 0), number("x", 1, 1, 0)]
    assert find_conditions(columns)["x"].hidden


def test_what_no_trial_has_counts_as_always_active():
    assert find_conditions([number("x", 0, 0), number("y", 1, 1)]) == {}
    assert find_conditions([number("x")]) == {}


def test_a_switch_takes_no_name_that_exists():
    columns = [number("x", 0, 1), number("x?", 1, 1), number("x??", 1, 1)]
    assert find_conditions(columns)["x"].parent == "x???"
