"""DKGP: a Gaussian process with a deep kernel, trained on the target study only.

Wilson, Hu, Salakhutdinov, Xing: "Deep Kernel Learning", AISTATS 2016. The kernel, the evidence
and its gradient are those of the method `fsbo` (`shared_features/deep_kernel.py`), which tests
compare with GPyTorch. Unlike `fsbo`, the network starts from random weights.
"""

from __future__ import annotations

from numbers import Integral

import numpy as np
import torch

from rankwise.errors import OptionError, check_name, is_number
from rankwise.surrogates.base import Moments
from rankwise.surrogates.numeric.exact_gp import spread_over
from rankwise.surrogates.shared_features.base import check_learning
from rankwise.surrogates.shared_features.deep_kernel import (
    KERNELS,
    DeepKernel,
    DeepProcess,
    fine_tune,
)
from rankwise.surrogates.shared_features.minibatches import Rows
from rankwise.surrogates.single_study.base import StudySurrogate
from rankwise.types import Array

_FIT_ROWS = 200  # most rows for training the kernel: the evidence of n rows takes O(n^3) time


class LoneDeepKernelGP(StudySurrogate):
    """Gaussian process on the features of a network, both trained on one study.

    Training maximizes the evidence of at most 200 trials, which are evenly spaced in the order of
    their losses. The posterior is conditioned on all trials.

    Args:
        kernel: "rbf" or "matern52".
        layers: Number of layers of the network; 0 applies the kernel to the configurations
            themselves.
        width: Number of units per layer.
        epochs: Number of training epochs.
        rate: Initial learning rate, annealed to zero along half a cosine. With larger rates the
            network overfits small studies, and the predicted variance between trials is too
            small.
        seed: Seed of the initial weights.
    """

    def __init__(
        self,
        *,
        kernel: str = "matern52",
        layers: int = 2,
        width: int = 32,
        epochs: int = 300,
        rate: float = 1e-3,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.kernel = check_name("kernel", kernel, KERNELS)
        check_learning({"width": width, "epochs": epochs}, {"rate": rate})
        if not is_number(layers, Integral) or layers < 0:
            raise OptionError(f"layers must be an integer of at least 0, not {layers!r}")
        self.layers, self.width, self.epochs, self.rate = layers, width, epochs, rate
        self.seed = seed

    def _learn(self, X: Array, y: Array) -> None:
        kernel = DeepKernel(X.shape[1], self.layers, self.width, kernel=self.kernel)
        weights = kernel.initial(torch.Generator().manual_seed(self.seed))
        if np.unique(y).size > 1:
            chosen = spread_over(y, _FIT_ROWS)
            rows = Rows.of(X[chosen], y[chosen], y[chosen])
            weights = fine_tune(kernel, weights, rows, epochs=self.epochs, rate=self.rate)
        self._process = DeepProcess.given(kernel, weights, Rows.of(X, y, y))

    def _moments(self, X: Array, joint: bool) -> Moments:
        mean, variance = self._process.posterior(X)
        return mean, variance, self._process.covariance(X) if joint else None
