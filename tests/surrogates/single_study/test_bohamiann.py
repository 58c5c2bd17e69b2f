"""BOHAMIANN: the sampler on posteriors known in closed form, the energy against autograd."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from rankwise.history.task import Task
from rankwise.surrogates import BayesianNetworks
from rankwise.surrogates.numeric.batched_networks import Architecture
from rankwise.surrogates.numeric.sghmc import AdaptiveSGHMC
from rankwise.surrogates.single_study.base import Networks, seeded
from rankwise.surrogates.single_study.bohamiann import Energy


@pytest.mark.parametrize("batch", [0, 10])
def test_weights_of_a_linear_network_have_the_posterior_of_the_textbook(batch):
    """Many chains of y = phi w + noise, by gradients of all evaluations or of some."""
    rng, chains = np.random.default_rng(0), 200
    phi = rng.normal(size=(40, 3)) * [1.0, 0.5, 2.0]
    y = phi @ [1.0, -2.0, 0.5] + 0.5 * rng.normal(size=40)
    beta = 4.0
    covariance = np.linalg.inv(np.eye(3) + beta * phi.T @ phi)
    mean = covariance @ (beta * phi.T @ y)

    features, target = torch.as_tensor(phi), torch.as_tensor(y)
    theta = torch.zeros(3 * chains, dtype=torch.float64)
    gradient, weights = torch.zeros_like(theta), theta.view(chains, 3)
    generator = torch.Generator().manual_seed(0)
    sampler = AdaptiveSGHMC(theta, gradient, generator, rate=0.03, exact=not batch)
    draws = []
    for step in range(2500):
        rows = torch.randperm(40, generator=generator)[:batch] if batch else slice(None)
        gap = weights @ features[rows].T - target[rows]
        scale = beta * (40 / batch if batch else 1.0)
        gradient.copy_((weights + scale * gap @ features[rows]).flatten())
        if step < 1000:
            sampler.burn_in()
        else:
            sampler.step()
            if step % 50 == 0:
                draws.append(weights.clone())
    found = torch.cat(draws).numpy()
    std = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(found.mean(axis=0), mean, atol=0.15 * std.max())
    tolerance = 0.4 if batch else 0.1  # the noise of a gradient is not quite known
    np.testing.assert_allclose(found.std(axis=0), std, rtol=tolerance)
    if not batch:
        wanted = covariance / np.outer(std, std)
        np.testing.assert_allclose(np.corrcoef(found, rowvar=False), wanted, atol=0.1)


def test_the_burn_in_is_that_of_the_paper():
    """Window, mean and second moment by hand, for one number after the other."""
    gradients = torch.tensor([[3.0, -0.5, 0.0], [1.0, 2.0, 0.1], [-4.0, 2.5, 0.2]]).double()
    theta, gradient = torch.zeros(3).double(), torch.zeros(3).double()
    sampler = AdaptiveSGHMC(theta, gradient, seeded(0), rate=0.1, friction=0.2, exact=False)
    state = [(1.0, 1.0, 1.0)] * 3
    for row in gradients:
        gradient.copy_(row)
        sampler.burn_in()
        for k, (tau, g, V) in enumerate(state):
            share, slope = 1.0 / (tau + 1.0), float(row[k])
            state[k] = (
                tau - tau * g * g / V + 1.0,
                g + share * (slope - g),
                V + share * (slope * slope - V),
            )
        taus, means, squares = zip(*state, strict=True)
        assert sampler._window.tolist() == pytest.approx(taus)
        assert sampler._mean.tolist() == pytest.approx(means)
        assert sampler._square.tolist() == pytest.approx(squares)
        variance = [max(2 * 0.01 * 0.2 / math.sqrt(V) - 0.1**4, 0.0) for V in squares]
        assert sampler._spread.square().tolist() == pytest.approx(variance)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.7])
def test_the_noise_of_a_step_has_the_variance_of_the_paper(rate, exact):
    slope, friction, size = 3.0, 0.05, 200_000
    theta, gradient = torch.zeros(size).double(), torch.full((size,), slope).double()
    options = {"rate": rate, "friction": friction, "exact": exact}
    sampler = AdaptiveSGHMC(theta, gradient, seeded(0), **options)
    sampler.burn_in()
    V = 0.5 * (1.0 + slope**2)
    variance = max(2 * rate**2 * friction / math.sqrt(V) - (0 if exact else rate**4), 0.0)
    assert float(theta.var()) == pytest.approx(variance, rel=0.02)
    assert float(theta.mean()) == pytest.approx(-(rate**2) * slope / math.sqrt(V), rel=0.02)


@pytest.mark.parametrize("batch", [6, 3])
def test_the_gradient_of_the_energy_is_that_of_autograd(batch):
    shape = Architecture(2, 3, 2, 5, 0, tanh=True)
    networks = Networks(shape, seeded(0), torch.float64)
    rng = np.random.default_rng(0)
    X, y = rng.random((6, 2)), rng.normal(size=6)
    energy = Energy(networks, X, y, batch, 1.5, seeded(1))
    energy(0)
    chosen = energy._chosen[0] if batch < 6 else torch.arange(6)

    theta = energy.theta.clone().requires_grad_()
    w, log_noise = shape.views(theta[: shape.size]), theta[shape.size :]
    rows = torch.as_tensor(2 * X - 1)[chosen]
    a = torch.tanh(rows @ w["x"] + w["b0"])
    a = torch.tanh(a @ w["w1"] + w["b1"])
    gap = (a @ w["out"].mT + w["b_out"])[..., 0] - torch.as_tensor(y)[chosen]
    precision = (-log_noise).exp()
    expected = (6 / batch) * 0.5 * (precision[:, None] * gap.square() + log_noise[:, None]).sum()
    for name, part in w.items():
        inputs = {"x": 2, "w1": 5, "out": 5}.get(name, 1)
        expected = expected + 0.5 * inputs * part.square().sum() / 1.5**2
    expected = expected + 0.5 * (log_noise - math.log(1e-3)).square().sum()
    (slope,) = torch.autograd.grad(expected, theta)
    torch.testing.assert_close(energy.gradient, slope)


def test_draws_are_gathered_from_all_chains():
    X = np.random.default_rng(0).random((8, 2))
    options = {"chains": 3, "draws": 4, "burn_in": 20, "thin": 2, "width": 6, "layers": 2}
    fitted = BayesianNetworks(**options).fit(Task.of(X, X.sum(axis=1)))
    values = fitted._networks.outputs(X)[:, 0]
    assert values.shape == (12, 8) and len(np.unique(values[:, 0])) == 12


def test_a_function_is_learnt_with_an_uncertainty_that_grows():
    X = np.linspace(0.3, 0.7, 9)[:, None]
    fitted = BayesianNetworks(burn_in=1000, thin=20, width=20, rate=0.02)
    fitted.fit(Task.of(X, np.sin(8 * X[:, 0])))
    near, far = fitted.predict(X), fitted.predict(np.array([[0.0], [1.0]]))
    assert near.mean == pytest.approx(np.sin(8 * X[:, 0]), abs=0.25)
    assert far.std.min() > 2 * near.std.mean()
