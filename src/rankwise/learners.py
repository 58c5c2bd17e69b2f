"""Former name of `rankwise.estimators` and `rankwise.networks`; kept so that old code works."""

from __future__ import annotations

from rankwise._core.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Conv": "networks.layers",
        "ConvNetClassifier": "networks.classifier",
        "Dense": "networks.layers",
        "EstimatorSpace": "estimators.estimator_space",
        "NetworkObjective": "networks.objective",
        "ReadySpace": "estimators.ready_space",
        "all_convolutional": "networks.space",
        "choice_of": "estimators.estimator_choice",
        "convnet_space": "networks.space",
        "layer_sizes": "networks.layers",
        "make_estimator": "estimators.ready_spaces",
        "network_of": "networks.space",
        "ready": "estimators.ready_spaces",
        "report_to": "networks.objective",
        "space_from": "estimators.user_spaces",
        "space_of": "estimators.ready_spaces",
    },
)
