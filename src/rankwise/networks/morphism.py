"""Initialization of a network with the function of a trained smaller network.

These are network morphisms like those of Net2Net (Chen et al., 2016). A wider layer repeats units
and divides their outgoing weights among the copies. An additional layer starts as the identity.
If a part of the function cannot be preserved, as many weights as possible are copied and a note
reports it.

Layers are matched from the front, convolutions with convolutions and fully connected layers with
fully connected layers. A layer without a match is inserted. The outgoing weights of a unit are
divided among its copies in random parts. With equal parts, the copies would get equal gradients
and would always stay equal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor, nn

from rankwise.networks.layers import Conv, Layer, LayerSize, Pair, Shape, pair
from rankwise.networks.modules import Block, Network


@dataclass(frozen=True)
class Morphism:
    """Report on how far the function of the smaller network was preserved.

    Attributes:
        notes: one sentence for each part that was not preserved, with the reason.
    """

    notes: tuple[str, ...] = ()

    @property
    def preserved(self) -> bool:
        """True if both networks compute the same function in evaluation mode."""
        return not self.notes


@dataclass(frozen=True)
class _Signal:
    """Relation between the activations of the new and of the old network after some layers.

    Attributes:
        passed: number of blocks of the old network so far.
        origin: index (n,) of the old channel or unit that each new one repeats.
        share: part (n,) of the outgoing weights that each new channel or unit gets. The parts of
            all copies of an old one sum to 1.
        shape: shape of the new network's activations: (h, w, c) or (n,).
        old_shape: shape of the old network's activations.
        positive: True if no value is negative, so that relu is the identity.
    """

    passed: int
    origin: Tensor
    share: Tensor
    shape: Shape
    old_shape: Shape
    positive: bool = False

    def flat(self) -> _Signal | None:
        """Return the signal of flattened images (n,); None if the images differ in size."""
        if len(self.shape) == 1:
            return self
        if self.shape[:2] != self.old_shape[:2]:
            return None
        cells = self.shape[0] * self.shape[1]
        origin = (self.origin[:, None] * cells + torch.arange(cells)).flatten()
        shape, old_shape = (prod(self.shape),), (prod(self.old_shape),)
        share = self.share.repeat_interleave(cells)
        return replace(self, origin=origin, share=share, shape=shape, old_shape=old_shape)

    def spread(self, weight: Tensor) -> Tensor:
        """Convert old weights (m, old inputs, ...) to weights of the new inputs (m, n, ...)."""
        share = self.share.view(1, -1, *([1] * (weight.ndim - 2)))
        return weight[:, self.origin] * share


@torch.no_grad()
def morph(old: Network, new: Network) -> Morphism:
    """Initialize a new network with the function of an old one, as far as possible.

    Random numbers come from torch's global generator.

    Args:
        old: trained network.
        new: network with the same input shape. Its weights and the statistics of its batch
            normalization are changed in place.

    Returns:
        Report of what could not be preserved.
    """
    notes: list[str] = []
    shape = new.input_shape
    channels = torch.arange(shape[-1])
    signal: _Signal | None = _Signal(0, channels, torch.ones(len(channels)), shape, shape)
    partners = _partners(old.layers, new.layers)
    for number, (index, block) in enumerate(zip(partners, new.blocks, strict=True), 1):
        signal = _Step(number, block, new.sizes[number - 1], notes).take(old, index, signal)
    _output(old, new.output, signal, notes)
    return Morphism(tuple(notes))


def _partners(old: tuple[Layer, ...], new: tuple[Layer, ...]) -> list[int | None]:
    """Return the index of the old layer that matches each new layer; None for inserted layers."""
    kinds = {
        kind: [k for k, x in enumerate(old) if type(x) is kind] for kind in set(map(type, new))
    }
    found: list[int | None] = []
    for layer in new:
        left = kinds[type(layer)]
        found.append(left.pop(0) if left else None)
    return found


def _repeated(old: int, new: int) -> tuple[Tensor, Tensor]:
    """Choose which old unit each new unit repeats.

    Args:
        old: number of old units.
        new: number of new units.

    Returns:
        Index of the old unit (new,), and the part of its outgoing weights (new,).
    """
    further = torch.randint(old, (max(new - old, 0),))
    origin = torch.cat([torch.arange(min(old, new)), further])
    parts = 0.5 + torch.rand(new)
    totals = torch.zeros(old).index_add_(0, origin, parts)
    return origin, parts / totals[origin]


class _Step:
    """Initialization of one block of the new network.

    Args:
        number: number of the layer, from 1, for notes.
        block: block of the new network, changed in place.
        size: shapes of its input and output.
        notes: notes about what could not be preserved, appended to here.
    """

    def __init__(self, number: int, block: nn.Module, size: LayerSize, notes: list[str]) -> None:
        self.number, self.size, self.notes = number, size, notes
        self.block: Block = block  # type: ignore[assignment]
        self.layer = self.block.layer

    def take(self, old: Network, index: int | None, signal: _Signal | None) -> _Signal | None:
        """Copy the matching block of the old network, or make the block an identity.

        Args:
            old: trained network.
            index: index of the matching block; None to insert an identity.
            signal: signal before the block; None if it is not preserved.

        Returns:
            The signal after the block; None if it is not preserved.
        """
        if signal is not None and not isinstance(self.layer, Conv):
            signal = signal.flat()
        if signal is None or (index is not None and index != signal.passed):
            self._note("keeps its own weights, because its input is not preserved")
            return None
        if index is None:
            return self._insert(signal)
        source: Block = old.blocks[index]  # type: ignore[assignment]
        return self._copy(source, old.sizes[index], signal)

    # ------------------------------------------------------------------ the two cases

    def _copy(self, source: Block, old_size: LayerSize, signal: _Signal) -> _Signal | None:
        weight, bias = (values.cpu() for values in source.weights.state_dict().values())
        if isinstance(self.layer, Conv) and isinstance(source.layer, Conv):
            placed = self._placed(weight, source.layer, old_size)
            if placed is None:
                return None
            weight = placed
            if _pooling(self.layer, self.size) != _pooling(source.layer, old_size):
                self._note("has another pooling")
        if self.layer.activation != source.layer.activation:
            self._note(
                f"has the activation {self.layer.activation}, not {source.layer.activation}"
            )
        origin, share = self._fill(weight, bias, signal)
        self._copy_norm(source.norm, origin)
        return self._after(origin, share, old_size.outputs, signal.passed + 1)

    def _insert(self, signal: _Signal) -> _Signal | None:
        width = signal.old_shape[-1]
        weight, bias = torch.eye(width), torch.zeros(width)
        if self.size.outputs[-1] < width:
            self._note(f"is new and too narrow to be the identity of its {width} inputs")
            return None
        if isinstance(self.layer, Conv):
            identity = Conv(width, 1, dilation=self.layer.dilation)
            inputs = (*self.size.inputs[:2], width)
            placed = self._placed(
                weight[..., None, None], identity, LayerSize(inputs, inputs, inputs)
            )
            if placed is None:
                return None
            weight = placed
            if _pooling(self.layer, self.size) is not None:
                self._note("is new and has pooling")
        if self.layer.activation != "relu":
            self._note(f"is new and has the activation {self.layer.activation}")
        elif not signal.positive:
            self._note("is new, and its input may be negative")
        origin, share = self._fill(weight, bias, signal)
        self._copy_norm(nn.Identity(), origin)
        return self._after(origin, share, signal.old_shape, signal.passed)

    # ------------------------------------------------------------------ parts

    def _placed(self, weight: Tensor, old: Conv, old_size: LayerSize) -> Tensor | None:
        """Place old filters in larger kernels so that they cover the same cells.

        Args:
            weight: filters of the old layer.
            old: old layer.
            old_size: shapes of the old layer's input and output.

        Returns:
            The new filters; None if the new kernel is smaller.
        """
        layer = self.layer
        if not isinstance(layer, Conv):
            return None
        starts, exact = [], True
        for axis in (0, 1):
            room = pair(layer.kernel)[axis] - weight.shape[2 + axis]
            if room < 0:
                self._note("has a smaller kernel")
                return None
            step = pair(layer.dilation)[axis]
            shift = self.size.padding[axis][0] - old_size.padding[axis][0]
            exact &= pair(old.dilation)[axis] == step and pair(old.stride) == pair(layer.stride)
            fits = shift % step == 0 and 0 <= shift // step <= room
            exact &= fits
            starts.append(shift // step if fits else room // 2)
        filtered = self.size.filtered or ()
        if not exact or filtered[:2] != (old_size.filtered or ())[:2]:
            self._note("covers other cells: stride, padding or dilation differ")
        placed = torch.zeros(*weight.shape[:2], *pair(layer.kernel))
        (top, left), (height, width) = starts, weight.shape[2:]
        placed[:, :, top : top + height, left : left + width] = weight
        return placed

    def _fill(self, weight: Tensor, bias: Tensor, signal: _Signal) -> tuple[Tensor, Tensor]:
        """Set the block's weights; return `origin` and `share` of its outputs, see `_Signal`.

        Args:
            weight: old weights, one row per old output.
            bias: old biases.
            signal: signal before the block.
        """
        count = self.size.outputs[-1]
        if count < len(weight):
            self._note(f"has {count} of {len(weight)} units or filters")
        origin, share = _repeated(len(weight), count)
        filled = {"weight": signal.spread(weight)[origin], "bias": bias[origin]}
        self.block.weights.load_state_dict(filled)
        return origin, share

    def _copy_norm(self, source: nn.Module, origin: Tensor) -> None:
        norm = self.block.norm
        if isinstance(norm, _NORMS) and isinstance(source, _NORMS):
            for name, values in source.state_dict().items():
                target = getattr(norm, name)
                target.copy_(values.cpu()[origin] if values.ndim else values)
        elif isinstance(norm, _NORMS):
            norm.weight.fill_((1.0 + norm.eps) ** 0.5)  # the identity until training starts
            self._note("has new batch normalization: preserved only until training starts")
        elif isinstance(source, _NORMS):
            self._note("has no batch normalization")

    def _after(self, origin: Tensor, share: Tensor, old_shape: Shape, passed: int) -> _Signal:
        positive = self.layer.activation in ("relu", "sigmoid")
        return _Signal(passed, origin, share, self.size.outputs, old_shape, positive)

    def _note(self, what: str) -> None:
        self.notes.append(f"layer {self.number} {what}")


_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


def _pooling(layer: Conv, size: LayerSize) -> tuple[str, Pair, Pair, tuple[Pair, Pair]] | None:
    """Kind, kernel, stride and padding of a layer's pooling; None without an effective pooling."""
    kernel, stride = pair(layer.pool_kernel), layer.pooling_stride
    if layer.pool is None or kernel == stride == (1, 1):
        return None
    return layer.pool, kernel, stride, size.pool_padding


def _output(old: Network, output: nn.Linear, signal: _Signal | None, notes: list[str]) -> None:
    """Copy the weights of the output layer, if its input is preserved.

    Args:
        old: trained network.
        output: output layer of the new network, changed in place.
        signal: signal before the output layer; None if it is not preserved.
        notes: notes about what could not be preserved, appended to here.
    """
    signal = None if signal is None else signal.flat()
    if signal is None or signal.passed != len(old.blocks):
        notes.append("the output keeps its own weights, because its input is not preserved")
    elif len(old.output.weight) != len(output.weight):
        notes.append("the output keeps its own weights, because the classes differ")
    else:
        output.weight.copy_(signal.spread(old.output.weight.detach().cpu()))
        output.bias.copy_(old.output.bias.detach().cpu())
