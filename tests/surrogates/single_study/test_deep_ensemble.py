"""Deep Ensembles: likelihood and gradient, the mixture against samples, adversarial examples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import norm

from rankwise.history.task import Task
from rankwise.surrogates import DeepEnsemble
from rankwise.surrogates.numeric.batched_networks import Architecture
from rankwise.surrogates.single_study import deep_ensemble
from rankwise.surrogates.single_study.base import Networks, seeded
from rankwise.surrogates.single_study.deep_ensemble import Likelihood

SMALL = {"members": 4, "width": 12, "layers": 2, "epochs": 200}
TASK = Task.of(np.random.default_rng(0).random((12, 2)), np.random.default_rng(1).normal(size=12))


def test_the_likelihood_and_its_gradient():
    shape = Architecture(2, 3, 2, 5, 0, outputs=2)
    networks, generator = Networks(shape, seeded(0), torch.float64), seeded(1)
    weights = networks.weights.clone()
    y = torch.randn(6, dtype=torch.float64, generator=generator)
    gradient = torch.zeros_like(weights)
    rows = torch.rand((3, 6, 2), dtype=torch.float64, generator=generator)
    scorers = networks.scorers(weights, gradient, 6)
    likelihood = Likelihood(scorers, y)
    loss = likelihood(rows)

    outputs = scorers.forward(rows, None).numpy()
    std = np.sqrt(np.log1p(np.exp(outputs[:, 1])) + 1e-6)
    density = norm(outputs[:, 0], std).logpdf(y.numpy()) + 0.5 * np.log(2 * np.pi)
    assert loss == pytest.approx(-density.mean())
    found = gradient.clone()
    for k in range(0, shape.size, 7):
        weights[k] += 1e-6
        more = likelihood(rows)
        weights[k] -= 2e-6
        less = likelihood(rows)
        weights[k] += 1e-6
        # The gradient is that of the sum over the members, the loss their mean.
        assert float(found[k]) == pytest.approx(3 * (more - less) / 2e-6, rel=1e-4, abs=1e-7)


def test_the_mixture_has_the_moments_of_its_samples():
    fitted = DeepEnsemble(**SMALL).fit(TASK)
    X = np.random.default_rng(2).random((3, 2))
    posterior, outputs = fitted.predict(X, joint=True), fitted._networks.outputs(X)
    rng, count = np.random.default_rng(3), 400_000
    which = rng.integers(4, size=count)
    means, stds = outputs[:, 0], np.sqrt(np.log1p(np.exp(outputs[:, 1])) + 1e-6)
    samples = means[which] + stds[which] * rng.normal(size=(count, 3))
    scale, centre = fitted._transform.scale, fitted._transform.center
    samples = samples * scale + centre
    np.testing.assert_allclose(posterior.mean, samples.mean(axis=0), atol=0.01 * scale)
    np.testing.assert_allclose(posterior.std, samples.std(axis=0), rtol=0.01)
    np.testing.assert_allclose(
        posterior.covariance, np.cov(samples, rowvar=False), atol=0.02 * scale**2
    )


def test_members_are_trained_each_for_itself():
    five = DeepEnsemble(**SMALL | {"members": 5}).fit(TASK)._networks.outputs(TASK.X)
    assert five.shape == (5, 2, 12)
    assert np.ptp(five[:, 0], axis=0).min() > 0


def test_evaluations_are_learnt_and_unknown_places_are_less_certain():
    X = np.linspace(0.3, 0.7, 9)[:, None]
    fitted = DeepEnsemble(seed=1).fit(Task.of(X, np.sin(8 * X[:, 0])))
    near, far = fitted.predict(X), fitted.predict(np.array([[0.0], [1.0]]))
    assert (np.abs(near.mean - np.sin(8 * X[:, 0])) < 3 * near.std + 0.01).all()
    assert np.corrcoef(near.mean, np.sin(8 * X[:, 0]))[0, 1] > 0.95
    assert far.std.min() > near.std.mean()


def test_adversarial_examples_are_moved_to_where_they_are_less_likely(monkeypatch):
    calls = []

    class Spy(Likelihood):
        def __call__(self, rows):
            calls.append((rows.clone(), super().__call__(rows)))
            return calls[-1][1]

    monkeypatch.setattr(deep_ensemble, "Likelihood", Spy)
    DeepEnsemble(**SMALL | {"epochs": 3}, adversarial=0.02).fit(TASK)
    assert len(calls) == 6
    for (rows, loss), (moved, worse) in zip(calls[::2], calls[1::2], strict=True):
        shift = (moved - rows).abs()  # rows go from -1 to 1
        torch.testing.assert_close(shift, torch.full_like(shift, 0.04), atol=1e-6, rtol=0.0)
        assert worse > loss, "the loss is minus the log likelihood"


def test_adversarial_examples_smooth():
    def steepness(adversarial):
        fitted = DeepEnsemble(**SMALL | {"epochs": 400}, adversarial=adversarial).fit(TASK)
        return np.abs(fitted.predict(TASK.X + 0.01).mean - fitted.predict(TASK.X).mean).mean()

    assert steepness(0.05) < steepness(0.0)
