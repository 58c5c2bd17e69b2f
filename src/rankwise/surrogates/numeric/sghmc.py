"""Stochastic-gradient Hamiltonian Monte Carlo (SGHMC) that adapts its step sizes during burn-in.

Springenberg, Klein, Falkner, Hutter: "Bayesian Optimization with Robust Bayesian Neural Networks",
NeurIPS 2016; called "paper" below. U is the energy: minus the log density to sample from. A step:

    v     <- v - s^2 M grad U - a v + N(0, 2 s^2 a M - s^4)         M = V^(-1/2)  (paper, eq. 10)
    theta <- theta + v

V estimates the second moment of each component of the gradient by a moving average whose window
adapts (eq. 8 and 9). V is fixed after the burn-in, so that all samples come from one Markov chain.
The term s^4 accounts for the noise of minibatch gradients. Gradients over all data have no such
noise, so the term is left out for them.
"""

from __future__ import annotations

import torch
from torch import Tensor

_TINY = 1e-16  # prevents a division by zero


class AdaptiveSGHMC:
    """SGHMC sampler that changes one parameter vector in place.

    Args:
        theta: Start of the chain (size,); each step changes it in place.
        gradient: Gradient of the energy at theta (size,), read by `burn_in` and `step`.
        generator: Random numbers for the noise.
        rate: Step size s.
        friction: a, the share of the velocity that is lost in a step.
        exact: True if gradients are computed from all data, False if from minibatches.
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
        self._update_scales()

    def burn_in(self) -> None:
        """Update the estimates of the second moments (eq. 8 and 9), then take a step."""
        share = (self._window + 1.0).reciprocal_()
        ratio = self._mean.square().div_(self._square + _TINY)
        self._window.addcmul_(self._window, ratio, value=-1.0).add_(1.0)
        self._mean.lerp_(self._gradient, share)
        self._square.lerp_(self._gradient.square(), share)
        self._update_scales()
        self.step()

    def step(self) -> None:
        """Take a step with the current second moments."""
        self._noise.normal_(generator=self._generator)
        self._velocity.mul_(1.0 - self._friction).addcmul_(self._noise, self._spread)
        self._velocity.addcmul_(self._scale, self._gradient, value=-1.0)
        self._theta.add_(self._velocity)

    def _update_scales(self) -> None:
        """Compute s^2 M and the standard deviation of the noise from the second moments."""
        self._scale = self._square.add(_TINY).rsqrt_().mul_(self._rate2)
        variance = self._scale * (2.0 * self._friction)
        if not self._exact:
            variance.sub_(self._rate2 * self._rate2)
        self._spread = variance.clamp_min_(0.0).sqrt_()
