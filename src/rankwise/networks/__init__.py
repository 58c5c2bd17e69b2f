"""Convolutional networks as a scikit-learn estimator, with a search space to tune them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise._core.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.networks.classifier import ConvNetClassifier
    from rankwise.networks.layers import Conv, Dense, layer_sizes
    from rankwise.networks.objective import NetworkObjective, report_to
    from rankwise.networks.space import all_convolutional, convnet_space, network_of

__all__ = [
    "Conv",
    "ConvNetClassifier",
    "Dense",
    "NetworkObjective",
    "all_convolutional",
    "convnet_space",
    "layer_sizes",
    "network_of",
    "report_to",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Conv": "networks.layers",
        "ConvNetClassifier": "networks.classifier",
        "Dense": "networks.layers",
        "NetworkObjective": "networks.objective",
        "all_convolutional": "networks.space",
        "convnet_space": "networks.space",
        "layer_sizes": "networks.layers",
        "network_of": "networks.space",
        "report_to": "networks.objective",
    },
)
