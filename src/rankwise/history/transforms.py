"""Monotone transforms of losses that make them easier to model."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.special import boxcox, ndtri

from rankwise._core.numerics import rankdata
from rankwise.errors import check_name
from rankwise.types import Array

TRANSFORMS = ("standardize", "copula", "power")

_EXPONENTS = (-3.0, 3.0)  # larger exponents leave only a few distinct losses
_FEWEST = 4  # distinct losses that are needed to fit an exponent
_FLATTEST = 0.5  # share of the range, in standard deviations, that a power must preserve


class Transform(Protocol):
    """A monotone map of losses, fitted to the losses seen."""

    def __call__(self, y: Array) -> Array:
        """Transformed losses (n,)."""

    def unscale(self, mean: Array, std: Array) -> tuple[Array, Array]:
        """Convert a posterior of transformed losses to units of the loss, if that is linear."""


@dataclass(frozen=True)
class Standardize:
    """Zero mean and unit variance, safe for constant, huge and tiny losses.

    Losses above the third quartile plus `fence` interquartile ranges are clipped there, so that
    very bad configurations do not hide the differences between good ones.
    """

    center: float
    scale: float
    upper: float

    @classmethod
    def fit(cls, y: Array, fence: float = 3.0) -> Standardize:
        """Fit to losses (n,), finite, n >= 1."""
        # Most studies are short; for few numbers Python sums are much faster than NumPy.
        ordered = np.sort(y).tolist()
        low, high = _quartile(ordered, 1), _quartile(ordered, 3)
        upper = 16 * (high + fence * (high - low)) if high > low else ordered[-1]
        unit = max(abs(ordered[0]), abs(min(ordered[-1], upper))) or 1.0
        # squares of huge losses overflow and squares of tiny ones underflow
        parts = [min(value, upper) / unit for value in ordered]
        mean = math.fsum(parts) / len(parts)
        spread = math.sqrt(math.fsum((part - mean) ** 2 for part in parts) / len(parts))
        scale = (spread if spread > 1e-12 else 1.0) * unit
        return cls(mean * unit, max(scale, math.ulp(0.0)), upper)

    def __call__(self, y: Array) -> Array:
        scaled: Array = np.minimum(y, self.upper) / self.scale - self.center / self.scale
        return scaled

    def unscale(self, mean: Array, std: Array) -> tuple[Array, Array]:
        return mean * self.scale + self.center, std * self.scale


def _quartile(ordered: list[float], which: int) -> float:
    """A sixteenth of the first or third quartile, so that differences do not overflow."""
    k, rest = divmod(which * (len(ordered) - 1), 4)
    low, high = ordered[k] / 16, ordered[min(k + 1, len(ordered) - 1)] / 16
    return low + (high - low) * (rest / 4)


@dataclass(frozen=True)
class Copula:
    """Normal scores of ranks, which keep only the order of losses; ties share a score."""

    def __call__(self, y: Array) -> Array:
        scores: Array = ndtri((rankdata(y) - 0.5) / len(y))
        return scores

    def unscale(self, mean: Array, std: Array) -> tuple[Array, Array]:
        return mean, std


@dataclass(frozen=True)
class Power:
    """Power transform that makes losses most similar to a normal sample, then standardizes.

    Box and Cox (1964) where all losses are positive, else Yeo and Johnson (2000), both after
    outliers are clipped as in `Standardize`. A posterior stays in units of the transformed loss.

    Attributes:
        before: scaling before the power.
        positive: True for Box-Cox, False for Yeo-Johnson.
        exponent: lambda; None if no power is applied.
        after: standardization of the result.
    """

    before: Standardize
    positive: bool
    exponent: float | None
    after: Standardize

    @classmethod
    def fit(cls, y: Array) -> Power:
        """Fit to losses (n,), finite, n >= 1."""
        bulk = Standardize.fit(y)
        pulled = np.minimum(y, bulk.upper)
        positive = bool(pulled.min() > 1e-6 * bulk.scale)
        before = replace(bulk, center=0.0) if positive else bulk
        z = before(y)
        for exponent in (_exponent(z, positive), None):
            powered = _powered(z, positive, exponent)
            after = Standardize.fit(powered, fence=math.inf)
            if exponent is None or np.ptp(after(powered)) > _FLATTEST * np.ptp(z):
                break
        return cls(before, positive, exponent, after)

    def __call__(self, y: Array) -> Array:
        return self.after(_powered(self.before(y), self.positive, self.exponent))

    def unscale(self, mean: Array, std: Array) -> tuple[Array, Array]:
        return mean, std


def _exponent(z: Array, positive: bool) -> float | None:
    """The most likely exponent within bounds; None if z (n,) has too few distinct values."""
    if np.unique(z).size < _FEWEST:
        return None
    from scipy import stats
    from scipy.optimize import minimize_scalar

    likelihood = stats.boxcox_llf if positive else stats.yeojohnson_llf

    def cost(exponent: float) -> float:
        return -float(likelihood(exponent, z))

    found = minimize_scalar(cost, bounds=_EXPONENTS, method="bounded")
    return float(found.x) if np.isfinite(found.fun) else None


def _powered(z: Array, positive: bool, exponent: float | None) -> Array:
    if exponent is None:
        return z
    from scipy import stats

    powered: Array = boxcox(z, exponent) if positive else stats.yeojohnson(z, exponent)
    return powered


def fit_transform(name: str, y: Array) -> Transform:
    """The transform of that name, fitted to losses (n,)."""
    check_name("transform", name, TRANSFORMS)
    if name == "copula":
        return Copula()
    return Standardize.fit(y) if name == "standardize" else Power.fit(y)
