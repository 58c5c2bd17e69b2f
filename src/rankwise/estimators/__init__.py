"""Search spaces of estimators: ready-made spaces and spaces that users write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise._core.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.estimators.estimator_choice import choice_of
    from rankwise.estimators.estimator_space import EstimatorSpace
    from rankwise.estimators.ready_space import ReadySpace
    from rankwise.estimators.ready_spaces import make_estimator, ready, space_of
    from rankwise.estimators.user_spaces import space_from

__all__ = [
    "EstimatorSpace",
    "ReadySpace",
    "choice_of",
    "make_estimator",
    "ready",
    "space_from",
    "space_of",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "EstimatorSpace": "estimators.estimator_space",
        "ReadySpace": "estimators.ready_space",
        "choice_of": "estimators.estimator_choice",
        "make_estimator": "estimators.ready_spaces",
        "ready": "estimators.ready_spaces",
        "space_from": "estimators.user_spaces",
        "space_of": "estimators.ready_spaces",
    },
)
