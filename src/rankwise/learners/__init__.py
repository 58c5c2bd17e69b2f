"""Search spaces of estimators: ready-made ones, and those that people write down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.learners.choices import choice_of
    from rankwise.learners.estimator_space import EstimatorSpace
    from rankwise.learners.given import space_from
    from rankwise.learners.row import ReadySpace
    from rankwise.learners.table import make_estimator, ready, space_of

__all__ = [
    "EstimatorSpace",
    "ReadySpace",
    "choice_of",
    "make_estimator",
    "ready",
    "space_from",
    "space_of",
]

__getattr__ = lazy_names(
    __name__,
    {
        "EstimatorSpace": "estimator_space",
        "ReadySpace": "row",
        "choice_of": "choices",
        "make_estimator": "table",
        "ready": "table",
        "space_from": "given",
        "space_of": "table",
    },
)
