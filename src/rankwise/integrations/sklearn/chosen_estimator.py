"""Chosen: an estimator whose only parameter is another estimator, so that it can be tuned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from typing_extensions import Self

from rankwise.types import Configuration

_STEP = "estimator__"
_Method = TypeVar("_Method", bound=Callable[..., Any])


def _has(name: str) -> Callable[[_Method], _Method]:
    """Decorator: the method exists only if the inner estimator has it."""

    def check(self: Chosen) -> bool:
        getattr(self.estimator, name)
        return True

    mark: Callable[[_Method], _Method] = available_if(check)
    return mark


class Chosen(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Delegates everything to its estimator, which is a parameter that can be searched.

    Args:
        estimator: the current estimator.
    """

    # Before scikit-learn 1.7 a default scorer asks this class, not the estimator inside.
    __metadata_request__score = {"sample_weight": True}  # noqa: RUF012  # scikit-learn's way

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Fit the estimator itself, without cloning it."""
        self.estimator.fit(X, y, **self._routed("fit", params))
        return self

    @_has("predict")
    def predict(self, X: Any) -> Any:
        return self.estimator.predict(X)

    @_has("predict_proba")
    def predict_proba(self, X: Any) -> Any:
        return self.estimator.predict_proba(X)

    @_has("predict_log_proba")
    def predict_log_proba(self, X: Any) -> Any:
        return self.estimator.predict_log_proba(X)

    @_has("decision_function")
    def decision_function(self, X: Any) -> Any:
        return self.estimator.decision_function(X)

    @_has("transform")
    def transform(self, X: Any) -> Any:
        return self.estimator.transform(X)

    @_has("score_samples")
    def score_samples(self, X: Any) -> Any:
        return self.estimator.score_samples(X)

    @_has("score")
    def score(self, X: Any, y: Any = None, sample_weight: Any = None, **params: Any) -> Any:
        if sample_weight is not None:  # scikit-learn passes it on to a score that names it
            params["sample_weight"] = sample_weight
        return self.estimator.score(X, y, **self._routed("score", params))

    @property
    def classes_(self) -> Any:
        """Classes of the estimator."""
        return self.estimator.classes_

    def __sklearn_is_fitted__(self) -> bool:
        return True  # the inner estimator raises if it is not fitted

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.estimator)

    def get_metadata_routing(self) -> MetadataRouter:
        """Metadata routing of the estimator."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        mapping.add(caller="score", callee="score")
        return MetadataRouter(owner=self).add(estimator=self.estimator, method_mapping=mapping)

    def _routed(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        from sklearn import get_config

        if not params or not get_config()["enable_metadata_routing"]:
            return params
        routed: dict[str, Any] = process_routing(self, method, **params).estimator[method]
        return routed


def readable_results(results: dict[str, Any], chosen: list[str]) -> dict[str, Any]:
    """`cv_results_` with readable parameter names.

    Args:
        results: results of a search over `Chosen`.
        chosen: name of the estimator of each row; its parameters become "<name>__C".
    """
    params = [_readable(p, name) for p, name in zip(results["params"], chosen, strict=True)]
    found: dict[str, Any] = {}
    for key, column in results.items():
        if key == "params":
            found.update({**_columns(params), key: params})
        elif not key.startswith("param_"):
            found[key] = column
    return found


def _readable(params: Configuration, name: str) -> Configuration:
    own = {k.removeprefix(_STEP): v for k, v in params.items() if k.startswith(_STEP)}
    return {"estimator": name, **{f"{name}__{k}": v for k, v in own.items()}}


def _columns(params: list[Configuration]) -> dict[str, Any]:
    """The `param_*` columns for a list of parameters."""
    found = {}
    for name in dict.fromkeys(name for p in params for name in p):
        column = np.ma.MaskedArray(np.empty(len(params), dtype=object), mask=True)
        for k, p in enumerate(params):
            if name in p:
                column[k] = p[name]
        found[f"param_{name}"] = column
    return found
