"""An ensemble of small networks as one batched network, trained without autograd.

The networks of Deep Ranking Ensembles are small (4 layers of 32 units) and are trained for
hundreds of steps between two trials. A plain PyTorch implementation spends nearly all of that
time on launching operations and recording them for autograd. This module therefore batches all
members into one network, stores all weights in one vector, implements the backward pass by hand
and reuses its buffers, so that a training step allocates almost no memory.

Shapes: M members, L lists per member, n items per list, d columns, h units per layer, c context
numbers, o outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

_CHUNK_ROWS = 1000  # configurations per forward pass, so that all activations fit in the CPU cache

_relu_backward = torch.ops.aten.threshold_backward.grad_input._op
_tanh_backward = torch.ops.aten.tanh_backward.grad_input._op


@dataclass(frozen=True)
class Architecture:
    """Layer sizes of an ensemble of scorers s(x, z) that share one Deep Set with output z.

    Attributes:
        columns: d, the number of columns of a configuration.
        members: M, the number of scorers.
        layers: Number of hidden layers of each scorer.
        width: h, the number of units of every hidden layer.
        context: c, the number of outputs of the Deep Set that describes the support set
            (0: no Deep Set).
        outputs: o, the number of outputs of each scorer per item.
        tanh: Use tanh instead of ReLU in the scorers.
    """

    columns: int
    members: int = 10
    layers: int = 4
    width: int = 32
    context: int = 16
    outputs: int = 1
    tanh: bool = False

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight tensor, in storage order."""
        M, h, c = self.members, self.width, self.context
        shapes: dict[str, tuple[int, ...]] = {"x": (M, self.columns, h), "b0": (M, 1, h)}
        if c:
            shapes["z"] = (M, c, h)
        for k in range(1, self.layers):
            shapes[f"w{k}"], shapes[f"b{k}"] = (M, h, h), (M, 1, h)
        shapes["out"], shapes["b_out"] = (M, self.outputs, h), (M, self.outputs, 1)
        return {**shapes, **self.context_shapes} if c else shapes

    @property
    def context_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight tensor of the context network.

        All names begin with "set".
        """
        h, c = self.width, self.context
        shapes: dict[str, tuple[int, ...]] = {}
        for k, (a, b) in enumerate([(self.columns + 1, h), (h, h), (h, h), (h, h), (h, c)]):
            shapes[f"set{k}"], shapes[f"set_b{k}"] = (a, b), (b,)
        return shapes

    def context_network(
        self, weights: dict[str, Tensor], gradients: dict[str, Tensor]
    ) -> ContextNetwork | None:
        """Return the Deep Set that computes the contexts, or None if `context` is 0.

        Args:
            weights: Weights of the ensemble, by name.
            gradients: Gradients by name; the network's `backward` adds to them.
        """
        return DeepSet(weights, gradients) if self.context else None

    @property
    def size(self) -> int:
        """Total number of weights."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """Return views into a vector (size,) of weights or gradients, by tensor name."""
        views, start = {}, 0
        for name, shape in self.shapes.items():
            stop = start + math.prod(shape)
            views[name] = flat[start:stop].view(shape)
            start = stop
        return views

    def initial(self, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        """Draw initial weights (size,) from U(-1 / sqrt(i), 1 / sqrt(i)).

        i is the number of inputs of the layer.
        """
        flat = torch.rand(self.size, generator=generator, dtype=torch.float64) * 2.0 - 1.0
        for name, view in self.views(flat).items():
            view /= math.sqrt(max(1, self._fan_in(name)))
        return flat.to(dtype)

    def _fan_in(self, name: str) -> int:
        """Number of inputs of the layer to which the named weight tensor belongs."""
        first = self.columns + self.context
        if name in ("x", "z", "b0"):
            return first
        if name in ("set0", "set_b0"):
            return self.columns + 1
        return self.width


class ContextNetwork(Protocol):
    """A network that maps sets of trials to context vectors, with a backward pass."""

    def forward(self, items: Tensor, pool: Tensor) -> Tensor:
        """Return the contexts (G * q, c) of q sets in each of G groups.

        Args:
            items: Trials (G, u, d + 1): each configuration followed by its rank in [-1, 1].
            pool: Weights (G, q, u) of the items of a group in each set; the weights of a set
                sum to one, or to zero for the empty set.
        """

    def backward(self, dz: Tensor) -> None:
        """Add the gradients of the weights, given the gradient dz (G * q, c) of the contexts."""


class DeepSet(ContextNetwork):
    """Deep Set rho(mean of phi(x, y)) that maps sets of trials to contexts.

    phi has two ReLU layers; rho has two ReLU layers and a linear output layer (Deep Ranking
    Ensembles, Khazi et al., 2023, appendix B). Several sets may share their items: each set is a
    row of pooling weights. The empty set has pooling weights of zero, so its context is rho(0).

    Args:
        weights: Weights of the ensemble, by name.
        gradients: Gradients by name; `backward` adds to them.
    """

    def __init__(self, weights: dict[str, Tensor], gradients: dict[str, Tensor]) -> None:
        self._w = [weights[f"set{k}"] for k in range(5)]
        self._b = [weights[f"set_b{k}"] for k in range(5)]
        self._gw = [gradients[f"set{k}"] for k in range(5)]
        self._gb = [gradients[f"set_b{k}"] for k in range(5)]

    def forward(self, items: Tensor, pool: Tensor) -> Tensor:
        self._pool = pool
        self._groups = items.shape[:2]
        a0 = items.reshape(-1, items.shape[-1])
        a1 = torch.addmm(self._b[0], a0, self._w[0]).relu_()
        a2 = torch.addmm(self._b[1], a1, self._w[1]).relu_()
        pooled = torch.bmm(pool, a2.view(*self._groups, -1)).view(-1, a2.shape[-1])
        r1 = torch.addmm(self._b[2], pooled, self._w[2]).relu_()
        r2 = torch.addmm(self._b[3], r1, self._w[3]).relu_()
        self._activations = (a0, a1, a2, pooled, r1, r2)
        return torch.addmm(self._b[4], r2, self._w[4])

    def backward(self, dz: Tensor) -> None:
        a0, a1, a2, pooled, r1, r2 = self._activations
        d = self._layer_backward(4, dz, r2, r2)
        d = self._layer_backward(3, d, r1, r1)
        d = self._layer_backward(2, d, pooled, None)
        d = torch.bmm(self._pool.transpose(1, 2), d.view(*self._pool.shape[:2], -1))
        d = d.view(-1, a2.shape[-1])
        _relu_backward(d, a2, 0, grad_input=d)
        d = self._layer_backward(1, d, a1, a1)
        self._layer_backward(0, d, a0, None, last=True)

    def _layer_backward(
        self, k: int, d: Tensor, inputs: Tensor, relu: Tensor | None, last: bool = False
    ) -> Tensor:
        """Backpropagate through linear layer k and the ReLU before it.

        Adds the gradients of the layer's weight and bias.

        Args:
            k: Index of the layer.
            d: Gradient (r, outputs of layer k) of the layer's output.
            inputs: Inputs (r, inputs of layer k) of the layer.
            relu: Output of the ReLU before the layer; None if there is no ReLU.
            last: True to skip the gradient of the inputs, and return d unchanged.

        Returns:
            Gradient (r, inputs of layer k) before the ReLU.
        """
        self._gw[k].addmm_(inputs.T, d)
        self._gb[k].addmv_(d.T, d.new_ones(len(d)))
        if last:
            return d
        d = d @ self._w[k].T
        if relu is not None:
            _relu_backward(d, relu, 0, grad_input=d)
        return d


class Buffers:
    """Preallocated memory for the intermediate results of `Scorers`.

    Several `Scorers` may use the same buffers one after the other.

    Args:
        architecture: Layer sizes of the ensemble.
        members: m, the number of members that are evaluated in one pass.
        lists: L, the number of lists per member.
        items: n, the number of items per list.
        dtype: Data type of all buffers.
        backward: Keep the activations of all layers for the backward pass. If False, the layers
            write alternately to two tensors and `Scorers.backward` cannot be called.
    """

    def __init__(
        self,
        architecture: Architecture,
        members: int,
        lists: int,
        items: int,
        dtype: torch.dtype = torch.float32,
        *,
        backward: bool = True,
    ) -> None:
        self.shape = (members, lists, items)
        hidden = (members, lists * items, architecture.width)
        layers = architecture.layers
        memory = [torch.empty(hidden, dtype=dtype) for _ in range(layers if backward else 2)]
        self.a = [memory[k % len(memory)] for k in range(layers)]
        self.at = [a.transpose(1, 2) for a in self.a]
        gradients = hidden if backward else (0,)
        self.d = torch.empty(gradients, dtype=dtype), torch.empty(gradients, dtype=dtype)
        self.scores = torch.empty((members, architecture.outputs, lists * items), dtype=dtype)
        self.ones = torch.ones((members, 1, lists * items), dtype=dtype)
        self.tanh = architecture.tanh


class Scorers:
    """Forward and backward pass of m of the M scorers of an ensemble.

    Args:
        weights: Weights of the ensemble, by name.
        gradients: Gradients by name; `backward` adds to them.
        members: Slice that selects m of the M members.
        buffers: Memory for m members; its shape fixes the number and length of the lists.
    """

    def __init__(
        self,
        weights: dict[str, Tensor],
        gradients: dict[str, Tensor],
        members: slice,
        buffers: Buffers,
    ) -> None:
        part = [n for n in weights if not n.startswith("set")]
        self._w = {n: weights[n][members] for n in part}
        self._wt = {n: w.transpose(1, 2) for n, w in self._w.items()}
        self._g = {n: gradients[n][members] for n in part}
        self._names = [n for n in part if n[0] == "w"]
        self.shape = buffers.shape
        self._a, self._at, self._d = buffers.a, buffers.at, buffers.d
        self._scores, self._ones = buffers.scores, buffers.ones
        self._one_output = self._scores.shape[1] == 1
        self._activate_ = torch.tanh_ if buffers.tanh else torch.relu_
        self._tanh = buffers.tanh
        self._z: Tensor | None = None

    @property
    def features(self) -> Tensor:
        """Last hidden layer (m, L * n, h) of the most recent `forward`."""
        return self._a[-1]

    @property
    def by_inputs(self) -> Tensor:
        """Gradient (m, L * n, d) of the loss by the items, after the most recent `backward`.

        The dependence of the loss on the items through the contexts is not included.
        """
        return torch.bmm(self._first, self._wt["x"])

    def forward(self, X: Tensor, z: Tensor | None) -> Tensor:
        """Return the scores (m, L, n), or the outputs (m, o, L * n) if o > 1.

        The result is a view of the buffers: the next `forward` overwrites it.

        Args:
            X: Items (m, L * n, d); the axis of length m may be expanded.
            z: Contexts (m, L, c); None without a Deep Set.
        """
        w, a = self._w, self._a
        self._X, self._z = X, z
        if z is None:
            self._activate_(torch.baddbmm(w["b0"], X, w["x"], out=a[0]))
        else:
            # All items of a list have the same context, so z @ w["z"] is added as a bias.
            torch.bmm(X, w["x"], out=a[0])
            bias = torch.baddbmm(w["b0"], z, w["z"])
            a[0].view(*self.shape, -1).add_(bias.unsqueeze(2))
            self._activate_(a[0])
        for k, name in enumerate(self._names):
            self._activate_(torch.baddbmm(w["b" + name[1:]], a[k], w[name], out=a[k + 1]))
        torch.baddbmm(w["b_out"], w["out"], self._at[-1], out=self._scores)
        return self._scores.view(self.shape) if self._one_output else self._scores

    def backward(self, dscores: Tensor) -> Tensor | None:
        """Add the gradients of the weights and return the gradient (m, L, c) of the contexts.

        Returns None if the scorers have no contexts.

        Args:
            dscores: Derivative of the loss by the result of `forward`, in the same shape.
        """
        g, wt = self._g, self._wt
        ds = dscores.view(self._scores.shape)
        torch.baddbmm(g["out"], ds, self._a[-1], out=g["out"])
        g["b_out"].add_(ds.sum(2, keepdim=True))
        d, spare = self._d
        (torch.mul if self._one_output else torch.bmm)(ds.transpose(1, 2), self._w["out"], out=d)
        for k in range(len(self._names) - 1, -1, -1):
            name = self._names[k]
            self._activation_backward_(d, self._a[k + 1])
            self._accumulate(name, "b" + name[1:], self._at[k], d)
            torch.bmm(d, wt[name], out=spare)
            d, spare = spare, d
        self._activation_backward_(d, self._a[0])
        self._first = d
        if self._z is None:
            self._accumulate("x", "b0", self._X.transpose(1, 2), d)
            return None
        torch.baddbmm(g["x"], self._X.transpose(1, 2), d, out=g["x"])
        dbias = d.view(*self.shape, -1).sum(2)
        g["b0"].add_(dbias.sum(1, keepdim=True))
        torch.baddbmm(g["z"], self._z.transpose(1, 2), dbias, out=g["z"])
        return torch.bmm(dbias, wt["z"])

    def _activation_backward_(self, d: Tensor, output: Tensor) -> None:
        """Replace d, the gradient after the activation function, by the one before it.

        Args:
            d: Gradient (m, L * n, h) of the activation function's output; changed in place.
            output: Output (m, L * n, h) of the activation function.
        """
        if self._tanh:
            _tanh_backward(d, output, grad_input=d)
        else:
            _relu_backward(d, output, 0, grad_input=d)

    def _accumulate(self, weight: str, bias: str, inputs: Tensor, d: Tensor) -> None:
        """Add the gradients of one layer's weight and bias.

        Args:
            weight: Name of the weight tensor.
            bias: Name of the bias tensor.
            inputs: Transposed inputs (m, i, L * n) of the layer.
            d: Gradient (m, L * n, h) of the layer's output before the activation function.
        """
        torch.baddbmm(self._g[weight], inputs, d, out=self._g[weight])
        torch.baddbmm(self._g[bias], self._ones, d, out=self._g[bias])


def forwards(
    architecture: Architecture, parts: dict[str, Tensor], X: Tensor, z: Tensor | None = None
) -> Iterator[tuple[Scorers, Tensor]]:
    """Evaluate all members at X (n, d), in chunks of at most 1000 rows.

    Yields the `Scorers` and their outputs for each chunk of r rows: scores (M, 1, r), or outputs
    (M, o, r) if o > 1. Both are overwritten when the next chunk is evaluated.

    Args:
        architecture: Layer sizes of the ensemble.
        parts: Weights of the ensemble, by name.
        X: Items (n, d).
        z: Contexts (M, 1, c); None without a Deep Set.
    """
    M, by_size = architecture.members, {}  # all chunks but the last have the same size
    for start in range(0, len(X), _CHUNK_ROWS):
        chunk = X[start : start + _CHUNK_ROWS]
        if len(chunk) not in by_size:
            buffers = Buffers(architecture, M, 1, len(chunk), X.dtype, backward=False)
            by_size[len(chunk)] = Scorers(parts, parts, slice(None), buffers)
        scorers = by_size[len(chunk)]
        yield scorers, scorers.forward(chunk.expand(M, *chunk.shape), z)


def outputs_of(
    architecture: Architecture, parts: dict[str, Tensor], X: Tensor, z: Tensor | None = None
) -> Tensor:
    """Return the outputs (M, o, n) of all members at X (n, d); arguments as in `forwards`."""
    chunks = [outputs.clone() for _, outputs in forwards(architecture, parts, X, z)]
    if not chunks:
        return X.new_empty(architecture.members, architecture.outputs, 0)
    return torch.cat(chunks, dim=2)


class Adam:
    """Adam optimizer (Kingma and Ba, 2015) that updates one vector of weights in place.

    Args:
        weights: Weights (size,), changed by `step`.
        gradient: Gradient (size,), read by `step`.

    Attributes:
        moments: First and second moment estimates, (size,) each, without bias correction.
        steps: Number of steps so far.
    """

    def __init__(self, weights: Tensor, gradient: Tensor) -> None:
        self._weights, self._gradient = weights, gradient
        self.moments = torch.zeros_like(weights), torch.zeros_like(weights)
        self._scratch = torch.empty_like(weights)
        self.steps = 0

    def step(self, rate: float) -> None:
        """Take one step with learning rate `rate`."""
        self.steps += 1
        first, second = self.moments
        first.lerp_(self._gradient, 0.1)
        second.mul_(0.999).addcmul_(self._gradient, self._gradient, value=0.001)
        correction = math.sqrt(1.0 - 0.999**self.steps)
        torch.sqrt(second, out=self._scratch).add_(1e-8 * correction)
        scale = rate * correction / (1.0 - 0.9**self.steps)
        self._weights.addcdiv_(first, self._scratch, value=-scale)


def cosine(rate: float, step: int, steps: int) -> float:
    """Return the learning rate at `step`, annealed from `rate` to zero along half a cosine."""
    return 0.5 * rate * (1.0 + math.cos(math.pi * step / steps))
