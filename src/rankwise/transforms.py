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


def fit_transform(name: str, y: Array) -> Transform:
    """The transform of that name, fitted to losses (n,)."""
    check_name("transform", name, TRANSFORMS)
    return Standardize.fit(y) if name == "standardize" else Copula()
