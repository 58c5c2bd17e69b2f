"""A model of the study that leans on an order of the past."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata

from rankwise.history.task import Task
from rankwise.strategies.guard.trend_surrogate import LeaningSurrogate, places_among
from rankwise.surrogates import GaussianProcess, RandomForest
from rankwise.surrogates.base import Posterior, Surrogate

RNG = np.random.default_rng(0)
X, CANDIDATES = RNG.random((12, 2)), RNG.random((30, 2))
TASK = Task.of(X, 3.0 + 2.0 * X[:, 0] + np.sin(5.0 * X[:, 1]))


def first(X):
    return 7.0 + 3.0 * X[:, 0]


def leant(foresight, lean, base=GaussianProcess):
    return LeaningSurrogate(base(), foresight, lean).fit(TASK)


def test_it_is_the_process_of_what_is_left():
    lean = 0.6
    rest = GaussianProcess().fit(Task.of(X, TASK.losses - lean * first(X)))
    ours = leant(first, lean).predict(CANDIDATES, joint=True)
    by_hand = rest.predict(CANDIDATES, joint=True)
    np.testing.assert_allclose(ours.mean, by_hand.mean + lean * first(CANDIDATES))
    np.testing.assert_allclose(ours.std, by_hand.std)
    np.testing.assert_allclose(ours.covariance, by_hand.covariance)


def test_it_believes_its_own_mean():
    surrogate = leant(first, 0.6)
    believing = surrogate.believing(CANDIDATES[:3])
    means = [s.predict(CANDIDATES[:3]).mean for s in (surrogate, believing)]
    np.testing.assert_allclose(*means, atol=1e-3)
    assert (believing.predict(CANDIDATES[:3]).std < surrogate.predict(CANDIDATES[:3]).std).all()
    assert surrogate.believing(CANDIDATES[:0]).lean == 0.6


def test_observations_are_kept():
    for lean in (-1.0, 0.5, 2.0):
        np.testing.assert_allclose(leant(first, lean).predict(X).mean, TASK.losses, atol=0.05)


def test_what_is_foreseen_helps_where_nothing_was_seen():
    left = Task.of(X[X[:, 0] < 0.6], 4.0 * X[X[:, 0] < 0.6, 0])
    far = np.array([[1.0, 0.5]])
    plain = GaussianProcess().fit(left).predict(far)
    leaning = LeaningSurrogate(GaussianProcess(), first, 4.0 / 3.0).fit(left).predict(far)
    assert abs(leaning.mean[0] - 4.0) < 0.05 < abs(plain.mean[0] - 4.0)


@pytest.mark.parametrize("base", [GaussianProcess, lambda: RandomForest(None)])
def test_without_a_lean_nothing_changes(base):
    ours, plain = leant(first, 0.0, base).predict(CANDIDATES), base().fit(TASK).predict(CANDIDATES)
    np.testing.assert_allclose(ours.mean, plain.mean, rtol=1e-6)
    np.testing.assert_allclose(ours.std, plain.std, rtol=1e-5, atol=1e-8)


def test_nothing_foreseen_is_no_lean():
    ours = leant(lambda X: np.full(len(X), 5.0), 0.9).predict(CANDIDATES)
    plain = GaussianProcess().fit(TASK).predict(CANDIDATES)
    np.testing.assert_allclose(ours.mean, plain.mean, rtol=1e-6)


class Ranks(Surrogate):
    """The mean rank of three rankers that disagree, within a call."""

    relative = True

    def fit(self, task):
        return self

    def predict(self, X, *, joint=False):
        scores = X @ np.array([[1.0, 0.0, 0.4], [0.0, 1.0, -0.7]])
        return Posterior(rankdata(scores, axis=0).mean(axis=1), np.ones(len(X)))


def test_places_do_not_depend_on_what_else_is_asked():
    rng = np.random.default_rng(3)
    reference, near = rng.random((300, 2)), 0.01 * rng.random((900, 2))
    alone = places_among(reference, Ranks(), CANDIDATES)
    crowded = places_among(reference, Ranks(), np.concatenate([CANDIDATES, near]))[:30]
    np.testing.assert_allclose(alone, crowded, atol=0.1)  # of 300; what orders equal ones is less
    scores = [CANDIDATES @ w for w in ((1.0, 0.0), (0.0, 1.0), (0.4, -0.7))]
    theirs = [reference @ w for w in ((1.0, 0.0), (0.0, 1.0), (0.4, -0.7))]
    better = [(t[:, None] < s).sum(axis=0) for s, t in zip(scores, theirs, strict=True)]
    np.testing.assert_allclose(alone, np.mean(better, axis=0), atol=0.1)


def test_those_better_than_all_others_are_in_order():
    reference = 0.5 + np.random.default_rng(4).random((300, 2)) * [0.5, 0.1]
    first_two = places_among(reference, Ranks(), np.array([[0.0, 0.45], [0.05, 0.45]]))
    assert 0 < first_two[0] < first_two[1] < 1  # none of the reference is better than either
