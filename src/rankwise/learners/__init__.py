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
    from rankwise.learners.network_space import convnet_space, network_of
    from rankwise.learners.row import ReadySpace
    from rankwise.learners.table import make_estimator, ready, space_of

__all__ = [
    "Conv",
    "ConvNetClassifier",
    "Dense",
    "EstimatorSpace",
    "ReadySpace",
    "choice_of",
    "convnet_space",
    "layer_sizes",
    "make_estimator",
    "network_of",
    "ready",
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
        "ReadySpace": "row",
        "choice_of": "choices",
        "convnet_space": "network_space",
        "layer_sizes": "layers",
        "make_estimator": "table",
        "network_of": "network_space",
        "ready": "table",
        "space_from": "given",
        "space_of": "table",
    },
)
