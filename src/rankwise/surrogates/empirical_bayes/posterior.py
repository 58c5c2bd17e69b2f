"""The posterior of `eb-gp` and `eb-net`: all models of the grid, conditioned on the target task.

The log evidence of each model is computed in closed form. The most probable models give the
posterior of the losses, the utility of a configuration and the gradient of the utility. Equation
numbers are those of docs/prior.md.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.linalg import blas, lapack
from scipy.special import logsumexp, ndtr
from typing_extensions import Self

from rankwise._core.numerics import log_h
from rankwise.history.task import Task
from rankwise.history.transforms import Standardize
from rankwise.surrogates.base import Posterior
from rankwise.surrogates.empirical_bayes.model_grid import (
    KAPPA,
    Fit,
    Models,
    factors,
    fit_models,
    residual_kernels,
    residual_slopes,
    weights_with_opposites,
)
from rankwise.surrogates.empirical_bayes.past_functions import Past, View
from rankwise.surrogates.empirical_bayes.source_votes import Ballot
from rankwise.surrogates.numeric.exact_gp import spread_over
from rankwise.types import Array

_ROOT_2PI = math.sqrt(2.0 * math.pi)
_MAX_ROWS_TO_WEIGH = 100  # observations that weight the models; predictions use all of them
_MIN_SHARE = 0.01  # models with a smaller share of their group's weight are left out
_LEADING_PER_PLAIN = 4  # one in so many of the leading models is plain
_TINY = 1e-12  # smallest variance; a smaller utility counts as zero
_SMALLEST = float(np.finfo(float).tiny)  # smallest positive number of which a logarithm is taken


class Conditioned:
    """The models of the grid, conditioned on the target task.

    The models form two groups: plain models, which use only the length-scales of the source
    tasks, and informed models, which also use their mean or covariance.

    Args:
        past: The source tasks' functions.
        models: All models, with their prior.
        task: The target task; it may be empty.
        lengthscales: Length-scales (d,) of the residual kernel; by default those of the past.
        caution: Smallest total share of the plain models (eq. 6).
        portfolio: Weight of the portfolio term rho (eq. 5). The term is divided by the number of
            observations and pending configurations.
        leading: Maximum number H of models that are averaged over.

    Attributes:
        models: All models, with their prior; also the opposites if they have a weight.
        weights: Posterior probabilities of all models, which sum to one (eq. 3).
        lead: The H most probable models, which are averaged over.
        share: Their weights in the average (H,), which sum to one.
        fit: The fit of these H models to the observations.
        ballot: Weights of the source tasks in the portfolio term.
    """

    def __init__(
        self,
        past: Past,
        models: Models,
        task: Task,
        lengthscales: Array | None = None,
        *,
        caution: float,
        portfolio: float,
        leading: int,
    ) -> None:
        self._past, self._portfolio, self.models = past, portfolio, models
        self._lengthscales = past.lengthscales if lengthscales is None else lengthscales
        n = len(task)
        X = task.X if n else np.empty((0, len(past.lengthscales)))
        self._transform = (
            Standardize.fit(task.losses, task.fence) if n else Standardize(0.0, 1.0, np.inf)
        )
        self._y = self._transform(task.losses)
        self._X, self._view = X, past.view(X)
        if n == 0:
            self.weights = models.prior
        else:
            some, seen, y = X, self._view, self._y
            if n > _MAX_ROWS_TO_WEIGH:
                rows = spread_over(y, _MAX_ROWS_TO_WEIGH)
                some, seen, y = X[rows], seen.rows(rows), y[rows]
            square = residual_kernels(some, some, self._lengthscales)
            every = models.with_opposites
            fit = fit_models(every, seen.mean, seen.spread, square, y)
            found = weights_with_opposites(every, fit.log_evidence, y)
            if found[len(models) :].any():
                self.models = models = every
            fit, self.weights = fit.some(np.arange(len(models))), found[: len(models)]
        lead, self.share = self._leaders(models, caution, leading)
        self.lead = models.some(lead)
        if n == 0:
            h = len(lead)
            nothing = np.empty((h, 0)), np.empty((h, 0, 0)), np.arange(h)
            self.fit = Fit(np.zeros(h), np.ones(h), *nothing)
        elif n <= _MAX_ROWS_TO_WEIGH:
            self.fit = fit.some(lead)
        else:
            used, which = np.unique(self.lead.factor, return_inverse=True)
            kernels = residual_kernels(X, X, self._lengthscales, used.tolist())
            renumbered = replace(self.lead, factor=which)
            self.fit = fit_models(renumbered, self._view.mean, self._view.spread, kernels, self._y)
        self._prepare()

    def _leaders(self, models: Models, caution: float, leading: int) -> tuple[np.ndarray, Array]:
        """Indices of the models that are averaged over, and their shares, which sum to one.

        The most probable models of each group (informed and plain) are chosen. They share the
        total weight of their group in proportion to their own weights. The total weight of the
        plain group is at least `caution`.
        """
        informed, plain = models.groups
        weights = self.weights.tolist()  # plain Python is faster than NumPy for so few numbers
        informed_total = (1.0 - caution) * sum(weights[h] for h in informed)
        count = max(1, leading // _LEADING_PER_PLAIN)
        lead: list[int] = []
        share: list[float] = []
        for members, n, total in (
            (informed, leading - count, informed_total),
            (plain, count, 1.0 - informed_total),
        ):
            top = sorted(members, key=weights.__getitem__, reverse=True)[:n]
            least = _MIN_SHARE * sum(weights[h] + _SMALLEST for h in top)
            large = [h for h in top if weights[h] + _SMALLEST >= least]
            whole = sum(weights[h] + _SMALLEST for h in large)
            lead += large
            share += [total * (weights[h] + _SMALLEST) / whole for h in large]
        return np.array(lead), np.array(share)

    def believing(self, X: Array) -> Self:
        """Return a copy that treats the posterior mean at pending X (m, d) as observed.

        Each model is given its own posterior mean, so its whitened residuals at X are zero. Its
        mean function and scale, and the weights of the models, stay the same. Only the
        covariances shrink. This needs no refit.
        """
        twin = copy.copy(self)
        if not len(X):
            return twin
        twin._X = np.concatenate([self._X, X])
        twin._view = self._past.view(twin._X)
        kernels = residual_kernels(twin._X, twin._X, self._lengthscales)
        L, _ = factors(self.lead, twin._view.spread, kernels)
        target = np.concatenate([self.fit.target, np.zeros((len(L), len(X)))], axis=1)
        twin.fit = replace(self.fit, target=target, factors=L, kind=np.arange(len(L)))
        twin._prepare()
        return twin

    def predict(self, X: Array, joint: bool) -> Posterior:
        """Posterior of the losses at X (n, d): mean and std (n,) of the mixture of models.

        Args:
            X: Points in the unit cube (n, d).
            joint: Also compute the covariance (n, n).
        """
        view, mean, variance, half = self._moments(X)
        mean, variance = mean / self.fit.v[:, None], np.maximum(variance, 0.0)
        variance /= np.square(self.fit.v)[:, None]
        centre = self.share @ mean
        deviation = mean - centre
        spread = np.sqrt(self.share @ (variance + np.square(deviation)))
        unscaled = self._transform.unscale(centre, spread)
        covariance = self._covariance(X, view, half, deviation) if joint else None
        return Posterior(*unscaled, covariance)

    def improvement(self, X: Array) -> Array:
        """Log utility (n,) of X (n, d): log of expected improvement plus the portfolio term.

        The expected improvement is averaged over the leading models (eq. 4). For the portfolio
        term (eq. 5) see `Ballot.promise`. If there is neither an observation nor a pending
        configuration, the utility is -mu(x), the negative mean of the source tasks' functions.
        """
        view, mean, variance, _ = self._moments(X)
        if not len(self._X):
            return -view.mean
        gain, std = self._incumbents[:, None] - mean, np.sqrt(np.maximum(variance, _TINY))
        share = self.share / self.fit.v
        z = gain / std
        total = share @ (std * (z * ndtr(z) + np.exp(-0.5 * z * z) / _ROOT_2PI))
        total = np.maximum(total, 0.0) + self.ballot.promise(view.votes)
        if total.max(initial=0.0) > _TINY:
            utility: Array = np.log(np.maximum(total, _SMALLEST))
            return utility
        # All utilities underflow: compute the log of the expected improvement directly.
        return np.asarray(logsumexp(np.log(std) + log_h(z), axis=0, b=share[:, None]))

    def slope(self, x: Array) -> tuple[float, Array]:
        """Value of `improvement` at x (d,) and its gradient (d,).

        The gradient is zero where the utility underflows.
        """
        by_mean, by_spread, by_votes = self._past.slopes(x)
        view, mean, variance, half = self._moments(x[None])
        if not len(self._X):
            return -float(view.mean[0]), -by_mean
        lead, share = self.lead, self.share / self.fit.v
        kernels = residual_slopes(x, self._X, self._lengthscales, self._factors)
        half = half[:, :, 0]
        std = np.sqrt(np.maximum(variance[:, 0], _TINY))
        z = (self._incumbents - mean[:, 0]) / std
        density, below = np.exp(-0.5 * z * z) / _ROOT_2PI, ndtr(z)
        total = float(share @ (std * (z * below + density)))
        # d EI = density / (2 std) d variance - below d mean. The derivatives of variance and mean
        # are linear in the gradients of the covariances with the observations. So the sum over
        # models is taken first, and then multiplied by these gradients.
        by_variance, by_gain = share * density / (2.0 * std), share * below
        weight = -2.0 * by_variance[:, None] * half - by_gain[:, None] * self.fit.target
        weight = np.einsum("hk,hkn->hn", weight, self._whitener)
        source, residual = np.square(lead.source), np.square(lead.residual)
        row = (source @ weight) @ self._view.spread
        row = row + 2.0 * float(by_variance @ source) * view.spread[0]
        gradient = row @ by_spread - float(by_gain @ lead.mean) * by_mean
        for k, slopes in enumerate(kernels):
            gradient = gradient + ((residual * (self._factor_index == k)) @ weight) @ slopes
        votes = view.votes[0]
        total = max(total, 0.0) + float(self.ballot.promise(votes[None])[0])
        gradient += self.ballot.slope(votes, by_votes)
        if total <= _TINY:
            return math.log(_SMALLEST), np.zeros(len(x))
        return math.log(total), gradient / total

    def _moments(self, X: Array) -> tuple[View, Array, Array, Array]:
        """Posterior moments of the leading models at X (m, d), for n observations.

        Returns:
            The source tasks' functions at X, posterior means (H, m) and variances (H, m) of
            y / u, and the whitened covariances L^-1 k (H, n, m) between observations and X.
        """
        view, lead = self._past.view(X), self.lead
        mean, variance = lead.mean[:, None] * view.mean, self._prior_variance(view)
        if not len(self._X):
            return view, mean, variance, np.empty((len(lead), 0, len(X)))
        transfer = self._view.spread @ view.spread.T
        kernels = residual_kernels(self._X, X, self._lengthscales, self._factors)
        half = np.empty((len(lead), *transfer.shape))
        weights, residuals = np.square(lead.source).tolist(), np.square(lead.residual).tolist()
        shared = {weight: weight * transfer + KAPPA if weight else KAPPA for weight in weights}
        for h, weight in enumerate(weights):  # one model at a time fits in the CPU cache
            part = half[h]
            np.multiply(kernels[self._factor_index[h]], residuals[h], out=part)
            part += shared[weight]
            # This works in place, because part.T is in Fortran order.
            blas.dtrmm(1.0, self._whitener[h].T, part.T, side=1, overwrite_b=1)
            mean[h] += self.fit.target[h] @ part
            variance[h] -= np.einsum("nm,nm->m", part, part)
        return view, mean, variance, half

    @cached_property
    def _whitener(self) -> Array:
        """Inverse Cholesky factors L^-1 (H, n, n) of the leading models' covariances."""
        whitener = self.fit.L  # indexing made a copy, which may be overwritten
        for k, L in enumerate(whitener):
            whitener[k] = lapack.dtrtri(L.T, lower=0)[0].T
        return whitener

    def _prior_variance(self, view: View) -> Array:
        """Prior variances (H, m) of the leading models at the m configurations of a view."""
        own = np.square(view.spread).sum(axis=1)
        lead = self.lead
        prior: Array = (
            np.square(lead.source)[:, None] * own + np.square(lead.residual)[:, None] + KAPPA
        )
        return prior

    def _covariance(self, X: Array, view: View, half: Array, deviation: Array) -> Array:
        """Covariance (m, m) of the mixture of models, in squared units of the loss.

        Args:
            X: Points (m, d).
            view: The source tasks' functions at X.
            half: Whitened covariances between observations and X (H, n, m).
            deviation: Means of the models minus the mean of the mixture (H, m).
        """
        lead, m = self.lead, len(X)
        kernels = residual_kernels(X, X, self._lengthscales)
        total = np.zeros((m, m))
        for h in range(len(lead)):
            prior = lead.source[h] ** 2 * (view.spread @ view.spread.T) + KAPPA
            prior = prior + lead.residual[h] ** 2 * kernels[lead.factor[h]]
            own = (prior - half[h].T @ half[h]) / self.fit.v[h] ** 2
            total += self.share[h] * (own + np.outer(deviation[h], deviation[h]))
        scale = self._transform.scale
        return total * scale * scale

    def _prepare(self) -> None:
        """Precompute what predictions need: incumbents, used kernels and portfolio weights.

        Sets `_factors` (indices into `FACTORS` that some leading model uses), `_factor_index`
        (H,) into it, `_incumbents` (H,), each model's smallest posterior mean at an observed or
        pending configuration, and `ballot`.
        """
        factors = self.lead.factor.tolist()
        self._factors = tuple(sorted(set(factors)))
        self._factor_index = np.array([self._factors.index(factor) for factor in factors])
        self.__dict__.pop("_whitener", None)
        if len(self._X):
            # The posterior mean at an observation is K alpha - noise^2 alpha, and K alpha = L t.
            target = self.fit.target
            alpha = (target[:, None] @ self._whitener)[:, 0]
            mean = (self.fit.L @ target[:, :, None])[:, :, 0]
            mean -= np.square(self.lead.noise)[:, None] * alpha
            mean += self.lead.mean[:, None] * self._view.mean
            self._incumbents = mean.min(axis=1)
        unit = float((self.share / self.fit.v).sum())
        self.ballot = Ballot.of(self._view, self._y, self._portfolio * unit)
