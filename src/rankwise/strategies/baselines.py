"""Strategies without a model, used as baselines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankwise._core.numerics import rankdata
from rankwise.acquisition.maximizer import Seen
from rankwise.history.task import Task
from rankwise.space.encoder import Encoder
from rankwise.strategies.base import RandomStrategy, Strategy
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
    """Proposes the configurations of a list in their order, then follows another strategy.

    Attributes:
        rows: encoded configurations (n, d) of the list.
        then: strategy at the end of the list; random search by default.
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
        """Choose the row of the pool that is nearest to the next configuration of the list."""
        from scipy.spatial import KDTree

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
    """Return the rows of X (n, d) that are in a space, decoded and encoded again by its encoder.

    Rows of past studies can differ from the encoder's rows in the last digits. Without this step,
    an evaluated row would not be recognized in the history and would be proposed twice.
    """
    if not len(X):
        return X
    there_and_back = encoder.encode_codes(encoder.decode_codes(X))
    return there_and_back[np.isclose(there_and_back, X).all(axis=1)]


def greedy_portfolio(tasks: Sequence[Task], length: int, measure: str = "regret") -> Array:
    """Select configurations (n, d) of source tasks of which at least one is good on each task.

    The selection is greedy: each next configuration reduces the mean over tasks of the best
    measure so far most. It ends if no configuration reduces the mean. If a task did not evaluate a
    configuration, the nearest configuration that it evaluated is used.

    Args:
        tasks: source tasks.
        length: maximum number of configurations.
        measure: "regret", normalized to [0, 1], or "rank", as a share of the task's evaluations.
    """
    from scipy.spatial import KDTree

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
"""Functions from the losses (n,) of a task, not all equal, to measures in [0, 1]."""
