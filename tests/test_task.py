"""Task: failures are facts, and imputed as bad ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise.errors import UnknownNameError
from rankwise.task import FAILED, INVALID, OK, TIMEOUT, Task, impute

NAN = float("nan")
losses = st.floats(allow_nan=False, allow_infinity=False)


def _task(y, **options):
    return Task.of(np.zeros((len(y), 2)), y, **options)


def test_a_task_keeps_what_it_is_given():
    X = np.arange(6.0).reshape(3, 2)
    task = Task.of(X, [3, 1, 2], cost=[1, NAN, 3], name="iris")
    assert len(task) == 3 and task.name == "iris" and task.status == (OK,) * 3
    np.testing.assert_array_equal(task.X, X)
    np.testing.assert_array_equal(task.losses, [3.0, 1.0, 2.0])
    np.testing.assert_array_equal(task.cost, [1, NAN, 3])
    assert np.isnan(_task([1.0, 2.0]).cost).all()


def test_losses_that_are_no_numbers_are_invalid():
    task = _task([1.0, NAN, float("inf"), float("-inf"), 2.0])
    assert task.status == (OK, INVALID, INVALID, INVALID, OK)
    assert task.ok.tolist() == [True, False, False, False, True]
    assert np.isnan(task.y[1:4]).all()


def test_a_failure_has_no_loss_whatever_was_reported():
    task = _task([1.0, 0.0, -5.0], status=[OK, FAILED, TIMEOUT])
    assert task.ok.tolist() == [True, False, False]
    assert (task.losses[1:] > 1.0).all()


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([1.0, 3.0, NAN], [1.0, 3.0, 3.2]),
        ([-3.0, NAN, -1.0, NAN], [-3.0, -0.8, -1.0, -0.8]),
        ([2.0, NAN, 2.0], [2.0, 2.2, 2.0]),
        ([-2.0, NAN], [-2.0, -1.8]),
        ([0.0, NAN], [0.0, 1e-3]),
        ([NAN, NAN], [0.0, 0.0]),
        ([1.0, 2.0], [1.0, 2.0]),
        ([], []),
    ],
    ids=str,
)
def test_failures_are_worse_than_the_worst_by_a_tenth_of_the_range(y, expected):
    assert impute(np.array(y)) == pytest.approx(expected)
    assert _task(y).losses == pytest.approx(expected)


@given(st.lists(losses, min_size=1), st.integers(1, 3))
def test_imputed_losses_are_finite_and_never_better_than_one_seen(seen, failures):
    y = np.array(seen + [NAN] * failures)
    filled = impute(y)
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(filled[: len(seen)], seen)
    assert (filled[len(seen) :] >= max(seen)).all()


def test_a_lie_extends_the_history_and_leaves_the_original():
    task = Task.of([[0.1, 0.2]], [1.0], cost=[2.0], status=[FAILED], name="t")
    longer = task.extended(np.ones((2, 2)), 0.5)
    assert len(task) == 1 and len(longer) == 3 and longer.name == "t"
    assert longer.status == (FAILED, OK, OK)
    np.testing.assert_array_equal(longer.X, [[0.1, 0.2], [1, 1], [1, 1]])
    np.testing.assert_array_equal(longer.y, [NAN, 0.5, 0.5])
    np.testing.assert_array_equal(longer.cost, [2.0, NAN, NAN])


def test_an_empty_task():
    task = Task.of(np.empty((0, 4)), [])
    assert len(task) == 0 and task.losses.shape == (0,) and task.X.shape == (0, 4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"y": [1.0, 2.0]},
        {"y": [1.0]},
        {"status": [OK]},
        {"status": [OK] * 4},
        {"cost": [1.0]},
        {"cost": [1.0] * 4},
    ],
    ids=str,
)
def test_lengths_must_agree(wrong):
    with pytest.raises(ValueError, match=r"rows|status|cost"):
        Task.of(np.zeros((3, 2)), **({"y": [1.0, 2.0, 3.0]} | wrong))


def test_an_unknown_status_lists_the_valid_ones():
    with pytest.raises(UnknownNameError, match="'fine'; valid: failed, invalid, ok, timeout"):
        _task([1.0], status=["fine"])
