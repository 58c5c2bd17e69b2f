"""Monotone transforms of losses that make them easier to model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from rankwise.errors import check_name
from rankwise.types import Array

TRANSFORMS = ("standardize", "copula")


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
        low, high = _quartiles(y / 16)  # differences of huge losses overflow
        upper = 16 * float(high + fence * (high - low)) if high > low else float(np.max(y))
        y = np.minimum(y, upper)
        unit = float(np.max(np.abs(y))) or 1.0
        y = y / unit  # squares of huge losses overflow, those of tiny ones vanish
        spread = float(np.std(y))
        scale = (spread if spread > 1e-12 else 1.0) * unit
        return cls(float(np.mean(y)) * unit, max(scale, math.ulp(0.0)), upper)

    def __call__(self, y: Array) -> Array:
        scaled: Array = np.minimum(y, self.upper) / self.scale - self.center / self.scale
        return scaled

    def unscale(self, mean: Array, std: Array) -> tuple[Array, Array]:
        return mean * self.scale + self.center, std * self.scale


def _quartiles(y: Array) -> tuple[float, float]:
    """What `np.quantile` gives in a tenth of its time for few numbers (n,)."""
    ordered, last = np.sort(y).tolist(), len(y) - 1

    def quantile(share: float) -> float:
        k = int(share * last)
        low, high = ordered[k], ordered[min(k + 1, last)]
        return float(low + (high - low) * (share * last - k))

    return quantile(0.25), quantile(0.75)


@dataclass(frozen=True)
class Copula:
    """Normal scores of ranks: only the order of the losses remains. Ties share their score."""

    def __call__(self, y: Array) -> Array:
        scores: Array = ndtri((rankdata(y) - 0.5) / len(y))
        return scores

    def unscale(self, mean: Array, std: Array) -> tuple[Array, Array]:
        return mean, std


def fit_transform(name: str, y: Array) -> Transform:
    """The transform of that name, fitted to losses (n,)."""
    check_name("transform", name, TRANSFORMS)
    return Standardize.fit(y) if name == "standardize" else Copula()
