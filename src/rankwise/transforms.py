"""Monotone transforms of losses that make them easier to model."""

from __future__ import annotations

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
        unit = float(np.max(np.abs(y)))
        if unit == 0.0 or not np.isfinite(unit):
            unit = 1.0
        y = y / unit  # so that squares of losses near 1e300 do not overflow
        low, high = np.quantile(y, [0.25, 0.75])
        upper = high + fence * (high - low) if high > low else float(np.max(y))
        y = np.minimum(y, upper)
        spread = float(np.std(y))
        tiny = 1e-12 * max(1.0, float(np.max(np.abs(y))))
        scale = spread if spread > tiny else 1.0
        return cls(float(np.mean(y)) * unit, scale * unit, float(upper) * unit)

    def __call__(self, y: Array) -> Array:
        scaled: Array = np.minimum(y, self.upper) / self.scale - self.center / self.scale
        return scaled

    def unscale(self, mean: Array, std: Array) -> tuple[Array, Array]:
        return mean * self.scale + self.center, std * self.scale


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
