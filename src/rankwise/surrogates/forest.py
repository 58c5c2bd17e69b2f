"""Random forest with the jackknife's standard error, for mixed and hierarchical spaces.

References:
    Wager, Hastie and Efron (2014), "Confidence Intervals for Random Forests: The Jackknife and
    the Infinitesimal Jackknife", JMLR 15; equation numbers below are theirs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from typing_extensions import Self

from rankwise.space import Layout
from rankwise.surrogates.base import Posterior, Surrogate
from rankwise.task import Task
from rankwise.transforms import Standardize
from rankwise.types import Array


class RandomForest(Surrogate):
    """A forest of regression trees on bootstrap samples (scikit-learn).

    Each split takes the best of several random thresholds, one per column it may look at
    (extremely randomized trees): the mean over trees then changes gradually between two
    observations instead of in one step half-way, which is where a proposal has to choose.

    The value of an inactive hyperparameter is shown to the trees as missing: a split on it sends
    all who lack it to the same side, so that no split depends on the number that stands in for
    an inactive value. Its activity is a column of its own.

    Args:
        layout: of the columns; without it every column is a number that is always active.
        trees: B, the number of trees.
        min_leaf: smallest number of evaluations in a leaf.
        max_features: share of the columns that each split may look at.
        seed: of the bootstrap samples.
    """

    def __init__(
        self,
        layout: Layout | None = None,
        *,
        trees: int = 100,
        min_leaf: int = 1,
        max_features: float = 5 / 6,
        seed: int = 0,
    ) -> None:
        self.layout = layout
        self.trees = trees
        self.min_leaf = min_leaf
        self.max_features = max_features
        self.seed = seed
        self._forest: Any = None

    def fit(self, task: Task) -> Self:
        from sklearn.ensemble import ExtraTreesRegressor

        self._forest = None
        self._level = float(np.mean(task.losses)) if len(task) else 0.0
        if len(task) == 0 or task.X.shape[1] == 0:
            return self
        self._transform = Standardize.fit(task.losses)
        self._forest = ExtraTreesRegressor(
            n_estimators=self.trees,
            bootstrap=True,
            min_samples_leaf=self.min_leaf,
            max_features=self.max_features,
            random_state=self.seed,
            n_jobs=1,
        )
        self._forest.fit(self._columns(task.X), self._transform(task.losses))
        self._counts = _bootstrap_counts(self._forest.estimators_samples_, len(task))
        return self

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        """The posterior at X (n, d); trees have no joint covariance to offer."""
        if self._forest is None:
            return Posterior(np.full(len(X), self._level), np.ones(len(X)))
        predictions = self._tree_predictions(X)
        std = np.sqrt(jackknife_variance(predictions, self._counts))
        return Posterior(*self._transform.unscale(predictions.mean(axis=0), std))

    def _tree_predictions(self, X: Array) -> Array:
        """Each tree's prediction (B, n); skips the checks that scikit-learn repeats per tree."""
        columns = self._columns(X)
        return np.stack([t.tree_.predict(columns)[:, 0] for t in self._forest.estimators_])

    def _columns(self, X: Array) -> Any:
        """X (n, d) as trees see it: the values of inactive hyperparameters are missing."""
        columns = np.array(X, dtype=np.float32)
        if self.layout is not None:
            for values, activity in zip(self.layout.values, self.layout.activity, strict=True):
                if activity is not None:
                    columns[X[:, activity] < 0.5, values] = np.nan
        return columns


def jackknife_variance(predictions: Array, counts: Array) -> Array:
    """Variance (n,) of a bagged mean: the mean of two bias-corrected jackknife estimates.

    Args:
        predictions: of each tree, (B, n).
        counts: how often each of m training rows is in each tree's bootstrap sample, (B, m).

    The jackknife after bootstrap compares the mean of all trees with that of the trees that never
    saw a row (eq. 6); the infinitesimal jackknife sums squared covariances between counts and
    predictions (eq. 5). With B finite both are too large, by (e - 1) m / B and m / B times the
    variance between trees (eqs. 8 and 7). Corrected, the first still errs upwards and the second
    downwards: the authors advise their mean. Where noise makes it negative, the floor is the
    Monte Carlo variance of the mean of B trees.
    """
    B, m = counts.shape
    centred = predictions - predictions.mean(axis=0)
    between = np.mean(centred**2, axis=0)
    covariance = (counts - counts.mean(axis=0)).T @ centred / B
    infinitesimal = np.sum(covariance**2, axis=0) - m / B * between
    without = (counts == 0).astype(float)
    shifts = without.T @ centred / np.maximum(without.sum(axis=0), 1.0)[:, None]
    after_bootstrap = (m - 1) / m * np.sum(shifts**2, axis=0) - (math.e - 1) * m / B * between
    corrected: Array = np.maximum((infinitesimal + after_bootstrap) / 2, between / B)
    return corrected


def _bootstrap_counts(samples: Any, m: int) -> Array:
    counts: Array = np.stack([np.bincount(rows, minlength=m) for rows in samples]).astype(float)
    return counts
