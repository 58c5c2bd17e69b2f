"""Functions that build the module and the optimizer of a `ConvNetClassifier`."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from rankwise.errors import OptionError, check_count, check_name, is_number
from rankwise.networks.layers import OUTPUTS, Conv, Dense, check_dropout

if TYPE_CHECKING:
    from torch import nn

    from rankwise.networks.classifier import ConvNetClassifier
    from rankwise.networks.morphism import Morphism
    from rankwise.networks.training import Net

SCHEDULES: dict[str, Callable[[int, int], float]] = {
    "constant": lambda epoch, epochs: 1.0,
    "cosine": lambda epoch, epochs: 0.5 * (1.0 + math.cos(math.pi * (epoch - 1) / epochs)),
    "linear": lambda epoch, epochs: 1.0 - (epoch - 1) / epochs,
    "step": lambda epoch, epochs: 0.1 ** ((epoch > epochs / 2) + (epoch > 3 * epochs / 4)),
}
"""Functions of epoch 1, 2, ..., epochs to a factor of the learning rate."""
OPTIMIZERS = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW", "rmsprop": "RMSprop"}


def check_options(network: ConvNetClassifier) -> None:
    """Check the options of a classifier before training.

    Raises:
        OptionError: an option has a wrong value, or two options do not fit together.
    """
    check_dropout(network.dropout)
    check_dropout(network.input_dropout)
    check_name("output", network.output, OUTPUTS)
    if not callable(network.schedule):
        check_name("schedule", network.schedule, SCHEDULES)
    check_count("batch_size", network.batch_size)
    check_count("epochs", network.epochs)
    if network.threads is not None:
        check_count("threads", network.threads)
    if network.patience is not None:
        check_count("patience", network.patience)
        if network.validation is None:
            raise OptionError("patience needs the option validation: a share of rows, or (X, y)")
    for name in ("learning_rate", "momentum", "weight_decay"):
        value = getattr(network, name)
        if not (is_number(value) and 0 <= value < math.inf):
            raise OptionError(f"{name} must be a number of at least 0, not {value!r}")
    if network.module is not None:
        if network.input_dropout:
            raise OptionError("input_dropout belongs to `layers`: put it into your own module")
        return
    layers = network.layers
    if not isinstance(layers, Sequence) or any(not isinstance(x, Conv | Dense) for x in layers):
        raise OptionError(f"layers must be a sequence of Dense and Conv, not {layers!r}")
    normal = network.batch_norm or any(layer.batch_norm for layer in layers)
    if network.batch_size == 1 and normal:
        raise OptionError("batch normalization needs a batch_size of at least 2")


def make_module(network: ConvNetClassifier) -> nn.Module:
    """Make the module to train: a copy of the user's module, or one built from `layers`."""
    from torch import nn

    from rankwise.networks.modules import Network

    if isinstance(network.module, nn.Module):
        return copy.deepcopy(network.module)
    if network.module is not None:
        return network.module(network.input_shape_, len(network.classes_))
    return Network(
        network.layers,
        network.input_shape_,
        len(network.classes_),
        dropout=network.dropout,
        input_dropout=network.input_dropout,
        batch_norm=network.batch_norm,
        initializer=network.initializer,
    )


def start_from(
    initial: ConvNetClassifier, network: ConvNetClassifier, module: nn.Module
) -> Morphism:
    """Initialize the module of a network with the function of a trained network.

    If both standardize their inputs, `network` also takes over the trained network's means and
    standard deviations.

    Args:
        initial: trained network.
        network: new network.
        module: module of the new network, changed in place.

    Returns:
        Report of what could not be preserved.

    Raises:
        OptionError: the input shapes differ, or one of the modules is not built from layers.
    """
    from rankwise.networks.modules import Network
    from rankwise.networks.morphism import Morphism, morph

    check_is_fitted(initial, "net_")
    if not (isinstance(initial.module_, Network) and isinstance(module, Network)):
        raise OptionError("initial works with networks of `layers`, not with your own module")
    if initial.input_shape_ != network.input_shape_:
        raise OptionError(
            f"initial was trained on inputs of shape {initial.input_shape_}, not "
            f"{network.input_shape_}"
        )
    found = morph(initial.module_, module)
    notes = [*found.notes]
    if list(initial.classes_) != list(network.classes_):
        notes.append("the classes differ")
    if initial.standardize and network.standardize:
        network._scale = initial._scale
    elif initial.standardize != network.standardize:
        notes.append("standardize differs")
    return Morphism(tuple(notes))


def make_net(network: ConvNetClassifier, module: nn.Module) -> Net:
    """Make the skorch net of a classifier, ready to train.

    Args:
        network: classifier with the settings of the training.
        module: module to train, changed in place.
    """
    from rankwise.networks import training
    from rankwise.networks.modules import CRITERIA

    return training.make_net(
        module,
        *optimizer_of(network),
        learning_rate=network.learning_rate,
        batch_size=network.batch_size,
        device=training.device_of(network.device),
        criterion=CRITERIA[network.output],
    )


def factor_of(network: ConvNetClassifier) -> Callable[[int], float] | None:
    """Return the factor of the learning rate by epoch; None if the rate is constant.

    After the last of `epochs`, which `partial_fit` may exceed, the last factor is kept.
    """
    kind, epochs = network.schedule, network.epochs
    if kind == "constant":
        return None
    schedule = SCHEDULES[kind] if isinstance(kind, str) else kind
    return lambda epoch: float(schedule(min(epoch, epochs), epochs))


def check_continues(network: ConvNetClassifier) -> None:
    """Raise `OptionError` if a network cannot be trained further."""
    if not hasattr(network, "_random"):
        raise OptionError(
            "a network from a file has no state of its optimizer, so its training cannot "
            "continue; train a new one that starts from it: fit(X, y, initial=network)"
        )


def optimizer_of(network: ConvNetClassifier) -> tuple[type, dict[str, float]]:
    """Return the optimizer class and its keyword arguments, without the learning rate.

    Options that the class does not have are left out.
    """
    from torch import optim

    kind: Any = network.optimizer
    if isinstance(kind, str):
        kind = getattr(optim, OPTIMIZERS[check_name("optimizer", kind, OPTIMIZERS)])
    takes = inspect.signature(kind).parameters
    settings = {"momentum": network.momentum, "weight_decay": network.weight_decay}
    return kind, {name: value for name, value in settings.items() if name in takes}
