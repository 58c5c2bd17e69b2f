"""Monotone transforms of losses that make them easier to model."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.special import boxcox, ndtri
from scipy.stats import rankdata

from rankwise.errors import check_name
from rankwise.types import Array

TRANSFORMS = ("standardize", "copula", "power")

_EXPONENTS = (-3.0, 3.0)  # of a power: beyond, a few losses are all that is left
_FEWEST = 4  # different losses from which an exponent is fitted
_FLATTEST = 0.5  # of the losses' range, in standard deviations, that a power must leave


class Transform(Protocol):
    """A monotone map of losses, fitted to the losses seen."""

    def __call__(self, y: Array) -> Array:
        """Transformed losses (n,)."""

    def unscale(self, mean: Array, std: Array) -> tuple[Array, Array]:
        """A posterior of transformed losses in units of the loss, where that is linear."""


@dataclass(frozen=True)
class Standardize:
    """Zero mean and unit variance, safe for constant, huge and tiny losses.

    Losses far above the bulk (beyond the third quartile plus `fence` interquartile ranges) are
    pulled in to that fence: how bad the worst configurations are must not drown the
    differences between the good ones.
    """

    center: float
    scale: float
    upper: float

    @classmethod
    def fit(cls, y: Array, fence: float = 3.0) -> Standardize:
        """Fit to losses (n,), finite, n >= 1."""
        # Most studies are short: Python's own sums take a fraction of the time of arrays'.
        ordered = np.sort(y).tolist()
        low, high = _quartile(ordered, 1), _quartile(ordered, 3)
        upper = 16 * (high + fence * (high - low)) if high > low else ordered[-1]
        unit = max(abs(ordered[0]), abs(min(ordered[-1], upper))) or 1.0
        # squares of huge losses overflow, those of tiny ones vanish
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
    """A sixteenth of the first or third quartile: differences of huge numbers overflow."""
    k, rest = divmod(which * (len(ordered) - 1), 4)
    low, high = ordered[k] / 16, ordered[min(k + 1, len(ordered) - 1)] / 16
    return low + (high - low) * (rest / 4)


@dataclass(frozen=True)
class Copula:
    """Normal scores of ranks: only the order of the losses remains. Ties share their score."""

    def __call__(self, y: Array) -> Array:
        scores: Array = ndtri((rankdata(y) - 0.5) / len(y))
        return scores

    def unscale(self, mean: Array, std: Array) -> tuple[Array, Array]:
        return mean, std


@dataclass(frozen=True)
class Power:
    """The power of losses that makes them most like a normal sample, standardised after it.

    Box and Cox (1964) where all losses are positive, else Yeo and Johnson (2000), both after
    outliers are pulled in as by `Standardize`. A posterior stays in units of the transformed loss.

    Attributes:
        before: units in which the power is taken.
        positive: whether it is that of Box and Cox.
        exponent: lambda; None: losses are left as they are, nothing being gained by a power.
        after: standardises the result.
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
    """The most likely exponent within bounds; None if z (n,) has too few values to tell."""
    if np.unique(z).size < _FEWEST:
        return None
    likelihood = stats.boxcox_llf if positive else stats.yeojohnson_llf

    def cost(exponent: float) -> float:
        return -float(likelihood(exponent, z))

    found = minimize_scalar(cost, bounds=_EXPONENTS, method="bounded")
    return float(found.x) if np.isfinite(found.fun) else None


def _powered(z: Array, positive: bool, exponent: float | None) -> Array:
    if exponent is None:
        return z
    powered: Array = boxcox(z, exponent) if positive else stats.yeojohnson(z, exponent)
    return powered


def fit_transform(name: str, y: Array) -> Transform:
    """The transform of that name, fitted to losses (n,)."""
    check_name("transform", name, TRANSFORMS)
    if name == "copula":
        return Copula()
    return Standardize.fit(y) if name == "standardize" else Power.fit(y)
