"""Multilayer perceptrons whose weights lie in one vector, with the backward pass written out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

Shapes = Mapping[str, tuple[int, ...]]
"""Names and shapes of weights, in the order in which they are stored."""


def count(shapes: Shapes) -> int:
    """The number of all weights."""
    return sum(math.prod(shape) for shape in shapes.values())


def views(flat: Tensor, shapes: Shapes) -> dict[str, Tensor]:
    """The parts of a vector (size,) of weights or gradients, by name."""
    parts, start = {}, 0
    for name, shape in shapes.items():
        stop = start + math.prod(shape)
        parts[name] = flat[start:stop].view(shape)
        start = stop
    return parts


def initial(shapes: Shapes, generator: torch.Generator) -> Tensor:
    """Random weights (size,): uniform within one over the root of a layer's inputs.

    A vector of biases belongs to the matrix that is stored before it.
    """
    flat = torch.rand(count(shapes), generator=generator, dtype=torch.float64) * 2.0 - 1.0
    inputs = 1
    for view in views(flat, shapes).values():
        inputs = len(view) if view.dim() == 2 else inputs
        view /= math.sqrt(inputs)
    return flat


@dataclass(frozen=True)
class Perceptron:
    """Linear layers with a nonlinearity between them; without any layer, the identity.

    Attributes:
        widths: of the input, the layers in between and the output.
        tanh: tanh instead of ReLU.
        bent: whether the output goes through the nonlinearity, too.
    """

    widths: tuple[int, ...]
    tanh: bool = False
    bent: bool = False

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of its weights."""
        shapes: dict[str, tuple[int, ...]] = {}
        for k, (a, b) in enumerate(pairwise(self.widths)):
            shapes[f"w{k}"], shapes[f"b{k}"] = (a, b), (b,)
        return shapes

    def forward(self, parts: Mapping[str, Tensor], X: Tensor) -> list[Tensor]:
        """The input, what each layer makes of it, and last the output (n, widths[-1]).

        Args:
            parts: weights by name.
            X: (n, widths[0]).
        """
        kept, layers = [X], len(self.widths) - 1
        for k in range(layers):
            h = torch.addmm(parts[f"b{k}"], kept[-1], parts[f"w{k}"])
            if k < layers - 1 or self.bent:
                h = h.tanh_() if self.tanh else h.relu_()
            kept.append(h)
        return kept

    def backward(
        self,
        parts: Mapping[str, Tensor],
        slopes: Mapping[str, Tensor],
        kept: list[Tensor],
        d: Tensor,
    ) -> Tensor:
        """Add the gradients of the weights to slopes; return that of the input (n, widths[0]).

        Args:
            parts: weights by name.
            slopes: gradients by name.
            kept: what `forward` gave.
            d: derivative of a loss by the output.
        """
        layers = len(self.widths) - 1
        for k in reversed(range(layers)):
            if k < layers - 1 or self.bent:
                h = kept[k + 1]
                d = d * (1.0 - h.square()) if self.tanh else d * (h > 0)
            slopes[f"w{k}"].addmm_(kept[k].T, d)
            slopes[f"b{k}"].add_(d.sum(0))
            d = d @ parts[f"w{k}"].T
        return d
