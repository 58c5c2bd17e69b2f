"""Gaussian process (Kriging) with a Matérn-5/2 kernel and one length-scale per column."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
from typing_extensions import Self

from rankwise.errors import OptionError, check_name, is_number
from rankwise.history.task import Task
from rankwise.history.transforms import TRANSFORMS, Transform, fit_transform
from rankwise.surrogates.base import Posterior, Surrogate
from rankwise.surrogates.numeric.exact_gp import (
    ExactGP,
    fit_hyperparameters,
    matern52,
    spread_over,
)
from rankwise.types import Array

_FIT_ROWS = 150  # most rows for fitting hyperparameters: more rows change little and cost O(n^3)


class GaussianProcess(Surrogate):
    """Gaussian process on the unit cube.

    It has a Matérn-5/2 kernel with one length-scale per column, a constant mean and fitted noise.
    The length-scales have a log-normal prior that grows with the number of columns. The
    hyperparameters are fitted by maximum a posteriori to at most 150 trials, which are evenly
    spaced in the order of their losses. The posterior is conditioned on all trials.

    Args:
        transform: Transform of the losses: "standardize", "copula" (normal scores of the ranks)
            or "power" (the power transform that makes the losses most similar to a normal
            sample). With "standardize" the posterior is in units of the loss; with the others it
            is in units of the transformed loss.
        noise_floor: Smallest noise variance, relative to the variance of the transformed losses.

    Attributes:
        model: Fitted process; None without trials or columns.
    """

    def __init__(self, *, transform: str = "standardize", noise_floor: float = 1e-6) -> None:
        check_name("transform", transform, TRANSFORMS)
        if not (is_number(noise_floor) and noise_floor > 0):
            raise OptionError(f"noise_floor must be a positive number, not {noise_floor!r}")
        self.transform = transform
        self.noise_floor = noise_floor
        self.model: ExactGP | None = None
        self._transform: Transform | None = None

    @property
    def in_losses(self) -> bool:
        return self.transform == "standardize"

    def fit(self, task: Task) -> Self:
        if len(task) == 0 or task.X.shape[1] == 0:
            self.model = None
            self._level = float(np.mean(task.losses)) if len(task) else 0.0
            return self
        self._transform = fit_transform(self.transform, task.losses)
        self._y = y = self._transform(task.losses)
        rows = spread_over(y, _FIT_ROWS)
        lengthscales, noise = self._hyperparameters(task.X[rows], y[rows])
        self.model = ExactGP.given(self._inputs(task.X), y, matern52, lengthscales, noise)
        return self

    def _hyperparameters(self, X: Array, y: Array) -> tuple[Array, float]:
        """Fit length-scales (d,) and noise variance to transformed losses y (n,) at X (n, d)."""
        return fit_hyperparameters(X, y, matern52, self.noise_floor)

    def _inputs(self, X: Array) -> Array:
        """Map configurations X (n, d) to the inputs (n, d) of the kernel; here unchanged."""
        return X

    def believing(self, X: Array) -> Self:
        twin = copy.copy(self)
        if self.model is not None:
            model, X = self.model, self._inputs(X)
            points, y = np.concatenate([model.X, X]), np.concatenate([self._y, model.mean(X)])
            # The prior mean stays that of the true trials.
            twin.model = replace(
                ExactGP.given(points, y, matern52, model.lengthscales, model.noise),
                constant=model.constant,
            )
            twin._y = y
        return twin

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        X = np.asarray(X, dtype=float)
        if self.model is None:
            n = len(X)
            return Posterior(np.full(n, self._level), np.ones(n), np.eye(n) if joint else None)
        assert self._transform is not None
        X = self._inputs(X)
        mean, variance = self.model.posterior(X)
        mean, std = self._transform.unscale(mean, np.sqrt(variance))
        covariance = None
        if joint:
            _, factor = self._transform.unscale(np.zeros(1), np.ones(1))
            covariance = self.model.covariance(X) * factor[0] ** 2
        return Posterior(mean, std, covariance)
