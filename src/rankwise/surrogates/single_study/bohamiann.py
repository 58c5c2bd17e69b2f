"""BOHAMIANN: a Bayesian neural network whose weights are sampled by Hamiltonian Monte Carlo.

Springenberg, Klein, Falkner, Hutter: "Bayesian Optimization with Robust Bayesian Neural Networks",
NeurIPS 2016. Several chains run in parallel as the members of one batched network. Each chain has
the burn-in and the thinning of the single chain in the authors' code.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rankwise.errors import OptionError, is_number
from rankwise.surrogates.base import Moments
from rankwise.surrogates.numeric.batched_networks import Architecture
from rankwise.surrogates.numeric.sghmc import AdaptiveSGHMC
from rankwise.surrogates.shared_features.base import check_learning
from rankwise.surrogates.single_study.base import (
    Networks,
    StudySurrogate,
    moments_of_draws,
    seeded,
)
from rankwise.types import Array

_LOG_NOISE, _LOG_NOISE_STD = math.log(1e-3), 1.0  # normal prior of the log noise variance
_BATCHES = 10  # number of steps for which minibatches are drawn at once


class BayesianNetworks(StudySurrogate):
    """Posterior samples of a Bayesian neural network with tanh layers.

    A weight has the prior N(0, prior^2 / number of inputs of its layer), a bias N(0, prior^2). The
    log noise variance is one further parameter per chain with a normal prior, and is sampled
    together with the weights.

    Args:
        layers: Number of hidden layers.
        width: Number of units per hidden layer.
        chains: Number of Markov chains that run in parallel.
        draws: Number of posterior samples per chain.
        burn_in: Number of steps of each chain before the first sample.
        thin: Number of steps between two samples.
        batch: Largest number of trials in a minibatch.
        rate: Step size of the sampler.
        friction: Share of the velocity that is lost in a step.
        prior: Scale of the prior standard deviations, see above.
        seed: Seed of the initial weights, the minibatches and the sampler.
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
        """Return the layer sizes of an ensemble with that many columns and members."""
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
            samples = []
            for step in range(self.burn_in + self.thin * self.draws):
                energy(step)
                if step < self.burn_in:
                    sampler.burn_in()
                else:
                    sampler.step()
                    if (step + 1 - self.burn_in) % self.thin == 0:
                        samples.append(energy.theta[: shape.size].clone())
            self._networks = self._gathered(X.shape[1], shape, samples)

    def _gathered(self, columns: int, shape: Architecture, samples: list[Tensor]) -> Networks:
        """Combine all sampled networks into one ensemble.

        Args:
            columns: Number of columns of a configuration.
            shape: Layer sizes of one sample, which has one member per chain.
            samples: Weights (shape.size,) of each sample.
        """
        all_shape = self._shape(columns, self.chains * len(samples))
        networks = Networks(all_shape, seeded(0))
        views = [shape.views(flat) for flat in samples]
        for name, part in all_shape.views(networks.weights).items():
            part.copy_(torch.cat([parts[name] for parts in views]))
        return networks

    def _moments(self, X: Array, joint: bool) -> Moments:
        """Mean, variance and covariance over the sampled networks, without noise."""
        return moments_of_draws(self._networks.outputs(X)[:, 0], joint)


class Energy:
    """Gradient of minus the log posterior density of the parameters of M networks.

    The parameters are the weights and the log noise variances. The likelihood of a minibatch is
    scaled up to all trials.

    Args:
        networks: Ensemble of M networks.
        X: Configurations (n, d).
        y: Standardized losses (n,).
        batch: b, the size of a minibatch, at most n.
        prior: Scale of the prior standard deviations; see `BayesianNetworks`.
        generator: Random numbers for the minibatches.

    Attributes:
        theta: Weights (size,) followed by the M log noise variances, shape (size + M,).
        gradient: Gradient (size + M,) by theta, set by each call.
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
        """Compute the gradient with the minibatch of the given step number."""
        rows, y = self._minibatch(step)
        gap = self._scorers.forward(rows, None).squeeze(1) - y
        torch.sub(self.theta, self._mean, out=self.gradient).mul_(self._precision)
        precision = self._log_noise.neg().exp_().mul_(self._weight)
        scaled = gap * precision.unsqueeze(1)
        size = self._batch * self._weight
        self._by_noise.add_(0.5 * size).sub_(gap.mul_(scaled).sum(1), alpha=0.5)
        self._scorers.backward(scaled.unsqueeze(1))

    def _minibatch(self, step: int) -> tuple[Tensor, Tensor]:
        """Return rows (M, b, d) and losses (b,), the same for all chains."""
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
    """Return the prior precision (size,) of every weight and bias."""
    flat = torch.full((shape.size,), prior**-2)
    for name, view in shape.views(flat).items():
        if name in ("x", "out") or name[0] == "w":
            view *= shape.columns if name == "x" else shape.width
    return flat
