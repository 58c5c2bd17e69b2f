"""Scale of losses that a Gaussian process models best: linear, or logarithmic above the best one.

Losses of wild ranges, such as 1e6 in most of a space and 1 near its optimum, look like one peak on
a linear scale. The warp is z = log(1 + (y - min y) / (c s)), where s is the spread of the losses;
small c gives the logarithm, and an infinite c the identity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rankwise.history.transforms import Standardize
from rankwise.types import Array

_FENCE = 1e9  # interquartile ranges above which losses are clipped before the logarithm


@dataclass(frozen=True)
class LossWarp:
    """A monotone map of losses that can be inverted, with standardized results.

    Attributes:
        before: clips outliers and scales losses, so that nothing overflows.
        low: smallest scaled loss.
        high: largest loss after the logarithm; predictions exceed it by at most 1.
        softness: c s in units of `before`; infinite for the identity.
        after: standardization of the result.
    """

    before: Standardize
    low: float
    high: float
    softness: float
    after: Standardize

    @classmethod
    def fit(cls, y: Array, c: float = math.inf, fence: float = 3.0) -> LossWarp:
        """Fit to losses (n,), finite, n >= 1.

        Args:
            y: losses.
            c: the smaller, the nearer to a logarithm.
            fence: with the identity, interquartile ranges above which losses are clipped.
        """
        if math.isinf(c):
            return cls(
                Standardize(0.0, 1.0, math.inf), 0.0, math.inf, c, Standardize.fit(y, fence)
            )
        before = Standardize.fit(y, _FENCE)
        z = before(y)
        low = float(z.min())
        # the lower half tells more about the scale of good losses than all of them
        spread = float(np.median(z)) - low or float(np.mean(z)) - low or 1.0
        bent = np.log1p((z - low) / (c * spread))
        after = Standardize.fit(bent, math.inf)
        return cls(before, low, float(bent.max()), c * spread, after)

    def __call__(self, y: Array) -> Array:
        return self.after(self._bent(y))

    def _bent(self, y: Array) -> Array:
        if math.isinf(self.softness):
            return y
        bent: Array = np.log1p(np.maximum(self.before(y) - self.low, 0.0) / self.softness)
        return bent

    def log_slope(self, y: Array) -> float:
        """Sum over losses y (n,) of the logarithm of the derivative of the map."""
        if math.isinf(self.softness):
            return -len(y) * math.log(self.after.scale)
        above = np.maximum(self.before(y) - self.low, 0.0)
        scales = math.log(self.after.scale) + math.log(self.before.scale)
        return -float(np.log(above + self.softness).sum()) - len(y) * scales

    def unscale(self, mean: Array, std: Array) -> tuple[Array, Array]:
        """Medians (n,) and standard deviations (n,) in units of the loss.

        The latter are half the width of the central 68 % of the distribution.
        """
        if math.isinf(self.softness):
            return self.after.unscale(mean, std)
        middle, low, high = (self._losses(z) for z in (mean, mean - std, mean + std))
        return middle, (high - low) / 2

    def _losses(self, z: Array) -> Array:
        bent = np.minimum(z * self.after.scale + self.after.center, self.high + 1.0)
        scaled = self.low + self.softness * np.expm1(bent)
        losses: Array = scaled * self.before.scale + self.before.center
        return losses
