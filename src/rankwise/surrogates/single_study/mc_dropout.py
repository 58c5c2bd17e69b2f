"""Monte Carlo dropout: uncertainty from several forward passes with different dropout masks.

Gal, Ghahramani: "Dropout as a Bayesian Approximation", ICML 2016. Units are dropped at random both
in training and in prediction. Each pass uses another mask, so that the passes are samples of
functions from an approximate posterior.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rankwise.errors import OptionError, check_count, is_number
from rankwise.surrogates.base import Moments
from rankwise.surrogates.numeric.batched_networks import Architecture
from rankwise.surrogates.shared_features.base import check_learning
from rankwise.surrogates.single_study.base import (
    Networks,
    StudySurrogate,
    moments_of_draws,
    seeded,
    train,
)
from rankwise.types import Array

_BLOCK = 50  # number of epochs for which masks are drawn at once

Parts = Mapping[str, Tensor]
"""Weight tensors, or factors that multiply them, by name."""


class MonteCarloDropout(StudySurrogate):
    """One network with dropout of the units of every hidden layer.

    The passes are the members of one batched network: each member has the weights of the trained
    network with the weights of its dropped units set to zero. A pass uses the same mask for all
    configurations. So each pass is a function of the configuration, and the passes have a
    covariance between configurations.

    Args:
        layers: Number of hidden layers.
        width: Number of units per hidden layer.
        dropout: Probability that a unit is dropped.
        passes: Number of masks that a prediction is averaged over, at least 2.
        draws: Number of masks that each training epoch is averaged over.
        epochs: Number of training epochs.
        rate: Initial learning rate, annealed to zero along half a cosine.
        decay: Weight decay: decay * |weights|^2 is added to the mean squared error. It
            corresponds to a normal prior on the weights.
        seed: Seed of the initial weights and of the masks.
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
            raise OptionError("passes must be at least 2: a single pass has no variance")
        if not (is_number(dropout) and 0 < dropout < 1):
            raise OptionError(f"dropout must be above 0 and below 1, not {dropout!r}")
        if not (is_number(decay) and decay >= 0):
            raise OptionError(f"decay must be a number of at least 0, not {decay!r}")
        self.layers, self.width, self.dropout = layers, width, dropout
        self.passes, self.draws, self.epochs = passes, draws, epochs
        self.rate, self.decay, self.seed = rate, decay, seed

    def _shape(self, columns: int, members: int) -> Architecture:
        """Return the layer sizes of an ensemble with that many columns and members."""
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
                factors = {name: mask[step % _BLOCK] for name, mask in masks.items()}
                _apply_masks(parts, factors, thinned)
                by_drawn.zero_()
                gap = scorers.forward(rows, None).squeeze(1) - target
                scorers.backward(gap.unsqueeze(1) * (2.0 / (n * self.draws)))
                for name, slope in slopes.items():
                    by_members = by_thinned[name]
                    by_members = by_members * factors[name] if name in factors else by_members
                    torch.sum(by_members, 0, keepdim=True, out=slope)
                gradient.add_(weights, alpha=2.0 * self.decay)
                return float(gap.square().mean())

            weights = train(weights, gradient, learn, epochs=self.epochs, rate=self.rate)
            self._networks = Networks(self._shape(d, self.passes), seeded(self.seed))
            passes = self._networks.architecture.views(self._networks.weights)
            final = self._masks(generator, (self.passes,))
            _apply_masks(one.architecture.views(weights), final, passes)

    def _masks(self, generator: torch.Generator, shape: tuple[int, ...]) -> dict[str, Tensor]:
        """Draw dropout masks, by the name of the weight tensor that they multiply.

        The factor is 0 for a dropped unit and 1 / (1 - dropout) for every other unit.

        Args:
            generator: Random numbers.
            shape: Leading axes of the masks.

        Returns:
            Masks (*shape, h, 1) for the weights between hidden layers, and (*shape, 1, h) for the
            output weights.
        """
        stay = 1.0 - self.dropout
        units = torch.rand((self.layers, *shape, self.width), generator=generator)
        factors = (units < stay) / stay
        masks = {f"w{k}": factors[k - 1].unsqueeze(-1) for k in range(1, self.layers)}
        return {**masks, "out": factors[-1].unsqueeze(-2)}

    def _moments(self, X: Array, joint: bool) -> Moments:
        """Mean and variance over the passes, with S - 1 as divisor (Khazi's thesis, eq. 3.10)."""
        return moments_of_draws(self._networks.outputs(X)[:, 0], joint, bessel=True)


def _apply_masks(parts: Parts, masks: Parts, thinned: Parts) -> None:
    """Write the weights of one network, with masks applied, into every member of an ensemble.

    Args:
        parts: Weights of the network, by name; the axis of members has length 1.
        masks: Factors of some of the weights, by name, one mask per member.
        thinned: Weights of the ensemble, by name; overwritten.
    """
    for name, part in parts.items():
        thinned[name].copy_(part * masks[name] if name in masks else part)
