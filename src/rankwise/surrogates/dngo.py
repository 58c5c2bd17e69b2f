"""DNGO: a network's last hidden layer as the features of a Bayesian linear regression.

Snoek et al.: "Scalable Bayesian Optimization Using Deep Neural Networks", ICML 2015; "paper"
below. The network learns the evaluations by squared error; then its output layer is replaced by a
regression, whose precisions alpha (weights) and beta (noise) follow from the marginal likelihood.
The paper's mean, a bowl, is part of the regression: columns x_j and x_j^2 beside the features.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral

import numpy as np
import torch

from rankwise.errors import OptionError, is_number
from rankwise.surrogates.alone import Networks, StudySurrogate, seeded, train
from rankwise.surrogates.base import Moments, moments_of_mixture
from rankwise.surrogates.blr import Belief, LinearPosterior, Spectrum, most_likely
from rankwise.surrogates.nets import Architecture
from rankwise.surrogates.neural import check_learning
from rankwise.types import Array

_BELIEF = Belief(np.array([0.0, 5.0]), np.array([2.0, 2.0]))  # in log alpha and log beta
_WARM_UP = 20  # draws of the precisions that are not used
_WIDTH, _MOST = 1.0, 20  # of a slice, and how often it is widened to either side at most


class DeepGlobalOptimization(StudySurrogate):
    """A network of three tanh layers of 50, and a Bayesian linear regression on the last.

    Args:
        layers: hidden layers of the network.
        width: of each; the last are the features.
        epochs: of training.
        rate: the first learning rate, annealed along half a cosine.
        decay: of the squared weights.
        bowl: whether the regression also has the columns x and x^2, the paper's mean.
        draws: of alpha and beta by slice sampling, over which predictions are averaged, as in
            the paper; 0: the most likely ones.
        seed: of the first weights and of the draws.
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
        chosen = sampled_precisions(spectrum, _BELIEF, best, self.draws, rng)
        self._posteriors = [LinearPosterior.given(spectrum, theta) for theta in chosen]

    def features(self, X: Array) -> Array:
        """What the regression sees (n, f) of X (n, d), the last column being one."""
        centred = 2.0 * X - 1.0
        bowl = [centred, np.square(centred)] if self.bowl else []
        hidden = self._networks.features(X)[0]
        return np.concatenate([hidden, *bowl, np.ones((len(X), 1))], axis=1)

    def _moments(self, X: Array, joint: bool) -> Moments:
        """Of the equal mixture over the precisions that were drawn."""
        phi = self.features(X)
        parts = [posterior.moments(phi) for posterior in self._posteriors]
        covariances = [p.covariance(phi) for p in self._posteriors] if joint else None
        return moments_of_mixture(parts, covariances)


def sampled_precisions(
    spectrum: Spectrum, belief: Belief, start: Array, count: int, rng: np.random.Generator
) -> list[Array]:
    """Draws of log alpha and log beta (2,) given the evaluations, by slice sampling (Neal, 2003).

    Args:
        spectrum: of the evaluations.
        belief: in both.
        start: where the chain begins; with a count of 0, all that is returned.
        count: how many.
        rng: source of randomness.
    """
    if not count:
        return [start]

    def density(theta: Array) -> float:
        z = (theta - belief.mean) / belief.std
        return spectrum.log_evidence(theta)[0] - 0.5 * float(z @ z)

    theta, found = start.copy(), []
    for _ in range(_WARM_UP + count):
        for j in range(2):
            theta = _sliced(density, theta, j, rng)
        found.append(theta)
    return found[_WARM_UP:]


def _sliced(
    density: Callable[[Array], float], theta: Array, j: int, rng: np.random.Generator
) -> Array:
    """A draw of coordinate j of theta, the others being given: stepping out, then shrinking in."""

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
