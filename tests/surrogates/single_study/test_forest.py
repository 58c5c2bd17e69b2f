"""The random forest: inactive parameters, and standard errors that mean something."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor

from rankwise import Encoder, make_space
from rankwise.history.task import Task
from rankwise.surrogates.single_study.forest import RandomForest, jackknife_variance


def sample_task(rng: np.random.Generator, n: int = 60) -> Task:
    X = rng.random((n, 2))
    return Task.of(X, 3 * X[:, 0] + (X[:, 1] > 0.5) + 0.3 * rng.normal(size=n))


def test_mean_is_that_of_the_trees():
    task = sample_task(np.random.default_rng(0))
    forest = RandomForest(trees=50, seed=3).fit(task)
    reference = ExtraTreesRegressor(50, bootstrap=True, max_features=5 / 6, random_state=3)
    reference.fit(task.X.astype(np.float32), task.y)
    assert forest.predict(task.X).mean == pytest.approx(reference.predict(task.X), rel=1e-6)


def test_jackknife_agrees_with_its_definition():
    rng = np.random.default_rng(1)
    B, m = 300, 5
    counts = rng.poisson(1.0, size=(B, m)).astype(float)
    effects = rng.normal(size=(m, 2))
    predictions = counts @ effects + 0.1 * rng.normal(size=(B, 2))
    for x, variance in enumerate(jackknife_variance(predictions, counts)):
        p = predictions[:, x]
        infinitesimal = sum(np.cov(counts[:, i], p, bias=True)[0, 1] ** 2 for i in range(m))
        left_out = [p[counts[:, i] == 0].mean() - p.mean() for i in range(m)]
        after_bootstrap = (m - 1) / m * np.sum(np.square(left_out))
        bias = m / B * p.var() * np.array([1.0, np.e - 1])
        assert variance == pytest.approx((infinitesimal + after_bootstrap - bias.sum()) / 2)


def test_noise_between_trees_is_the_least_variance():
    predictions = np.random.default_rng(2).normal(size=(50, 3))
    variance = jackknife_variance(predictions, np.ones((50, 4)))  # nothing but noise
    assert variance == pytest.approx(predictions.var(axis=0) / 50)


def test_standard_error_matches_bootstrap_resampling():
    """The spread of forests grown on bootstrap resamples of one data set, noisy in one half."""
    rng = np.random.default_rng(2)
    X, Z = rng.random((80, 2)), rng.random((40, 2))
    task = Task.of(X, X[:, 0] + np.where(X[:, 1] > 0.5, 1.0, 0.1) * rng.normal(size=80))
    estimated = RandomForest(trees=1000, min_leaf=3).fit(task).predict(Z).std
    means = []
    for seed in range(40):
        rows = rng.integers(len(task), size=len(task))
        resampled = Task.of(task.X[rows], task.y[rows])
        means.append(RandomForest(trees=100, min_leaf=3, seed=seed).fit(resampled).predict(Z).mean)
    spread = np.std(means, axis=0)
    assert estimated.mean() == pytest.approx(spread.mean(), rel=0.35)
    assert np.corrcoef(spread, estimated)[0, 1] > 0.6


def test_standard_error_falls_with_more_data():
    rng = np.random.default_rng(3)
    Z = rng.random((50, 2))
    small, large = (
        RandomForest(trees=300, min_leaf=3).fit(sample_task(rng, n)).predict(Z).std.mean()
        for n in (20, 400)
    )
    assert large < 0.7 * small


@pytest.fixture(scope="module")
def svm():
    return Encoder(
        make_space(
            {"kernel": ["rbf", "linear"], "gamma": (0.0, 1.0), "shrink": [True]},
            when={"gamma": {"kernel": "rbf"}, "shrink": {"kernel": "rbf"}},
        )
    )


def test_inactive_values_are_missing_values_to_the_trees(svm):
    X = svm.encode([{"kernel": "rbf", "gamma": 0.5, "shrink": True}, {"kernel": "linear"}])
    columns = RandomForest(svm.layout)._columns(X)
    gamma = columns[:, svm.columns["gamma"].start]
    assert gamma[0] == 0.5
    assert np.isnan(gamma[1])


def test_activity_is_visible_to_the_trees(svm):
    X = svm.sample(4, np.random.default_rng(0))
    columns = RandomForest(svm.layout)._columns(X)
    for name in ("gamma", "shrink"):
        assert np.array_equal(columns[:, svm.activity[name]], X[:, svm.activity[name]])


def test_splits_respect_inactive_parameters(svm):
    """The stand-in value of an inactive parameter must not matter to any prediction."""
    rng = np.random.default_rng(4)
    X = svm.sample(80, rng)
    active = X[:, svm.activity["gamma"]] == 1
    y = np.where(active, X[:, svm.columns["gamma"].start], 0.2)
    forest = RandomForest(svm.layout).fit(Task.of(X, y))
    linear = svm.encode([{"kernel": "linear"}])
    other = linear.copy()
    other[:, svm.columns["gamma"]] = 0.99
    assert forest.predict(linear).mean == forest.predict(other).mean
    assert forest.predict(linear).mean == pytest.approx(0.2, abs=0.02)
    high = svm.encode([{"kernel": "rbf", "gamma": 0.9, "shrink": True}])
    assert forest.predict(high).mean == pytest.approx(0.9, abs=0.1)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_observations(n):
    task = sample_task(np.random.default_rng(5), 5)
    few = Task.of(task.X[:n].reshape(n, 2), task.y[:n])
    posterior = RandomForest(trees=20).fit(few).predict(task.X)
    assert np.isfinite(posterior.mean).all()
    assert np.isfinite(posterior.std).all()


def test_the_seed_decides():
    task = sample_task(np.random.default_rng(6))
    a, b, c = (RandomForest(trees=20, seed=s).fit(task).predict(task.X).mean for s in (1, 1, 2))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)
