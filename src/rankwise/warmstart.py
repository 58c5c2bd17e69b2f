"""Warm start: the best configurations of similar past tasks first, then another method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial import KDTree

from rankwise.baselines import PortfolioStrategy, legal_rows
from rankwise.progress import training_bar
from rankwise.proposal import Seen
from rankwise.space import Encoder
from rankwise.strategy import Explanation, Strategy
from rankwise.surrogates.exact import spread_over
from rankwise.surrogates.sources import SourcePast, sources_of, task_digest
from rankwise.surrogates.threads import one_thread
from rankwise.surrogates.tst import context_distances
from rankwise.surrogates.votes import pair_agreement
from rankwise.task import Task
from rankwise.types import Array

_ENOUGH = 100  # evaluations by which tasks are compared
_GREEDY = 50  # tasks that are ordered by what they add to the others; the rest by their mean

Index = npt.NDArray[np.intp]


@dataclass(frozen=True)
class InitStrategy(Strategy):
    """Best configurations of the most similar past tasks, then the proposals of another strategy.

    A past task is similar by the share of pairs of the study's own evaluations that it orders as
    they turned out to be. As long as these have no order, and among equally similar tasks, the
    nearest in context comes first or, if contexts do not say, the one whose best configuration
    adds most to those before it (`greedy_order`). Of the most similar tasks first all best
    configurations are proposed, then all second best ones, and so on.

    How many were proposed is seen from the history: those that it has. So initial points of
    another origin do not count.

    Attributes:
        best: for each of T past tasks its best configurations (k, d), encoded, the best first.
        past: functions of the T tasks.
        contexts: what is known about their data sets.
        order: the tasks (T,) from the most useful one to the least, before anything is known.
        similar: past tasks that are proposed from.
        points: past configurations to propose.
        then: what proposes after that.
    """

    best: tuple[Array, ...]
    past: SourcePast
    contexts: tuple[Mapping[str, float], ...]
    order: Index
    similar: int
    points: int
    then: Strategy

    @property
    def informed(self) -> bool:
        return True

    @classmethod
    def of(
        cls,
        encoder: Encoder,
        tasks: Sequence[Task],
        *,
        similar: int,
        points: int,
        then: Strategy,
        progress: bool | None = None,
    ) -> InitStrategy:
        """From past tasks, one or more, each with an order and a configuration of the space.

        Args:
            encoder: of the space.
            tasks: in any order.
            similar: see the attributes, as the next two.
            points: to propose.
            then: what proposes after that.
            progress: show a bar; by default if standard error is a terminal.
        """
        tasks = sorted(tasks, key=task_digest)
        with one_thread(), training_bar(progress, len(tasks)) as bar:
            tick = None if bar is None else lambda k: bar(k, math.nan, math.nan)
            past = SourcePast(sources_of(tasks, tick=tick), remember=True)
            depth = math.ceil(points / min(similar, len(tasks)))
            best = tuple(best_rows(encoder, task, depth) for task in tasks)
            order = greedy_order(past.view(np.stack([rows[0] for rows in best])).votes)
        contexts = tuple(dict(task.context) for task in tasks)
        return cls(encoder, None, best, past, contexts, order, similar, points, then)

    def propose(self, history: Task, pending: Array, rng: np.random.Generator) -> Array:
        known = ~Seen(history.X, pending).new(self._rows)
        if known.sum() >= self.points:
            return self.then.propose(history, pending, rng)
        return self._listed(history).propose(history, pending, rng)

    def choose(self, history: Task, pool: Array, rng: np.random.Generator) -> int:
        """A past configuration is represented by the nearest that there is."""
        _, nearest = KDTree(np.concatenate([pool, history.X])).query(self._rows)
        if len(np.unique(nearest[nearest >= len(pool)])) >= self.points:
            return self.then.choose(history, pool, rng)
        return self._listed(history).choose(history, pool, rng)

    def explain(self, history: Task, X: Array) -> list[Explanation]:
        known = ~Seen(history.X).new(self._rows)
        if known.sum() >= self.points:
            return self.then.explain(history, X)
        return super().explain(history, X)

    def ranking(self, history: Task) -> Index:
        """The past tasks (T,), the most similar one first."""
        distances = context_distances(self.contexts, history.context)
        order = self.order if distances is None else np.argsort(distances, kind="stable")
        rows = spread_over(history.losses, _ENOUGH)
        if np.unique(history.losses[rows]).size < 2:
            return order
        with one_thread():
            votes = self.past.view(history.X[rows]).votes
        agree, _ = pair_agreement(votes, history.losses[rows])
        ranked: Index = order[np.argsort(-agree[order], kind="stable")]
        return ranked

    def _listed(self, history: Task) -> PortfolioStrategy:
        lead = [self.best[t] for t in self.ranking(history)[: self.similar]]
        depth = max(len(rows) for rows in lead)
        rows = np.array([rows[k] for k in range(depth) for rows in lead if k < len(rows)])
        return PortfolioStrategy(self.encoder, None, rows, self.then)

    @property
    def _rows(self) -> Array:
        """All configurations (n, d) that may be proposed, each once."""
        return np.unique(np.concatenate(self.best), axis=0)


def best_rows(encoder: Encoder, task: Task, count: int) -> Array:
    """The `count` best different configurations (k, d) of a task that a space has, the best first.

    Failed evaluations are none, however few others there are.
    """
    order = np.argsort(task.losses, kind="stable")
    X = legal_rows(encoder, task.X[order[task.ok[order]]])
    _, first = np.unique(X, axis=0, return_index=True)
    return X[np.sort(first)[:count]]


def greedy_order(values: Array) -> Index:
    """Candidates (n,) in an order in which each adds most to those before it.

    Each one lowers most the mean, over tasks, of the lowest value so far. After `_GREEDY` of them
    the others follow by their own means.

    Args:
        values: of n candidates on T tasks (n, T), lower is better.
    """
    left = np.argsort(values.mean(axis=1), kind="stable").tolist()
    chosen: list[int] = []
    lowest = np.full(values.shape[1], np.inf)
    while left and len(chosen) < _GREEDY:
        k = int(np.argmin(np.minimum(values[left], lowest).mean(axis=1)))
        chosen.append(left.pop(k))
        lowest = np.minimum(lowest, values[chosen[-1]])
    return np.array([*chosen, *left], dtype=np.intp)
