"""Successive halving over the rows of the training data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_SHARES = (1 / 9, 1 / 3, 1.0)
_FACTOR = 3  # the best 1 / _FACTOR continue with the next share
_FEWEST_ROWS = 20  # rows per class below which a score is too noisy


class Folds:
    """The splits of a cross-validation, computed once, so that all trials use the same ones.

    Args:
        splitter: a scikit-learn splitter; a random one would give new splits at each call.
    """

    def __init__(self, splitter: Any) -> None:
        self._splitter = splitter
        self._splits: list[tuple[Any, Any]] | None = None

    def split(self, X: Any, y: Any = None, **params: Any) -> Iterator[tuple[Any, Any]]:
        """Yield training and test rows, as a scikit-learn splitter does."""
        if self._splits is None:
            self._splits = list(self._splitter.split(X, y, **params))
        return iter(self._splits)

    @property
    def n(self) -> int:
        """Number of splits; 0 before the first call of `split`."""
        return len(self._splits or ())


@dataclass(frozen=True)
class Subsample:
    """Splits with the same test rows and a share of the training rows.

    A larger share contains the rows of a smaller one.

    Attributes:
        folds: the full splits.
        share: share of the training rows, in (0, 1).
        labels: classes (n,) whose proportions are kept; None without classes.
        seed: seed of the choice of rows.
    """

    folds: Folds
    share: float
    labels: Any
    seed: int

    def split(self, X: Any, y: Any = None, **params: Any) -> Iterator[tuple[Any, Any]]:
        """Yield training and test rows, as a scikit-learn splitter does."""
        for k, (train, test) in enumerate(self.folds.split(X, y, **params)):
            rows = np.asarray(train)
            if rows.dtype == bool:
                rows = np.flatnonzero(rows)
            labels = np.zeros(len(rows), int) if self.labels is None else self.labels[rows]
            order = in_proportion(labels, np.random.default_rng([self.seed, k]))
            n = max(math.ceil(self.share * len(rows)), 1)
            yield rows[np.sort(order[:n])], test


def in_proportion(labels: Any, rng: np.random.Generator) -> Any:
    """A random order (n,) of rows; the first k rows have the class proportions of all rows.

    One row of each class comes first.

    Args:
        labels: class of each row (n,).
        rng: random generator.
    """
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    order = rng.permutation(len(codes))
    by_class = np.argsort(codes[order], kind="stable")
    within = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    place = np.empty(len(codes))
    place[by_class] = within / np.repeat(counts, counts)
    return order[np.argsort(place, kind="stable")]


@dataclass(frozen=True)
class Rungs:
    """The steps of successive halving: increasing shares of the rows.

    Attributes:
        shares: increasing shares; the last one is 1.
        n_rows: number of rows of the data set.
    """

    shares: tuple[float, ...]
    n_rows: int

    @classmethod
    def of(cls, n_rows: int, classes: int | None, *, several: bool = True) -> Rungs:
        """Make as many rungs as the number of rows allows, or only the one with all rows."""
        fewest = _FEWEST_ROWS * max(classes or 1, 2)
        shares = tuple(s for s in _SHARES if s == 1 or (several and s * n_rows >= fewest))
        return cls(shares, n_rows)

    @property
    def last(self) -> int:
        """Index of the rung with all rows."""
        return len(self.shares) - 1

    def n_resources(self, rung: int) -> int:
        """Number of rows of a rung."""
        return round(self.shares[rung] * self.n_rows)

    def splitters(self, folds: Folds, labels: Any, seed: int) -> list[Folds]:
        """The splits of each rung; the arguments are those of `Subsample`."""
        smaller = [Folds(Subsample(folds, share, labels, seed)) for share in self.shares[:-1]]
        return [*smaller, folds]


def goes_on(k: int, losses: Sequence[float]) -> bool:
    """True if the k-th loss is in the best third of the losses at a rung.

    In a tie the earlier one is better. NaN never continues, the best loss always does.
    """
    mine = losses[k]
    finite = [(loss, j) for j, loss in enumerate(losses) if math.isfinite(loss)]
    if not math.isfinite(mine):
        return False
    return sum(other < (mine, k) for other in finite) < max(1, len(finite) // _FACTOR)


def estimated_losses(reached: Mapping[int, Mapping[int, float]], last: int) -> dict[int, float]:
    """Estimate the losses that pruned trials would have on all rows.

    The estimate is the loss at the last rung of the trial plus the median change from that rung to
    all rows over the completed trials. It is at least the best loss of the completed trials.

    Args:
        reached: losses by trial and rung.
        last: index of the rung with all rows.

    Returns:
        Estimates by trial, for pruned trials.
    """
    full = {n: r[last] for n, r in reached.items() if math.isfinite(r.get(last, math.nan))}
    best = min(full.values(), default=-math.inf)
    shifts: dict[int, float] = {}  # median change by rung
    estimates = {}
    for number, losses in reached.items():
        rung = max(losses)
        if rung == last or not math.isfinite(losses[rung]):
            continue
        if rung not in shifts:
            changes = [loss - reached[n][rung] for n, loss in full.items() if rung in reached[n]]
            shifts[rung] = float(np.median(changes)) if changes else 0.0
        estimates[number] = max(losses[rung] + shifts[rung], best)
    return estimates
