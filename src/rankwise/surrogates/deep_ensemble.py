"""Deep Ensembles: networks that say mean and variance, and a mixture of what they say.

Lakshminarayanan, Pritzel, Blundell: "Simple and Scalable Predictive Uncertainty Estimation using
Deep Ensembles", NeurIPS 2017; "paper" below. As a surrogate, in the settings of Khazi's thesis
(section 3.7.1): 3 layers of 32, 1000 epochs of Adam on all evaluations, anew at every step.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from rankwise.errors import OptionError, is_number
from rankwise.surrogates.alone import (
    Networks,
    StudySurrogate,
    moments_of_draws,
    seeded,
    train,
)
from rankwise.surrogates.base import Moments
from rankwise.surrogates.nets import Architecture, Scorers
from rankwise.surrogates.neural import check_learning
from rankwise.types import Array

_FLOOR = 1e-6  # of a variance, for the stability of its logarithm (paper, footnote 2)


class DeepEnsemble(StudySurrogate):
    """M networks with a mean and a variance each, trained one by one from random weights.

    Args:
        members: M, the number of networks.
        layers: hidden layers of each.
        width: of each hidden layer.
        epochs: of training.
        rate: the first learning rate, annealed along half a cosine.
        adversarial: how far, in units of the cube, each configuration is moved against the
            network's belief to be learnt once more (paper, section 2.3; there 0.01); 0: not at
            all, as in the thesis.
        seed: of the first weights.
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
                if self.adversarial:  # rows go from -1 to 1, hence the 2
                    against = scorers.by_inputs.sign_().mul_(2.0 * self.adversarial)
                    loss = 0.5 * (loss + likelihood(rows + against))
                return loss

            weights = train(weights, gradient, learn, epochs=self.epochs, rate=self.rate)
        networks.weights = weights.clone()
        self._networks = networks

    def _moments(self, X: Array, joint: bool) -> Moments:
        """Mean and variance of the equal mixture of the members' normal distributions."""
        outputs = self._networks.outputs(X)
        noise = (np.logaddexp(0.0, outputs[:, 1]) + _FLOOR).mean(axis=0)
        mean, variance, covariance = moments_of_draws(outputs[:, 0], joint)
        if covariance is not None:
            covariance = covariance + np.diag(noise)
        return mean, variance + noise, covariance


class Likelihood:
    """Minus the log likelihood per evaluation, log(v) / 2 + (y - m)^2 / 2 v (paper, eq. 1).

    Args:
        scorers: M networks with outputs m and, before softplus, v.
        y: evaluations (n,).
    """

    def __init__(self, scorers: Scorers, y: Tensor) -> None:
        self._scorers, self._y = scorers, y

    def __call__(self, rows: Tensor) -> float:
        """The mean over members at rows (M, n, d); adds the gradient of their sum."""
        outputs = self._scorers.forward(rows, None)
        raw = outputs[:, 1]
        variance = softplus(raw).add_(_FLOOR)
        gap = outputs[:, 0] - self._y
        scaled = gap / variance
        by_variance = torch.addcmul(variance.reciprocal(), scaled, scaled, value=-1.0).mul_(0.5)
        slope = torch.stack([scaled, by_variance.mul_(torch.sigmoid(raw))], dim=1)
        self._scorers.backward(slope.div_(len(self._y)))
        return float(variance.log_().addcmul_(gap, scaled).mean()) / 2.0
