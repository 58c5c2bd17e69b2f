"""Weights of source tasks: similar data sets count more, and own studies more than built-in ones.

Both weights are learnt from the source tasks. The similarity of two data sets is a Gaussian kernel
of the distance between their meta-features, as ranks among the source tasks. Its bandwidth is
chosen by leave-one-out: how good are the configurations that the other source tasks propose for a
held-out one? If no bandwidth is better than equal weights by more than its standard error, all
source tasks count the same, so useless meta-features do no harm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import Self

from rankwise.history.task import BUILTIN, GROUP
from rankwise.types import Array, Mask

if TYPE_CHECKING:
    from rankwise.surrogates.empirical_bayes.past_functions import Source

FEATURES = (
    "log_rows",
    "log_columns",
    "log_rows_per_column",
    "mean_abs_correlation",
    "hand_skewness",
    "hand_kurtosis",
    "hand_pca_share",
    "hand_pca_skewness",
    "hand_class_entropy",
    "hand_landmark_nearest",
    "hand_landmark_linear",
    "hand_landmark_tree",
    "hand_landmark_bayes",
    "target_skewness",
    "target_kurtosis",
)
"""Meta-features that are compared; docs/results/builtin.md shows the alternatives."""

BANDWIDTHS = (0.1, 0.14, 0.2, 0.28, 0.4)
BUILTIN_WEIGHTS = (1.0, 0.3, 0.1, 0.03, 0.01)
_FEWEST_FEATURES, _FEWEST_SOURCES, _MOST_SOURCES = 4, 10, 500
_PROPOSED = 5  # configurations that are compared when a bandwidth is chosen
_MAX_OWN = 60  # own studies that are held out


@dataclass(frozen=True)
class Similarity:
    """Similarity of data sets.

    Attributes:
        names: the f meta-features that are compared.
        table: their values for each source task (T, f); NaN if unknown.
        bandwidth: bandwidth of the kernel.
    """

    names: tuple[str, ...]
    table: Array
    bandwidth: float

    @classmethod
    def learn(cls, sources: Sequence[Source], probed: Callable[[], Array]) -> Self | None:
        """Choose the bandwidth; None if equal weights are as good or little is known.

        Args:
            sources: the source tasks.
            probed: returns values of their functions at m configurations (T, m).
        """
        if not _FEWEST_SOURCES <= len(sources) <= _MOST_SOURCES:
            return None
        table = np.array([[s.context.get(n, math.nan) for n in FEATURES] for s in sources])
        # A meta-feature that many source tasks lack, or that is the same for all, tells nothing.
        common = np.isfinite(table).mean(axis=0) > 0.5
        varied = [bool(c) and np.nanmax(x) > np.nanmin(x) for c, x in zip(common, table.T)]  # noqa: B905
        if sum(varied) < _FEWEST_FEATURES:
            return None
        table = table[:, varied]
        names = tuple(name for name, keep in zip(FEATURES, varied, strict=True) if keep)
        others, values = different_tasks(sources), probed()
        base = _proposed_scores(others.astype(float), values)
        best, chosen = 0.0, math.inf
        for bandwidth in BANDWIDTHS:
            similar = cls(names, table, bandwidth)
            weights = np.array([similar._kernel(row) for row in table]) * others
            gain = base - _proposed_scores(weights, values)
            surplus = float(gain.mean() - gain.std() / math.sqrt(len(gain)))
            if surplus > best:
                best, chosen = surplus, bandwidth
        return None if math.isinf(chosen) else cls(names, table, chosen)

    def weights(self, context: Mapping[str, float]) -> Array | None:
        """Weights (T,) of the source tasks for a data set; None if too little is known about it.

        They sum to the effective number of source tasks.
        """
        row = np.array([context.get(name, math.nan) for name in self.names], dtype=float)
        if np.isfinite(row).sum() < _FEWEST_FEATURES:
            return None
        weights = self._kernel(row)
        scaled: Array = weights * weights.sum() / np.square(weights).sum()
        return scaled

    def _kernel(self, row: Array) -> Array:
        """Kernel (T,) between meta-features (f,) and those of the source tasks; 1 if unknown."""
        known = np.isfinite(row)
        distance = np.square(self._ranks[:, known] - self._rank(row)[known])
        counted = np.isfinite(distance)
        total = np.where(counted, distance, 0.0).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)
        kernel: Array = np.exp(-total / (2.0 * self.bandwidth**2))
        return kernel

    @cached_property
    def _ranks(self) -> Array:
        """Ranks (T, f), from 0 to 1, of the source tasks' meta-features; NaN stays NaN."""
        from scipy.stats import rankdata

        ranks = rankdata(self.table, axis=0, nan_policy="omit") - 0.5
        found: Array = ranks / np.maximum(np.isfinite(self.table).sum(axis=0), 1)
        return found

    def _rank(self, row: Array) -> Array:
        """Ranks (f,), from 0 to 1, of meta-features (f,) among those of the source tasks."""
        below = (self.table < row).sum(axis=0) + 0.5 * (self.table == row).sum(axis=0)
        ranks: Array = below / np.maximum(np.isfinite(self.table).sum(axis=0), 1)
        return ranks


def different_tasks(sources: Sequence[Source]) -> Mask:
    """Mask (T, T) of pairs that are neither copies nor near-duplicates of each other."""
    digests = np.unique([s.digest for s in sources], return_inverse=True)[1]
    groups = np.array([s.context.get(GROUP, math.nan) for s in sources])
    different: Mask = (digests[:, None] != digests) & (groups[:, None] != groups)
    return different


def _proposed_scores(weights: Array, values: Array) -> Array:
    """Mean score (T,) of the configurations that weighted source tasks propose for each other.

    Args:
        weights: weight of source task j for the prediction of i (T, T).
        values: values of the functions at m configurations (T, m).
    """
    total = weights.sum(axis=1, keepdims=True)
    predicted = weights @ values / np.where(total > 0, total, 1.0)
    count = min(_PROPOSED, values.shape[1])
    best = np.argsort(predicted, axis=1, kind="stable")[:, :count]
    scores: Array = np.take_along_axis(values, best, axis=1).mean(axis=1)
    return scores


def builtin_weight(sources: Sequence[Source], similarity: Similarity | None) -> float:
    """Weight of each built-in study relative to an own one.

    It is the one with which the other source tasks rank the configurations of held-out own
    studies best, and 1 for fewer than two own studies.
    """
    from scipy.stats import rankdata

    builtin = np.array([s.context.get(BUILTIN) == 1.0 for s in sources])
    own = np.flatnonzero(~builtin)[:_MAX_OWN].tolist()
    if len(own) < 2 or not builtin.any():
        return 1.0
    different = different_tasks(sources)
    agreement = np.zeros(len(BUILTIN_WEIGHTS))
    for i in own:
        X, ranks = sources[i].X, rankdata(sources[i].scores)
        values = np.stack([source(X) for source in sources], axis=1)
        near = None if similarity is None else similarity.weights(sources[i].context)
        base = different[i] * (1.0 if near is None else near)
        for k, weight in enumerate(BUILTIN_WEIGHTS):
            mean = values @ (base * np.where(builtin, weight, 1.0))
            if np.ptp(mean) > 0 and np.ptp(ranks) > 0:
                agreement[k] += np.corrcoef(rankdata(mean), ranks)[0, 1]
    return BUILTIN_WEIGHTS[int(np.argmax(agreement))]
