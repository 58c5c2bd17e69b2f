"""The box of past optima."""

from __future__ import annotations

import numpy as np
import pytest

from rankwise import Encoder, Optimizer, Task, TaskSet, bounding_box, make_space
from rankwise.errors import ConfigurationError, OptionError
from rankwise.history.promising_box import _without_outliers

NUMBERS = {"x": (0.0, 10.0), "rate": (1e-4, 1.0, "log"), "n": (1, 100)}
MIXED = make_space(
    {
        "kernel": ["rbf", "poly", "linear"],
        "C": (1e-3, 1e3, "log"),
        "gamma": (1e-4, 10.0, "log"),
        "degree": (2, 9),
        "size": (["s", "m", "l", "xl"], "ordered"),
    },
    when={"gamma": {"kernel": "rbf"}, "degree": {"kernel": "poly"}},
    forbid=[{"kernel": "linear", "size": "xl"}],
)


def past_of(space, optima, n=25) -> TaskSet:
    """Studies whose best configurations are these; others are the worse the farther from them."""
    encoder, studies = Encoder(space), {}
    for k, optimum in enumerate(optima):
        configurations = [*encoder.decode(encoder.sample(n, np.random.default_rng(k))), optimum]
        far = encoder.encode(configurations) - encoder.encode([optimum])
        studies[f"study {k}"] = (configurations, np.square(far).sum(axis=1))
    return TaskSet.of(encoder, studies)


def point(x, rate, n):
    return {"x": x, "rate": rate, "n": n}


def ranges(encoder) -> dict[str, tuple[float, float]]:
    return {p.name: (p.lower, p.upper) for p in encoder.parameters}


OPTIMA = [point(2.0, 0.01, 10), point(5.0, 0.1, 40), point(3.0, 0.001, 20)]


def test_the_box_is_the_smallest_around_the_optima():
    box = bounding_box(NUMBERS, past_of(NUMBERS, OPTIMA))
    assert ranges(box) == {"x": (2.0, 5.0), "rate": (0.001, 0.1), "n": (10, 40)}
    box.encode(OPTIMA)  # all of them are inside
    for outside in (point(1.9, 0.01, 20), point(3.0, 0.2, 20), point(3.0, 0.01, 41)):
        with pytest.raises(ConfigurationError):
            box.encode([outside])
    sample = box.decode(box.sample(300, np.random.default_rng(0)))
    assert min(c["x"] for c in sample) < 2.1 and max(c["x"] for c in sample) > 4.9
    assert 0.001 <= min(c["rate"] for c in sample) < 0.0013


def test_columns_and_fingerprint_stay_those_of_the_space():
    box, encoder = bounding_box(NUMBERS, past_of(NUMBERS, OPTIMA)), Encoder(NUMBERS)
    assert box.fingerprint == encoder.fingerprint and box.n_columns == encoder.n_columns
    assert box.encode(OPTIMA).tolist() == encoder.encode(OPTIMA).tolist()


def test_a_margin_is_a_share_of_the_whole_range():
    box = bounding_box(NUMBERS, past_of(NUMBERS, OPTIMA), margin=0.25)
    found = ranges(box)
    assert found["x"] == pytest.approx((0.0, 7.5))  # the space ends at 0
    assert found["rate"] == pytest.approx((1e-4, 1.0))  # a decade on both sides
    assert found["n"] == (1, 65)


def test_more_configurations_of_each_study_make_the_box_larger():
    past = past_of(NUMBERS, OPTIMA)
    encoder = Encoder(NUMBERS)
    rows = np.concatenate([task.X[np.argsort(task.y)[:3]] for task in past.tasks])
    box = bounding_box(NUMBERS, past, best=3)
    ends = box.encode_codes(np.array([[p.lower, p.upper] for p in box.parameters]).T)
    assert ends[0] == pytest.approx(rows.min(axis=0), abs=1e-9)
    assert ends[1] == pytest.approx(rows.max(axis=0), abs=1e-9)
    assert encoder.n_columns == 3


def test_validation_tasks_count_and_failures_do_not():
    past = past_of(NUMBERS, OPTIMA)
    parts = TaskSet(past.tasks[:1], past.tasks[1:], past.fingerprint)
    assert ranges(bounding_box(NUMBERS, parts)) == ranges(bounding_box(NUMBERS, past))
    encoder = Encoder(NUMBERS)
    failed = Task.of(encoder.encode([point(9.0, 1.0, 90)]), [np.nan])
    assert ranges(bounding_box(NUMBERS, [*past.tasks, failed])) == ranges(
        bounding_box(NUMBERS, past)
    )


def test_without_a_past_the_box_is_the_space():
    encoder = Encoder(NUMBERS)
    for past in ([], TaskSet(()), [Task.of(np.empty((0, 3)), [])]):
        assert ranges(bounding_box(encoder, past)) == ranges(encoder)


def test_one_past_task_leaves_one_point():
    box = bounding_box(NUMBERS, past_of(NUMBERS, OPTIMA[:1]))
    assert box.size == 1 and box.default == OPTIMA[0]


# ---------------------------------------------------------------------- outliers


def size(X) -> float:
    return float(np.ptp(X, axis=0).sum())


@pytest.mark.parametrize("seed", range(8))
def test_the_row_that_is_left_out_is_the_best_one(seed):
    rng = np.random.default_rng(seed)
    X = np.round(rng.random((7, 3)), 1)  # with ties
    kept = _without_outliers(X, 6)
    without = [size(np.delete(X, k, axis=0)) for k in range(7)]
    assert len(kept) == 6 and size(kept) == pytest.approx(min(without))


def test_rows_are_left_out_one_by_one():
    X = np.random.default_rng(3).random((9, 2))
    one_by_one = X
    for count in range(8, 3, -1):
        one_by_one = _without_outliers(one_by_one, count)
        assert _without_outliers(X, count).tolist() == one_by_one.tolist()
    assert len(_without_outliers(X, 0)) == 1 and len(_without_outliers(X[:0], 0)) == 0
    same = np.full((3, 2), 0.5)
    assert _without_outliers(same, 1).tolist() == [[0.5, 0.5]]


def test_a_share_of_the_optima_leaves_an_outlier_outside():
    optima = [*OPTIMA, point(9.9, 0.9, 99)]
    past = past_of(NUMBERS, optima)
    assert ranges(bounding_box(NUMBERS, past))["x"] == (2.0, 9.9)
    box = bounding_box(NUMBERS, past, share=0.75)
    assert ranges(box) == ranges(bounding_box(NUMBERS, past_of(NUMBERS, OPTIMA)))


# ---------------------------------------------------------------------- choices and conditions

ACTIVE = [
    {"kernel": "rbf", "C": 1.0, "gamma": 0.01, "size": "l"},
    {"kernel": "poly", "C": 10.0, "degree": 3, "size": "s"},
    {"kernel": "poly", "C": 5.0, "degree": 6, "size": "l"},
]


def test_choices_are_those_at_the_optima_and_ordered_ones_all_between():
    box = bounding_box(MIXED, past_of(MIXED, ACTIVE))
    found = box.decode(box.sample(400, np.random.default_rng(0)))
    assert {c["kernel"] for c in found} == {"rbf", "poly"}
    assert {c["size"] for c in found} == {"s", "m", "l"}
    assert {c["degree"] for c in found if "degree" in c} == {3, 4, 5, 6}
    assert {c["gamma"] for c in found if "gamma" in c} == {0.01}
    box.encode(ACTIVE)


def test_what_is_inactive_at_all_optima_stays_as_it_is():
    box = bounding_box(MIXED, past_of(MIXED, ACTIVE[1:]))
    [gamma] = [p for p in box.parameters if p.name == "gamma"]
    assert (gamma.lower, gamma.upper) == (1e-4, 10.0)
    found = box.decode(box.sample(100, np.random.default_rng(0)))
    assert {c["kernel"] for c in found} == {"poly"} and not any("gamma" in c for c in found)


def test_forbidden_clauses_hold_inside():
    optima = [
        {"kernel": "linear", "C": 1.0, "size": "s"},
        {"kernel": "rbf", "C": 2.0, "gamma": 1.0, "size": "xl"},
    ]
    box = bounding_box(MIXED, past_of(MIXED, optima))
    found = box.decode(box.sample(200, np.random.default_rng(0)))
    assert not any(c["kernel"] == "linear" and c["size"] == "xl" for c in found)
    assert {c["kernel"] for c in found} == {"linear", "rbf"}


# ---------------------------------------------------------------------- methods


@pytest.mark.parametrize("method", ["random", "grid", "gp", "forest", "tpe", "cma-es"])
def test_a_method_stays_inside(method):
    optimizer = Optimizer(bounding_box(MIXED, past_of(MIXED, ACTIVE)), method=method, seed=0)
    check_inside(optimizer)


@pytest.mark.parametrize("method", ["eb-gp", "init", "portfolio", "ws-cma-es"])
def test_a_method_that_learns_takes_the_past_along(method):
    past = past_of(MIXED, ACTIVE)
    optimizer = Optimizer(bounding_box(MIXED, past), method=method, tasks=past, seed=0)
    check_inside(optimizer)


def check_inside(optimizer):
    for _ in range(8):
        [configuration] = optimizer.ask()
        assert configuration["kernel"] in ("rbf", "poly") and 1.0 <= configuration["C"] <= 10.0
        optimizer.tell(configuration, configuration["C"])


def test_what_makes_no_sense_is_refused():
    past = past_of(NUMBERS, OPTIMA)
    with pytest.raises(OptionError, match="another search space"):
        bounding_box({"x": (0.0, 1.0), "rate": (1e-4, 1.0), "n": (1, 100)}, past)
    with pytest.raises(OptionError, match=r"'study 0' has 3 columns and the space has 1"):
        bounding_box({"x": (0.0, 10.0)}, past.tasks)
    for wrong in ({"best": 0}, {"share": 0.0}, {"share": 1.5}, {"margin": -0.1}):
        with pytest.raises(OptionError, match=next(iter(wrong))):
            bounding_box(NUMBERS, past, **wrong)
