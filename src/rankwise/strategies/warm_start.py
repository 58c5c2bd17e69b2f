"""Warm start: propose the best configurations of similar source tasks, then use another method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rankwise._core.progress_bar import steps_only, training_bar
from rankwise._core.threads import one_thread
from rankwise.acquisition.maximizer import Seen
from rankwise.history.task import Task
from rankwise.space.encoder import Encoder
from rankwise.strategies.base import Explanation, Strategy
from rankwise.strategies.baselines import PortfolioStrategy, legal_rows
from rankwise.surrogates.empirical_bayes.past_functions import SourcePast, sources_of, task_digest
from rankwise.surrogates.empirical_bayes.source_votes import pair_agreement
from rankwise.surrogates.numeric.exact_gp import spread_over
from rankwise.surrogates.source_ensembles.tst import context_distances
from rankwise.types import Array

_ENOUGH = 100  # maximum number of evaluations that are used to compare tasks
_GREEDY = 50  # number of tasks that are ordered greedily; the others are ordered by mean

Index = npt.NDArray[np.intp]


@dataclass(frozen=True)
class InitStrategy(Strategy):
    """Proposes the best configurations of similar source tasks, then follows another strategy.

    The similarity of a source task is the share of pairs of the target study's trials that the
    task orders correctly. Between equally similar tasks, and as long as all losses are equal, the
    task with the nearest context comes first. Without contexts, tasks have the order of
    `greedy_order`. The best configuration of each of the most similar tasks is proposed first,
    then the second best of each, and so on.

    Only trials with one of these configurations count towards `points`, not other initial points.

    Attributes:
        best: best encoded configurations (k, d) of each of T source tasks, best first.
        past: functions of the T tasks.
        contexts: contexts of the T tasks.
        order: order (T,) of the tasks without trials and contexts, the most useful first.
        similar: number of source tasks that are used.
        points: number of configurations to propose from them.
        then: strategy after that.
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
        """Make the strategy from source tasks that have different losses and rows of the space.

        Args:
            encoder: encoder of the space.
            tasks: one or more source tasks, in any order.
            similar: number of source tasks that are used.
            points: number of configurations to propose from them.
            then: strategy after that.
            progress: show a bar; by default if standard error is a terminal.
        """
        tasks = sorted(tasks, key=task_digest)
        with one_thread(), training_bar(progress, len(tasks)) as bar:
            past = SourcePast(sources_of(tasks, tick=steps_only(bar)), remember=True)
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
        """Choose the row of the pool that is nearest to the next configuration."""
        from scipy.spatial import KDTree

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
        """Indices (T,) of the source tasks, the most similar first."""
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
        """All distinct configurations (n, d) that may be proposed."""
        return np.unique(np.concatenate(self.best), axis=0)


def best_rows(encoder: Encoder, task: Task, count: int) -> Array:
    """Return the at most `count` best distinct configurations (k, d) of a task, best first.

    Failed evaluations and configurations outside the space are left out.
    """
    order = np.argsort(task.losses, kind="stable")
    X = legal_rows(encoder, task.X[order[task.ok[order]]])
    _, first = np.unique(X, axis=0, return_index=True)
    return X[np.sort(first)[:count]]


def greedy_order(values: Array) -> Index:
    """Order candidates greedily; return their indices (n,).

    Each next candidate reduces the mean over tasks of the lowest value so far most. After
    `_GREEDY` candidates, the others follow in the order of their means.

    Args:
        values: values (n, T) of n candidates on T tasks, lower is better.
    """
    left = np.argsort(values.mean(axis=1), kind="stable").tolist()
    chosen: list[int] = []
    lowest = np.full(values.shape[1], np.inf)
    while left and len(chosen) < _GREEDY:
        k = int(np.argmin(np.minimum(values[left], lowest).mean(axis=1)))
        chosen.append(left.pop(k))
        lowest = np.minimum(lowest, values[chosen[-1]])
    return np.array([*chosen, *left], dtype=np.intp)
