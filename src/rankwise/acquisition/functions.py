"""Acquisition functions: map a posterior to utilities, higher is better.

An acquisition function takes the posterior at the candidates and, from the same prediction, the
incumbent: the smallest posterior mean over the evaluated configurations. A surrogate of ranks
needs both from one prediction, because ranks are relative to a set; noisy losses profit from it
too.

Equation numbers are those of Klepper (2018), "Configuration of Deep Neural Networks Using
Model-Based Optimization", section 3.5.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from rankwise._core.numerics import log_h, rankdata
from rankwise.errors import OptionError, UnknownNameError
from rankwise.surrogates.base import Posterior, Surrogate
from rankwise.types import Array

_TINY = 1e-12  # relative size below which a standard deviation counts as zero


@dataclass(frozen=True)
class Acquisition(ABC):
    """An acquisition function: the utility of evaluating each of n candidates."""

    needs_cost = False  # True if predicted log seconds are required
    random = False  # True if two calls differ; it is then called once per proposal
    relative = False  # True if utilities can be compared within one call only
    lam = 2.0  # weight of the standard deviation, for liar="sampled-lambda"

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
            posterior: posterior at the candidates.
            incumbent: smallest posterior mean over the evaluated configurations.
            rng: random generator, for acquisition functions that draw.
            log_seconds: -log E[1 / seconds] (n,), if `needs_cost` is True.
        """

    def from_surrogate(
        self, surrogate: Surrogate, X: Array, log_seconds: Array | None = None
    ) -> Array | None:
        """Utility (n,) of candidates X (n, d) as the surrogate itself computes it.

        None if the utility follows from the posterior's mean and standard deviation (`__call__`).

        Args:
            surrogate: fitted surrogate.
            X: candidates (n, d).
            log_seconds: -log E[1 / seconds] (n,), if `needs_cost` is True.
        """
        return None

    def gradient(self, surrogate: Surrogate, x: Array) -> tuple[float, Array] | None:
        """Value and gradient (d,) of `from_surrogate` at x (d,); None if it is not known."""
        return None


@dataclass(frozen=True)
class ExpectedImprovement(Acquisition):
    """The logarithm of E[max(incumbent - Y, 0)] (eq. 3.12).

    The logarithm has the same order and stays finite where EI underflows to zero, which is nearly
    everywhere once the search has converged.
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

    def from_surrogate(
        self, surrogate: Surrogate, X: Array, log_seconds: Array | None = None
    ) -> Array | None:
        return surrogate.improvement(X)

    def gradient(self, surrogate: Surrogate, x: Array) -> tuple[float, Array] | None:
        return surrogate.slope(x)


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

    def from_surrogate(
        self, surrogate: Surrogate, X: Array, log_seconds: Array | None = None
    ) -> Array | None:
        improvement = super().from_surrogate(surrogate, X)
        if improvement is None or log_seconds is None:
            return improvement
        return improvement - log_seconds

    def gradient(self, surrogate: Surrogate, x: Array) -> None:
        """None: the gradient of the predicted cost is not known."""


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
    """A random candidate of the Pareto front of EI, PI and LCB has the largest utility (MACE).

    Lyu et al., "Batch Bayesian Optimization via Multi-objective Acquisition Ensemble", ICML 2018.
    The utility is a random number in [0, 1) minus the number of Pareto-optimal candidates that
    dominate the candidate.

    Attributes:
        xi: parameter of the probability of improvement.
        lam: parameter of the lower confidence bound.
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
    """Number (n,) of distinct Pareto-optimal points that dominate each point.

    Args:
        values: (n, k), higher is better. A point dominates another if it is nowhere worse and
            somewhere better. A point with a NaN is dominated by all others.
    """
    values = np.where(np.isnan(values).any(axis=1, keepdims=True), -np.inf, values)
    count, height = np.zeros(len(values)), rankdata(values, axis=0).sum(axis=1)
    left = np.argsort(-height, kind="stable")
    while len(left):  # nothing dominates the point with the largest sum of ranks
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
    """Names of the acquisition functions."""
    return sorted(_BY_NAME)


def make_acquisition(which: str | Acquisition) -> Acquisition:
    """The acquisition function of a name with default settings, or the given object itself."""
    if isinstance(which, Acquisition):
        return which
    if which not in _BY_NAME:
        raise UnknownNameError("acquisition", which, _BY_NAME)
    return _BY_NAME[which]()


def _standardized(gain: Array, std: Array) -> tuple[Array, Array]:
    """Gains (n,) divided by their standard deviations, and those deviations, made positive."""
    floor = _TINY * np.maximum(np.abs(gain), np.max(std, initial=0.0))
    std = np.maximum(std, np.maximum(floor, np.finfo(float).tiny))
    return gain / std, std
