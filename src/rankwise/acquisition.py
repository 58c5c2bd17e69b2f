"""Acquisitions: a posterior becomes a utility, higher is better.

An acquisition sees the posterior at the candidates and, from the same prediction, the
incumbent: the smallest posterior mean over the configurations evaluated so far. Ranks are
relative to a set, so a surrogate of ranks needs it that way, and a surrogate of noisy losses is
better for it.

Equation numbers are those of Klepper (2018), "Configuration of Deep Neural Networks Using
Model-Based Optimization", section 3.5.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, log_ndtr
from scipy.stats import rankdata

from rankwise.errors import OptionError, UnknownNameError
from rankwise.surrogates.base import Posterior
from rankwise.types import Array

_TINY = 1e-12  # a standard deviation this small beside the gain or the largest one is none


@dataclass(frozen=True)
class Acquisition(ABC):
    """How desirable it is to evaluate each of n candidates."""

    needs_cost = False  # whether predicted log seconds must be given
    random = False  # whether two calls differ: such a utility is computed once per proposal
    relative = False  # whether utilities can be compared within one call only

    @abstractmethod
    def __call__(
        self,
        posterior: Posterior,
        incumbent: float,
        rng: np.random.Generator,
        log_seconds: Array | None = None,
    ) -> Array:
        """Utility (n,) of the candidates.

        Args:
            posterior: at the candidates.
            incumbent: smallest posterior mean over the evaluated configurations.
            rng: for acquisitions that draw.
            log_seconds: -log E[1 / seconds] (n,), for those that weigh the cost.
        """


@dataclass(frozen=True)
class ExpectedImprovement(Acquisition):
    """The logarithm of E[max(incumbent - Y, 0)] (eq. 3.12).

    The logarithm has the same order and stays finite where EI itself underflows to zero,
    which is nearly everywhere once the search has converged.
    """

    def __call__(
        self,
        posterior: Posterior,
        incumbent: float,
        rng: np.random.Generator,
        log_seconds: Array | None = None,
    ) -> Array:
        z, std = _standardized(incumbent - posterior.mean, posterior.std)
        utility: Array = np.log(std) + log_h(z)
        return utility


@dataclass(frozen=True)
class ExpectedImprovementPerSecond(ExpectedImprovement):
    """log (EI E[1 / seconds]), improvement and cost being independent (section 3.5.4)."""

    needs_cost = True

    def __call__(
        self,
        posterior: Posterior,
        incumbent: float,
        rng: np.random.Generator,
        log_seconds: Array | None = None,
    ) -> Array:
        improvement = super().__call__(posterior, incumbent, rng)
        return improvement if log_seconds is None else improvement - log_seconds


@dataclass(frozen=True)
class ProbabilityOfImprovement(Acquisition):
    """The logarithm of P(Y <= incumbent - xi) (eq. 3.9)."""

    xi: float = 0.01

    def __post_init__(self) -> None:
        if self.xi < 0:
            raise OptionError(f"xi must not be negative, not {self.xi}")

    def __call__(
        self,
        posterior: Posterior,
        incumbent: float,
        rng: np.random.Generator,
        log_seconds: Array | None = None,
    ) -> Array:
        z, _ = _standardized(incumbent - self.xi - posterior.mean, posterior.std)
        utility: Array = log_ndtr(z)
        return utility


@dataclass(frozen=True)
class LowerConfidenceBound(Acquisition):
    """The negative of mean - lam * std (eq. 3.13)."""

    lam: float = 2.0

    def __post_init__(self) -> None:
        if self.lam < 0:
            raise OptionError(f"lam must not be negative, not {self.lam}")

    def __call__(
        self,
        posterior: Posterior,
        incumbent: float,
        rng: np.random.Generator,
        log_seconds: Array | None = None,
    ) -> Array:
        return self.lam * posterior.std - posterior.mean


@dataclass(frozen=True)
class Mean(Acquisition):
    """The negative posterior mean: pure exploitation."""

    def __call__(
        self,
        posterior: Posterior,
        incumbent: float,
        rng: np.random.Generator,
        log_seconds: Array | None = None,
    ) -> Array:
        return -posterior.mean


@dataclass(frozen=True)
class Thompson(Acquisition):
    """The negative of one draw from the posterior (joint where the surrogate has one)."""

    random = True

    def __call__(
        self,
        posterior: Posterior,
        incumbent: float,
        rng: np.random.Generator,
        log_seconds: Array | None = None,
    ) -> Array:
        return -posterior.draw(rng)


@dataclass(frozen=True)
class Ensemble(Acquisition):
    """Minus the number of best candidates that are better by EI, PI and LCB at once (MACE).

    Best are those than which no other is better by all three: a random one of them wins (Lyu et
    al., "Batch Bayesian Optimization via Multi-objective Acquisition Ensemble", ICML 2018).

    Attributes:
        xi: of the probability of improvement.
        lam: of the lower confidence bound.
    """

    xi: float = 1e-4
    lam: float = 3.0
    relative = True

    def __post_init__(self) -> None:
        self._parts()

    def _parts(self) -> tuple[Acquisition, ...]:
        return (
            ExpectedImprovement(),
            ProbabilityOfImprovement(self.xi),
            LowerConfidenceBound(self.lam),
        )

    def __call__(
        self,
        posterior: Posterior,
        incumbent: float,
        rng: np.random.Generator,
        log_seconds: Array | None = None,
    ) -> Array:
        values = np.stack([part(posterior, incumbent, rng) for part in self._parts()], axis=1)
        if len(values) and np.isnan(values).any(axis=1).all():
            raise ValueError("no utility is a number")
        utility: Array = rng.random(len(values)) - times_dominated(values)
        return utility


def times_dominated(values: Array) -> Array:
    """How many points of the Pareto front, equal ones counted once, are better than each (n,).

    Args:
        values: (n, k), higher is better; a point is better if it is in nothing worse and in
            something better. A point with a NaN is worse than all others.
    """
    values = np.where(np.isnan(values).any(axis=1, keepdims=True), -np.inf, values)
    count, height = np.zeros(len(values)), rankdata(values, axis=0).sum(axis=1)
    left = np.argsort(-height, kind="stable")
    while len(left):  # no other can be better than the highest of those that are left
        best = values[left[0]]
        no_better = (values <= best).all(axis=1)
        count += no_better & (values < best).any(axis=1)
        left = left[1:][~no_better[left[1:]]]
    return count


_BY_NAME: dict[str, type[Acquisition]] = {
    "ei": ExpectedImprovement,
    "ei-per-second": ExpectedImprovementPerSecond,
    "lcb": LowerConfidenceBound,
    "mace": Ensemble,
    "mean": Mean,
    "pi": ProbabilityOfImprovement,
    "thompson": Thompson,
}


def available() -> list[str]:
    """The names of the acquisitions."""
    return sorted(_BY_NAME)


def make_acquisition(which: str | Acquisition) -> Acquisition:
    """An acquisition by name, with its default settings, or as it is given."""
    if isinstance(which, Acquisition):
        return which
    if which not in _BY_NAME:
        raise UnknownNameError("acquisition", which, _BY_NAME)
    return _BY_NAME[which]()


def _standardized(gain: Array, std: Array) -> tuple[Array, Array]:
    """Gains (n,) in units of their standard deviation, and that deviation, never quite zero."""
    floor = _TINY * np.maximum(np.abs(gain), np.max(std, initial=0.0))
    std = np.maximum(std, np.maximum(floor, np.finfo(float).tiny))
    return gain / std, std


def log_h(z: Array) -> Array:
    """log(phi(z) + z Phi(z)), accurate for every z (n,), however negative.

    phi + z Phi loses all digits to cancellation for z << 0. There it is written as
    log phi(z) + log(1 + z m(z)) with m(z) = Phi(z) / phi(z) = sqrt(pi/2) erfcx(-z / sqrt 2);
    below -1000, where 1 + z m(z) cancels too, 1 + z m(z) = 1/z^2 (1 + O(1/z^2)).
    """
    z = np.asarray(z, dtype=float)
    log_phi = -0.5 * z**2 - 0.5 * np.log(2 * np.pi)
    near = np.maximum(z, -1.0)
    direct = np.log(np.exp(-0.5 * near**2) / np.sqrt(2 * np.pi) + near * np.exp(log_ndtr(near)))
    middle = np.clip(z, -1e3, -1.0)
    mills = np.sqrt(np.pi / 2) * erfcx(-middle / np.sqrt(2))
    tail = log_phi + np.log1p(middle * mills)
    far = log_phi - 2.0 * np.log(np.maximum(-z, 1.0))
    out: Array = np.where(z > -1.0, direct, np.where(z > -1e3, tail, far))
    return out
