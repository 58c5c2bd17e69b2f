"""Gaussian process that knows the hyperparameters behind its columns: the model of `mbo`."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import Self

from rankwise._core.numerics import log_h
from rankwise.errors import OptionError, is_number
from rankwise.history.task import Task
from rankwise.surrogates.base import Posterior, Surrogate
from rankwise.surrogates.numeric.exact_gp import ExactGP, matern52, spread_over
from rankwise.surrogates.numeric.grouped_fit import fit_groups, start_of
from rankwise.surrogates.single_study.kernel_inputs import KernelInputs
from rankwise.surrogates.single_study.loss_warp import LossWarp
from rankwise.types import Array, Mask

if TYPE_CHECKING:
    from rankwise.space.encoder import Layout

_FIT_ROWS = 120  # most rows for fitting hyperparameters, whose cost grows with their cube
_MODEL_ROWS = 500  # most rows of the posterior; half of them are the best ones
_FAILURE = 3.0  # standard deviations by which a failure is worse than all losses, if warped
WARPS = (math.inf, 0.3, 0.01)
"""Softness of the scales of losses that are compared (see `LossWarp.fit`)."""
_LINEAR_EVERY = 3  # trials after which the losses are not warped
_TINY = 1e-10  # smallest standard deviation, relative to that of the losses


class StructuredGP(Surrogate):
    """Gaussian process with a Matérn-5/2 kernel and one length-scale per hyperparameter.

    The kernel handles choices and inactive hyperparameters (`KernelInputs`). The scale of the
    losses (`LossWarp`) is the one under which the losses are most probable, and linear at every
    third number of trials. Hyperparameters of the
    kernel are fitted by maximum a posteriori to at most 120 trials. The posterior is conditioned
    on all trials, or on 500 of them: the best ones, and others evenly spaced in the order of their
    losses.

    Args:
        layout: Layout of the columns.
        noise_floor: Smallest noise variance, relative to the variance of the warped losses.
        warps: Scales of losses that are compared (`LossWarp.fit`).

    Attributes:
        model: Fitted process; None without trials or columns.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        noise_floor: float = 1e-6,
        warps: tuple[float, ...] = WARPS,
    ) -> None:
        if not (is_number(noise_floor) and noise_floor > 0):
            raise OptionError(f"noise_floor must be a positive number, not {noise_floor!r}")
        self.noise_floor = noise_floor
        self.warps = warps
        self.inputs = KernelInputs.of(layout)
        self.model: ExactGP | None = None
        self._level = 0.0

    def fit(self, task: Task) -> Self:
        if len(task) == 0 or not len(self.inputs.groups):
            self.model = None
            self._level = float(np.mean(task.losses)) if len(task) else 0.0
            return self
        rows = _kept(task.losses)
        Z, losses, failed = self.inputs(task.X[rows]), task.losses[rows], ~task.ok[rows]
        few = spread_over(losses, _FIT_ROWS)
        theta = self._choose(Z[few], losses[few], failed[few], losses, task.fence)
        self._y = _warped(self._warp, losses, failed)
        scales = np.exp(theta[self.inputs.groups])
        self._condition(Z, self._y, scales, float(np.exp(theta[-1])))
        return self

    def _choose(self, Z: Array, few: Array, failed: Mask, losses: Array, outliers: float) -> Array:
        """Choose the warp of losses (n,) by some of them, `few`, at inputs Z; return theta."""
        best, found = -math.inf, start_of(self.inputs.groups, self.noise_floor)
        chosen, theta = math.inf, found
        # A logarithmic scale cannot represent losses far below the best one, so that expected
        # improvement stays near it. Proposals on the linear scale in between look elsewhere.
        several = len(np.unique(few)) > 3 and len(losses) % _LINEAR_EVERY > 0
        for c in self.warps if several else self.warps[:1]:
            warp = LossWarp.fit(few, c, fence=math.inf if several else outliers)
            y = _warped(warp, few, failed)
            theta, density = fit_groups(Z, y, self.inputs.groups, theta, self.noise_floor)
            density += warp.log_slope(few)
            if density > best:
                best, found, chosen = density, theta, c
        self._warp = LossWarp.fit(losses, chosen, outliers)
        return found

    def _condition(self, Z: Array, y: Array, scales: Array, noise: float) -> None:
        self.model = ExactGP.given(Z, y, matern52, scales, noise)
        self._incumbent = float(np.min(self.model.mean(Z)))

    def believing(self, X: Array) -> Self:
        twin = copy.copy(self)
        if self.model is not None:
            model, Z = self.model, self.inputs(X)
            points, y = np.concatenate([model.X, Z]), np.concatenate([self._y, model.mean(Z)])
            twin._condition(points, y, model.lengthscales, model.noise)
            assert twin.model is not None
            # The prior mean stays that of the true trials.
            twin.model = replace(twin.model, constant=model.constant)
            twin._y = y
        return twin

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        X = np.asarray(X, dtype=float)
        if self.model is None:
            n = len(X)
            return Posterior(np.full(n, self._level), np.ones(n), np.eye(n) if joint else None)
        Z = self.inputs(X)
        mean, variance = self.model.posterior(Z)
        losses, std = self._warp.unscale(mean, np.sqrt(variance))
        covariance = None
        if joint:
            factor = std / np.sqrt(np.maximum(variance, np.finfo(float).tiny))
            covariance = self.model.covariance(Z) * factor[:, None] * factor
        return Posterior(losses, std, covariance)

    def improvement(self, X: Array) -> Array | None:
        """Log expected improvement (n,) of warped losses, over the smallest posterior mean."""
        if self.model is None:
            return None
        mean, variance = self.model.posterior(self.inputs(np.asarray(X, dtype=float)))
        std = np.sqrt(np.maximum(variance, _TINY**2))
        utility: Array = np.log(std) + log_h((self._incumbent - mean) / std)
        return utility

    def slope(self, x: Array) -> tuple[float, Array] | None:
        if self.model is None:
            return None
        model = self.model
        z = self.inputs(x[None])[0]
        difference = (z - model.X) / model.lengthscales
        k, steep = matern52(np.einsum("nd,nd->n", difference, difference))
        half = model.whitener @ k
        solved = half @ model.whitener
        mean = model.constant + float(k @ model.weights)
        variance = max(1.0 - float(half @ half), _TINY**2)
        std = math.sqrt(variance)
        score = (self._incumbent - mean) / std
        value, by_score = _log_h_slope(score)
        # dk / dz is -steep * difference / lengthscales; by_score is d log_h / d score
        by_mean, by_std = -by_score / std, (1.0 - by_score * score) / std
        by_k = by_mean * model.weights - by_std * solved / std
        gradient = -((by_k * steep) @ difference) / model.lengthscales
        return value + math.log(std), self.inputs.pull_back(x, gradient)


def _log_h_slope(score: float) -> tuple[float, float]:
    """log h (see `log_h`) and its derivative Phi / h, both finite for every score."""
    value = float(log_h(np.array([score]))[0])
    from scipy.special import log_ndtr

    return value, math.exp(min(float(log_ndtr(score)) - value, 700.0))


def _warped(warp: LossWarp, losses: Array, failed: Mask) -> Array:
    """Warped losses (n,); on a logarithmic scale failures are clearly worse than all others."""
    y = warp(losses)
    if not math.isinf(warp.softness) and failed.any() and not failed.all():
        y[failed] = y[~failed].max() + _FAILURE
    return y


def _kept(losses: Array) -> list[int]:
    """At most `_MODEL_ROWS` rows: the best half of them, and others over the rest's range."""
    n = len(losses)
    if n <= _MODEL_ROWS:
        return list(range(n))
    order = np.argsort(losses, kind="stable")
    best, others = order[: _MODEL_ROWS // 2], order[_MODEL_ROWS // 2 :]
    places = np.linspace(0, len(others) - 1, _MODEL_ROWS - len(best)).round().astype(int)
    return sorted([*best.tolist(), *others[places].tolist()])
