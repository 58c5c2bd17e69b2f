"""Stochastic-gradient Hamiltonian Monte Carlo that finds its own scales while it burns in.

Springenberg, Klein, Falkner, Hutter: "Bayesian Optimization with Robust Bayesian Neural Networks",
NeurIPS 2016; "paper" below. With U the energy, minus the log of the density to be drawn from:

    theta <- theta + v
    v     <- v - s^2 M grad U - a v + N(0, 2 s^2 a M - s^4)         M = V^(-1/2)  (paper, eq. 10)

V, the second moment of each gradient, is an average over a window that adapts itself (eq. 8 and 9)
and stays what it is after the burn-in, so that what is drawn then comes from one Markov chain. The
s^4 is what the noise of a gradient of some evaluations adds by itself; that of all has none.
"""

from __future__ import annotations

import torch
from torch import Tensor

_TINY = 1e-16


class AdaptiveSGHMC:
    """The sampler, on one vector, in place.

    Args:
        theta: where the chain begins (size,).
        gradient: of the energy (size,), read by `step`.
        generator: of the noise.
        rate: s.
        friction: a, the part of the velocity that is lost in a step.
        exact: whether gradients are of all evaluations.
    """

    def __init__(
        self,
        theta: Tensor,
        gradient: Tensor,
        generator: torch.Generator,
        *,
        rate: float = 0.01,
        friction: float = 0.05,
        exact: bool = True,
    ) -> None:
        self._theta, self._gradient, self._generator = theta, gradient, generator
        self._rate2, self._friction, self._exact = rate * rate, friction, exact
        self._window, self._mean = torch.ones_like(theta), torch.ones_like(theta)
        self._square, self._velocity = torch.ones_like(theta), torch.zeros_like(theta)
        self._noise = torch.empty_like(theta)
        self._freeze()

    def burn_in(self) -> None:
        """A step that also learns the scales (eq. 8 and 9)."""
        share = (self._window + 1.0).reciprocal_()
        ratio = self._mean.square().div_(self._square + _TINY)
        self._window.addcmul_(self._window, ratio, value=-1.0).add_(1.0)
        self._mean.lerp_(self._gradient, share)
        self._square.lerp_(self._gradient.square(), share)
        self._freeze()
        self.step()

    def step(self) -> None:
        """A step of the chain."""
        self._noise.normal_(generator=self._generator)
        self._velocity.mul_(1.0 - self._friction).addcmul_(self._noise, self._spread)
        self._velocity.addcmul_(self._scale, self._gradient, value=-1.0)
        self._theta.add_(self._velocity)

    def _freeze(self) -> None:
        self._scale = self._square.add(_TINY).rsqrt_().mul_(self._rate2)
        variance = self._scale * (2.0 * self._friction)
        if not self._exact:
            variance.sub_(self._rate2 * self._rate2)
        self._spread = variance.clamp_min_(0.0).sqrt_()
