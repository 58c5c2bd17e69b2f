"""The space of networks: every configuration can be built, none of the thesis's range is lost."""

from __future__ import annotations

import itertools
import math

import ConfigSpace
import numpy as np
import pytest

import rankwise
from rankwise.networks import (
    Conv,
    ConvNetClassifier,
    Dense,
    convnet_space,
    layer_sizes,
    network_of,
)
from rankwise.networks.layers import pair
from rankwise.networks.modules import Network
from rankwise.space.encoder import Encoder

SHAPES = [(28, 28, 1), (32, 32, 3), (8, 8)]


def random_networks(shape, n=1000, **options):
    encoder = Encoder(convnet_space(shape, **options))
    sampled = encoder.decode(encoder.sample(n, np.random.default_rng(0)))
    return [network_of(configuration)["layers"] for configuration in sampled]


def fails(layers, shape):
    try:
        layer_sizes(layers, shape)
    except rankwise.errors.GeometryError:
        return True
    return False


def convolutions(layers):
    return sum(isinstance(layer, Conv) for layer in layers)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_configuration_can_be_built(shape):
    networks = random_networks(shape)
    assert not any(fails(layers, shape) for layers in networks)
    assert {convolutions(layers) for layers in networks} == {0, 1, 2, 3}
    for layers in networks[:20]:
        Network(layers, shape, 10)


@pytest.mark.parametrize("shape", SHAPES)
def test_most_networks_of_several_convolutions_are_impossible_otherwise(shape):
    networks = random_networks(shape, buildable=False)
    several = [fails(layers, shape) for layers in networks if convolutions(layers) > 1]
    assert len(several) > 100 and np.mean(several) > 0.6


def test_padding_and_strides():
    pairs = set()
    for layers in random_networks((28, 28)):
        sizes = layer_sizes(layers, (28, 28))
        shrunk = 1
        for layer, size in zip(layers, sizes, strict=True):
            if isinstance(layer, Conv):
                pairs.add((layer.stride, layer.pool_stride))
                shrunk *= layer.stride * layer.pool_stride
                assert size.outputs[:2] == (math.ceil(28 / shrunk),) * 2
        assert shrunk <= 28
    assert pairs == set(itertools.product((1, 2, 3), repeat=2))


@pytest.mark.parametrize("room", [1, 3, 8, 28, 200])
def test_only_shrinks_that_exceed_the_image_are_forbidden(room):
    encoder = Encoder(convnet_space((room, room + 3)))
    shrinks = [encoder.names.index(f"shrink_{k}") for k in (1, 2, 3)]
    [base] = encoder.sample_codes(1, np.random.default_rng(0))
    values = [value for value in (1, 2, 3, 4, 6, 9) if value <= room]
    for codes in itertools.product(range(len(values)), repeat=3):
        base[shrinks] = codes
        product = math.prod(values[code] for code in codes)
        assert encoder.allowed(base[None])[0] == (product <= room)


@pytest.mark.parametrize("buildable", [True, False])
def test_layers_unlock_what_belongs_to_them(buildable):
    encoder = Encoder(convnet_space((28, 28), 4, buildable=buildable))
    assert isinstance(encoder.space["layers"], ConfigSpace.UniformIntegerHyperparameter)
    for configuration in encoder.decode(encoder.sample(300, np.random.default_rng(1))):
        layers = network_of(configuration)["layers"]
        assert len(layers) == configuration["layers"]
        kinds = [type(layer) for layer in layers]
        assert kinds == sorted(kinds, key=[Conv, Dense].index)
        for k in range(1, 5):
            there = k <= len(layers)
            assert (f"activation_{k}" in configuration) == there
            assert (f"units_{k}" in configuration) == (there and kinds[k - 1] is Dense)
            assert (f"filters_{k}" in configuration) == (there and kinds[k - 1] is Conv)


def test_the_thesis_s_network_and_what_it_means():
    configuration = {
        "layers": 2,
        "kind_1": "conv",
        "kind_2": "dense",
        "activation_1": "relu",
        "activation_2": "tanh",
        "filters_1": 60,
        "kernel_1": 3,
        "stride_1": 1,
        "stride_across_1": 2,
        "pool_kernel_1": 3,
        "pool_stride_1": 3,
        "pool_stride_across_1": 1,
        "units_2": 250,
        "learning_rate": 0.1,
        "momentum": 0.8,
        "dropout": True,
        "dropout_rate": 0.3,
        "batch_norm": True,
        "batch_size": 1024,
    }
    Encoder(convnet_space((28, 28), buildable=False)).encode([configuration])  # is legal
    conv = Conv(60, 3, (1, 2), pool="max", pool_kernel=3, pool_stride=(3, 1))
    network = ConvNetClassifier.from_configuration(configuration, epochs=7)
    assert network.layers == (conv, Dense(250, "tanh"))
    assert (network.learning_rate, network.momentum, network.dropout) == (0.1, 0.8, 0.3)
    assert (network.batch_norm, network.batch_size, network.epochs) == (True, 1024, 7)


def test_configspace_and_the_encoder_agree():
    space = convnet_space((8, 8), epochs=(10, 50), pools=("max", "sum"), activations=("relu",))
    space.seed(0)
    encoder = Encoder(space)
    sampled = [dict(configuration) for configuration in space.sample_configuration(50)]
    X = encoder.encode(sampled)
    assert encoder.decode(X) == [
        {name: v.item() if isinstance(v, np.generic) else v for name, v in c.items()}
        for c in sampled
    ]
    for configuration in sampled:
        params = network_of(configuration)
        assert 10 <= params["epochs"] <= 50
        assert all(layer.activation == "relu" for layer in params["layers"])


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_search_may_keep_to_fewer_layers(level):
    encoder = Encoder(convnet_space((28, 28))).restricted({"layers": (1, level)})
    sampled = encoder.decode(encoder.sample(100, np.random.default_rng(0)))
    assert {configuration["layers"] for configuration in sampled} == set(range(1, level + 1))
    assert encoder.default["layers"] <= level


def test_other_inputs():
    encoder = Encoder(convnet_space((64,), 2, batch_sizes=(16,)))
    sampled = encoder.decode(encoder.sample(20, np.random.default_rng(0)))
    for configuration in sampled:
        params = network_of(configuration)
        assert params["batch_size"] == 16
        assert all(isinstance(layer, Dense) for layer in params["layers"])
    [one] = Encoder(convnet_space((8, 8), 1)).decode(np.zeros((1, 100)))
    assert one["layers"] == 1 and "kind_2" not in convnet_space((8, 8), 1)
    sums = Encoder(convnet_space((8, 8), 1, pools=("sum",))).default
    assert network_of(sums)["layers"][0].pool == "sum"


@pytest.mark.parametrize("method", ["forest", "gp", "random"])
def test_minimize_takes_it(method):
    def cells(configuration):
        layers = network_of(configuration)["layers"]
        sizes = layer_sizes(layers, (8, 8))
        assert all(pair(layer.kernel) for layer in layers if isinstance(layer, Conv))
        return float(sum(math.prod(size.outputs) for size in sizes))

    result = rankwise.minimize(cells, convnet_space((8, 8)), trials=12, method=method, seed=0)
    assert [trial.status for trial in result.trials] == ["ok"] * 12
