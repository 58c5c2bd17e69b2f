"""What neural surrogates share: an ensemble of networks as one, trained without autograd.

The networks of Deep Ranking Ensembles are tiny (4 layers of 32) and trained for a thousand steps
between two evaluations, so nearly all the time of a plain implementation goes into launching
operations and recording them for autograd. Here all members are one batched network, all weights
lie in one vector, the backward pass is written out, and a step allocates next to nothing.

Shapes: M members, L lists per member, n items per list, d columns, h width, c context.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

_AT_ONCE = 1000  # configurations that are looked at together: all activations fit a cache

_relu_backward = torch.ops.aten.threshold_backward.grad_input._op
_tanh_backward = torch.ops.aten.tanh_backward.grad_input._op


@dataclass(frozen=True)
class Architecture:
    """The shape of an ensemble of scorers s(x, z) with a shared Deep Set context z.

    Attributes:
        columns: d, of a configuration.
        members: M, the number of scorers.
        layers: hidden layers of a scorer.
        width: h, of every hidden layer.
        context: c, numbers that describe the support set; 0: no Deep Set.
        outputs: o, numbers that a member says of an item.
        tanh: tanh instead of ReLU in the scorers.
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
        """The name and shape of every weight, in the order in which they are stored."""
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
        """The name, which begins with "set", and shape of every weight of the context network."""
        h, c = self.width, self.context
        shapes: dict[str, tuple[int, ...]] = {}
        for k, (a, b) in enumerate([(self.columns + 1, h), (h, h), (h, h), (h, h), (h, c)]):
            shapes[f"set{k}"], shapes[f"set_b{k}"] = (a, b), (b,)
        return shapes

    def context_network(
        self, weights: dict[str, Tensor], gradients: dict[str, Tensor]
    ) -> ContextNetwork | None:
        """The network of the contexts, None if there are none.

        Args:
            weights: of the ensemble, by name.
            gradients: added to by its `backward`.
        """
        return DeepSet(weights, gradients) if self.context else None

    @property
    def size(self) -> int:
        """The number of all weights."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """The parts of a vector (size,) of weights or gradients, by name."""
        views, start = {}, 0
        for name, shape in self.shapes.items():
            stop = start + math.prod(shape)
            views[name] = flat[start:stop].view(shape)
            start = stop
        return views

    def initial(self, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        """Random weights (size,): uniform within one over the root of a layer's inputs."""
        flat = torch.rand(self.size, generator=generator, dtype=torch.float64) * 2.0 - 1.0
        for name, view in self.views(flat).items():
            view /= math.sqrt(max(1, self._inputs(name)))
        return flat.to(dtype)

    def _inputs(self, name: str) -> int:
        first = self.columns + self.context
        if name in ("x", "z", "b0"):
            return first
        if name in ("set0", "set_b0"):
            return self.columns + 1
        return self.width


class ContextNetwork(Protocol):
    """From sets of evaluations to their contexts, with a backward pass."""

    def forward(self, items: Tensor, pool: Tensor) -> Tensor:
        """Contexts (G * q, c) of q sets in each of G groups.

        Args:
            items: evaluations (G, u, d + 1), configuration and scaled loss.
            pool: weights (G, q, u) of the items in each set, summing to one or zero.
        """

    def backward(self, dz: Tensor) -> None:
        """Add the gradients of the weights, given those of the contexts (G * q, c)."""


class DeepSet(ContextNetwork):
    """The context of sets of evaluations: rho(mean of phi(x, y)), with its backward pass.

    phi has two layers, rho two and a linear one (paper, appendix B). Many sets may share
    their items: a set is a row of pooling weights. The empty set has weights of zero, and so
    a context of its own.

    Args:
        weights: of the network, by name.
        gradients: added to by `backward`.
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
        self._kept = (a0, a1, a2, pooled, r1, r2)
        return torch.addmm(self._b[4], r2, self._w[4])

    def backward(self, dz: Tensor) -> None:
        a0, a1, a2, pooled, r1, r2 = self._kept
        d = self._through(4, dz, r2, r2)
        d = self._through(3, d, r1, r1)
        d = self._through(2, d, pooled, None)
        d = torch.bmm(self._pool.transpose(1, 2), d.view(*self._pool.shape[:2], -1))
        d = d.view(-1, a2.shape[-1])
        _relu_backward(d, a2, 0, grad_input=d)
        d = self._through(1, d, a1, a1)
        self._through(0, d, a0, None, last=True)

    def _through(
        self, k: int, d: Tensor, inputs: Tensor, relu: Tensor | None, last: bool = False
    ) -> Tensor:
        """Through the linear layer k and the ReLU before it, if there is one."""
        self._gw[k].addmm_(inputs.T, d)
        self._gb[k].addmv_(d.T, d.new_ones(len(d)))
        if last:
            return d
        d = d @ self._w[k].T
        if relu is not None:
            _relu_backward(d, relu, 0, grad_input=d)
        return d


class Buffers:
    """The intermediate results of `Scorers`, made once and used by one after the other.

    Args:
        architecture: of the ensemble.
        members: m, how many of them work at the same time.
        lists: L, lists per member.
        items: n, items per list.
        dtype: of all numbers.
        backward: keep what the backward pass needs; without, two layers share all the room.
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
        room = [torch.empty(hidden, dtype=dtype) for _ in range(layers if backward else 2)]
        self.a = [room[k % len(room)] for k in range(layers)]
        self.at = [a.transpose(1, 2) for a in self.a]
        slopes = hidden if backward else (0,)
        self.d = torch.empty(slopes, dtype=dtype), torch.empty(slopes, dtype=dtype)
        self.scores = torch.empty((members, architecture.outputs, lists * items), dtype=dtype)
        self.ones = torch.ones((members, 1, lists * items), dtype=dtype)
        self.tanh = architecture.tanh


class Scorers:
    """Scores of lists by some members of the ensemble, with their backward pass.

    Args:
        weights: of the network, by name.
        gradients: added to by `backward`.
        members: which of the M members: a slice of m.
        buffers: for m members.
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
        self._bend_ = torch.tanh_ if buffers.tanh else torch.relu_
        self._tanh = buffers.tanh
        self._z: Tensor | None = None

    @property
    def features(self) -> Tensor:
        """The last hidden layer (m, L * n, h) of the last `forward`."""
        return self._a[-1]

    @property
    def by_inputs(self) -> Tensor:
        """What the last `backward` says of the items (m, L * n, d), without their contexts."""
        return torch.bmm(self._first, self._wt["x"])

    def forward(self, X: Tensor, z: Tensor | None) -> Tensor:
        """Scores (m, L, n), or with several outputs (m, o, L * n).

        Args:
            X: items (m, L * n, d); m may be an expanded axis.
            z: contexts (m, L, c); None without a Deep Set.
        """
        w, a = self._w, self._a
        self._X, self._z = X, z
        if z is None:
            self._bend_(torch.baddbmm(w["b0"], X, w["x"], out=a[0]))
        else:
            # The context is the same for a whole list, so it acts as a bias.
            torch.bmm(X, w["x"], out=a[0])
            bias = torch.baddbmm(w["b0"], z, w["z"])
            a[0].view(*self.shape, -1).add_(bias.unsqueeze(2))
            self._bend_(a[0])
        for k, name in enumerate(self._names):
            self._bend_(torch.baddbmm(w["b" + name[1:]], a[k], w[name], out=a[k + 1]))
        torch.baddbmm(w["b_out"], w["out"], self._at[-1], out=self._scores)
        return self._scores.view(self.shape) if self._one_output else self._scores

    def backward(self, dscores: Tensor) -> Tensor | None:
        """Add the gradients of the weights; return those of the contexts (m, L, c), if any.

        Args:
            dscores: derivative of the loss by what `forward` gave, in its shape.
        """
        g, wt = self._g, self._wt
        ds = dscores.view(self._scores.shape)
        torch.baddbmm(g["out"], ds, self._a[-1], out=g["out"])
        g["b_out"].add_(ds.sum(2, keepdim=True))
        d, spare = self._d
        (torch.mul if self._one_output else torch.bmm)(ds.transpose(1, 2), self._w["out"], out=d)
        for k in range(len(self._names) - 1, -1, -1):
            name = self._names[k]
            self._unbend(d, self._a[k + 1])
            self._accumulate(name, "b" + name[1:], self._at[k], d)
            torch.bmm(d, wt[name], out=spare)
            d, spare = spare, d
        self._unbend(d, self._a[0])
        self._first = d
        if self._z is None:
            self._accumulate("x", "b0", self._X.transpose(1, 2), d)
            return None
        torch.baddbmm(g["x"], self._X.transpose(1, 2), d, out=g["x"])
        dbias = d.view(*self.shape, -1).sum(2)
        g["b0"].add_(dbias.sum(1, keepdim=True))
        torch.baddbmm(g["z"], self._z.transpose(1, 2), dbias, out=g["z"])
        return torch.bmm(dbias, wt["z"])

    def _unbend(self, d: Tensor, output: Tensor) -> None:
        """From the derivative by a layer's output to that by its input, in place."""
        if self._tanh:
            _tanh_backward(d, output, grad_input=d)
        else:
            _relu_backward(d, output, 0, grad_input=d)

    def _accumulate(self, weight: str, bias: str, inputs: Tensor, d: Tensor) -> None:
        torch.baddbmm(self._g[weight], inputs, d, out=self._g[weight])
        torch.baddbmm(self._g[bias], self._ones, d, out=self._g[bias])


def forwards(
    architecture: Architecture, parts: dict[str, Tensor], X: Tensor, z: Tensor | None = None
) -> Iterator[tuple[Scorers, Tensor]]:
    """All members at X (n, d), part by part: the network and its outputs (M, o, part).

    Both are overwritten by the next part.

    Args:
        architecture: of the ensemble.
        parts: its weights, by name.
        X: items.
        z: contexts (M, 1, c); None without a Deep Set.
    """
    M, ready = architecture.members, {}  # all parts but the last have the same size
    for start in range(0, len(X), _AT_ONCE):
        part = X[start : start + _AT_ONCE]
        if len(part) not in ready:
            buffers = Buffers(architecture, M, 1, len(part), X.dtype, backward=False)
            ready[len(part)] = Scorers(parts, parts, slice(None), buffers)
        scorers = ready[len(part)]
        yield scorers, scorers.forward(part.expand(M, *part.shape), z)


def outputs_of(
    architecture: Architecture, parts: dict[str, Tensor], X: Tensor, z: Tensor | None = None
) -> Tensor:
    """Outputs (M, o, n) of all members at X (n, d); see `forwards`."""
    found = [outputs.clone() for _, outputs in forwards(architecture, parts, X, z)]
    if not found:
        return X.new_empty(architecture.members, architecture.outputs, 0)
    return torch.cat(found, dim=2)


class Adam:
    """Adam on one vector of weights (Kingma and Ba, 2015), in place.

    Args:
        weights: (size,).
        gradient: (size,), read by `step`.
    """

    def __init__(self, weights: Tensor, gradient: Tensor) -> None:
        self._weights, self._gradient = weights, gradient
        self.moments = torch.zeros_like(weights), torch.zeros_like(weights)
        self._scratch = torch.empty_like(weights)
        self.steps = 0

    def step(self, rate: float) -> None:
        """One step of that learning rate."""
        self.steps += 1
        first, second = self.moments
        first.lerp_(self._gradient, 0.1)
        second.mul_(0.999).addcmul_(self._gradient, self._gradient, value=0.001)
        correction = math.sqrt(1.0 - 0.999**self.steps)
        torch.sqrt(second, out=self._scratch).add_(1e-8 * correction)
        scale = rate * correction / (1.0 - 0.9**self.steps)
        self._weights.addcdiv_(first, self._scratch, value=-scale)


def cosine(rate: float, step: int, steps: int) -> float:
    """The learning rate of a step, annealed from `rate` to zero along half a cosine."""
    return 0.5 * rate * (1.0 + math.cos(math.pi * step / steps))
