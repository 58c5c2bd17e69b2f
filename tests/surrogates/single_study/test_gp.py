"""The Gaussian process against BoTorch and against formulas."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.spatial.distance import cdist

from rankwise._core.extras import LazyModule
from rankwise._core.threads import one_thread
from rankwise.history.task import Task
from rankwise.surrogates.numeric.exact_gp import (
    _negative_log_posterior,
    cholesky,
    lengthscale_prior,
    matern52,
    rbf,
)
from rankwise.surrogates.single_study.gp import GaussianProcess

torch, gpytorch, botorch = (
    LazyModule(name, "this test", "neural") for name in ("torch", "gpytorch", "botorch")
)


def sine_task(n: int = 25, d: int = 2, seed: int = 0) -> Task:
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return Task.of(X, 100 + 20 * np.sin(5 * X[:, 0]) + 3 * X.sum(axis=1))


@pytest.fixture(scope="module")
def fitted():
    return GaussianProcess().fit(sine_task())


def botorch_model(X, y, use_rbf_kernel=False):
    """BoTorch's model with the same kernel and the same priors, not fitted."""
    from botorch.models import SingleTaskGP
    from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
    from gpytorch.constraints import GreaterThan
    from gpytorch.likelihoods import GaussianLikelihood
    from gpytorch.priors import LogNormalPrior

    prior = LogNormalPrior(loc=-4.0, scale=1.0)
    likelihood = GaussianLikelihood(
        noise_prior=prior,
        noise_constraint=GreaterThan(1e-6, transform=None, initial_value=float(prior.mode)),
    )
    kernel = get_covar_module_with_dim_scaled_prior(
        ard_num_dims=X.shape[1], use_rbf_kernel=use_rbf_kernel
    )
    return SingleTaskGP(
        torch.as_tensor(X),
        torch.as_tensor(y)[:, None],
        likelihood=likelihood,
        covar_module=kernel,
        outcome_transform=None,
    )


def objective_in_botorch(model, gp):
    """BoTorch's log posterior (per observation) of the hyperparameters of an ExactGP."""
    model.covar_module.lengthscale = torch.as_tensor(gp.lengthscales)
    model.likelihood.noise = torch.as_tensor(gp.noise)
    model.mean_module.constant.data.fill_(gp.constant)
    model.train()
    value = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)(
        model(*model.train_inputs), model.train_targets
    )
    model.eval()
    return value.item()


@pytest.mark.parametrize(("n", "d"), [(5, 1), (20, 2), (40, 6), (80, 12)])
def test_finds_hyperparameters_at_least_as_likely_as_those_of_botorch(n, d):
    task = sine_task(n, d)
    fitted = GaussianProcess().fit(task)
    y = fitted._transform(task.y)
    model = botorch_model(task.X, y)
    ours = objective_in_botorch(model, fitted.model)
    reference = botorch_model(task.X, y)
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(reference.likelihood, reference)
    botorch.fit.fit_gpytorch_mll(mll)
    reference.train()
    theirs = mll(reference(*reference.train_inputs), reference.train_targets).item()
    assert ours > theirs - 1e-3


def test_posterior_is_that_of_botorch(fitted):
    task, Z = sine_task(), np.random.default_rng(1).random((40, 2))
    model = botorch_model(task.X, fitted._transform(task.y))
    objective_in_botorch(model, fitted.model)
    with torch.no_grad():
        reference = model.posterior(torch.as_tensor(Z))
    mean, variance = fitted.model.posterior(Z)
    assert mean == pytest.approx(reference.mean[:, 0].numpy(), abs=1e-8)
    assert variance == pytest.approx(reference.variance[:, 0].numpy(), abs=1e-8)
    covariance = reference.covariance_matrix.numpy()
    assert fitted.model.covariance(Z) == pytest.approx(covariance, abs=1e-8)


@pytest.mark.parametrize("kernel", [rbf, matern52])
def test_gradient_of_the_log_posterior(kernel):
    rng = np.random.default_rng(0)
    X, y, prior = rng.random((15, 3)), rng.normal(size=15), lengthscale_prior(3)
    theta = rng.normal(size=4) * 0.5 - 1

    def value(t):
        return _negative_log_posterior(t, X, y, kernel, prior)[0]

    gradient = _negative_log_posterior(theta, X, y, kernel, prior)[1]
    assert gradient == pytest.approx(approx_fprime(theta, value, 1e-6), abs=1e-5)


def test_a_singular_covariance_gets_a_jitter():
    L = cholesky(np.ones((5, 5)))
    assert pytest.approx(np.ones((5, 5)), abs=1e-6) == L @ L.T
    with pytest.raises(np.linalg.LinAlgError, match="not finite"):
        cholesky(np.full((3, 3), np.nan))


def test_posterior_is_that_of_a_matern_kernel_by_hand(fitted):
    """Textbook formulas with the fitted hyperparameters, in the units of the losses."""
    task, Z = sine_task(), np.random.default_rng(2).random((7, 2))
    scales, noise, constant = fitted.model.lengthscales, fitted.model.noise, fitted.model.constant

    def kernel(A, B):
        r = np.sqrt(5) * cdist(A / scales, B / scales)
        return (1 + r + r**2 / 3) * np.exp(-r)

    y = (task.y - fitted._transform.center) / fitted._transform.scale
    K = kernel(task.X, task.X) + noise * np.eye(len(y))
    k = kernel(Z, task.X)
    mean = constant + k @ np.linalg.solve(K, y - constant)
    variance = 1 - np.einsum("ij,ji->i", k, np.linalg.solve(K, k.T))
    posterior = fitted.predict(Z)
    unit = fitted._transform.scale
    assert posterior.mean == pytest.approx(mean * unit + fitted._transform.center, rel=1e-6)
    assert posterior.std == pytest.approx(np.sqrt(variance) * unit, rel=1e-4)


def test_interpolates_and_is_less_certain_away_from_the_data(fitted):
    task = sine_task()
    at_data = fitted.predict(task.X)
    assert at_data.mean == pytest.approx(task.y, abs=1.0)
    far = fitted.predict(np.array([[3.0, 3.0]]))
    assert far.std[0] > 5 * at_data.std.max()


def test_predicts_new_points():
    task, new = sine_task(60), sine_task(200, seed=9)
    posterior = GaussianProcess().fit(task).predict(new.X)
    assert np.abs(posterior.mean - new.y).mean() < 0.05 * new.y.std()
    assert (np.abs(posterior.mean - new.y) < 3 * posterior.std + 1e-2).mean() > 0.9


def test_joint_covariance_has_the_marginal_variances(fitted):
    Z = np.random.default_rng(3).random((6, 2))
    posterior = fitted.predict(Z, joint=True)
    assert np.sqrt(np.diag(posterior.covariance)) == pytest.approx(posterior.std, rel=1e-4)


def test_noise_is_fitted():
    rng = np.random.default_rng(0)
    X = rng.random((80, 1))
    clean, noise = np.sin(6 * X[:, 0]), rng.normal(size=80)
    low = GaussianProcess().fit(Task.of(X, clean)).model.noise
    high = GaussianProcess().fit(Task.of(X, clean + 0.5 * noise)).model.noise
    assert low < 1e-3 < 0.1 < high


def test_a_copula_ignores_monotone_changes_of_the_losses():
    task = sine_task()
    stretched = Task.of(task.X, np.exp(task.y / 10))
    Z = np.random.default_rng(4).random((5, 2))
    plain, other = (
        GaussianProcess(transform="copula").fit(t).predict(Z) for t in (task, stretched)
    )
    assert plain.mean == pytest.approx(other.mean, abs=1e-9)


@pytest.mark.parametrize(
    "y",
    [[1.0] * 6, [0, 0, 1, 1, 0, 1], [1e300, -1e300, 0, 1, 2, 3], [1e-300] * 6, [5] * 5 + [np.nan]],
)
def test_degenerate_losses_give_a_finite_posterior(y):
    X = np.random.default_rng(5).random((6, 3))
    posterior = GaussianProcess().fit(Task.of(X, y)).predict(X)
    assert np.isfinite(posterior.mean).all()
    assert np.isfinite(posterior.std).all()


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_observations(n):
    task = sine_task()
    few = Task.of(task.X[:n].reshape(n, 2), task.y[:n])
    posterior = GaussianProcess().fit(few).predict(task.X)
    assert np.isfinite(posterior.mean).all()
    assert (posterior.std > 0).any()


def test_repeated_points_do_not_break_the_fit():
    X = np.repeat(np.random.default_rng(6).random((4, 2)), 5, axis=0)
    y = np.tile([1.0, 2.0, 1.5, 0.5, 1.2], 4)
    assert np.isfinite(GaussianProcess().fit(Task.of(X, y)).predict(X).mean).all()


def test_threads_are_restored():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
