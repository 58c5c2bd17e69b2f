"""DNGO: Bayesian linear regression on the last hidden layer of a network.

Snoek et al.: "Scalable Bayesian Optimization Using Deep Neural Networks", ICML 2015; called
"paper" below. The network is first trained on the losses with the squared error. Then its output
layer is replaced by a Bayesian linear regression. The precisions of the regression, alpha
(weights) and beta (noise), are estimated from the marginal likelihood. The paper's quadratic mean
function is part of the regression here: the columns x_j and x_j^2 are added to the features.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral

import numpy as np
import torch

from rankwise.errors import OptionError, is_number
from rankwise.surrogates.base import Moments, moments_of_mixture
from rankwise.surrogates.numeric.batched_networks import Architecture
from rankwise.surrogates.numeric.bayesian_linear import (
    Belief,
    LinearPosterior,
    Spectrum,
    most_likely,
)
from rankwise.surrogates.shared_features.base import check_learning
from rankwise.surrogates.single_study.base import Networks, StudySurrogate, seeded, train
from rankwise.types import Array

_BELIEF = Belief(np.array([0.0, 5.0]), np.array([2.0, 2.0]))  # prior of log alpha and log beta
_BURN_IN = 20  # first samples of the precisions, which are discarded
_WIDTH, _MOST = 1.0, 20  # slice sampling: step width, and most steps out to either side


class DeepGlobalOptimization(StudySurrogate):
    """Network with tanh layers and a Bayesian linear regression on its last hidden layer.

    Args:
        layers: Number of hidden layers.
        width: Number of units per hidden layer; those of the last layer are the features.
        epochs: Number of training epochs.
        rate: Initial learning rate, annealed to zero along half a cosine.
        decay: Weight decay: decay * |weights|^2 is added to the mean squared error.
        bowl: Add the columns x and x^2 to the features, as the paper's quadratic mean function.
        draws: Number of samples of (alpha, beta), drawn by slice sampling; predictions are
            averaged over them, as in the paper. 0 uses the maximum a posteriori estimate.
        seed: Seed of the initial weights and of the samples.
    """

    def __init__(
        self,
        *,
        layers: int = 3,
        width: int = 50,
        epochs: int = 1000,
        rate: float = 0.01,
        decay: float = 1e-4,
        bowl: bool = True,
        draws: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_learning({"layers": layers, "width": width, "epochs": epochs}, {"rate": rate})
        if not (is_number(decay) and decay >= 0):
            raise OptionError(f"decay must be a number of at least 0, not {decay!r}")
        if not (is_number(draws, Integral) and draws >= 0):
            raise OptionError(f"draws must be an integer of at least 0, not {draws!r}")
        self.layers, self.width, self.epochs, self.rate = layers, width, epochs, rate
        self.decay, self.bowl, self.draws, self.seed = decay, bowl, draws, seed

    def _learn(self, X: Array, y: Array) -> None:
        shape = Architecture(X.shape[1], 1, self.layers, self.width, 0, tanh=True)
        self._networks = networks = Networks(shape, seeded(self.seed))
        with torch.inference_mode():
            weights = networks.weights.clone()
            gradient = torch.zeros_like(weights)
            scorers = networks.scorers(weights, gradient, len(X))
            rows, target = networks.rows(X)[None], torch.as_tensor(y, dtype=weights.dtype)

            def learn(step: int) -> float:
                gap = scorers.forward(rows, None) - target
                scorers.backward(gap * (2.0 / len(y)))
                gradient.add_(weights, alpha=2.0 * self.decay)
                return float(gap.square().mean())

            weights = train(weights, gradient, learn, epochs=self.epochs, rate=self.rate)
        networks.weights = weights.clone()
        spectrum = Spectrum.of(self.features(X), y)
        best = most_likely(spectrum, _BELIEF)
        rng = np.random.default_rng(self.seed)
        precisions = sampled_precisions(spectrum, _BELIEF, best, self.draws, rng)
        self._posteriors = [LinearPosterior.given(spectrum, theta) for theta in precisions]

    def features(self, X: Array) -> Array:
        """Return the inputs (n, f) of the regression at X (n, d); the last column is all ones."""
        centred = 2.0 * X - 1.0
        bowl = [centred, np.square(centred)] if self.bowl else []
        hidden = self._networks.features(X)[0]
        return np.concatenate([hidden, *bowl, np.ones((len(X), 1))], axis=1)

    def _moments(self, X: Array, joint: bool) -> Moments:
        """Moments of the equal mixture of the posteriors for each sample of (alpha, beta)."""
        phi = self.features(X)
        parts = [posterior.moments(phi) for posterior in self._posteriors]
        covariances = [p.covariance(phi) for p in self._posteriors] if joint else None
        return moments_of_mixture(parts, covariances)


def sampled_precisions(
    spectrum: Spectrum, belief: Belief, start: Array, count: int, rng: np.random.Generator
) -> list[Array]:
    """Draw posterior samples (2,) of (log alpha, log beta) by slice sampling (Neal, 2003).

    Args:
        spectrum: Decomposed features and losses.
        belief: Prior of log alpha and log beta.
        start: Start of the chain (2,); the only result if `count` is 0.
        count: Number of samples.
        rng: Random numbers.
    """
    if not count:
        return [start]

    def density(theta: Array) -> float:
        z = (theta - belief.mean) / belief.std
        return spectrum.log_evidence(theta)[0] - 0.5 * float(z @ z)

    theta, samples = start.copy(), []
    for _ in range(_BURN_IN + count):
        for j in range(2):
            theta = _sample_coordinate(density, theta, j, rng)
        samples.append(theta)
    return samples[_BURN_IN:]


def _sample_coordinate(
    density: Callable[[Array], float], theta: Array, j: int, rng: np.random.Generator
) -> Array:
    """Resample coordinate j of theta by slice sampling, with the other coordinates fixed.

    The interval is found by stepping out and then shrunk until a point in the slice is drawn.

    Args:
        density: Unnormalized log density.
        theta: Current sample (2,).
        j: Index of the coordinate.
        rng: Random numbers.
    """

    def at(value: float) -> Array:
        return np.where(np.arange(len(theta)) == j, value, theta)

    level = density(theta) - rng.exponential()
    low = float(theta[j]) - _WIDTH * rng.random()
    high, most = low + _WIDTH, _MOST
    while most and density(at(low)) > level:
        low, most = low - _WIDTH, most - 1
    most = _MOST
    while most and density(at(high)) > level:
        high, most = high + _WIDTH, most - 1
    while True:
        value = rng.uniform(low, high)
        if density(at(value)) > level or high - low < 1e-9:
            return at(value)
        low, high = (value, high) if value < theta[j] else (low, value)
