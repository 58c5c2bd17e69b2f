"""The models of a past, given the evaluations of a study.

For the empirical-Bayes transfer GP (`eb.py`): the evidence of each of its `models` in closed form,
and from the likely ones the posterior, the utility of a configuration and its gradient.
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

from rankwise.acquisition import log_h
from rankwise.surrogates.base import Posterior
from rankwise.surrogates.exact import spread_over
from rankwise.surrogates.models import (
    KAPPA,
    Fit,
    Models,
    factors,
    fit_models,
    residual_kernels,
    residual_slopes,
    weights,
)
from rankwise.surrogates.sources import Past, View
from rankwise.surrogates.votes import Ballot
from rankwise.task import Task
from rankwise.transforms import Standardize
from rankwise.types import Array

_ROOT_2PI = math.sqrt(2.0 * math.pi)
_ENOUGH = 100  # observations from which models are chosen; all of them count for predictions
_LEAST = 0.01  # share of its group below which a model is not worth its time
_PLAIN_PART = 4  # one in so many of the leading models is without the past
_TINY = 1e-12
_SMALLEST = float(np.finfo(float).tiny)


class Conditioned:
    """The models of a past, given the evaluations of a study.

    Args:
        past: what is known of past studies.
        models: in which it is used, with their prior.
        task: the evaluations, none or more.
        caution: share of the models' weight that those without the past have at least.
        portfolio: weight of what is good by the past studies that rank the observations best; it
            falls with the number of observations.
        leading: models that are averaged over, the most probable ones.

    Attributes:
        weights: of all models, given the evaluations; they sum to one.
        lead: the H models that are averaged over.
        share: of each of them (H,), which sum to one.
        fit: of these to the evaluations.
        ballot: what past studies vote for.
    """

    def __init__(
        self,
        past: Past,
        models: Models,
        task: Task,
        *,
        caution: float,
        portfolio: float,
        leading: int,
    ) -> None:
        self._past, self._portfolio = past, portfolio
        n = len(task)
        X = task.X if n else np.empty((0, len(past.lengthscales)))
        self._transform = Standardize.fit(task.losses) if n else Standardize(0.0, 1.0, np.inf)
        self._y = self._transform(task.losses)
        self._X, self._view = X, past.view(X)
        if n == 0:
            self.weights = models.prior
        else:
            some, seen, y = X, self._view, self._y
            if n > _ENOUGH:
                rows = spread_over(y, _ENOUGH)
                some, seen, y = X[rows], seen.rows(rows), y[rows]
            square = residual_kernels(some, some, past.lengthscales)
            fit = fit_models(models, seen.mean, seen.spread, square, y)
            self.weights = weights(models, fit.log_evidence)
        lead, self.share = self._leaders(models, caution, leading)
        self.lead = models.some(lead)
        if n == 0:
            h = len(lead)
            nothing = np.empty((h, 0)), np.empty((h, 0, 0)), np.arange(h)
            self.fit = Fit(np.zeros(h), np.ones(h), *nothing)
        elif n <= _ENOUGH:
            self.fit = fit.some(lead)
        else:
            used, which = np.unique(self.lead.factor, return_inverse=True)
            kernels = residual_kernels(X, X, past.lengthscales, used.tolist())
            renumbered = replace(self.lead, factor=which)
            self.fit = fit_models(renumbered, self._view.mean, self._view.spread, kernels, self._y)
        self._settle()

    def _leaders(self, models: Models, caution: float, leading: int) -> tuple[np.ndarray, Array]:
        """The models that are averaged over, and their shares, which sum to one.

        The most probable ones of those with and of those without the past, each group with the
        weight of all of its models; that of the latter is never below `caution`.
        """
        informed, blind = models.groups
        weights = self.weights.tolist()  # few numbers: Python is faster than arrays
        within = (1.0 - caution) * sum(weights[h] for h in informed)
        count = max(1, leading // _PLAIN_PART)
        lead: list[int] = []
        share: list[float] = []
        for members, n, total in (
            (informed, leading - count, within),
            (blind, count, 1.0 - within),
        ):
            top = sorted(members, key=weights.__getitem__, reverse=True)[:n]
            least = _LEAST * sum(weights[h] + _SMALLEST for h in top)
            large = [h for h in top if weights[h] + _SMALLEST >= least]
            whole = sum(weights[h] + _SMALLEST for h in large)
            lead += large
            share += [total * (weights[h] + _SMALLEST) / whole for h in large]
        return np.array(lead), np.array(share)

    def believing(self, X: Array) -> Self:
        """The same as if the posterior mean had been observed at X (m, d), in closed form.

        What a model expects tells it nothing: the whitened residuals there are zero, the
        weights of the models stay, and only the covariance shrinks.
        """
        twin = copy.copy(self)
        if not len(X):
            return twin
        twin._X = np.concatenate([self._X, X])
        twin._view = self._past.view(twin._X)
        kernels = residual_kernels(twin._X, twin._X, self._past.lengthscales)
        L, _ = factors(self.lead, twin._view.spread, kernels)
        target = np.concatenate([self.fit.target, np.zeros((len(L), len(X)))], axis=1)
        twin.fit = replace(self.fit, target=target, factors=L, kind=np.arange(len(L)))
        twin._settle()
        return twin

    def predict(self, X: Array, joint: bool) -> Posterior:
        """The posterior at X (n, d), with its covariance if it is asked for."""
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
        """Logarithm of the utility (n,) of X (n, d): expected improvement, averaged over models.

        To it comes what the past studies that rank the observations best say would be better,
        with a weight that falls with the number of observations. Without any observation it is
        the mean of the past alone.
        """
        view, mean, variance, _ = self._moments(X)
        if not len(self._X):
            return -view.mean
        gain, std = self._best[:, None] - mean, np.sqrt(np.maximum(variance, _TINY))
        share = self.share / self.fit.v
        z = gain / std
        total = share @ (std * (z * ndtr(z) + np.exp(-0.5 * z * z) / _ROOT_2PI))
        total = np.maximum(total, 0.0) + self.ballot.promise(view.votes)
        if total.max(initial=0.0) > _TINY:
            utility: Array = np.log(np.maximum(total, _SMALLEST))
            return utility
        return np.asarray(logsumexp(np.log(std) + log_h(z), axis=0, b=share[:, None]))

    def slope(self, x: Array) -> tuple[float, Array]:
        """The utility at x (d,) and its gradient (d,)."""
        by_mean, by_spread, by_votes = self._past.slopes(x)
        view, mean, variance, half = self._moments(x[None])
        if not len(self._X):
            return -float(view.mean[0]), -by_mean
        lead, share = self.lead, self.share / self.fit.v
        kernels = residual_slopes(x, self._X, self._past.lengthscales, self._factors)
        half = half[:, :, 0]
        std = np.sqrt(np.maximum(variance[:, 0], _TINY))
        z = (self._best - mean[:, 0]) / std
        density, below = np.exp(-0.5 * z * z) / _ROOT_2PI, ndtr(z)
        total = float(share @ (std * (z * below + density)))
        # d EI = density / (2 std) d variance - below d mean. Both are linear in the slopes of the
        # covariances with the observations, so the models can be added up before these.
        by_variance, by_gain = share * density / (2.0 * std), share * below
        weight = -2.0 * by_variance[:, None] * half - by_gain[:, None] * self.fit.target
        weight = np.einsum("hk,hkn->hn", weight, self._whitener)
        source, residual = np.square(lead.source), np.square(lead.residual)
        row = (source @ weight) @ self._view.spread
        row = row + 2.0 * float(by_variance @ source) * view.spread[0]
        gradient = row @ by_spread - float(by_gain @ lead.mean) * by_mean
        for k, slopes in enumerate(kernels):
            gradient = gradient + ((residual * (self._which == k)) @ weight) @ slopes
        votes = view.votes[0]
        total = max(total, 0.0) + float(self.ballot.promise(votes[None])[0])
        gradient += self.ballot.slope(votes, by_votes)
        if total <= _TINY:
            return math.log(_SMALLEST), np.zeros(len(x))
        return math.log(total), gradient / total

    def _moments(self, X: Array) -> tuple[View, Array, Array, Array]:
        """The past at X (m, d), means and variances (H, m) of the leading models, and L^-1 k.

        The last, (H, n, m), is what the covariances k with the observations are when whitened.
        """
        view, lead = self._past.view(X), self.lead
        mean, variance = lead.mean[:, None] * view.mean, self._prior_variance(view)
        if not len(self._X):
            return view, mean, variance, np.empty((len(lead), 0, len(X)))
        transfer = self._view.spread @ view.spread.T
        kernels = residual_kernels(self._X, X, self._past.lengthscales, self._factors)
        half = np.empty((len(lead), *transfer.shape))
        weights, residuals = np.square(lead.source).tolist(), np.square(lead.residual).tolist()
        shared = {weight: weight * transfer + KAPPA if weight else KAPPA for weight in weights}
        for h, weight in enumerate(weights):  # one at a time fits a cache
            part = half[h]
            np.multiply(kernels[self._which[h]], residuals[h], out=part)
            part += shared[weight]
            # In place, as the transpose of rows is in the order of Fortran.
            blas.dtrmm(1.0, self._whitener[h].T, part.T, side=1, overwrite_b=1)
            mean[h] += self.fit.target[h] @ part
            variance[h] -= np.einsum("nm,nm->m", part, part)
        return view, mean, variance, half

    @cached_property
    def _whitener(self) -> Array:
        """L^-1 (H, n, n) of the leading models."""
        whitener = self.fit.L  # a copy: each is replaced by its inverse
        for k, L in enumerate(whitener):
            whitener[k] = lapack.dtrtri(L.T, lower=0)[0].T
        return whitener

    def _prior_variance(self, view: View) -> Array:
        """Variances (H, m) of the leading models before any observation."""
        own = np.square(view.spread).sum(axis=1)
        lead = self.lead
        prior: Array = (
            np.square(lead.source)[:, None] * own + np.square(lead.residual)[:, None] + KAPPA
        )
        return prior

    def _covariance(self, X: Array, view: View, half: Array, deviation: Array) -> Array:
        """Of the mixture (m, m), in units of the loss."""
        lead, m = self.lead, len(X)
        kernels = residual_kernels(X, X, self._past.lengthscales)
        total = np.zeros((m, m))
        for h in range(len(lead)):
            prior = lead.source[h] ** 2 * (view.spread @ view.spread.T) + KAPPA
            prior = prior + lead.residual[h] ** 2 * kernels[lead.factor[h]]
            own = (prior - half[h].T @ half[h]) / self.fit.v[h] ** 2
            total += self.share[h] * (own + np.outer(deviation[h], deviation[h]))
        scale = self._transform.scale
        return total * scale * scale

    def _settle(self) -> None:
        """What predictions need of the observations, once."""
        factors = self.lead.factor.tolist()
        self._factors = tuple(sorted(set(factors)))
        self._which = np.array([self._factors.index(factor) for factor in factors])
        self.__dict__.pop("_whitener", None)
        if len(self._X):
            # The posterior mean at an observation is K alpha - noise^2 alpha, and K alpha = L t.
            target = self.fit.target
            alpha = (target[:, None] @ self._whitener)[:, 0]
            mean = (self.fit.L @ target[:, :, None])[:, :, 0]
            mean -= np.square(self.lead.noise)[:, None] * alpha
            mean += self.lead.mean[:, None] * self._view.mean
            self._best = mean.min(axis=1)
        unit = float((self.share / self.fit.v).sum())
        self.ballot = Ballot.of(self._view, self._y, self._portfolio * unit)
