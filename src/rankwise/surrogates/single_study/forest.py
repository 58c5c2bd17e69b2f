"""Random forest with jackknife standard errors, for mixed and conditional spaces.

References:
    Wager, Hastie and Efron (2014), "Confidence Intervals for Random Forests: The Jackknife and
    the Infinitesimal Jackknife", JMLR 15. Equation numbers below refer to this paper.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import Self

from rankwise.history.task import Task
from rankwise.history.transforms import Standardize
from rankwise.surrogates.base import Posterior, Surrogate
from rankwise.types import Array

if TYPE_CHECKING:
    from rankwise.space.encoder import Layout


class RandomForest(Surrogate):
    """Forest of regression trees on bootstrap samples (scikit-learn).

    Each split draws one random threshold per candidate column and uses the best of them
    (extremely randomized trees). The mean over trees then changes gradually between two evaluated
    points. With optimized thresholds it would change in a single step half-way between them, so
    that most candidates in between would have equal predictions.

    The value of an inactive hyperparameter is a missing value for the trees: a split sends all
    rows without a value to the same side. So no split depends on the placeholder by which the
    encoder represents inactive values. Whether the hyperparameter is active is a separate column.

    Args:
        layout: Layout of the columns; without it, every column is a number that is always active.
        trees: B, the number of trees.
        min_leaf: Smallest number of trials in a leaf.
        max_features: Share of the columns that are candidates for each split.
        seed: Seed of the bootstrap samples and of the splits.
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
        self._transform = Standardize.fit(task.losses, task.fence)
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
        """Predict the posterior at X (n, d).

        A forest has no joint covariance: the posterior's covariance is None even if `joint` is
        True.
        """
        if self._forest is None:
            return Posterior(np.full(len(X), self._level), np.ones(len(X)))
        predictions = self._tree_predictions(X)
        std = np.sqrt(jackknife_variance(predictions, self._counts))
        return Posterior(*self._transform.unscale(predictions.mean(axis=0), std))

    def _tree_predictions(self, X: Array) -> Array:
        """Return the prediction (B, n) of each tree at X (n, d).

        It calls the trees directly, to skip the input checks that scikit-learn repeats per tree.
        """
        columns = self._columns(X)
        return np.stack([t.tree_.predict(columns)[:, 0] for t in self._forest.estimators_])

    def _columns(self, X: Array) -> Any:
        """Return a copy of X (n, d) in which the values of inactive hyperparameters are NaN."""
        columns = np.array(X, dtype=np.float32)
        if self.layout is not None:
            for values, activity in zip(self.layout.values, self.layout.activity, strict=True):
                if activity is not None:
                    columns[X[:, activity] < 0.5, values] = np.nan
        return columns


def jackknife_variance(predictions: Array, counts: Array) -> Array:
    """Estimate the variance (n,) of the mean over bagged trees.

    The estimate is the mean of two bias-corrected jackknife estimates:

    - The jackknife after bootstrap compares the mean of all trees with the mean of the trees that
      were not trained on a given row (eq. 6).
    - The infinitesimal jackknife sums squared covariances between counts and predictions (eq. 5).

    With finite B both are too large, by (e - 1) m / B and m / B times the variance between trees
    (eqs. 8 and 7). After the correction, the first is still biased upwards and the second
    downwards, so the authors recommend their mean. The lower bound of the result is the Monte
    Carlo variance of the mean of B trees, because the corrected estimate may be negative.

    Args:
        predictions: Prediction of each tree (B, n).
        counts: How often each of m training rows is in each tree's bootstrap sample (B, m).
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
    """Count how often each of m rows is in each of B bootstrap samples, shape (B, m)."""
    counts: Array = np.stack([np.bincount(rows, minlength=m) for rows in samples]).astype(float)
    return counts
