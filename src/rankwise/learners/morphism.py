"""A new network that starts as the function of a trained smaller one.

Network morphisms in the manner of Net2Net (Chen et al., 2016): a wider layer repeats units and
divides what they send on; a layer more begins as the identity. Whatever cannot be preserved is
copied as far as it fits, and said.

Layers are matched from the front, convolutions with convolutions and fully connected layers with
fully connected ones; a layer without a match is inserted. The copies of a unit divide its outgoing
weights in random parts: equal parts would get equal gradients, and stay copies for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor, nn

from rankwise.learners.layers import Conv, Layer, LayerSize, Pair, Shape, pair
from rankwise.learners.modules import Block, Network


@dataclass(frozen=True)
class Morphism:
    """What became of the function of the smaller network.

    Attributes:
        notes: what is not preserved and why, one sentence each.
    """

    notes: tuple[str, ...] = ()

    @property
    def preserved(self) -> bool:
        """Whether the new network computes (in evaluation) what the smaller one does."""
        return not self.notes


@dataclass(frozen=True)
class _Signal:
    """What the new network's data are at one point, in terms of the old network.

    Attributes:
        passed: blocks of the old network that came before.
        origin: for each new channel or unit (n,) the old one that it repeats.
        share: the part of it (n,) that is passed on; the parts of the repeats add up to 1.
        shape: of the data of the new network: (h, w, c) or (n,).
        old_shape: of the data of the old one.
        positive: whether nothing is negative, so that relu changes nothing.
    """

    passed: int
    origin: Tensor
    share: Tensor
    shape: Shape
    old_shape: Shape
    positive: bool = False

    def flat(self) -> _Signal | None:
        """The same as rows; None if the images differ in size."""
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
        """Old weights (m, old inputs, ...) for the new inputs: (m, n, ...)."""
        share = self.share.view(1, -1, *([1] * (weight.ndim - 2)))
        return weight[:, self.origin] * share


@torch.no_grad()
def morph(old: Network, new: Network) -> Morphism:
    """Give a new network the function of an old one, as far as possible.

    Random choices are torch's. Only weights and statistics of `new` are changed.

    Args:
        old: the trained one.
        new: with the same input shape.
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
    """For each new layer the index of the old one that it continues, or None."""
    kinds = {
        kind: [k for k, x in enumerate(old) if type(x) is kind] for kind in set(map(type, new))
    }
    found: list[int | None] = []
    for layer in new:
        left = kinds[type(layer)]
        found.append(left.pop(0) if left else None)
    return found


def _repeated(old: int, new: int) -> tuple[Tensor, Tensor]:
    """`new` units as repeats of `old` ones: which (new,), and their parts (new,) of it."""
    further = torch.randint(old, (max(new - old, 0),))
    origin = torch.cat([torch.arange(min(old, new)), further])
    parts = 0.5 + torch.rand(new)
    totals = torch.zeros(old).index_add_(0, origin, parts)
    return origin, parts / totals[origin]


class _Step:
    """One block of the new network."""

    def __init__(self, number: int, block: nn.Module, size: LayerSize, notes: list[str]) -> None:
        self.number, self.size, self.notes = number, size, notes
        self.block: Block = block  # type: ignore[assignment]
        self.layer = self.block.layer

    def take(self, old: Network, index: int | None, signal: _Signal | None) -> _Signal | None:
        """Copy or insert; what comes out of the block, or None if that is something new."""
        if signal is not None and not isinstance(self.layer, Conv):
            signal = signal.flat()
        if signal is None or (index is not None and index != signal.passed):
            self._note("keeps its own weights, since what comes before it is not preserved")
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
            self._note(
                f"is new and narrower than the {width} values that it would have to pass on"
            )
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
            self._note("is new, and what comes before it may be negative")
        origin, share = self._fill(weight, bias, signal)
        self._copy_norm(nn.Identity(), origin)
        return self._after(origin, share, signal.old_shape, signal.passed)

    # ------------------------------------------------------------------ parts

    def _placed(self, weight: Tensor, old: Conv, old_size: LayerSize) -> Tensor | None:
        """Old filters in the new kernel where they see the same cells; None if too large."""
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
            self._note("looks at other cells: stride, padding or dilation differ")
        placed = torch.zeros(*weight.shape[:2], *pair(layer.kernel))
        (top, left), (height, width) = starts, weight.shape[2:]
        placed[:, :, top : top + height, left : left + width] = weight
        return placed

    def _fill(self, weight: Tensor, bias: Tensor, signal: _Signal) -> tuple[Tensor, Tensor]:
        """Weights for the new inputs and outputs; the origins and shares of the outputs."""
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
            norm.weight.fill_((1.0 + norm.eps) ** 0.5)  # the identity until batches are seen
            self._note("has a batch normalisation that is new: preserved until training")
        elif isinstance(source, _NORMS):
            self._note("has no batch normalisation")

    def _after(self, origin: Tensor, share: Tensor, old_shape: Shape, passed: int) -> _Signal:
        positive = self.layer.activation in ("relu", "sigmoid")
        return _Signal(passed, origin, share, self.size.outputs, old_shape, positive)

    def _note(self, what: str) -> None:
        self.notes.append(f"layer {self.number} {what}")


_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


def _pooling(layer: Conv, size: LayerSize) -> tuple[str, Pair, Pair, tuple[Pair, Pair]] | None:
    """What pooling does; None if it does nothing."""
    kernel, stride = pair(layer.pool_kernel), layer.pooling_stride
    if layer.pool is None or kernel == stride == (1, 1):
        return None
    return layer.pool, kernel, stride, size.pool_padding


def _output(old: Network, output: nn.Linear, signal: _Signal | None, notes: list[str]) -> None:
    """The logits: the same ones from the new inputs."""
    signal = None if signal is None else signal.flat()
    if signal is None or signal.passed != len(old.blocks):
        notes.append("the output keeps its own weights: what comes before it is not preserved")
    elif len(old.output.weight) != len(output.weight):
        notes.append("the output keeps its own weights: there are other classes")
    else:
        output.weight.copy_(signal.spread(old.output.weight.detach().cpu()))
        output.bias.copy_(old.output.bias.detach().cpu())
