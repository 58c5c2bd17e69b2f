"""Search spaces of estimators: ready-made ones, and those that people write down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.learners.choices import choice_of
    from rankwise.learners.convnet import ConvNetClassifier
    from rankwise.learners.estimator_space import EstimatorSpace
    from rankwise.learners.given import space_from
    from rankwise.learners.layers import Conv, Dense, layer_sizes
    from rankwise.learners.network_objective import NetworkObjective, report_to
    from rankwise.learners.network_space import all_convolutional, convnet_space, network_of
    from rankwise.learners.row import ReadySpace
    from rankwise.learners.table import make_estimator, ready, space_of

__all__ = [
    "Conv",
    "ConvNetClassifier",
    "Dense",
    "EstimatorSpace",
    "NetworkObjective",
    "ReadySpace",
    "all_convolutional",
    "choice_of",
    "convnet_space",
    "layer_sizes",
    "make_estimator",
    "network_of",
    "ready",
    "report_to",
    "space_from",
    "space_of",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Conv": "layers",
        "ConvNetClassifier": "convnet",
        "Dense": "layers",
        "EstimatorSpace": "estimator_space",
        "NetworkObjective": "network_objective",
        "ReadySpace": "row",
        "all_convolutional": "network_space",
        "choice_of": "choices",
        "convnet_space": "network_space",
        "layer_sizes": "layers",
        "make_estimator": "table",
        "network_of": "network_space",
        "ready": "table",
        "report_to": "network_objective",
        "space_from": "given",
        "space_of": "table",
    },
)
