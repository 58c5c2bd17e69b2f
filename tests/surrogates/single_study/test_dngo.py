"""DNGO: a Bayesian linear regression in closed form on whatever the network's features are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from rankwise.history.task import Task
from rankwise.surrogates import DeepGlobalOptimization
from rankwise.surrogates.numeric.bayesian_linear import Belief, Spectrum, most_likely
from rankwise.surrogates.single_study.dngo import _BELIEF, sampled_precisions

SMALL = {"layers": 2, "width": 7, "epochs": 100}
rng = np.random.default_rng(0)
X, Z = rng.random((15, 2)), rng.random((5, 2))
TASK = Task.of(X, np.sin(5 * X[:, 0]) + X[:, 1])


def closed_form(phi, y, at, alpha, beta):
    """Mean and covariance of a Bayesian linear regression, by the textbook."""
    A = alpha * np.eye(phi.shape[1]) + beta * phi.T @ phi
    return at @ np.linalg.solve(A, beta * phi.T @ y), at @ np.linalg.inv(A) @ at.T


@pytest.mark.parametrize("bowl", [True, False])
def test_the_posterior_is_that_of_a_regression_on_the_features(bowl):
    fitted = DeepGlobalOptimization(**SMALL, bowl=bowl).fit(TASK)
    phi, at, y = fitted.features(X), fitted.features(Z), fitted._transform(TASK.losses)
    assert phi.shape == (15, 7 + 4 * bowl + 1)
    alpha, beta = np.exp(most_likely(Spectrum.of(phi, y), _BELIEF))
    mean, covariance = closed_form(phi, y, at, alpha, beta)
    posterior, scale = fitted.predict(Z, joint=True), fitted._transform.scale
    np.testing.assert_allclose(posterior.mean, mean * scale + fitted._transform.center)
    np.testing.assert_allclose(posterior.covariance, covariance * scale**2, rtol=1e-6)
    np.testing.assert_allclose(posterior.std**2, np.diag(covariance) * scale**2, rtol=1e-6)


def test_drawn_precisions_are_mixed():
    fitted = DeepGlobalOptimization(**SMALL, draws=5).fit(TASK)
    at, scale = fitted.features(Z), fitted._transform.scale
    moments = [p.moments(at) for p in fitted._posteriors]
    means, variances = (np.stack(part) for part in zip(*moments, strict=True))
    posterior = fitted.predict(Z, joint=True)
    assert len(moments) == 5 and means.std(axis=0).min() > 0
    np.testing.assert_allclose(posterior.mean, means.mean(0) * scale + fitted._transform.center)
    np.testing.assert_allclose(posterior.std**2, (variances.mean(0) + means.var(0)) * scale**2)
    np.testing.assert_allclose(np.diag(posterior.covariance), posterior.std**2)


def test_draws_of_precisions_have_the_density_that_a_grid_has():
    phi = np.random.default_rng(1).normal(size=(12, 3))
    y = phi @ [1.0, -0.5, 0.3] + 0.3 * np.random.default_rng(2).normal(size=12)
    spectrum, belief = Spectrum.of(phi, y), Belief(np.zeros(2), np.full(2, 1.5))
    draws = np.array(
        sampled_precisions(spectrum, belief, np.zeros(2), 3000, np.random.default_rng(3))
    )
    grid = np.array([(a, b) for a in np.linspace(-6, 6, 31) for b in np.linspace(-6, 6, 31)])

    def log_density(a, b):
        K = phi @ phi.T * np.exp(-a) + np.eye(12) * np.exp(-b)
        return multivariate_normal(np.zeros(12), K).logpdf(y) - 0.5 * (a * a + b * b) / 1.5**2

    logs = [log_density(a, b) for a, b in grid]
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    mean = weights @ grid
    std = np.sqrt(weights @ np.square(grid - mean))
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.12)
    np.testing.assert_allclose(draws.std(axis=0), std, rtol=0.12)


def test_a_function_is_learnt():
    fitted = DeepGlobalOptimization().fit(TASK)
    assert fitted.predict(X).mean == pytest.approx(TASK.losses, abs=0.1)
