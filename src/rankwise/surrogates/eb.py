"""The empirical-Bayes transfer GP: past studies as the prior of a Gaussian process.

Offline, every past study becomes a function (`sources`); their mean and covariance are the prior
of the next study's losses, in as many versions as there are `models`, whose own prior is learnt
by predicting each past study from the others. Online there is nothing to train: the evidence of
the models is computed in closed form and the expected improvement averaged over the likely ones.

Models that do not use the past are among them. What they weigh says whether the past applies.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack
from scipy.special import expit, logsumexp, ndtr
from typing_extensions import Self

from rankwise.acquisition import log_h
from rankwise.errors import ModelFileError, OptionError, check_count, check_name
from rankwise.progress import training_bar
from rankwise.surrogates.base import Posterior
from rankwise.surrogates.exact import spread_over
from rankwise.surrogates.gp import GaussianProcess
from rankwise.surrogates.lessons import learnt_models
from rankwise.surrogates.models import (
    KAPPA,
    MODEL_FIELDS,
    Fit,
    Models,
    factors,
    fit_models,
    residual_kernels,
    residual_slopes,
    weights,
)
from rankwise.surrogates.sharednet import STEPS, NetPast, Study
from rankwise.surrogates.sources import (
    Lesson,
    Past,
    SourcePast,
    View,
    sources_of,
    task_digest,
    teaches,
)
from rankwise.surrogates.threads import one_thread
from rankwise.surrogates.transfer import TransferSurrogate
from rankwise.surrogates.votes import Ballot
from rankwise.task import Task, check_one_width
from rankwise.transforms import Standardize
from rankwise.types import Array

PASTS: dict[str, type[Past]] = {"gp": SourcePast, "net": NetPast}

_ROOT_2PI = math.sqrt(2.0 * math.pi)
_ENOUGH = 100  # observations from which models are chosen; all of them count for predictions
_STUDENTS = 60  # past studies that the prior of the models is learnt from
_LEAST = 0.01  # share of its group below which a model is not worth its time
_PLAIN_PART = 4  # one in so many of the leading models is without the past
_PASS = 0.2  # nats per part of a study that the others must explain for the past to be used
_TINY = 1e-12
_SMALLEST = float(np.finfo(float).tiny)


class EmpiricalBayes(TransferSurrogate):
    """A Gaussian process whose mean and covariance are those of past studies.

    Without past tasks it is an ordinary Gaussian process, and also if the past studies do not
    predict each other: who knows nothing of them can know nothing of the next one.

    Args:
        kind: "gp": one Gaussian process per past study; "net": one network for all of them.
        caution: share of the models' weight that those without the past have at least; more if the
            past studies hardly predict each other. 0: what the evidence says, no more.
        portfolio: weight of what is good by the past studies that rank the observations best; it
            falls with the number of observations.
        leading: models that are averaged over, the most probable ones.
        seed: of what is drawn while learning.
    """

    file_kind = "empirical-bayes"

    def __init__(
        self,
        *,
        kind: str = "gp",
        caution: float = 0.2,
        portfolio: float = 4.0,
        leading: int = 8,
        seed: int = 0,
    ) -> None:
        check_name("kind", kind, PASTS)
        if not 0 <= caution <= 1:
            raise OptionError(f"caution is a share, from 0 to 1, not {caution!r}")
        if not portfolio >= 0:
            raise OptionError(f"portfolio must not be negative, not {portfolio!r}")
        self.kind, self.caution, self.portfolio = kind, caution, portfolio
        self.leading = check_count("leading", leading)
        if leading < 2:
            raise OptionError("leading must be 2 at least: a model with the past and one without")
        self.seed = seed
        self.past: Past | None = None
        self.models = Models.grid()
        self.exam = math.inf
        self._plain = GaussianProcess()

    @property
    def meta_learned(self) -> bool:
        return self.past is not None

    def with_seed(self, seed: int) -> Self:
        """The same surrogate, what was learnt included; nothing in a study is drawn."""
        twin = copy.copy(self)
        twin._plain = GaussianProcess()
        return twin

    def compact(self) -> Self:
        """The same surrogate with a past that is fast where it was never asked before."""
        twin = copy.copy(self)
        twin.past = None if self.past is None else self.past.compact()
        return twin

    # ------------------------------------------------------------------ learning

    def meta_fit(
        self,
        tasks: Sequence[Task],
        validation: Sequence[Task] = (),
        *,
        previous: str | Path | None = None,
        progress: bool | None = None,
    ) -> Self:
        """Learn from past tasks; without any that has an order, nothing happens.

        Args:
            tasks: to learn from.
            validation: more of them: there is nothing to stop early here.
            previous: file of a model that knows some of the tasks; these are not fitted again.
            progress: show a bar; by default if standard error is a terminal.
        """
        everything = [*tasks, *validation]
        check_one_width(everything)
        useful = [task for task in everything if teaches(task) and task.X.shape[1]]
        useful.sort(key=task_digest)  # the order in which studies are given changes nothing
        if useful:
            known = _known(previous)
            learn = self._learn_sources if self.kind == "gp" else self._learn_network
            with one_thread():
                self.past, lessons = learn(useful, known, progress)
                self.models, self.exam = learnt_models(lessons, self.past.lengthscales, self.seed)
            if self.exam < _PASS:
                self.past = None
                warnings.warn(
                    f"{len(useful)} past studies do not predict each other (a gain of "
                    f"{self.exam:.2f} nats where {_PASS} are needed): they are not used",
                    UserWarning,
                    stacklevel=2,
                )
        return self

    def _learn_sources(
        self, tasks: Sequence[Task], known: Past | None, progress: bool | None
    ) -> tuple[Past, Iterable[Lesson]]:
        fitted = known.sources if isinstance(known, SourcePast) else ()
        with training_bar(progress, len(tasks)) as bar:
            past = SourcePast(sources_of(tasks, fitted, _ticks(bar)), remember=True)
        return past, past.lessons(_STUDENTS)

    def _learn_network(
        self, tasks: Sequence[Task], known: Past | None, progress: bool | None
    ) -> tuple[Past, Iterable[Lesson]]:
        studies = [Study.of(task) for task in tasks]
        before = known if isinstance(known, NetPast) else None
        with training_bar(progress, STEPS) as bar:
            past = NetPast.learn(studies, self.seed, before, _ticks(bar))
        return past, past.lessons_of(studies, self.seed, _STUDENTS)

    def fit(self, task: Task) -> Self:
        if self.past is None:
            self._plain.fit(task)
            return self
        if len(task) and task.X.shape[1] != len(self.past.lengthscales):
            raise OptionError(
                f"the past has configurations of {len(self.past.lengthscales)} columns and the "
                f"task has {task.X.shape[1]}"
            )
        self._observe(task, self.past)
        return self

    def _observe(self, task: Task, past: Past) -> None:
        n = len(task)
        X = task.X if n else np.empty((0, len(past.lengthscales)))
        self._transform = Standardize.fit(task.losses) if n else Standardize(0.0, 1.0, np.inf)
        self._y = self._transform(task.losses)
        self._X, self._view = X, past.view(X)
        models = self.models
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
        lead, self._share = self._leaders()
        self._lead = models.some(lead)
        if n == 0:
            h = len(lead)
            nothing = np.empty((h, 0)), np.empty((h, 0, 0)), np.arange(h)
            self._fit = Fit(np.zeros(h), np.ones(h), *nothing)
        elif n <= _ENOUGH:
            self._fit = fit.some(lead)
        else:
            used, which = np.unique(self._lead.factor, return_inverse=True)
            kernels = residual_kernels(X, X, past.lengthscales, used.tolist())
            renumbered = replace(self._lead, factor=which)
            self._fit = fit_models(
                renumbered, self._view.mean, self._view.spread, kernels, self._y
            )
        self._settle()

    def _leaders(self) -> tuple[np.ndarray, Array]:
        """The models that are averaged over, and their shares, which sum to one.

        The most probable ones of those with and of those without the past, each group with the
        weight of all of its models; that of the latter is never below `caution`, nor below the
        odds against the past that its examination left.
        """
        informed, blind = self.models.groups
        weights = self.weights.tolist()  # few numbers: Python is faster than arrays
        caution = self.caution and max(self.caution, float(expit(-self.exam)))
        within = (1.0 - caution) * sum(weights[h] for h in informed)
        count = max(1, self.leading // _PLAIN_PART)
        lead: list[int] = []
        share: list[float] = []
        for members, n, total in (
            (informed, self.leading - count, within),
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
        """This surrogate as if the posterior mean had been observed at X (m, d), in closed form.

        What a model expects tells it nothing: the whitened residuals there are zero, the
        weights of the models stay, and only the covariance shrinks.
        """
        twin = copy.copy(self)
        if not len(X):
            return twin
        if self.past is None:
            twin._plain = self._plain.believing(X)
            return twin
        twin._X = np.concatenate([self._X, X])
        twin._view = self.past.view(twin._X)
        kernels = residual_kernels(twin._X, twin._X, self.past.lengthscales)
        L, _ = factors(self._lead, twin._view.spread, kernels)
        target = np.concatenate([self._fit.target, np.zeros((len(L), len(X)))], axis=1)
        twin._fit = replace(self._fit, target=target, factors=L, kind=np.arange(len(L)))
        twin._settle()
        return twin

    # ------------------------------------------------------------------ predicting

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        if self.past is None:
            return self._plain.predict(X, joint=joint)
        X = np.asarray(X, dtype=float)
        view, mean, variance, half = self._moments(X)
        mean, variance = mean / self._fit.v[:, None], np.maximum(variance, 0.0)
        variance /= np.square(self._fit.v)[:, None]
        centre = self._share @ mean
        deviation = mean - centre
        spread = np.sqrt(self._share @ (variance + np.square(deviation)))
        unscaled = self._transform.unscale(centre, spread)
        covariance = self._covariance(X, view, half, deviation) if joint else None
        return Posterior(*unscaled, covariance)

    def improvement(self, X: Array) -> Array | None:
        """Logarithm of the utility (n,) of X (n, d): expected improvement, averaged over models.

        To it comes what the past studies that rank the observations best say would be better,
        with a weight that falls with the number of observations. Without any observation it is
        the mean of the past alone.
        """
        if self.past is None:
            return None
        view, mean, variance, _ = self._moments(np.asarray(X, dtype=float))
        if not len(self._X):
            return -view.mean
        gain, std = self._best[:, None] - mean, np.sqrt(np.maximum(variance, _TINY))
        share = self._share / self._fit.v
        z = gain / std
        total = share @ (std * (z * ndtr(z) + np.exp(-0.5 * z * z) / _ROOT_2PI))
        total = np.maximum(total, 0.0) + self._ballot.promise(view.votes)
        if total.max(initial=0.0) > _TINY:
            utility: Array = np.log(np.maximum(total, _SMALLEST))
            return utility
        return np.asarray(logsumexp(np.log(std) + log_h(z), axis=0, b=share[:, None]))

    def slope(self, x: Array) -> tuple[float, Array] | None:
        if self.past is None:
            return None
        x = np.asarray(x, dtype=float)
        by_mean, by_spread, by_votes = self.past.slopes(x)
        view, mean, variance, half = self._moments(x[None])
        if not len(self._X):
            return -float(view.mean[0]), -by_mean
        lead, share = self._lead, self._share / self._fit.v
        kernels = residual_slopes(x, self._X, self.past.lengthscales, self._factors)
        half = half[:, :, 0]
        std = np.sqrt(np.maximum(variance[:, 0], _TINY))
        z = (self._best - mean[:, 0]) / std
        density, below = np.exp(-0.5 * z * z) / _ROOT_2PI, ndtr(z)
        total = float(share @ (std * (z * below + density)))
        # d EI = density / (2 std) d variance - below d mean. Both are linear in the slopes of the
        # covariances with the observations, so the models can be added up before these.
        by_variance, by_gain = share * density / (2.0 * std), share * below
        weight = -2.0 * by_variance[:, None] * half - by_gain[:, None] * self._fit.target
        weight = np.einsum("hk,hkn->hn", weight, self._whitener)
        source, residual = np.square(lead.source), np.square(lead.residual)
        row = (source @ weight) @ self._view.spread
        row = row + 2.0 * float(by_variance @ source) * view.spread[0]
        gradient = row @ by_spread - float(by_gain @ lead.mean) * by_mean
        for k, slopes in enumerate(kernels):
            gradient = gradient + ((residual * (self._which == k)) @ weight) @ slopes
        votes = view.votes[0]
        total = max(total, 0.0) + float(self._ballot.promise(votes[None])[0])
        gradient += self._ballot.slope(votes, by_votes)
        if total <= _TINY:
            return math.log(_SMALLEST), np.zeros(len(x))
        return math.log(total), gradient / total

    @property
    def trust(self) -> float | None:  # type: ignore[override]
        """How probable it is, given the observations, that the past applies to this study.

        One minus the posterior probability of the models that use nothing of it.
        """
        if self.past is None:
            return None
        return float(self.weights[~self.models.plain].sum())

    @property
    def sources(self) -> dict[str, float] | None:  # type: ignore[override]
        """How much each past study counts, by name, the one that counts most first.

        In proportion to how much better than chance it orders the observations; all of them
        together count as much as the past is trusted.
        """
        if self.past is None or self.trust is None:
            return None
        found = dict.fromkeys(self.past.voters, 0.0)
        for name, share in zip(self.past.voters, self._ballot.share.tolist(), strict=True):
            found[name] += self.trust * share
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def _moments(self, X: Array) -> tuple[View, Array, Array, Array]:
        """The past at X (m, d), means and variances (H, m) of the leading models, and L^-1 k.

        The last, (H, n, m), is what the covariances k with the observations are when whitened.
        """
        assert self.past is not None
        view, lead = self.past.view(X), self._lead
        mean, variance = lead.mean[:, None] * view.mean, self._prior_variance(view)
        if not len(self._X):
            return view, mean, variance, np.empty((len(lead), 0, len(X)))
        transfer = self._view.spread @ view.spread.T
        kernels = residual_kernels(self._X, X, self.past.lengthscales, self._factors)
        half = np.empty((len(lead), *transfer.shape))
        weights, residuals = np.square(lead.source).tolist(), np.square(lead.residual).tolist()
        shared = {weight: weight * transfer + KAPPA if weight else KAPPA for weight in weights}
        for h, weight in enumerate(weights):  # one at a time fits a cache
            part = half[h]
            np.multiply(kernels[self._which[h]], residuals[h], out=part)
            part += shared[weight]
            # In place, as the transpose of rows is in the order of Fortran.
            blas.dtrmm(1.0, self._whitener[h].T, part.T, side=1, overwrite_b=1)
            mean[h] += self._fit.target[h] @ part
            variance[h] -= np.einsum("nm,nm->m", part, part)
        return view, mean, variance, half

    @cached_property
    def _whitener(self) -> Array:
        """L^-1 (H, n, n) of the leading models."""
        whitener = self._fit.L  # a copy: each is replaced by its inverse
        for k, L in enumerate(whitener):
            whitener[k] = lapack.dtrtri(L.T, lower=0)[0].T
        return whitener

    def _prior_variance(self, view: View) -> Array:
        """Variances (H, m) of the leading models before any observation."""
        own = np.square(view.spread).sum(axis=1)
        lead = self._lead
        prior: Array = (
            np.square(lead.source)[:, None] * own + np.square(lead.residual)[:, None] + KAPPA
        )
        return prior

    def _covariance(self, X: Array, view: View, half: Array, deviation: Array) -> Array:
        """Of the mixture (m, m), in units of the loss."""
        assert self.past is not None
        lead, m = self._lead, len(X)
        kernels = residual_kernels(X, X, self.past.lengthscales)
        total = np.zeros((m, m))
        for h in range(len(lead)):
            prior = lead.source[h] ** 2 * (view.spread @ view.spread.T) + KAPPA
            prior = prior + lead.residual[h] ** 2 * kernels[lead.factor[h]]
            own = (prior - half[h].T @ half[h]) / self._fit.v[h] ** 2
            total += self._share[h] * (own + np.outer(deviation[h], deviation[h]))
        scale = self._transform.scale
        return total * scale * scale

    def _settle(self) -> None:
        """What predictions need of the observations, once."""
        factors = self._lead.factor.tolist()
        self._factors = tuple(sorted(set(factors)))
        self._which = np.array([self._factors.index(factor) for factor in factors])
        self.__dict__.pop("_whitener", None)
        if len(self._X):
            # The posterior mean at an observation is K alpha - noise^2 alpha, and K alpha = L t.
            target = self._fit.target
            alpha = (target[:, None] @ self._whitener)[:, 0]
            mean = (self._fit.L @ target[:, :, None])[:, :, 0]
            mean -= np.square(self._lead.noise)[:, None] * alpha
            mean += self._lead.mean[:, None] * self._view.mean
            self._best = mean.min(axis=1)
        unit = float((self._share / self._fit.v).sum())
        self._ballot = Ballot.of(self._view, self._y, self.portfolio * unit)

    # ------------------------------------------------------------------ files

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        assert self.past is not None
        arrays, record = self.past.parts()
        for name in MODEL_FIELDS:
            arrays[f"models.{name}"] = getattr(self.models, name)
        exam = self.exam if math.isfinite(self.exam) else None  # JSON has no infinity
        return arrays, {**record, "exam": exam}

    def restore(self, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        if self.kind != record["settings"]["kind"]:
            raise ModelFileError(
                f"the file holds a past of kind {record['settings']['kind']!r}, not {self.kind!r}"
            )
        self.exam = math.inf if record["exam"] is None else record["exam"]
        self.past = PASTS[self.kind].from_parts(arrays, record)
        self.models = Models(*(arrays[f"models.{name}"] for name in MODEL_FIELDS))


def _known(previous: str | Path | None) -> Past | None:
    """The past of a model file; None if it cannot be read, as it can be learnt again."""
    if previous is None:
        return None
    try:
        return EmpiricalBayes.load(previous).past
    except ModelFileError:
        return None


def _ticks(bar: Callable[[int, float, float], None] | None) -> Callable[[int], None] | None:
    return None if bar is None else lambda k: bar(k, math.nan, math.nan)
