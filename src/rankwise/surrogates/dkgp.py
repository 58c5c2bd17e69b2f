"""DKGP: a Gaussian process with a deep kernel, of the study alone.

Wilson, Hu, Salakhutdinov, Xing: "Deep Kernel Learning", AISTATS 2016. The kernel, its evidence
and its gradient are those of `fsbo` (`deep_kernel.py`), which tests compare with GPyTorch; here
the network begins with random weights.
"""

from __future__ import annotations

from numbers import Integral

import numpy as np
import torch

from rankwise.errors import OptionError, check_name, is_number
from rankwise.surrogates.alone import StudySurrogate
from rankwise.surrogates.base import Moments
from rankwise.surrogates.deep_kernel import KERNELS, DeepKernel, DeepProcess, fine_tune
from rankwise.surrogates.exact import spread_over
from rankwise.surrogates.neural import check_learning
from rankwise.surrogates.rows import Rows
from rankwise.types import Array

_ENOUGH = 200  # rows that the kernel is learnt from; a step up the evidence of n costs n^3


class LoneDeepKernelGP(StudySurrogate):
    """A Gaussian process on a network's features, both learnt from one study by the evidence.

    They are learnt from 200 evaluations at most, evenly over the order of their losses; the
    posterior is given all.

    Args:
        kernel: "rbf" or "matern52".
        layers: of the network; 0: the kernel is that of the configurations themselves.
        width: of each layer.
        epochs: of learning.
        rate: the first learning rate, annealed along half a cosine. With larger ones the network
            explains few evaluations so well that it doubts nothing between them.
        seed: of the first weights.
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
            some = spread_over(y, _ENOUGH)
            rows = Rows.of(X[some], y[some], y[some])
            weights = fine_tune(kernel, weights, rows, epochs=self.epochs, rate=self.rate)
        self._process = DeepProcess.given(kernel, weights, Rows.of(X, y, y))

    def _moments(self, X: Array, joint: bool) -> Moments:
        mean, variance = self._process.posterior(X)
        return mean, variance, self._process.covariance(X) if joint else None
