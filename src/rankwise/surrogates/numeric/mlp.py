"""Multilayer perceptrons with all weights in one vector and a hand-written backward pass."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

Shapes = Mapping[str, tuple[int, ...]]
"""Name and shape of every weight tensor, in storage order."""


def count(shapes: Shapes) -> int:
    """Return the total number of weights."""
    return sum(math.prod(shape) for shape in shapes.values())


def views(flat: Tensor, shapes: Shapes) -> dict[str, Tensor]:
    """Return views into a vector (size,) of weights or gradients, by tensor name."""
    parts, start = {}, 0
    for name, shape in shapes.items():
        stop = start + math.prod(shape)
        parts[name] = flat[start:stop].view(shape)
        start = stop
    return parts


def initial(shapes: Shapes, generator: torch.Generator) -> Tensor:
    """Draw initial weights (size,) from U(-1 / sqrt(i), 1 / sqrt(i)).

    i is the number of inputs of the layer. A bias vector belongs to the layer of the matrix that
    is stored before it.
    """
    flat = torch.rand(count(shapes), generator=generator, dtype=torch.float64) * 2.0 - 1.0
    inputs = 1
    for view in views(flat, shapes).values():
        inputs = len(view) if view.dim() == 2 else inputs
        view /= math.sqrt(inputs)
    return flat


@dataclass(frozen=True)
class Perceptron:
    """Linear layers with an activation function between them.

    With only one entry in `widths` there are no layers, and the network is the identity.

    Attributes:
        widths: Numbers of units of the input, of each hidden layer and of the output.
        tanh: Use tanh instead of ReLU.
        bent: Apply the activation function to the output, too.
    """

    widths: tuple[int, ...]
    tanh: bool = False
    bent: bool = False

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight tensor, in storage order."""
        shapes: dict[str, tuple[int, ...]] = {}
        for k, (a, b) in enumerate(pairwise(self.widths)):
            shapes[f"w{k}"], shapes[f"b{k}"] = (a, b), (b,)
        return shapes

    def forward(self, parts: Mapping[str, Tensor], X: Tensor) -> list[Tensor]:
        """Return the input, the output of each layer, and last the network's output.

        The k-th tensor has the shape (n, widths[k]).

        Args:
            parts: Weights by name.
            X: Inputs (n, widths[0]).
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
        """Add the gradients of the weights to `slopes`; return the gradient of the input.

        Args:
            parts: Weights by name.
            slopes: Gradients by name, changed in place.
            kept: Result of `forward`.
            d: Derivative (n, widths[-1]) of a loss by the output.

        Returns:
            Derivative (n, widths[0]) of the loss by the input.
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
