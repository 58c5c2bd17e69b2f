"""BOHAMIANN: a Bayesian neural network, its weights drawn by Hamiltonian Monte Carlo.

Springenberg, Klein, Falkner, Hutter: "Bayesian Optimization with Robust Bayesian Neural Networks",
NeurIPS 2016. Several chains run side by side as the members of one batched network, each with the
burn-in and the thinning that the authors' code has for its one chain.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rankwise.errors import OptionError, is_number
from rankwise.surrogates.alone import (
    Networks,
    StudySurrogate,
    moments_of_draws,
    seeded,
)
from rankwise.surrogates.base import Moments
from rankwise.surrogates.nets import Architecture
from rankwise.surrogates.neural import check_learning
from rankwise.surrogates.sghmc import AdaptiveSGHMC
from rankwise.types import Array

_LOG_NOISE, _LOG_NOISE_STD = math.log(1e-3), 1.0  # prior of the log of the noise's variance
_BATCHES = 10  # steps whose rows are drawn at once


class BayesianNetworks(StudySurrogate):
    """Draws from the posterior of a network with three tanh layers of 50.

    Weights have the prior N(0, prior^2 / inputs of their layer), biases N(0, prior^2). The
    logarithm of the noise's variance, a second output of the network that is the same everywhere,
    has a normal prior and is drawn with the weights.

    Args:
        layers: hidden layers of the network.
        width: of each hidden layer.
        chains: that run side by side.
        draws: networks that each chain gives.
        burn_in: steps of each chain before.
        thin: steps between two draws.
        batch: evaluations that a gradient is made of, at most.
        rate: size of a step.
        friction: part of the velocity that is lost in a step.
        prior: standard deviation of a layer's output, for inputs of size one.
        seed: of all randomness.
    """

    def __init__(
        self,
        *,
        layers: int = 3,
        width: int = 50,
        chains: int = 5,
        draws: int = 10,
        burn_in: int = 3000,
        thin: int = 100,
        batch: int = 20,
        rate: float = 0.01,
        friction: float = 0.05,
        prior: float = 3.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        counts = {"layers": layers, "width": width, "chains": chains, "draws": draws}
        counts |= {"burn_in": burn_in, "thin": thin, "batch": batch}
        check_learning(counts, {"rate": rate, "prior": prior})
        if not (is_number(friction) and 0 < friction < 1):
            raise OptionError(f"friction must be above 0 and below 1, not {friction!r}")
        self.layers, self.width, self.chains, self.draws = layers, width, chains, draws
        self.burn_in, self.thin, self.batch = burn_in, thin, batch
        self.rate, self.friction, self.prior, self.seed = rate, friction, prior, seed

    def _shape(self, columns: int, members: int) -> Architecture:
        return Architecture(columns, members, self.layers, self.width, 0, tanh=True)

    def _learn(self, X: Array, y: Array) -> None:
        shape = self._shape(X.shape[1], self.chains)
        generator = seeded(self.seed)
        networks = Networks(shape, generator)
        with torch.inference_mode():
            batch = min(self.batch, len(X))
            energy = Energy(networks, X, y, batch, self.prior, generator)
            sampler = AdaptiveSGHMC(
                energy.theta,
                energy.gradient,
                generator,
                rate=self.rate,
                friction=self.friction,
                exact=self.batch >= len(X),
            )
            kept = []
            for step in range(self.burn_in + self.thin * self.draws):
                energy(step)
                if step < self.burn_in:
                    sampler.burn_in()
                else:
                    sampler.step()
                    if (step + 1 - self.burn_in) % self.thin == 0:
                        kept.append(energy.theta[: shape.size].clone())
            self._networks = self._gathered(X.shape[1], shape, kept)

    def _gathered(self, columns: int, shape: Architecture, kept: list[Tensor]) -> Networks:
        """All networks that were drawn, as the members of one."""
        all_shape = self._shape(columns, self.chains * len(kept))
        networks = Networks(all_shape, seeded(0))
        drawn = [shape.views(flat) for flat in kept]
        for name, part in all_shape.views(networks.weights).items():
            part.copy_(torch.cat([parts[name] for parts in drawn]))
        return networks

    def _moments(self, X: Array, joint: bool) -> Moments:
        """Of what the networks say, without the noise."""
        return moments_of_draws(self._networks.outputs(X)[:, 0], joint)


class Energy:
    """Minus the log posterior of the weights and the log noise of M networks: its gradient.

    Args:
        networks: M.
        X: configurations (n, d).
        y: standardised losses (n,).
        batch: b, rows that a call looks at; the others are thought to be like them.
        prior: standard deviation of the weights, before it is divided by the root of the inputs.
        generator: draws the rows.

    Attributes:
        theta: weights, then log variances (M,) of the noise.
        gradient: as long; set by calls.
    """

    def __init__(
        self,
        networks: Networks,
        X: Array,
        y: Array,
        batch: int,
        prior: float,
        generator: torch.Generator,
    ) -> None:
        shape, first = networks.architecture, networks.weights
        noise = first.new_full((shape.members,), _LOG_NOISE)
        self.theta = torch.cat([first, noise])
        self.gradient = torch.zeros_like(self.theta)
        self._log_noise, self._by_noise = (f[shape.size :] for f in (self.theta, self.gradient))
        self._mean = torch.cat([torch.zeros_like(first), noise])
        self._precision = torch.cat([_precisions(shape, prior), noise * 0 + _LOG_NOISE_STD**-2])
        parts = self.theta[: shape.size], self.gradient[: shape.size]
        self._scorers = networks.scorers(*parts, batch)
        self._rows, self._y = networks.rows(X), torch.as_tensor(y, dtype=first.dtype)
        self._members, self._batch, self._generator = shape.members, batch, generator
        self._weight = len(X) / batch

    def __call__(self, step: int) -> None:
        """Set the gradient, by the rows of a step of that number."""
        rows, y = self._some(step)
        gap = self._scorers.forward(rows, None).squeeze(1) - y
        torch.sub(self.theta, self._mean, out=self.gradient).mul_(self._precision)
        precision = self._log_noise.neg().exp_().mul_(self._weight)
        scaled = gap * precision.unsqueeze(1)
        size = self._batch * self._weight
        self._by_noise.add_(0.5 * size).sub_(gap.mul_(scaled).sum(1), alpha=0.5)
        self._scorers.backward(scaled.unsqueeze(1))

    def _some(self, step: int) -> tuple[Tensor, Tensor]:
        """Rows (M, b, d) and losses (b,), the same for all chains."""
        M, n = self._members, len(self._y)
        if self._batch == n:
            return self._rows.expand(M, n, -1), self._y
        if step % _BATCHES == 0:
            keys = torch.rand((_BATCHES, n), generator=self._generator)
            self._chosen = keys.argsort(1)[:, : self._batch]
            self._drawn = self._rows[self._chosen], self._y[self._chosen]
        rows, y = (drawn[step % _BATCHES] for drawn in self._drawn)
        return rows.expand(M, self._batch, -1), y


def _precisions(shape: Architecture, prior: float) -> Tensor:
    """Of the weights' prior (size,)."""
    flat = torch.full((shape.size,), prior**-2)
    for name, view in shape.views(flat).items():
        if name in ("x", "out") or name[0] == "w":
            view *= shape.columns if name == "x" else shape.width
    return flat
