"""Monte-Carlo dropout: one network, whose parts disagree where it knows nothing.

Gal, Ghahramani: "Dropout as a Bayesian Approximation", ICML 2016. Units are dropped at random in
training and in prediction as well; what passes with different units say is a sample of functions.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rankwise.errors import OptionError, check_count, is_number
from rankwise.surrogates.alone import (
    Networks,
    StudySurrogate,
    moments_of_draws,
    seeded,
    train,
)
from rankwise.surrogates.base import Moments
from rankwise.surrogates.nets import Architecture
from rankwise.surrogates.neural import check_learning
from rankwise.types import Array

_BLOCK = 50  # epochs whose masks are drawn at once

Parts = Mapping[str, Tensor]
"""Weights, or factors of them, by name."""


class MonteCarloDropout(StudySurrogate):
    """One network with dropout before every layer but the first.

    A pass is a network without some units: here the passes are the members of one batched network
    whose weights are those of the network, some rows being zero. The units of a pass are the same
    for all configurations, so that it is a function, and the passes have a covariance.

    Args:
        layers: hidden layers of the network.
        width: of each hidden layer.
        dropout: the probability that a unit is dropped.
        passes: networks that a prediction is made of.
        draws: networks that each epoch of training is made with.
        epochs: of training.
        rate: the first learning rate, annealed along half a cosine.
        decay: of the squared weights, per evaluation: their prior.
        seed: of the first weights and of the units that are dropped.
    """

    def __init__(
        self,
        *,
        layers: int = 2,
        width: int = 64,
        dropout: float = 0.05,
        passes: int = 50,
        draws: int = 5,
        epochs: int = 1000,
        rate: float = 0.01,
        decay: float = 1e-4,
        seed: int = 0,
    ) -> None:
        super().__init__()
        counts = {"layers": layers, "width": width, "draws": draws, "epochs": epochs}
        check_learning(counts, {"rate": rate})
        if check_count("passes", passes) < 2:
            raise OptionError("passes must be at least 2: one has no variance")
        if not (is_number(dropout) and 0 < dropout < 1):
            raise OptionError(f"dropout must be above 0 and below 1, not {dropout!r}")
        if not (is_number(decay) and decay >= 0):
            raise OptionError(f"decay must be a number of at least 0, not {decay!r}")
        self.layers, self.width, self.dropout = layers, width, dropout
        self.passes, self.draws, self.epochs = passes, draws, epochs
        self.rate, self.decay, self.seed = rate, decay, seed

    def _shape(self, columns: int, members: int) -> Architecture:
        return Architecture(columns, members, self.layers, self.width, 0)

    def _learn(self, X: Array, y: Array) -> None:
        n, d = X.shape
        generator = seeded(self.seed)
        one = Networks(self._shape(d, 1), generator)
        many = Networks(self._shape(d, self.draws), seeded(self.seed))
        with torch.inference_mode():
            weights, drawn = one.weights.clone(), many.weights.clone()
            gradient, by_drawn = torch.zeros_like(weights), torch.zeros_like(drawn)
            parts, slopes = (one.architecture.views(flat) for flat in (weights, gradient))
            thinned, by_thinned = (many.architecture.views(flat) for flat in (drawn, by_drawn))
            scorers = many.scorers(drawn, by_drawn, n)
            rows = one.rows(X).expand(self.draws, n, d).contiguous()
            target = torch.as_tensor(y, dtype=weights.dtype)
            masks: dict[str, Tensor] = {}

            def learn(step: int) -> float:
                if step % _BLOCK == 0:
                    masks.update(self._masks(generator, (_BLOCK, self.draws)))
                kept = {name: mask[step % _BLOCK] for name, mask in masks.items()}
                _thin(parts, kept, thinned)
                by_drawn.zero_()
                gap = scorers.forward(rows, None).squeeze(1) - target
                scorers.backward(gap.unsqueeze(1) * (2.0 / (n * self.draws)))
                for name, slope in slopes.items():
                    found = by_thinned[name]
                    found = found * kept[name] if name in kept else found
                    torch.sum(found, 0, keepdim=True, out=slope)
                gradient.add_(weights, alpha=2.0 * self.decay)
                return float(gap.square().mean())

            weights = train(weights, gradient, learn, epochs=self.epochs, rate=self.rate)
            self._networks = Networks(self._shape(d, self.passes), seeded(self.seed))
            passes = self._networks.architecture.views(self._networks.weights)
            kept = self._masks(generator, (self.passes,))
            _thin(one.architecture.views(weights), kept, passes)

    def _masks(self, generator: torch.Generator, shape: tuple[int, ...]) -> dict[str, Tensor]:
        """For the weights behind each hidden layer zero, or one over the probability to stay."""
        stay = 1.0 - self.dropout
        units = torch.rand((self.layers, *shape, self.width), generator=generator)
        factors = (units < stay) / stay
        masks = {f"w{k}": factors[k - 1].unsqueeze(-1) for k in range(1, self.layers)}
        return {**masks, "out": factors[-1].unsqueeze(-2)}

    def _moments(self, X: Array, joint: bool) -> Moments:
        """Mean and Bessel-corrected variance over the passes (thesis, eq. 3.10)."""
        return moments_of_draws(self._networks.outputs(X)[:, 0], joint, bessel=True)


def _thin(parts: Parts, kept: Parts, thinned: Parts) -> None:
    """Make each member of `thinned` the network `parts` without some units."""
    for name, part in parts.items():
        thinned[name].copy_(part * kept[name] if name in kept else part)
