"""Sizes of layers are those that torch finds; pooling is what it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from rankwise.errors import GeometryError, OptionError, UnknownNameError
from rankwise.networks import Conv, Dense, layer_sizes
from rankwise.networks.layers import SAME, pair
from rankwise.networks.modules import Network, Pooling


def extents(low, high):
    one = st.integers(low, high)
    return one | st.tuples(one, one)


@st.composite
def convolutions(draw, padding=True):
    kernel = draw(extents(1, 5))
    most = min(pair(kernel)) - 1
    return Conv(
        filters=draw(st.integers(1, 3)),
        kernel=draw(extents(1, 5)),
        stride=draw(extents(1, 3)),
        dilation=draw(extents(1, 2)),
        padding=draw(extents(0, 2) | st.just(SAME) if padding else extents(0, 2)),
        pool=draw(st.sampled_from([None, "max", "average", "sum"])),
        pool_kernel=kernel,
        pool_stride=draw(st.none() | extents(1, 3)),
        pool_padding=draw(extents(0, most) | st.just(SAME) if padding else st.just(0)),
    )


shapes = st.tuples(st.integers(1, 14), st.integers(1, 14), st.integers(1, 3))


@settings(deadline=None, max_examples=150)
@given(st.lists(convolutions(), max_size=3), st.lists(st.just(Dense(4)), max_size=2), shapes)
def test_sizes_are_those_of_the_network(convs, denses, shape):
    layers = (*convs, *denses)
    try:
        sizes = layer_sizes(layers, shape)
    except GeometryError:
        return
    x = torch.zeros(2, shape[2], *shape[:2])
    network = Network(layers, shape, 3)
    for block, size in zip(network.blocks, sizes, strict=True):
        x = block(x)
        found = (*x.shape[2:], x.shape[1]) if x.ndim == 4 else (x.shape[1],)
        assert found == size.outputs
    assert network(torch.zeros(2, shape[2], *shape[:2])).shape == (2, 3)


def in_torch(layers, shape):
    """The shape after convolutions by torch's own functions; None if it refuses."""
    x = torch.zeros(1, shape[2], *shape[:2])
    try:
        for layer in layers:
            weight = torch.zeros(layer.filters, x.shape[1], *pair(layer.kernel))
            x = functional.conv2d(
                x, weight, None, layer.stride, pair(layer.padding), pair(layer.dilation)
            )
            if layer.pool:
                x = functional.max_pool2d(x, layer.pool_kernel, layer.pool_stride)
    except RuntimeError:
        return None
    return (*x.shape[2:], x.shape[1])


@settings(deadline=None, max_examples=200)
@given(st.lists(convolutions(padding=False), min_size=1, max_size=3), shapes)
def test_what_is_impossible_is_so_for_torch(layers, shape):
    expected = in_torch(layers, shape)
    if expected is None:
        with pytest.raises(GeometryError, match=r"layer \d: a (pooling )?kernel of"):
            layer_sizes(layers, shape)
    else:
        assert layer_sizes(layers, shape)[-1].outputs == expected


@given(convolutions(), shapes)
def test_padding_to_the_same_size(layer, shape):
    layer = Conv(3, layer.kernel, layer.stride, layer.dilation, SAME)
    [size] = layer_sizes([layer], shape)
    expected = [math.ceil(s / t) for s, t in zip(shape, pair(layer.stride), strict=False)]
    assert size.outputs == (*expected, 3)


def test_the_layer_is_named():
    with pytest.raises(GeometryError, match=r"layer 2: a kernel of 5 x 5 .* 3 x 3"):
        layer_sizes([Conv(4, 3, stride=2), Conv(4, 5)], (8, 8))
    with pytest.raises(GeometryError, match=r"layer 1: a pooling kernel of 4 x 4 .* 2 x 2"):
        layer_sizes([Conv(4, 3, stride=3, pool="max", pool_kernel=4)], (8, 8))
    with pytest.raises(GeometryError, match="layer 2 is a convolution and cannot follow a fully"):
        layer_sizes([Dense(4), Conv(4)], (8, 8))
    with pytest.raises(GeometryError, match="input_shape"):
        layer_sizes([Conv(4)], (64,))


def patches(image, kernel, stride):
    """The cells of each patch under padding to the same size; what is outside is left out."""
    size = image.shape[0]
    places = math.ceil(size / stride)
    before = max((places - 1) * stride + kernel - size, 0) // 2
    starts = np.arange(places) * stride - before
    ranges = [slice(max(s, 0), min(s + kernel, size)) for s in starts]
    return [[image[rows, columns] for columns in ranges] for rows in ranges]


@pytest.mark.parametrize(("kind", "of"), [("max", np.max), ("average", np.mean), ("sum", np.sum)])
@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2), (5, 3), (1, 2), (4, 1)])
def test_pooling_of_patches(kind, of, kernel, stride):
    image = np.random.default_rng(0).normal(size=(7, 7))
    layer = Conv(1, pool=kind, pool_kernel=kernel, pool_stride=stride, pool_padding=SAME)
    padding = layer_sizes([Conv(1, padding=SAME), layer], (9, 9))  # 9 - 2 = 7 before pooling
    pooling = Pooling(kind, (kernel, kernel), (stride, stride), padding[1].pool_padding)
    found = pooling(torch.tensor(image)[None, None])[0, 0].numpy()
    expected = [[of(patch) for patch in row] for row in patches(image, kernel, stride)]
    np.testing.assert_allclose(found, expected)


@given(st.integers(1, 4), st.integers(1, 3))
def test_a_sum_is_an_average_times_the_area(kernel, stride):
    images = torch.randn(2, 3, 8, 8)
    none = ((0, 0), (0, 0))
    mean = Pooling("average", (kernel, kernel), (stride, stride), none)(images)
    total = Pooling("sum", (kernel, kernel), (stride, stride), none)(images)
    torch.testing.assert_close(total, mean * kernel**2)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Dense(0),
        lambda: Dense(5, dropout=1.0),
        lambda: Conv(0),
        lambda: Conv(3, kernel=0),
        lambda: Conv(3, stride=(1, 2, 3)),
        lambda: Conv(3, padding=-1),
        lambda: Conv(3, pool="max", pool_kernel=2, pool_padding=2),
        lambda: layer_sizes(["dense"], (8, 8)),
        lambda: layer_sizes([], (8, 8, 3, 1)),
    ],
)
def test_what_makes_no_sense(wrong):
    with pytest.raises(OptionError):
        wrong()


def test_unknown_names_are_listed():
    with pytest.raises(UnknownNameError, match="gelu"):
        Dense(5, "selu")
    with pytest.raises(UnknownNameError, match="average"):
        Conv(5, pool="mean")
