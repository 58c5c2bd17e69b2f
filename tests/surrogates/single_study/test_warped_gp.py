"""The process of HEBO: Kumaraswamy's warping, its gradient, and what it is for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad

from rankwise import Optimizer
from rankwise.history.task import Task
from rankwise.surrogates import GaussianProcess, WarpedGP
from rankwise.surrogates.single_study.warped_gp import bent, negative_log_posterior

rng = np.random.default_rng(0)


def test_no_bending_is_the_identity_and_bends_are_monotone():
    X = np.sort(rng.random((50, 2)), axis=0)
    assert bent(X, np.zeros((2, 2)))[0] == pytest.approx(X, abs=1e-5)
    Z = bent(X, np.array([[0.7, -1.0], [-0.5, 1.2]]))[0]
    assert (np.diff(Z, axis=0) > 0).all() and Z.min() > 0 and Z.max() < 1
    a, b = np.exp([0.7, -0.5])
    assert Z[:, 0] == pytest.approx(1 - (1 - X[:, 0] ** a) ** b)
    corners = np.array([[0.0, 1.0]])
    assert bent(corners, np.array([[2.0, 2.0], [2.0, 2.0]]))[0] == pytest.approx(corners, abs=1e-3)


def test_the_gradient_of_the_posterior():
    X, theta = rng.random((9, 3)), 0.5 * rng.normal(size=10)
    y = rng.normal(size=9)
    error = check_grad(
        lambda t: negative_log_posterior(t, X, y)[0],
        lambda t: negative_log_posterior(t, X, y)[1],
        theta,
    )
    assert error < 1e-5


def test_a_function_that_changes_at_one_end_is_learnt_better():
    def f(X):
        return np.sin(3.0 * np.log(X[:, 0] + 0.01))

    X, Z = np.linspace(0, 1, 14)[:, None] ** 2, rng.random((300, 1)) ** 2
    task = Task.of(X, f(X))
    bending, straight = (
        np.square(kind(transform="standardize").fit(task).predict(Z).mean - f(Z)).mean()
        for kind in (WarpedGP, GaussianProcess)
    )
    assert bending < 0.5 * straight


def test_beliefs_are_believed_on_bent_columns():
    X = rng.random((8, 2)) ** 2
    fitted = WarpedGP().fit(Task.of(X, np.log(X + 0.01).sum(axis=1)))
    place = np.array([[0.9, 0.9]])
    believing = fitted.believing(place)
    assert believing.predict(place).mean == pytest.approx(fitted.predict(place).mean, abs=1e-6)
    assert believing.predict(place).std < fitted.predict(place).std


def test_hebo_finds_a_valley():
    optimizer = Optimizer({"x": (1e-4, 1.0, "log"), "y": (-5.0, 5.0)}, method="hebo", seed=0)
    for _ in range(25):
        [c] = optimizer.ask()
        optimizer.tell(c, (np.log10(c["x"]) + 2) ** 2 + (c["y"] - 1) ** 2)
    assert optimizer.best.value < 0.05
