"""Deep Ensembles: a mixture of networks that each predict a mean and a variance.

Lakshminarayanan, Pritzel, Blundell: "Simple and Scalable Predictive Uncertainty Estimation using
Deep Ensembles", NeurIPS 2017; called "paper" below. The defaults are those of Khazi's master's
thesis (section 3.7.1), called "thesis" below: 3 layers of 32 units, 1000 epochs of Adam on all
trials, trained from scratch at every proposal.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from rankwise.errors import OptionError, is_number
from rankwise.surrogates.base import Moments
from rankwise.surrogates.numeric.batched_networks import Architecture, Scorers
from rankwise.surrogates.shared_features.base import check_learning
from rankwise.surrogates.single_study.base import (
    Networks,
    StudySurrogate,
    moments_of_draws,
    seeded,
    train,
)
from rankwise.types import Array

_FLOOR = 1e-6  # added to a predicted variance so that its logarithm is stable (paper, footnote 2)


class DeepEnsemble(StudySurrogate):
    """M networks, each with a predicted mean and variance, trained independently.

    The networks differ in their random initial weights.

    Args:
        members: M, the number of networks.
        layers: Number of hidden layers of each network.
        width: Number of units per hidden layer.
        epochs: Number of training epochs.
        rate: Initial learning rate, annealed to zero along half a cosine.
        adversarial: Step size of adversarial training (paper, section 2.3): in each epoch, every
            coordinate of every configuration is also moved by this distance in the direction that
            increases the loss, and the network is trained on the result, too. The paper uses
            0.01. 0 means no adversarial training, as in the thesis.
        seed: Seed of the initial weights.
    """

    def __init__(
        self,
        *,
        members: int = 5,
        layers: int = 3,
        width: int = 32,
        epochs: int = 1000,
        rate: float = 0.02,
        adversarial: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        counts = {"members": members, "layers": layers, "width": width, "epochs": epochs}
        check_learning(counts, {"rate": rate})
        if not (is_number(adversarial) and adversarial >= 0):
            raise OptionError(f"adversarial must be a number of at least 0, not {adversarial!r}")
        self.members, self.layers, self.width = members, layers, width
        self.epochs, self.rate, self.adversarial, self.seed = epochs, rate, adversarial, seed

    def _learn(self, X: Array, y: Array) -> None:
        shape = Architecture(X.shape[1], self.members, self.layers, self.width, 0, outputs=2)
        networks = Networks(shape, seeded(self.seed))
        with torch.inference_mode():
            weights = networks.weights.clone()
            gradient = torch.zeros_like(weights)
            scorers = networks.scorers(weights, gradient, len(X))
            rows = networks.rows(X).expand(self.members, *X.shape).contiguous()
            likelihood = Likelihood(scorers, torch.as_tensor(y, dtype=weights.dtype))

            def learn(step: int) -> float:
                loss = likelihood(rows)
                if self.adversarial:  # factor 2: the networks' inputs are scaled to [-1, 1]
                    shift = scorers.by_inputs.sign_().mul_(2.0 * self.adversarial)
                    loss = 0.5 * (loss + likelihood(rows + shift))
                return loss

            weights = train(weights, gradient, learn, epochs=self.epochs, rate=self.rate)
        networks.weights = weights.clone()
        self._networks = networks

    def _moments(self, X: Array, joint: bool) -> Moments:
        """Moments of the equally weighted mixture of the members' normal distributions."""
        outputs = self._networks.outputs(X)
        noise = (np.logaddexp(0.0, outputs[:, 1]) + _FLOOR).mean(axis=0)
        mean, variance, covariance = moments_of_draws(outputs[:, 0], joint)
        if covariance is not None:
            covariance = covariance + np.diag(noise)
        return mean, variance + noise, covariance


class Likelihood:
    """Negative log likelihood per trial, log(v) / 2 + (y - m)^2 / (2 v) (paper, eq. 1).

    Args:
        scorers: M networks with two outputs: the mean m, and a number whose softplus is the
            variance v.
        y: Standardized losses (n,).
    """

    def __init__(self, scorers: Scorers, y: Tensor) -> None:
        self._scorers, self._y = scorers, y

    def __call__(self, rows: Tensor) -> float:
        """Return the mean over members at rows (M, n, d), and add the gradient of their sum."""
        outputs = self._scorers.forward(rows, None)
        raw = outputs[:, 1]
        variance = softplus(raw).add_(_FLOOR)
        gap = outputs[:, 0] - self._y
        scaled = gap / variance
        by_variance = torch.addcmul(variance.reciprocal(), scaled, scaled, value=-1.0).mul_(0.5)
        slope = torch.stack([scaled, by_variance.mul_(torch.sigmoid(raw))], dim=1)
        self._scorers.backward(slope.div_(len(self._y)))
        return float(variance.log_().addcmul_(gap, scaled).mean()) / 2.0
