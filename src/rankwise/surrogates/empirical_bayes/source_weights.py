"""Weights of source tasks: similar data sets count more, and own studies more than built-in ones.

Both weights are learnt from the source tasks. The similarity of two data sets is a Gaussian kernel
of the distance between their meta-features, as ranks among the source tasks. Its bandwidth is
chosen by leave-one-out: how well does the weighted mean of the other source tasks' functions
predict the function of a held-out one? If no bandwidth is better than equal weights by more than
its standard error, all source tasks count the same, so useless meta-features do no harm.
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
"""Meta-features that are compared, with those of `described`; see docs/decisions/019."""

GUESSING = "largest_class"  # accuracy of guessing the most frequent class
_LANDMARK = "hand_landmark_"
_BEST = "best_landmark"
_PAIRS = (("linear", "tree"), ("nearest", "linear"), ("nearest", "tree"), ("bayes", "tree"))
COMPARED = (*FEATURES, *(f"{a}-{b}" for a, b in _PAIRS), _BEST, f"{_BEST}-{GUESSING}")
"""Names of all numbers that are compared."""

BANDWIDTHS = (0.06, 0.08, 0.1, 0.12, 0.14, 0.17, 0.2, 0.24, 0.28, 0.34, 0.4)
BUILTIN_WEIGHTS = (1.0, 0.3, 0.1, 0.03, 0.01)
_FEWEST_FEATURES, _FEWEST_SOURCES, _MOST_SOURCES = 4, 10, 500
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
    def of(cls, names: Sequence[str], sources: Sequence[Source], bandwidth: float) -> Self:
        """The similarity to source tasks, by the given numbers of `described`."""
        known = [described(source.context) for source in sources]
        table = np.array([[row[name] for name in names] for row in known])
        return cls(tuple(names), table, float(bandwidth))

    @classmethod
    def learn(
        cls,
        sources: Sequence[Source],
        probed: Callable[[], Array],
        compared: Sequence[str] = COMPARED,
    ) -> Self | None:
        """Choose the bandwidth; None if equal weights are as good or little is known.

        Args:
            sources: the source tasks.
            probed: returns values of their functions at m configurations (T, m).
            compared: the numbers of `described` to compare.
        """
        if not _FEWEST_SOURCES <= len(sources) <= _MOST_SOURCES:
            return None
        table = cls.of(compared, sources, 1.0).table
        # A meta-feature that many source tasks lack, or that is the same for all, tells nothing.
        common = np.isfinite(table).mean(axis=0) > 0.5
        varied = [bool(c) and np.nanmax(x) > np.nanmin(x) for c, x in zip(common, table.T)]  # noqa: B905
        if sum(varied) < _FEWEST_FEATURES:
            return None
        table = table[:, varied]
        names = tuple(name for name, keep in zip(compared, varied, strict=True) if keep)
        others, values = different_tasks(sources), probed()
        products = _products(values)
        base = _errors(others.astype(float), products)
        distance = cls(names, table, 1.0)._distances()
        best, chosen = 0.0, math.inf
        for bandwidth in BANDWIDTHS:
            gain = base - _errors(_gaussian(distance, bandwidth) * others, products)
            surplus = float(gain.mean() - gain.std() / math.sqrt(len(gain)))
            if surplus > best:
                best, chosen = surplus, bandwidth
        return None if math.isinf(chosen) else cls(names, table, chosen)

    def weights(self, context: Mapping[str, float]) -> Array | None:
        """Weights (T,) of the source tasks for a data set; None if too little is known about it.

        They sum to the effective number of source tasks.
        """
        known = described(context)
        row = np.array([known[name] for name in self.names])
        if np.isfinite(row).sum() < _FEWEST_FEATURES:
            return None
        weights = self._kernel(row)
        scaled: Array = weights * weights.sum() / np.square(weights).sum()
        return scaled

    def _kernel(self, row: Array) -> Array:
        """Kernel (T,) between meta-features (f,) and those of the source tasks; 1 if unknown."""
        return _gaussian(self._distance(self._rank(row)), self.bandwidth)

    def _distances(self) -> Array:
        """Distances (T, T) between the source tasks."""
        return np.array([self._distance(row) for row in self._ranks])

    def _distance(self, ranks: Array) -> Array:
        """Mean squared difference (T,) between ranks (f,) and those of the source tasks."""
        squares = np.square(self._ranks - ranks)
        counted = np.isfinite(squares)
        total = np.where(counted, squares, 0.0).sum(axis=1)
        mean: Array = total / np.maximum(counted.sum(axis=1), 1)
        return mean

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
        ranks = below / np.maximum(np.isfinite(self.table).sum(axis=0), 1)
        found: Array = np.where(np.isfinite(row), ranks, math.nan)
        return found


def different_tasks(sources: Sequence[Source]) -> Mask:
    """Mask (T, T) of pairs that are neither copies nor near-duplicates of each other."""
    digests = np.unique([s.digest for s in sources], return_inverse=True)[1]
    groups = np.array([s.context.get(GROUP, math.nan) for s in sources])
    different: Mask = (digests[:, None] != digests) & (groups[:, None] != groups)
    return different


def described(context: Mapping[str, float]) -> dict[str, float]:
    """The numbers `COMPARED` of a data set; NaN if unknown.

    Differences between the scores of simple models (landmarks) say which kind of model suits a
    data set. The best one, less the share of the largest class, says how much there is to learn.
    """
    found = {name: float(context.get(name, math.nan)) for name in FEATURES}
    scores = {name.removeprefix(_LANDMARK): x for name, x in found.items() if _LANDMARK in name}
    found |= {f"{a}-{b}": scores[a] - scores[b] for a, b in _PAIRS}
    found[_BEST] = max(filter(math.isfinite, scores.values()), default=math.nan)
    found[f"{_BEST}-{GUESSING}"] = found[_BEST] - context.get(GUESSING, math.nan)
    return found


def _gaussian(distance: Array, bandwidth: float) -> Array:
    """Gaussian kernel of mean squared differences."""
    kernel: Array = np.exp(-distance / (2.0 * bandwidth**2))
    return kernel


def _products(values: Array) -> Array:
    """Mean products (T, T) of functions with values (T, m); their levels are arbitrary."""
    centred = values - values.mean(axis=1, keepdims=True)
    products: Array = centred @ centred.T / values.shape[1]
    return products


def _errors(weights: Array, products: Array) -> Array:
    """Mean squared error (T,) with which weighted source tasks predict each other.

    Args:
        weights: weight of source task j for the prediction of i (T, T).
        products: mean products (T, T) of their functions.
    """
    total = weights.sum(axis=1, keepdims=True)
    share = weights / np.where(total > 0, total, 1.0)
    cross = share @ products
    errors: Array = np.diag(products) + ((cross - 2.0 * products) * share).sum(axis=1)
    return errors


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
