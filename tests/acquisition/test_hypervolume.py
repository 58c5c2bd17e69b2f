"""Fronts, hypervolumes and expected hypervolume improvement, against independent computations."""

from __future__ import annotations

import numpy as np
import pytest
from optuna._hypervolume import compute_hypervolume

from rankwise.acquisition.hypervolume import (
    free_boxes,
    hypervolume,
    log_expected_improvement,
    on_front,
    reference_point,
)


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_hypervolume_is_that_of_optuna(m: int) -> None:
    rng = np.random.default_rng(m)
    for n in (1, 2, 7, 20):
        losses = rng.normal(size=(n, m)).round(1)  # with ties
        reference = np.full(m, 0.8)
        inside = losses[(losses < reference).all(axis=1)]
        expected = compute_hypervolume(inside, reference) if len(inside) else 0.0
        assert hypervolume(losses, reference) == pytest.approx(expected)


def test_a_front_has_no_dominated_point_and_all_equal_ones() -> None:
    losses = np.array([[1, 2], [2, 1], [2, 2], [1, 2], [np.nan, 0], [3, 0.5]])
    assert on_front(losses).tolist() == [True, True, False, True, False, True]


@pytest.mark.parametrize("m", [2, 3, 4])
def test_the_boxes_divide_what_the_front_leaves(m: int) -> None:
    rng = np.random.default_rng(m)
    front, reference = rng.random((12, m)), np.ones(m)
    lower, upper = free_boxes(front, reference)
    points = rng.random((2000, m))
    inside = ((points[:, None] > lower) & (points[:, None] < upper)).all(axis=2).sum(axis=1)
    dominated = (front[None] <= points[:, None]).all(axis=2).any(axis=1)
    assert (inside == np.where(dominated, 0, 1)).all()


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_expected_improvement_is_the_mean_over_draws(m: int) -> None:
    rng = np.random.default_rng(m)
    front, reference = rng.random((6, m)), np.ones(m)
    mean, std = rng.random((3, m)), rng.uniform(0.1, 0.4, (3, m))
    exact = np.exp(log_expected_improvement(mean, std, *free_boxes(front, reference)))
    before = hypervolume(front, reference)
    for k in range(3):
        draws = mean[k] + std[k] * rng.normal(size=(500, m))
        gains = [hypervolume(np.vstack([front, y]), reference) - before for y in draws]
        error = np.std(gains) / np.sqrt(len(gains))
        assert abs(exact[k] - np.mean(gains)) < 4 * error + 1e-9


def test_hopeless_candidates_are_still_ordered() -> None:
    boxes = free_boxes(np.array([[0.0, 0.0]]), np.ones(2))
    mean = np.array([[50.0, 50.0], [60.0, 60.0]])
    near, far = log_expected_improvement(mean, np.full((2, 2), 0.5), *boxes)
    assert np.isfinite([near, far]).all() and near > far


def test_the_reference_point_lies_behind_all_points() -> None:
    losses = np.array([[0.0, 3.0], [5.0, 3.0], [np.nan, 9.0]])
    assert reference_point(losses).tolist() == pytest.approx([5.5, 3.1])
