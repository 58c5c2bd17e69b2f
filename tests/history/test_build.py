"""build_task: one task for the same trials, and one rule for pruned trials."""

from __future__ import annotations

import numpy as np
import pytest

from rankwise.history.build import build_task, lift_pruned
from rankwise.history.task import FAILED, OK

NAN = float("nan")


@pytest.mark.parametrize(
    ("losses", "pruned", "expected"),
    [
        ([3.0, 1.0, 2.0], [0, 1, 0], [3.0, 2.0, 2.0]),  # better than the best: raised to it
        ([3.0, 2.5, 2.0], [0, 1, 0], [3.0, 2.5, 2.0]),
        ([3.0, 1.0], [1, 1], [3.0, 1.0]),  # only pruned trials: as reported
        ([NAN, 1.0], [0, 1], [NAN, 1.0]),  # the other one failed
        ([2.0, NAN, 1.0], [0, 1, 1], [2.0, NAN, 2.0]),  # pruned before it reported
        ([2.0, 1.0], [0, 0], [2.0, 1.0]),
        ([], [], []),
    ],
    ids=str,
)
def test_a_pruned_loss_is_at_least_the_best_of_the_others(losses, pruned, expected):
    given = np.array(losses)
    found = lift_pruned(given, np.array(pruned, dtype=bool))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(given, losses)  # unchanged


def test_values_become_losses_before_the_rule_is_used():
    task = build_task(
        np.zeros((4, 2)),
        [0.7, 0.9, 0.1, NAN],
        direction="maximize",
        costs=[1.0, 2.0, NAN, 4.0],
        statuses=[OK, OK, OK, FAILED],
        pruned=[False, True, True, False],
        shared=[True, False, False, False],
        name="iris",
        context={"rows": 150},
    )
    np.testing.assert_array_equal(task.y, [-0.7, -0.7, -0.1, NAN])
    np.testing.assert_array_equal(task.cost, [1.0, 2.0, NAN, 4.0])
    assert task.name == "iris" and task.context == {"rows": 150.0}
    assert task.status == (OK, OK, OK, FAILED)
    assert task.shared.tolist() == [True, False, False, False]
