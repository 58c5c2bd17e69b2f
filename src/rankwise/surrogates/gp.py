"""Gaussian process (Kriging) through BoTorch: Matérn-5/2, one length-scale per column."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from botorch.exceptions.errors import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from gpytorch.constraints import GreaterThan
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import LogNormalPrior
from linear_operator.utils.cholesky import psd_safe_cholesky
from typing_extensions import Self

from rankwise.surrogates.base import Posterior, Surrogate
from rankwise.surrogates.threads import one_thread
from rankwise.task import Task
from rankwise.transforms import Transform, fit_transform
from rankwise.types import Array

# The search for hyperparameters ends where the likelihood is flat: length-scales of columns that
# do not matter would otherwise wander on for hundreds of steps without changing a prediction.
_ENOUGH = 150  # rows from which hyperparameters are fitted; more change little and cost n^3
_SEARCH = {"maxiter": 100, "ftol": 1e-6, "gtol": 1e-4}


class GaussianProcess(Surrogate):
    """A Gaussian process on the unit cube.

    Matérn-5/2 kernel with one length-scale per column (log-normal prior that grows with the
    dimension), constant mean and fitted noise; hyperparameters by maximum a posteriori.

    Args:
        transform: of the losses: "standardize" (the posterior is in units of the loss) or
            "copula" (normal scores of ranks; the posterior stays in those units).
        noise_floor: smallest noise variance, relative to the variance of the losses.
    """

    def __init__(self, *, transform: str = "standardize", noise_floor: float = 1e-6) -> None:
        self.transform = transform
        self.noise_floor = noise_floor
        self._model: Any = None
        self._transform: Transform | None = None

    def fit(self, task: Task) -> Self:
        if len(task) == 0 or task.X.shape[1] == 0:
            self._model = None
            level = float(np.mean(task.losses)) if len(task) else 0.0
            self._prior = level
            return self
        y = task.losses
        self._transform = fit_transform(self.transform, y)
        with one_thread(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            torch.manual_seed(0)  # a fit that fails is begun again at random
            warnings.simplefilter("ignore")  # BoTorch's advice on scaling: we scaled already
            self._model = self._fit_model(
                torch.as_tensor(task.X), torch.as_tensor(self._transform(y))[:, None]
            )
            with torch.no_grad():
                self._cache()
        return self

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        if self._model is None:
            n = len(X)
            return Posterior(np.full(n, self._prior), np.ones(n), np.eye(n) if joint else None)
        assert self._transform is not None
        points = torch.as_tensor(np.asarray(X, dtype=float))
        with one_thread(), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mean, variance = (t.numpy() for t in self._marginals(points))
            covariance = self._model.posterior(points).covariance_matrix.numpy() if joint else None
        mean, std = self._transform.unscale(mean, np.sqrt(variance))
        if covariance is not None:
            _, factor = self._transform.unscale(np.zeros(1), np.ones(1))
            covariance = covariance * factor[0] ** 2
        return Posterior(mean, std, covariance)

    @property
    def lengthscales(self) -> Array:
        """Fitted length-scales (d,)."""
        values: Array = self._model.covar_module.lengthscale.detach().numpy().ravel()
        return values

    def _marginals(self, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Posterior mean and variance (n,) at X (n, d).

        The same numbers as `model.posterior`, which would build all n x n covariances first.
        """
        kernel, mean_module = self._model.covar_module, self._model.mean_module
        cross = kernel(X, self._model.train_inputs[0]).to_dense()
        mean = mean_module(X) + cross @ self._weights
        explained = (cross @ self._whitener.T).square().sum(dim=1)
        return mean, (kernel(X, diag=True) - explained).clamp_min(0.0)

    def _cache(self) -> None:
        """What prediction needs of the training data: (K + noise)^-1 (y - mean), and L^-1."""
        model = self._model
        X, y = model.train_inputs[0], model.train_targets
        K = model.covar_module(X).to_dense() + model.likelihood.noise * torch.eye(len(X))
        L = psd_safe_cholesky(K)
        self._whitener = torch.linalg.solve_triangular(
            L, torch.eye(len(X), dtype=L.dtype), upper=False
        )
        self._weights = self._whitener.T @ (self._whitener @ (y - model.mean_module(X)))

    def _fit_model(self, X: torch.Tensor, y: torch.Tensor) -> Any:
        """A model of X (n, d) and y (n, 1), whose hyperparameters come from some of many rows."""
        if len(X) <= _ENOUGH:
            return self._fit_hyperparameters(X, y)
        # Evenly over the order of the losses: the best and the worst are among them.
        chosen = torch.linspace(0, len(X) - 1, _ENOUGH).round().long()
        rows = torch.argsort(y[:, 0], stable=True)[chosen]
        model = self._fit_hyperparameters(X[rows], y[rows])
        model.set_train_data(X, y[:, 0], strict=False)
        return model

    def _fit_hyperparameters(self, X: torch.Tensor, y: torch.Tensor) -> Any:
        kernel = get_covar_module_with_dim_scaled_prior(
            ard_num_dims=X.shape[1], use_rbf_kernel=False
        )
        prior = LogNormalPrior(loc=-4.0, scale=1.0)
        likelihood = GaussianLikelihood(
            noise_prior=prior,
            noise_constraint=GreaterThan(
                self.noise_floor, transform=None, initial_value=float(prior.mode)
            ),
        )
        model = SingleTaskGP(
            X, y, likelihood=likelihood, covar_module=kernel, outcome_transform=None
        )
        if len(X) > 1:
            try:
                fit_gpytorch_mll(
                    ExactMarginalLogLikelihood(model.likelihood, model),
                    optimizer_kwargs={"options": _SEARCH},
                )
            except ModelFittingError:
                pass  # the prior's mode, where the search started, is a usable model
        model.eval()
        return model
