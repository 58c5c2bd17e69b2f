"""Descriptions of a network's layers, and the shapes of their inputs and outputs.

This module does not need torch, so search spaces can use it, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

from rankwise.errors import GeometryError, OptionError, check_count, check_name, is_number

ACTIVATIONS = ("tanh", "relu", "sigmoid", "gelu")
POOLS = ("max", "average", "sum")
OUTPUTS = ("softmax", "sigmoid")
"""Activations of the output layer."""
SAME = "same"
"""Padding with which the output has size ceil(s / stride) for an input of size s."""

Shape = tuple[int, ...]
Pair = tuple[int, int]
Extent = int | Pair
"""One number for both directions, or (height, width)."""


@dataclass(frozen=True)
class Dense:
    """A fully connected layer.

    Attributes:
        units: number of neurons.
        activation: "tanh", "relu", "sigmoid" or "gelu".
        dropout: dropout rate of its outputs; None takes the setting of the network.
        batch_norm: True for batch normalization; None takes the setting of the network.
    """

    units: int = 100
    activation: str = "relu"
    dropout: float | None = None
    batch_norm: bool | None = None

    def __post_init__(self) -> None:
        check_count("units", self.units)
        _check_common(self)


@dataclass(frozen=True)
class Conv:
    """A convolutional layer with optional pooling.

    Sizes, strides, dilations and paddings are one number or (height, width).

    Attributes:
        filters: number of filters.
        kernel: size of a filter.
        stride: stride of the filters.
        dilation: distance between the cells that a filter covers.
        padding: number of zeros on each side, or "same": the output size is the input size
            divided by the stride, rounded up.
        activation: "tanh", "relu", "sigmoid" or "gelu".
        pool: "max", "average", "sum", or None for no pooling.
        pool_kernel: size of the pooled patches.
        pool_stride: stride of pooling; None takes `pool_kernel`.
        pool_padding: number of cells on each side, less than `pool_kernel`, or "same". Padded
            cells do not count in maxima and averages.
        dropout: dropout rate of its outputs; None takes the setting of the network.
        batch_norm: True for batch normalization; None takes the setting of the network.
    """

    filters: int = 32
    kernel: Extent = 3
    stride: Extent = 1
    dilation: Extent = 1
    padding: Extent | str = 0
    activation: str = "relu"
    pool: str | None = None
    pool_kernel: Extent = 2
    pool_stride: Extent | None = None
    pool_padding: Extent | str = 0
    dropout: float | None = None
    batch_norm: bool | None = None

    def __post_init__(self) -> None:
        check_count("filters", self.filters)
        for name in ("kernel", "stride", "dilation", "pool_kernel", "pool_stride"):
            _check_extent(name, getattr(self, name), 1)
        for name in ("padding", "pool_padding"):
            if getattr(self, name) != SAME:
                _check_extent(name, getattr(self, name), 0)
        if self.pool is not None:
            check_name("pooling", self.pool, POOLS)
        if self.pool_padding != SAME:
            paddings, kernels = pair(self.pool_padding), pair(self.pool_kernel)
            if any(p >= k for p, k in zip(paddings, kernels, strict=True)):
                raise OptionError(
                    f"pool_padding must be less than pool_kernel {self.pool_kernel}, "
                    f"not {self.pool_padding}: otherwise some patches contain only padding"
                )
        _check_common(self)

    @property
    def pooling_stride(self) -> Pair:
        """Stride of pooling (height, width)."""
        return pair(self.pool_kernel if self.pool_stride is None else self.pool_stride)


Layer = Dense | Conv


@dataclass(frozen=True)
class LayerSize:
    """Input and output shapes of one layer; images are (height, width, channels).

    Attributes:
        inputs: shape of the input.
        filtered: shape after the filters and before pooling; None for a fully connected layer.
        outputs: shape of the output.
        padding: cells added before the filters: two pairs (before, after), rows then columns.
        pool_padding: cells added before pooling, in the same form.
    """

    inputs: Shape
    filtered: Shape | None
    outputs: Shape
    padding: tuple[Pair, Pair] = ((0, 0), (0, 0))
    pool_padding: tuple[Pair, Pair] = ((0, 0), (0, 0))


def layer_sizes(layers: Sequence[Layer], input_shape: Sequence[int]) -> tuple[LayerSize, ...]:
    """Compute the input and output shapes of each layer of a network.

    Args:
        layers: hidden layers.
        input_shape: (height, width), (height, width, channels), or (columns,) for rows of a table.

    Raises:
        GeometryError: a kernel is larger than its input, or a convolution follows a fully
            connected layer; the message names the layer.
    """
    shape = image_shape(input_shape)
    sizes: list[LayerSize] = []
    for number, layer in enumerate(layers, 1):
        if isinstance(layer, Dense):
            sizes.append(LayerSize(shape, None, (layer.units,)))
        elif not isinstance(layer, Conv):
            raise OptionError(f"layer {number} must be a Dense or a Conv, not {layer!r}")
        elif len(shape) == 1:
            what = "a fully connected layer" if sizes else "rows without a shape (see input_shape)"
            raise GeometryError(f"layer {number} is a convolution and cannot follow {what}")
        else:
            sizes.append(_convolved(number, layer, shape))
        shape = sizes[-1].outputs
    return tuple(sizes)


def image_shape(input_shape: Sequence[int]) -> Shape:
    """Return (height, width, channels), or (columns,) for rows; one channel is the default.

    Raises:
        OptionError: the argument is not a shape of one to three positive integers.
    """
    shape = tuple(check_count("each number of input_shape", size) for size in input_shape)
    if not 1 <= len(shape) <= 3:
        raise OptionError(
            "input_shape is (height, width), (height, width, channels) or (columns,), "
            f"not {input_shape!r}"
        )
    return (*shape, 1) if len(shape) == 2 else shape


def pair(extent: Extent | str) -> Pair:
    """Convert one number, or (height, width), to (height, width)."""
    if isinstance(extent, tuple):
        return extent
    return int(extent), int(extent)


def _convolved(number: int, layer: Conv, shape: Shape) -> LayerSize:
    height, width, _ = shape
    reach = [
        d * (k - 1) + 1 for k, d in zip(pair(layer.kernel), pair(layer.dilation), strict=True)
    ]
    where = f"layer {number}: a kernel"
    filtered, padding = _slide(where, (height, width), reach, pair(layer.stride), layer.padding)
    if layer.pool is None:
        outputs = (*filtered, layer.filters)
        return LayerSize(shape, outputs, outputs, padding)
    pooled, pool_padding = _slide(
        f"layer {number}: a pooling kernel",
        filtered,
        pair(layer.pool_kernel),
        layer.pooling_stride,
        layer.pool_padding,
    )
    return LayerSize(
        shape, (*filtered, layer.filters), (*pooled, layer.filters), padding, pool_padding
    )


def _slide(
    where: str, size: Pair, reach: Sequence[int], stride: Pair, padding: Extent | str
) -> tuple[Pair, tuple[Pair, Pair]]:
    """Compute the number of positions of a sliding window, and its padding.

    Args:
        where: beginning of the error message.
        size: height and width of the input.
        reach: height and width of the window.
        stride: stride (height, width) of the window.
        padding: padding option of the layer.

    Returns:
        Positions (rows, columns), and the padding (before, after) of rows and of columns.
    """
    if padding == SAME:
        pads = [_same(s, r, t) for s, r, t in zip(size, reach, stride, strict=True)]
    else:
        pads = [(p, p) for p in pair(padding)]
    room = [s + sum(p) for s, p in zip(size, pads, strict=True)]
    if any(r > space for r, space in zip(reach, room, strict=True)):
        padded = f" ({room[0]} x {room[1]} with padding)" if any(map(any, pads)) else ""
        raise GeometryError(
            f"{where} of {reach[0]} x {reach[1]} is larger than what is left of the image, "
            f"{size[0]} x {size[1]}{padded}"
        )
    places = [(space - r) // t + 1 for space, r, t in zip(room, reach, stride, strict=True)]
    return (places[0], places[1]), (pads[0], pads[1])


def _same(size: int, reach: int, stride: int) -> Pair:
    """Padding (before, after) with which a window has ceil(size / stride) positions."""
    missing = max((-(-size // stride) - 1) * stride + reach - size, 0)
    return missing // 2, missing - missing // 2


def _check_common(layer: Layer) -> None:
    check_name("activation", layer.activation, ACTIVATIONS)
    if layer.dropout is not None:
        check_dropout(layer.dropout)


def check_dropout(rate: float) -> None:
    """Raise `OptionError` if a dropout rate is not in [0, 1)."""
    if not is_number(rate) or not 0 <= rate < 1:
        raise OptionError(f"dropout must be a rate in [0, 1), not {rate!r}")


def _check_extent(name: str, extent: Extent | str | None, least: int) -> None:
    if name == "pool_stride" and extent is None:
        return
    values = extent if isinstance(extent, tuple) else (extent, extent)
    if len(values) != 2 or any(not is_number(v, Integral) or v < least for v in values):  # type: ignore[operator]
        raise OptionError(
            f"{name} must be an integer of at least {least}, or two of them, not {extent!r}"
        )
