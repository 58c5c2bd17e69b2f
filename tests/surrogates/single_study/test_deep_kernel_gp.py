"""DKGP: with an identity for its network it is GPyTorch's exact Gaussian process."""

from __future__ import annotations

import gpytorch
import numpy as np
import pytest
import torch

from rankwise.history.task import Task
from rankwise.surrogates import LoneDeepKernelGP
from rankwise.surrogates.numeric.mlp import views
from rankwise.surrogates.shared_features.deep_kernel import (
    NOISE_FLOOR,
    DeepKernel,
    Evidence,
    fine_tune,
)
from rankwise.surrogates.shared_features.minibatches import Rows
from rankwise.surrogates.single_study import deep_kernel_gp as dkgp

rng = np.random.default_rng(0)
X, Z = rng.random((14, 2)), rng.random((6, 2))
TASK = Task.of(X, 7.0 * np.sin(5 * X[:, 0]) + X[:, 1])
KERNELS = {"rbf": gpytorch.kernels.RBFKernel, "matern52": gpytorch.kernels.MaternKernel}


class Exact(gpytorch.models.ExactGP):
    def __init__(self, X, y, likelihood, kernel):
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(KERNELS[kernel](ard_num_dims=2))

    def forward(self, X):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


@pytest.mark.parametrize("kernel", list(KERNELS))
def test_without_layers_the_posterior_is_that_of_gpytorch(kernel):
    fitted = LoneDeepKernelGP(kernel=kernel, layers=0, epochs=50).fit(TASK)
    process = fitted._process
    parts = views(process.weights, process.kernel.shapes)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    y = torch.as_tensor(fitted._transform(TASK.losses))
    model = Exact(torch.as_tensor(X), y, likelihood, kernel).double()
    likelihood.noise = parts["noise"].exp() + NOISE_FLOOR
    model.covar_module.outputscale = parts["scale"].exp()[0]
    model.covar_module.base_kernel.lengthscale = parts["lengthscales"].exp()
    model.mean_module.constant = process.gp.constant * process.scale**0.5
    model.eval()
    with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
        expected = model(torch.as_tensor(Z))
    posterior, scale = fitted.predict(Z, joint=True), fitted._transform.scale
    mean = expected.mean.numpy() * scale + fitted._transform.center
    np.testing.assert_allclose(posterior.mean, mean, rtol=1e-6)
    covariance = expected.covariance_matrix.numpy() * scale**2
    np.testing.assert_allclose(posterior.covariance, covariance, atol=1e-6 * scale**2)


def test_learning_raises_the_evidence():
    def cost(weights):
        return Evidence(kernel, weights, torch.zeros_like(weights))(rows, backward=False)

    fitted = LoneDeepKernelGP(width=8, epochs=80, seed=3).fit(TASK)
    kernel, y = DeepKernel(2, 2, 8), fitted._transform(TASK.losses)
    rows = Rows.of(X, y, y)
    before = cost(kernel.initial(torch.Generator().manual_seed(3)))
    assert cost(fitted._process.weights) < before - 1.0


def test_learning_starts_anew_each_time():
    surrogate = LoneDeepKernelGP(width=8, epochs=80)
    first = surrogate.fit(TASK).predict(Z)
    surrogate.fit(Task.of(Z, Z.sum(axis=1)))
    np.testing.assert_array_equal(surrogate.fit(TASK).predict(Z).mean, first.mean)


def test_some_evaluations_are_learnt_from_and_all_are_used(monkeypatch):
    learnt = []

    def spy(kernel, start, rows, **options):
        learnt.append(rows.X.shape[1])
        return fine_tune(kernel, start, rows, **options)

    monkeypatch.setattr(dkgp, "fine_tune", spy)
    many = np.random.default_rng(1).random((450, 2))
    fitted = LoneDeepKernelGP(width=4, epochs=2).fit(Task.of(many, many.sum(axis=1)))
    assert learnt == [200]
    assert len(fitted._process.gp.X) == 450
    LoneDeepKernelGP(width=4, epochs=2).fit(TASK)
    assert learnt == [200, 14]
