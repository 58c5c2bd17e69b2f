"""Torch modules built from layer descriptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional

from rankwise.errors import check_name
from rankwise.networks.layers import (
    Conv,
    Dense,
    Layer,
    LayerSize,
    Pair,
    image_shape,
    layer_sizes,
    pair,
)

_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
}

Initializer = Callable[[Tensor], object]
INITIALIZERS: dict[str, Initializer] = {
    "xavier": nn.init.xavier_uniform_,
    "kaiming": nn.init.kaiming_uniform_,
    "normal": lambda weight: nn.init.normal_(weight, std=0.05),
    "orthogonal": nn.init.orthogonal_,
}


class Pooling(nn.Module):
    """Maximum, average or sum over patches; padding does not count in maxima and averages.

    Args:
        kind: "max", "average" or "sum".
        kernel: height and width of a patch.
        stride: stride (height, width).
        padding: number of cells (before, after) of the rows and of the columns.
    """

    def __init__(self, kind: str, kernel: Pair, stride: Pair, padding: tuple[Pair, Pair]) -> None:
        super().__init__()
        self.kind, self.kernel, self.stride = kind, kernel, stride
        self.padding = (*padding[1], *padding[0])  # torch expects the last dimension first
        self.area = kernel[0] * kernel[1]

    def forward(self, images: Tensor) -> Tensor:
        """Pool images (n, c, h, w)."""
        if self.kind == "max":
            padded = self._padded(images, -torch.inf)
            return functional.max_pool2d(padded, self.kernel, self.stride)
        mean = functional.avg_pool2d(self._padded(images, 0.0), self.kernel, self.stride)
        if self.kind == "sum":
            return mean * self.area
        if not any(self.padding):
            return mean
        cells = self._padded(torch.ones_like(images[:1, :1]), 0.0)
        return mean / functional.avg_pool2d(cells, self.kernel, self.stride)

    def _padded(self, images: Tensor, value: float) -> Tensor:
        return functional.pad(images, self.padding, value=value) if any(self.padding) else images


class Block(nn.Module):
    """A hidden layer: weights, batch normalization, activation, pooling, dropout, in this order.

    Args:
        layer: description of the layer.
        size: shapes of its input and output.
        dropout: dropout rate if the layer does not set its own.
        batch_norm: batch normalization if the layer does not set its own.
    """

    def __init__(self, layer: Layer, size: LayerSize, dropout: float, batch_norm: bool) -> None:
        super().__init__()
        self.layer = layer
        normal = batch_norm if layer.batch_norm is None else layer.batch_norm
        rate = dropout if layer.dropout is None else layer.dropout
        self.before: nn.Module = nn.Identity()
        self.weights: nn.Linear | nn.Conv2d
        self.norm: nn.Module = nn.Identity()
        self.pool: nn.Module = nn.Identity()
        if isinstance(layer, Dense):
            self.before = nn.Flatten()
            self.weights = nn.Linear(prod(size.inputs), layer.units)
            if normal:
                self.norm = nn.BatchNorm1d(layer.units)
        else:
            self._convolution(layer, size)
            if normal:
                self.norm = nn.BatchNorm2d(layer.filters)
        self.activation = _ACTIVATIONS[layer.activation]()
        self.dropout: nn.Module = nn.Dropout(rate) if rate else nn.Identity()

    def _convolution(self, layer: Conv, size: LayerSize) -> None:
        rows, columns = size.padding
        symmetric = rows[0] == rows[1] and columns[0] == columns[1]
        if not symmetric:
            self.before = nn.ZeroPad2d((*columns, *rows))
        self.weights = nn.Conv2d(
            size.inputs[2],
            layer.filters,
            pair(layer.kernel),
            pair(layer.stride),
            (rows[0], columns[0]) if symmetric else 0,
            pair(layer.dilation),
        )
        if layer.pool is not None:
            kernel = pair(layer.pool_kernel)
            self.pool = Pooling(layer.pool, kernel, layer.pooling_stride, size.pool_padding)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to images (n, c, h, w) or rows (n, d)."""
        x = self.activation(self.norm(self.weights(self.before(x))))
        out: Tensor = self.dropout(self.pool(x))
        return out


class OneVersusRest(nn.Module):
    """Binary cross entropy of each class against all others, summed over the classes."""

    def forward(self, logits: Tensor, y: Tensor) -> Tensor:
        """Compute the mean loss of logits (n, k) and indices of classes y (n,)."""
        wanted = functional.one_hot(y, logits.shape[1]).to(logits.dtype)
        total = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="sum")
        return total / len(y)


CRITERIA: dict[str, type[nn.Module]] = {"softmax": nn.CrossEntropyLoss, "sigmoid": OneVersusRest}
"""Loss that belongs to each activation of the output layer."""


def probabilities(logits: Tensor, output: str) -> Tensor:
    """Convert logits (n, k) to probabilities (n, k), with an activation of the output layer."""
    logits = logits.double()
    # The softmax of log sigmoids is the sigmoids divided by their sum.
    return (functional.logsigmoid(logits) if output == "sigmoid" else logits).softmax(1)


class Network(nn.Module):
    """Network of hidden layers with one logit per class.

    Args:
        layers: hidden layers.
        input_shape: shape of one input: (h, w), (h, w, c) or (d,).
        n_classes: number of logits.
        dropout: dropout rate of layers that do not set their own.
        input_dropout: dropout rate of the inputs.
        batch_norm: batch normalization of layers that do not set their own.
        initializer: initializer of the weights: a name, a function that fills a tensor, or None
            for torch's default.

    Raises:
        GeometryError: the layers do not fit the shape; see `layer_sizes`.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        input_shape: Sequence[int],
        n_classes: int,
        *,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        batch_norm: bool = False,
        initializer: str | Initializer | None = None,
    ) -> None:
        super().__init__()
        self.dropped = nn.Dropout(input_dropout) if input_dropout else nn.Identity()
        self.layers, self.input_shape = tuple(layers), image_shape(input_shape)
        self.sizes = layer_sizes(layers, input_shape)
        self.blocks = nn.ModuleList(
            Block(layer, size, dropout, batch_norm)
            for layer, size in zip(layers, self.sizes, strict=True)
        )
        last = self.sizes[-1].outputs if layers else self.input_shape
        self.output = nn.Linear(prod(last), n_classes)
        if initializer is not None:
            self._initialize(initializer)
        # With this memory format, convolutions on a CPU are up to twice as fast.
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        """Compute logits (n, k) of images (n, c, h, w) or rows (n, d)."""
        x = self.dropped(x)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.output(x.flatten(1))
        return logits

    def _initialize(self, initializer: str | Initializer) -> None:
        if isinstance(initializer, str):
            fill = INITIALIZERS[check_name("initializer", initializer, INITIALIZERS)]
        else:
            fill = initializer
        with torch.no_grad():
            for module in self.modules():
                if isinstance(module, nn.Linear | nn.Conv2d):
                    fill(module.weight)
                    nn.init.zeros_(module.bias)  # type: ignore[arg-type]
