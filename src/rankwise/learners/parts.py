"""What a `ConvNetClassifier` is made of, from its parameters."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from rankwise.errors import OptionError, check_count, check_name, is_number
from rankwise.learners.layers import Conv, Dense, check_dropout

if TYPE_CHECKING:
    from torch import nn

    from rankwise.learners.convnet import ConvNetClassifier
    from rankwise.learners.morphism import Morphism

OPTIMIZERS = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW", "rmsprop": "RMSprop"}


def check_options(network: ConvNetClassifier) -> None:
    """Find wrong options before anything is trained."""
    check_dropout(network.dropout)
    check_count("batch_size", network.batch_size)
    check_count("epochs", network.epochs)
    if network.threads is not None:
        check_count("threads", network.threads)
    if network.patience is not None:
        check_count("patience", network.patience)
        if network.validation is None:
            raise OptionError("patience needs validation: a share of the rows, or (X, y)")
    for name in ("learning_rate", "momentum", "weight_decay"):
        value = getattr(network, name)
        if not (is_number(value) and 0 <= value < math.inf):
            raise OptionError(f"{name} must be a number of at least 0, not {value!r}")
    if network.module is not None:
        return
    layers = network.layers
    if not isinstance(layers, Sequence) or any(not isinstance(x, Conv | Dense) for x in layers):
        raise OptionError(f"layers is a sequence of Dense and Conv, not {layers!r}")
    normal = network.batch_norm or any(layer.batch_norm for layer in layers)
    if network.batch_size == 1 and normal:
        raise OptionError("batch normalisation needs a batch_size of at least 2")


def make_module(network: ConvNetClassifier) -> nn.Module:
    """What is to be trained: of layers, or the user's own."""
    from torch import nn

    from rankwise.learners.modules import Network

    if isinstance(network.module, nn.Module):
        return copy.deepcopy(network.module)
    if network.module is not None:
        return network.module(network.input_shape_, len(network.classes_))
    return Network(
        network.layers,
        network.input_shape_,
        len(network.classes_),
        dropout=network.dropout,
        batch_norm=network.batch_norm,
        initializer=network.initializer,
    )


def start_from(
    initial: ConvNetClassifier, network: ConvNetClassifier, module: nn.Module
) -> Morphism:
    """Give a module of `network` the function of another network, and its scale."""
    from rankwise.learners.modules import Network
    from rankwise.learners.morphism import Morphism, morph

    check_is_fitted(initial, "net_")
    if not (isinstance(initial.module_, Network) and isinstance(module, Network)):
        raise OptionError("initial is for networks of layers, not for modules of your own")
    if initial.input_shape_ != network.input_shape_:
        raise OptionError(
            f"initial is for inputs of shape {initial.input_shape_}, not {network.input_shape_}"
        )
    found = morph(initial.module_, module)
    notes = [*found.notes]
    if list(initial.classes_) != list(network.classes_):
        notes.append("the classes are others")
    if initial.standardize and network.standardize:
        network._scale = initial._scale
    elif initial.standardize != network.standardize:
        notes.append("standardize differs")
    return Morphism(tuple(notes))


def optimizer_of(network: ConvNetClassifier) -> tuple[type, dict[str, float]]:
    """A class of torch.optim and what it is told."""
    from torch import optim

    kind: Any = network.optimizer
    if isinstance(kind, str):
        kind = getattr(optim, OPTIMIZERS[check_name("optimizer", kind, OPTIMIZERS)])
    takes = inspect.signature(kind).parameters
    settings = {"momentum": network.momentum, "weight_decay": network.weight_decay}
    return kind, {name: value for name, value in settings.items() if name in takes}
