"""Search space of small convolutional networks.

The ranges are those of the thesis "Configuration of Deep Neural Networks Using Model-Based
Optimization". In its space, kernels and strides of all layers are independent of each other. Most
networks with several convolutions cannot be built then, because a kernel is larger than the image
that earlier strides leave.

The space here has another parametrization, in which every network can be built. Convolutions and
pooling are padded ("same"), so that kernels of any size fit and only strides make an image
smaller: after strides s, t, ... a size of n becomes ceil(n / (s t ...)). The hyperparameter
`shrink` of a layer is the product of its two strides (1, 2, 3, 4, 6 or 9). `shrink_by` selects
whether the filter or the pooling has the larger stride. Together they give all nine pairs of
strides. Forbidden clauses limit the product of all shrinks to the size of the image, because
larger strides would have no effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from math import prod
from typing import Any

from ConfigSpace import ConfigurationSpace

from rankwise.errors import OptionError, check_count, check_name
from rankwise.networks.layers import ACTIVATIONS, SAME, Conv, Dense, Layer, image_shape
from rankwise.space.encoder import Encoder
from rankwise.space.parameters import Choice, Number
from rankwise.space.shorthand import make_space
from rankwise.types import Configuration

CONV, DENSE = "conv", "dense"
FILTER, POOLING = "filter", "pooling"
SHRINKS = (1, 2, 3, 4, 6, 9)
"""Products of two strides of 1 to 3."""
_SPLITS = {1: (1, 1), 2: (2, 1), 3: (3, 1), 4: (2, 2), 6: (3, 2), 9: (3, 3)}

BATCH_SIZES = (32, 64, 128, 256, 512, 1024)
THESIS_ACTIVATIONS = ("tanh", "relu", "sigmoid")


def convnet_space(
    input_shape: Sequence[int],
    max_layers: int = 3,
    *,
    buildable: bool = True,
    epochs: tuple[int, int] | None = None,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    activations: Sequence[str] = THESIS_ACTIVATIONS,
    pools: Sequence[str] = ("max",),
) -> ConfigurationSpace:
    """Make the search space of networks with one to `max_layers` hidden layers.

    The hyperparameter `layers` is the number of layers. Hyperparameters of a layer are active if
    the layer exists: `kind_2` is active with at least two layers and if layer 1 is a convolution
    (only fully connected layers can follow a fully connected layer), `filters_2` is active if
    `kind_2` is "conv", and so on.

    Every configuration can be built. In contrast to the thesis's space, there are no convolutions
    or poolings without padding, no strides that differ between height and width, and no strides
    whose product exceeds the image. Kernels, filters and single strides have their full ranges in
    every layer.

    Args:
        input_shape: (h, w) or (h, w, c) of the images; (d,) gives fully connected layers only.
        max_layers: maximum number of hidden layers.
        buildable: False gives the thesis's space, without padding. Kernels and strides are
            independent there: `stride_k` is vertical, `stride_across_k` is horizontal, and pooling
            has the same pair.
        epochs: range of a hyperparameter `epochs`, or None. The thesis uses (10, 50) without early
            stopping.
        batch_sizes: batch sizes to choose from, in ascending order.
        activations: activations to choose from.
        pools: kinds of pooling to choose from: "max", "average", "sum".
    """
    shape = image_shape(input_shape)
    check_count("max_layers", max_layers)
    for name in activations:
        check_name("activation", name, ACTIVATIONS)
    for what, values in (("batch_sizes", batch_sizes), ("activations", activations)):
        if not len(values):
            raise OptionError(f"{what} must not be empty: there is nothing to choose from")
    parameters: dict[str, Any] = {
        "layers": (1, max_layers) if max_layers > 1 else 1,
        "learning_rate": (0.05, 0.3),
        "momentum": (0.7, 0.99),
        "dropout": [False, True],
        "dropout_rate": (0.2, 0.8),
        "batch_norm": [False, True],
        "batch_size": _ordered(batch_sizes),
    }
    when: dict[str, Any] = {"dropout_rate": {"dropout": True}}
    if epochs is not None:
        parameters["epochs"] = epochs
    images = len(shape) == 3
    shrinks = [shrink for shrink in SHRINKS if shrink <= min(shape[:2])]
    for number in range(1, max_layers + 1):
        own, conditions = _dense_part(number, images, activations)
        if images:
            further, more = _conv_part(number, pools)
            strides, unlocked = _shrinks(number, shrinks) if buildable else _free_strides(number)
            further, more = {**further, **strides}, {**more, **unlocked}
            own, conditions = {**own, **further}, {**conditions, **more}
        parameters |= own
        when |= conditions
    forbid = list(_excessive(shrinks, min(shape[:2]), max_layers)) if images and buildable else []
    defaults = {"batch_size": batch_sizes[len(batch_sizes) // 2]} if len(batch_sizes) > 1 else {}
    defaults |= {f"shrink_{k}": 1 for k in range(1, max_layers + 1) if images and buildable}
    return make_space(parameters, when=when, forbid=forbid, defaults=defaults, name="convnet")


def network_of(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a configuration of `convnet_space` to parameters of `ConvNetClassifier`."""
    layers = tuple(_layer(configuration, k) for k in range(1, configuration["layers"] + 1))
    params = {
        "layers": layers,
        "learning_rate": configuration["learning_rate"],
        "momentum": configuration["momentum"],
        "dropout": configuration.get("dropout_rate", 0.0),
        "batch_norm": bool(configuration["batch_norm"]),
        "batch_size": configuration["batch_size"],
    }
    if "epochs" in configuration:
        params["epochs"] = configuration["epochs"]
    return params


def _dense_part(number: int, images: bool, activations: Sequence[str]) -> tuple[Any, Any]:
    """Hyperparameters and conditions of layer `number` that do not need images.

    These are the activation and the number of units.
    """
    there = {"layers": (">", number - 1)} if number > 1 else {}
    parameters: dict[str, Any] = {
        f"activation_{number}": list(activations),
        f"units_{number}": (50, 250),
    }
    when: dict[str, Any] = {name: there for name in parameters if there}
    if images:
        # A layer is fully connected if its kind is "dense" or if an earlier layer's kind is.
        when[f"units_{number}"] = [{**there, f"kind_{k}": DENSE} for k in range(1, number + 1)]
    return parameters, when


def _conv_part(k: int, pools: Sequence[str]) -> tuple[Any, Any]:
    """Hyperparameters and conditions of layer k for images, without the strides."""
    own: dict[str, Any] = {
        f"filters_{k}": (20, 60),
        f"kernel_{k}": (1, 5),
        f"pool_kernel_{k}": (1, 5),
    }
    if tuple(pools) != ("max",):
        own[f"pool_{k}"] = list(pools)
    when: dict[str, Any] = {name: {f"kind_{k}": CONV} for name in own}
    own[f"kind_{k}"] = [CONV, DENSE]
    if k > 1:
        when[f"kind_{k}"] = {"layers": (">", k - 1), f"kind_{k - 1}": CONV}
    return own, when


def _free_strides(k: int) -> tuple[Any, Any]:
    """Independent strides of layer k, as in the thesis: hyperparameters and conditions."""
    names = ("stride", "stride_across", "pool_stride", "pool_stride_across")
    own = {f"{name}_{k}": (1, 3) for name in names}
    return own, {name: {f"kind_{k}": CONV} for name in own}


def _shrinks(k: int, shrinks: Sequence[int]) -> tuple[Any, Any]:
    """Strides of layer k as `shrink` and `shrink_by`: hyperparameters and conditions."""
    own: dict[str, Any] = {f"shrink_{k}": _ordered(shrinks)}
    when: dict[str, Any] = {f"shrink_{k}": {f"kind_{k}": CONV}}
    uneven = [shrink for shrink in shrinks if len(set(_SPLITS[shrink])) > 1]
    if uneven:
        own[f"shrink_by_{k}"] = [FILTER, POOLING]
        when[f"shrink_by_{k}"] = {f"shrink_{k}": uneven}
    return own, when


def _excessive(shrinks: Sequence[int], room: int, max_layers: int) -> Iterator[dict[str, Any]]:
    """Forbidden clauses: all combinations of shrinks whose product exceeds the image.

    A clause is made for each minimal combination; it also forbids larger values.

    Args:
        shrinks: possible values of a shrink, ascending.
        room: smaller side of the image.
        max_layers: maximum number of layers.
    """
    for count in range(2, max_layers + 1):
        for values in product(shrinks[1:], repeat=count):
            smaller = (prod(values) // v * shrinks[shrinks.index(v) - 1] for v in values)
            if prod(values) <= room or max(smaller) > room:
                continue
            for chosen in combinations(range(1, max_layers + 1), count):
                yield {
                    f"shrink_{k}": [s for s in shrinks if s >= v]
                    for k, v in zip(chosen, values, strict=True)
                }


def _layer(configuration: Mapping[str, Any], k: int) -> Layer:
    activation = configuration[f"activation_{k}"]
    if f"units_{k}" in configuration:
        return Dense(configuration[f"units_{k}"], activation)
    return Conv(
        configuration[f"filters_{k}"],
        configuration[f"kernel_{k}"],
        activation=activation,
        pool=configuration.get(f"pool_{k}", "max"),
        pool_kernel=configuration[f"pool_kernel_{k}"],
        **_strides(configuration, k),
    )


def _strides(configuration: Mapping[str, Any], k: int) -> Configuration:
    """Strides and padding of a convolution."""
    if f"shrink_{k}" not in configuration:
        stride = configuration[f"stride_{k}"], configuration[f"stride_across_{k}"]
        pool_stride = configuration[f"pool_stride_{k}"], configuration[f"pool_stride_across_{k}"]
        return {"stride": stride, "pool_stride": pool_stride}
    larger, smaller = _SPLITS[configuration[f"shrink_{k}"]]
    by_pooling = configuration.get(f"shrink_by_{k}") == POOLING
    return {
        "stride": smaller if by_pooling else larger,
        "pool_stride": larger if by_pooling else smaller,
        "padding": SAME,
        "pool_padding": SAME,
    }


def _ordered(values: Sequence[int]) -> Any:
    return (list(values), "ordered") if len(values) > 1 else values[0]


def all_convolutional(space: ConfigurationSpace | Encoder, layers: int) -> Configuration:
    """Return a configuration of `convnet_space` whose hidden layers are all convolutions.

    Use it in a growing search (`Growing(given=...)`) or in an initial design, so that networks of
    several convolutions are tried. They are rare among random configurations of the thesis's
    space. The network is cheap: it has the fewest filters, the smallest learning rate, kernels of
    at most 3, strides of 1, and rectified linear units if the space has them. All other values
    are defaults.

    Args:
        space: space that `convnet_space` returned, or its encoder.
        layers: number of convolutions. In the thesis's space, images need more than four pixels
            per layer on each side.
    """
    encoder = space if isinstance(space, Encoder) else Encoder(space)
    legal: dict[str, Any] = {"layers": (layers, layers)}
    for name, parameter in zip(encoder.names, encoder.parameters, strict=True):
        if name.startswith("kind_"):
            legal[name] = [CONV]
        elif "stride" in name:
            legal[name] = (1, 1)
        elif "kernel" in name:
            legal[name] = (1, 3)
        elif name.startswith("shrink_") and "by" not in name:
            legal[name] = [1]
        elif name.startswith(("filters_", "learning_rate")) and isinstance(parameter, Number):
            legal[name] = (parameter.lower, parameter.lower)
        elif name.startswith("activation_") and isinstance(parameter, Choice):
            names = [parameter.value(code) for code in parameter.legal]
            legal[name] = ["relu"] if "relu" in names else names
    return dict(encoder.restricted(legal).default)
