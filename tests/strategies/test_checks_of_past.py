"""A few trials check past studies, but only if the trials so far cannot."""

import numpy as np
import pytest

from rankwise import Optimizer, TaskSet
from rankwise.history.task import Task
from rankwise.strategies.model_based import CHECK

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}


@pytest.fixture(scope="module")
def past():
    """Eight past studies of the same bowl with different noise."""
    tasks = []
    for k in range(8):
        rng = np.random.default_rng(k)
        X = rng.random((30, 2))
        y = np.square(X - 0.3).sum(axis=1) + 0.05 * rng.standard_normal(30)
        tasks.append(Task.of(X, y, name=f"study {k}"))
    return TaskSet(tuple(tasks))


ALIKE = [
    [0.30, 0.31], [0.28, 0.30], [0.33, 0.29], [0.31, 0.27],
    [0.29, 0.33], [0.27, 0.28], [0.32, 0.33], [0.30, 0.27],
]  # fmt: skip


def origin(past, rows, best=1):
    """What proposes the next trial after trials at these rows, with values in no order."""
    strategy = Optimizer(SPACE, method="eb-gp", tasks=past, seed=0).strategy
    values = np.array([0.3, 0.25, 0.5, 0.2, 0.4, 0.45, 0.35, 0.15])
    values[best] = 0.1
    return strategy.origin(Task.of(np.array(rows), values))


def test_trials_that_are_alike_are_followed_by_a_check(past):
    assert origin(past, ALIKE) == CHECK


def test_a_study_that_makes_progress_is_not_checked(past):
    assert origin(past, ALIKE, best=5) != CHECK


def test_trials_that_past_studies_predict_to_be_poor_need_no_check(past):
    poor = [[0.9, 0.9], [0.1, 0.9], [0.9, 0.2], [0.6, 0.5]]
    assert origin(past, ALIKE[:4] + poor) != CHECK
