"""A model of the study that leans on an order of the past."""

from __future__ import annotations

import numpy as np
import pytest

from rankwise.surrogates import GaussianProcess, RandomForest
from rankwise.surrogates.leaning import LeaningSurrogate, center_and_spread
from rankwise.task import Task

RNG = np.random.default_rng(0)
X, CANDIDATES = RNG.random((12, 2)), RNG.random((30, 2))
TASK = Task.of(X, 3.0 + 2.0 * X[:, 0] + np.sin(5.0 * X[:, 1]))


def first(X):
    return 7.0 + 3.0 * X[:, 0]


def leant(foresight, lean, base=GaussianProcess):
    return LeaningSurrogate(base(), foresight, lean).fit(TASK)


def test_it_is_the_process_of_what_is_left():
    y, lean = TASK.losses, 0.6
    centre, scale = y.mean(), y.std()  # none of the losses is far above the bulk
    f = (X[:, 0] - X[:, 0].mean()) / X[:, 0].std()
    rest = GaussianProcess().fit(Task.of(X, (y - centre) / scale - lean * f))
    g = (CANDIDATES[:, 0] - X[:, 0].mean()) / X[:, 0].std()
    ours, by_hand = leant(first, lean).predict(CANDIDATES, joint=True), rest.predict(CANDIDATES)
    np.testing.assert_allclose(ours.mean, centre + scale * (by_hand.mean + lean * g), rtol=1e-6)
    np.testing.assert_allclose(ours.std, scale * by_hand.std, rtol=1e-6)
    np.testing.assert_allclose(np.diag(ours.covariance), ours.std**2, rtol=1e-3, atol=1e-6)


def test_observations_are_kept():
    for lean in (-1.0, 0.5, 2.0):
        np.testing.assert_allclose(leant(first, lean).predict(X).mean, TASK.losses, atol=0.05)


def test_what_is_foreseen_helps_where_nothing_was_seen():
    left = Task.of(X[X[:, 0] < 0.6], 4.0 * X[X[:, 0] < 0.6, 0])
    far = np.array([[1.0, 0.5]])
    plain = GaussianProcess().fit(left).predict(far)
    leaning = LeaningSurrogate(GaussianProcess(), first, 1.0).fit(left).predict(far)
    assert abs(leaning.mean[0] - 4.0) < 0.05 < abs(plain.mean[0] - 4.0)


@pytest.mark.parametrize("base", [GaussianProcess, lambda: RandomForest(None)])
def test_without_a_lean_nothing_changes(base):
    ours, plain = leant(first, 0.0, base).predict(CANDIDATES), base().fit(TASK).predict(CANDIDATES)
    np.testing.assert_allclose(ours.mean, plain.mean, rtol=1e-6)
    np.testing.assert_allclose(ours.std, plain.std, rtol=1e-5, atol=1e-8)


def test_the_unit_of_foreseen_numbers():
    center, spread = center_and_spread(np.array([1.0, 3.0, 5.0]))
    assert center == 3.0 and spread == pytest.approx(np.sqrt(8.0 / 3.0))
    assert center_and_spread(np.full(4, 1e6))[1] == np.inf


def test_nothing_foreseen_is_no_lean():
    ours = leant(lambda X: np.full(len(X), 5.0), 0.9).predict(CANDIDATES)
    plain = GaussianProcess().fit(TASK).predict(CANDIDATES)
    np.testing.assert_allclose(ours.mean, plain.mean, rtol=1e-6)
