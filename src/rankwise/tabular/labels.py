"""Labelled: a classifier of numbered classes that is given and predicts labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from typing_extensions import Self

from rankwise.types import Array


class Labelled(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Gives a classifier that needs classes 0, 1, ... (XGBoost) the labels of the table.

    Args:
        estimator: the classifier.

    Attributes:
        classes_: (k,) the labels, sorted.
        estimator_: the fitted classifier.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the classifier to the positions of the labels (n,) in `classes_`."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.estimator_ = clone(self.estimator).fit(X, codes)
        return self

    def predict(self, X: Any) -> Any:
        """The labels (n,) of n rows."""
        codes = np.asarray(self.estimator_.predict(X)).ravel()  # CatBoost's have two dimensions
        return self.classes_[codes.astype(np.int64)]

    def predict_proba(self, X: Any) -> Array:
        """The probabilities (n, k) of the classes."""
        return np.asarray(self.estimator_.predict_proba(X))
