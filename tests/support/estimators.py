"""Estimators at the top of a module, so that worker processes can import them."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator


class Bowl(BaseEstimator):
    """Its score is best, 0, where `x` and `z` are the means of the data's two columns."""

    def __init__(self, x=0.5, z=0.5, fails_above=2.0):
        self.x, self.z, self.fails_above = x, z, fails_above

    def fit(self, X, y=None):
        if self.x > self.fails_above:
            raise ValueError("too far right")
        self.mean_ = np.asarray(X, dtype=float).mean(axis=0)
        self.n_features_in_ = len(self.mean_)
        return self

    def score(self, X, y=None):
        return -((self.x - self.mean_[0]) ** 2) - (self.z - self.mean_[1]) ** 2

    def predict(self, X):
        return np.full(len(X), self.x)


BOWL = {"x": (0.0, 1.0), "z": (0.0, 1.0)}


def bowl_data(x=0.3, z=0.6, n=12):
    """Rows whose means in every fold of five or fewer are about x and z."""
    noise = 1e-3 * np.tile([[-1.0, 1.0], [1.0, -1.0]], (n // 2, 1))
    return np.array([[x, z]]) + noise


class Slow(Bowl):
    """With more rows its score is better by as much for all, and it counts its rows."""

    def fit(self, X, y=None):
        super().fit(X, y)
        self.rows_ = len(X)
        return self

    def score(self, X, y=None):
        return super().score(X, y) - 1.0 / self.rows_
