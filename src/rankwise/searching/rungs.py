"""Successive halving over the rows of the training data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_SHARES = (1 / 9, 1 / 3, 1.0)
_FACTOR = 3  # one of so many goes on to the next share
_FEWEST_ROWS = 20  # per class; with fewer a score says little


class Folds:
    """The splits of a cross-validation, made once: every trial is scored on the same ones.

    Args:
        splitter: of scikit-learn; a random one gives others each time it is asked.
    """

    def __init__(self, splitter: Any) -> None:
        self._splitter = splitter
        self._splits: list[tuple[Any, Any]] | None = None

    def split(self, X: Any, y: Any = None, **params: Any) -> Iterator[tuple[Any, Any]]:
        """As a splitter of scikit-learn."""
        if self._splits is None:
            self._splits = list(self._splitter.split(X, y, **params))
        return iter(self._splits)

    @property
    def n(self) -> int:
        """The number of splits, after they were made."""
        return len(self._splits or ())


@dataclass(frozen=True)
class Subsample:
    """The same test rows with a share of the training rows, more of them at each larger share.

    Attributes:
        folds: to take from.
        share: of the training rows, in (0, 1).
        labels: classes (n,) to keep in proportion; None if there are none.
        seed: of the choice.
    """

    folds: Folds
    share: float
    labels: Any
    seed: int

    def split(self, X: Any, y: Any = None, **params: Any) -> Iterator[tuple[Any, Any]]:
        """As a splitter of scikit-learn."""
        for k, (train, test) in enumerate(self.folds.split(X, y, **params)):
            rows = np.asarray(train)
            if rows.dtype == bool:
                rows = np.flatnonzero(rows)
            labels = np.zeros(len(rows), int) if self.labels is None else self.labels[rows]
            order = in_proportion(labels, np.random.default_rng([self.seed, k]))
            n = max(math.ceil(self.share * len(rows)), 1)
            yield rows[np.sort(order[:n])], test


def in_proportion(labels: Any, rng: np.random.Generator) -> Any:
    """A random order (n,) of rows of which every beginning has the classes in proportion.

    One of each class comes first.

    Args:
        labels: of the rows (n,).
        rng: source of all randomness.
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
    """Growing shares of the data, and who goes on from one to the next.

    Attributes:
        shares: growing, the last one is 1.
        n_rows: of the data set.
    """

    shares: tuple[float, ...]
    n_rows: int

    @classmethod
    def of(cls, n_rows: int, classes: int | None, *, several: bool = True) -> Rungs:
        """As many as the data have rows for, or only the one with all data."""
        fewest = _FEWEST_ROWS * max(classes or 1, 2)
        shares = tuple(s for s in _SHARES if s == 1 or (several and s * n_rows >= fewest))
        return cls(shares, n_rows)

    @property
    def last(self) -> int:
        """The number of the one with all data."""
        return len(self.shares) - 1

    def n_resources(self, rung: int) -> int:
        """How many rows of the data set a share has."""
        return round(self.shares[rung] * self.n_rows)

    def splitters(self, folds: Folds, labels: Any, seed: int) -> list[Folds]:
        """The splits of each rung; the arguments are those of `Subsample`."""
        smaller = [Folds(Subsample(folds, share, labels, seed)) for share in self.shares[:-1]]
        return [*smaller, folds]


def goes_on(k: int, losses: Sequence[float]) -> bool:
    """Whether the k-th loss is in the best third of all that were seen at a rung.

    Of equal ones the earlier is better; NaN never goes on, the best always does.
    """
    mine = losses[k]
    finite = [(loss, j) for j, loss in enumerate(losses) if math.isfinite(loss)]
    if not math.isfinite(mine):
        return False
    return sum(other < (mine, k) for other in finite) < max(1, len(finite) // _FACTOR)


def estimated_losses(reached: Mapping[int, Mapping[int, float]], last: int) -> dict[int, float]:
    """What trials that stopped early would have reached with all data.

    The loss at the rung where a trial stopped, plus the median of what all data changed for those
    that have both; but no trial that stopped counts as better than the best that did not.

    Args:
        reached: by trial, by rung, the losses.
        last: the rung with all data.

    Returns:
        By trial, for those that stopped.
    """
    full = {n: r[last] for n, r in reached.items() if math.isfinite(r.get(last, math.nan))}
    best = min(full.values(), default=-math.inf)
    estimates = {}
    for number, losses in reached.items():
        rung = max(losses)
        if rung == last or not math.isfinite(losses[rung]):
            continue
        changes = [loss - reached[n][rung] for n, loss in full.items() if rung in reached[n]]
        shift = float(np.median(changes)) if changes else 0.0
        estimates[number] = max(losses[rung] + shift, best)
    return estimates
