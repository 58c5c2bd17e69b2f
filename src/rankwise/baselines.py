"""Strategies without a model: what every method has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree
from scipy.stats import rankdata

from rankwise.proposal import Seen
from rankwise.space import Encoder
from rankwise.strategy import RandomStrategy, Strategy
from rankwise.task import Task
from rankwise.types import Array


class DefaultStrategy(Strategy):
    """The default configuration of the space, then random search."""

    def propose(self, history: Task, pending: Array, rng: np.random.Generator) -> Array:
        return self._listed.propose(history, pending, rng)

    def choose(self, history: Task, pool: Array, rng: np.random.Generator) -> int:
        return self._listed.choose(history, pool, rng)

    @property
    def _listed(self) -> PortfolioStrategy:
        return PortfolioStrategy(
            self.encoder, self.design, self.encoder.encode([self.encoder.default])
        )


@dataclass(frozen=True)
class PortfolioStrategy(Strategy):
    """Given configurations in turn, then another strategy.

    Attributes:
        rows: the configurations (n, d), encoded, the first one first.
        then: what proposes after them; random search by default.
    """

    rows: Array
    then: Strategy | None = None

    @property
    def informed(self) -> bool:
        return len(self.rows) > 0

    def propose(self, history: Task, pending: Array, rng: np.random.Generator) -> Array:
        seen = Seen(history.X, pending)
        rows = legal_rows(self.encoder, self.rows)
        fresh = rows[seen.new(rows)] if len(rows) else rows
        if not len(fresh):
            return self._rest.propose(history, pending, rng)
        first: Array = fresh[0]
        return first

    def choose(self, history: Task, pool: Array, rng: np.random.Generator) -> int:
        """A configuration that the pool never had is represented by the nearest that it had."""
        if len(self.rows):
            _, nearest = KDTree(np.concatenate([pool, history.X])).query(self.rows)
            fresh = nearest[nearest < len(pool)]
            if len(fresh):
                return int(fresh[0])
        return self._rest.choose(history, pool, rng)

    @property
    def _rest(self) -> Strategy:
        return self.then or RandomStrategy(self.encoder, self.design)


def legal_rows(encoder: Encoder, X: Array) -> Array:
    """Those of X (n, d) that a space has, as it encodes them; it may be narrower than the past's.

    Rows that were not made by the encoder may differ in their last digits: proposed like that,
    they would not be recognised in the history, and proposed again.
    """
    if not len(X):
        return X
    there_and_back = encoder.encode_codes(encoder.decode_codes(X))
    return there_and_back[np.isclose(there_and_back, X).all(axis=1)]


def greedy_portfolio(tasks: Sequence[Task], length: int, measure: str = "regret") -> Array:
    """Configurations (n, d) of past tasks that were good together, n at most `length`.

    Each one lowers most the mean over the tasks of the measure of the best so far; the list ends
    where none lowers it. On a task that has not evaluated a configuration, the nearest one that it
    has counts.

    Args:
        tasks: past ones.
        length: of the list, at most.
        measure: "regret", normalised to [0, 1], or "rank", as a share of the task's evaluations.
    """
    useful = [task for task in tasks if task.X.shape[1] and len(task) and np.ptp(task.losses) > 0]
    if not useful:
        return np.empty((0, 0))
    rows = np.unique(np.concatenate([task.X for task in useful]), axis=0)
    values = np.empty((len(rows), len(useful)))
    for column, task in enumerate(useful):
        _, nearest = KDTree(task.X).query(rows)
        values[:, column] = MEASURES[measure](task.losses)[nearest]
    best, chosen = np.ones(len(useful)), []
    for _ in range(length):
        means = np.minimum(values, best).mean(axis=1)
        if means.min() >= best.mean():
            break
        chosen.append(int(np.argmin(means)))
        best = np.minimum(best, values[chosen[-1]])
    return rows[chosen]


def _regret(losses: Array) -> Array:
    regret: Array = (losses - losses.min()) / np.ptp(losses)
    return regret


def _rank(losses: Array) -> Array:
    share: Array = (rankdata(losses, method="min") - 1.0) / (len(losses) - 1.0)
    return share


MEASURES = {"rank": _rank, "regret": _regret}
"""From the losses (n,) of a task, not all equal, to what is to be small, from 0 to 1."""
