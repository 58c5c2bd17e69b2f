"""Deep kernels: Gaussian processes on the features of a network, for many tasks at once.

k(x, x') = s^2 k0(phi(x, z), phi(x', z)), where phi is a network, z is the output of a Deep Set of
the evaluations so far (optional), and k0 is a kernel of `exact_gp`. The gradient of the evidence
is computed by hand. S are the features divided by their length-scales, r their squared distances,
a = K^-1 (y - c) and A = a a^T - K^-1:

    d log p / dK = A / 2,    dK / dr = -s^2 slope(r) / 2,    dr_ij / dS_i = 2 (S_i - S_j).

The constant mean c is set to its optimum.

Letters in shapes: B tasks, n evaluations of each, d columns of a configuration, f features, and c
outputs of the Deep Set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from rankwise.surrogates.numeric.batched_networks import Adam, DeepSet, cosine
from rankwise.surrogates.numeric.exact_gp import ExactGP, Kernel, matern52, rbf
from rankwise.surrogates.numeric.mlp import Perceptron, count, initial, views
from rankwise.surrogates.shared_features.minibatches import Rows
from rankwise.types import Array

KERNELS: dict[str, Kernel] = {"rbf": rbf, "matern52": matern52}
NOISE_FLOOR = 1e-4  # smallest noise variance, for losses that are scaled to about unit range

_SET_WIDTH = 32  # width of the Deep Set's layers
_LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class DeepKernel:
    """Shape of a deep kernel. All its weights are in one vector (size,).

    Attributes:
        columns: number of columns d of a configuration.
        layers: number of layers of the network; with 0 the features are the configuration itself.
        width: number of units per layer, and so the number of features f.
        context: number of outputs c of the Deep Set; 0 for no Deep Set.
        kernel: name of a kernel in `KERNELS`.
    """

    columns: int
    layers: int = 4
    width: int = 32
    context: int = 0
    kernel: str = "matern52"

    @cached_property
    def network(self) -> Perceptron:
        """Shape of the network that computes the features."""
        return Perceptron((self.columns + self.context, *[self.width] * self.layers))

    @property
    def features(self) -> int:
        """Number of features f."""
        return self.network.widths[-1]

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of all weights by name.

        `lengthscales`, `scale` and `noise` are logarithms; scale and noise are variances.
        """
        h, c = _SET_WIDTH, self.context
        shapes: dict[str, tuple[int, ...]] = {"lengthscales": (self.features,)}
        shapes |= {"scale": (1,), "noise": (1,), **self.network.shapes}
        if c:
            for k, (a, b) in enumerate([(self.columns + 1, h), (h, h), (h, h), (h, h), (h, c)]):
                shapes |= {f"set{k}": (a, b), f"set_b{k}": (b,)}
        return shapes

    @property
    def size(self) -> int:
        """Total number of weights."""
        return count(self.shapes)

    def initial(self, generator: torch.Generator) -> Tensor:
        """Initial weights (size,): random for the networks, fixed for the kernel."""
        flat = initial(self.shapes, generator)
        parts = views(flat, self.shapes)
        for name, value in (("lengthscales", 0.3), ("scale", 1.0), ("noise", 0.01)):
            parts[name].fill_(math.log(value))
        return flat

    def phi(self, weights: Tensor, X: Array, z: Tensor | None) -> Array:
        """Compute features (n, f).

        Args:
            weights: weights (size,).
            X: configurations (n, d).
            z: output of the Deep Set (c,); None without a Deep Set.
        """
        rows = torch.as_tensor(np.asarray(X, dtype=float))
        with torch.inference_mode():
            if z is not None:
                rows = torch.cat([rows, z.expand(len(rows), -1)], dim=1)
            return self.network.forward(views(weights, self.shapes), rows)[-1].numpy()

    def describe(self, weights: Tensor, rows: Rows) -> Tensor | None:
        """Output of the Deep Set (B, c) for the support sets of rows; None without a Deep Set."""
        if not self.context:
            return None
        with torch.inference_mode():
            parts = views(weights, self.shapes)
            return DeepSet(parts, parts).forward(rows.items, rows.pool)


class Evidence:
    """Negative log evidence per evaluation, and its gradient.

    Args:
        kernel: shape of the deep kernel.
        weights: weights (size,).
        gradient: gradient (size,); each call adds to it.
    """

    def __init__(self, kernel: DeepKernel, weights: Tensor, gradient: Tensor) -> None:
        self.weights, self.gradient = weights, gradient
        self._kernel, self._k0 = kernel, KERNELS[kernel.kernel]
        self._parts, self._slopes = (views(flat, kernel.shapes) for flat in (weights, gradient))
        self._set = DeepSet(self._parts, self._slopes) if kernel.context else None

    def __call__(self, rows: Rows, *, backward: bool = True) -> float:
        """Compute the mean over tasks; infinite if a covariance is singular.

        Args:
            rows: rows of B tasks.
            backward: add the gradient of the result to `gradient`.
        """
        B, n, _ = rows.X.shape
        inputs = rows.X
        if self._set is not None:
            z = self._set.forward(rows.items, rows.pool)
            inputs = torch.cat([inputs, z.unsqueeze(1).expand(B, n, -1)], dim=-1)
        network = self._kernel.network
        kept = network.forward(self._parts, inputs.reshape(B * n, -1))
        loss, dphi = self._through(kept[-1].view(B, n, -1), rows, backward)
        if dphi is not None:
            d = network.backward(self._parts, self._slopes, kept, dphi.view(B * n, -1))
            if self._set is not None:
                self._set.backward(d.view(B, n, -1)[:, :, self._kernel.columns :].sum(1))
        return loss

    def _through(self, phi: Tensor, rows: Rows, backward: bool) -> tuple[float, Tensor | None]:
        """Compute the loss and its derivatives (B, n, f) by the features (B, n, f).

        The derivatives are None if `backward` is false or if a covariance is singular.
        """
        parts, mask, n = self._parts, rows.mask, rows.mask.sum(1)
        scale, noise = parts["scale"].exp(), parts["noise"].exp()
        S = phi / parts["lengthscales"].exp()
        norm = S.square().sum(-1)
        r2 = norm.unsqueeze(2) + norm.unsqueeze(1) - 2.0 * torch.bmm(S, S.mT)
        k, slope = (torch.from_numpy(a) for a in self._k0(r2.clamp_min_(0.0).numpy()))
        both = mask.unsqueeze(2) * mask.unsqueeze(1)
        K = scale * k * both
        K.diagonal(dim1=1, dim2=2).copy_(mask * (scale + noise + NOISE_FLOOR - 1.0) + 1.0)
        L, info = torch.linalg.cholesky_ex(K)
        if bool(info.any()):
            return math.inf, None
        inverse = torch.cholesky_inverse(L)
        ones = (inverse @ mask.unsqueeze(2)).squeeze(2)
        constant = (ones * rows.y).sum(1, keepdim=True) / (ones * mask).sum(1, keepdim=True)
        gap = (rows.y - constant) * mask
        a = (inverse @ gap.unsqueeze(2)).squeeze(2)
        half = L.diagonal(dim1=1, dim2=2).log().sum(1)
        loss = (0.5 * ((gap * a).sum(1) + n * _LOG_2PI) + half) / n
        if not backward:
            return float(loss.mean()), None
        share = 1.0 / (n * len(n))  # weight of each task's evidence in the loss
        A = (a.unsqueeze(2) * a.unsqueeze(1) - inverse) * (both * share.view(-1, 1, 1))
        trace = A.diagonal(dim1=1, dim2=2).sum()
        K.diagonal(dim1=1, dim2=2).sub_(noise + NOISE_FLOOR)  # in padded rows, A is zero
        self._slopes["scale"].sub_(0.5 * (A * K).sum())
        self._slopes["noise"].sub_(0.5 * trace * noise)
        G = (0.25 * scale) * A * slope
        dS = 4.0 * (G.sum(2, keepdim=True) * S - torch.bmm(G, S))
        self._slopes["lengthscales"].sub_((dS * S).sum((0, 1)))
        return float(loss.mean()), dS / parts["lengthscales"].exp()


def fine_tune(
    kernel: DeepKernel, start: Tensor, rows: Rows, *, epochs: int, rate: float
) -> Tensor:
    """Maximize the evidence of one task with Adam and cosine annealing.

    Args:
        kernel: shape of the deep kernel.
        start: initial weights (size,), not changed. They are returned if the evidence becomes
            infinite.
        rows: all evaluations of the task.
        epochs: number of steps.
        rate: initial learning rate.

    Returns:
        The new weights (size,).
    """
    with torch.inference_mode():
        weights = start.clone()
        gradient = torch.zeros_like(weights)
        evidence, adam = Evidence(kernel, weights, gradient), Adam(weights, gradient)
        for epoch in range(epochs):
            gradient.zero_()
            if not math.isfinite(evidence(rows)):
                return start
            adam.step(cosine(rate, epoch, epochs))
    return weights.clone()


@dataclass(frozen=True)
class DeepProcess:
    """Gaussian process with a deep kernel, conditioned on the evaluations of one task.

    Attributes:
        kernel: shape of the deep kernel.
        weights: weights (size,).
        z: output of the Deep Set (c,); None without a Deep Set.
        scale: prior variance s^2.
        gp: Gaussian process on the features, in units of s.
    """

    kernel: DeepKernel
    weights: Tensor
    z: Tensor | None
    scale: float
    gp: ExactGP

    @classmethod
    def given(cls, kernel: DeepKernel, weights: Tensor, rows: Rows) -> DeepProcess:
        """Condition on the evaluations of one task.

        Args:
            kernel: shape of the deep kernel.
            weights: weights (size,).
            rows: all evaluations of the task.
        """
        parts = views(weights, kernel.shapes)
        scale = float(parts["scale"].exp())
        noise = (float(parts["noise"].exp()) + NOISE_FLOOR) / scale
        contexts = kernel.describe(weights, rows)
        z = None if contexts is None else contexts[0]
        phi = kernel.phi(weights, rows.X[0].numpy(), z)
        y = rows.y[0].numpy() / math.sqrt(scale)
        lengthscales = parts["lengthscales"].exp().numpy()
        gp = ExactGP.given(phi, y, KERNELS[kernel.kernel], lengthscales, noise)
        return cls(kernel, weights, z, scale, gp)

    def mean(self, X: Array) -> Array:
        """Posterior mean (n,) at X (n, d)."""
        return self.mean_of(self.features(X))

    def mean_of(self, phi: Array) -> Array:
        """Posterior mean (n,) at configurations with features (n, f)."""
        return self.gp.mean(phi) * math.sqrt(self.scale)

    def posterior(self, X: Array) -> tuple[Array, Array]:
        """Posterior mean (n,) and variance (n,) at X (n, d), without noise."""
        mean, variance = self.gp.posterior(self.features(X))
        return mean * math.sqrt(self.scale), variance * self.scale

    def covariance(self, X: Array) -> Array:
        """Posterior covariance (n, n) at X (n, d), without noise."""
        return self.gp.covariance(self.features(X)) * self.scale

    def features(self, X: Array) -> Array:
        """Features (n, f) of X (n, d)."""
        return self.kernel.phi(self.weights, X, self.z)
