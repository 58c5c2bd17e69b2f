"""Random minibatches of rows of source tasks, for networks that learn from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rankwise.history.task import Task
from rankwise.surrogates.ranking.fine_tuning import scaled_ranks
from rankwise.types import Array


@dataclass(frozen=True)
class Rows:
    """Evaluations of B tasks, padded to n per task, and a support set of each task.

    The support set is the input of a Deep Set. `Table.draw` takes it from other evaluations of the
    same task.

    Attributes:
        X: configurations (B, n, d).
        y: transformed losses (B, n), 0 for padding.
        mask: mask (B, n), 1 for evaluations and 0 for padding.
        items: support sets (B, u, d + 1): configurations, and ranks within [-1, 1].
        pool: weights (B, 1, u) that average over each support set; all 0 if it is empty.
    """

    X: Tensor
    y: Tensor
    mask: Tensor
    items: Tensor
    pool: Tensor

    @classmethod
    def of(cls, X: Array, y: Array, losses: Array) -> Rows:
        """Make rows of all evaluations of one task, which are also its support set.

        Args:
            X: configurations (n, d).
            y: transformed losses (n,).
            losses: losses (n,), whose ranks go into the support set.
        """
        rows = torch.as_tensor(X, dtype=torch.float64)[None]
        ranks = torch.as_tensor(scaled_ranks(losses), dtype=torch.float64)
        n = len(X)
        return cls(
            rows,
            torch.as_tensor(y, dtype=torch.float64)[None],
            torch.ones((1, n), dtype=torch.float64),
            torch.cat([rows, ranks[None, :, None]], dim=-1),
            torch.full((1, 1, n), 1.0 / max(n, 1), dtype=torch.float64),
        )


class Table:
    """Source tasks from which minibatches are drawn.

    Args:
        tasks: at least one task, all with the same number of columns.
        transform: transform of the losses (n,) of a task.
        rows: maximum number of rows of a task in a minibatch.
        support: maximum size of a support set. Sizes are drawn from 0 to this one; small sizes
            are more likely, because a study has few evaluations at its start.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        transform: Callable[[Array], Array],
        rows: int,
        support: int = 0,
    ) -> None:
        self._X, self._losses = [t.X for t in tasks], [t.losses for t in tasks]
        self._y = [transform(losses) for losses in self._losses]
        largest = max(len(t) for t in tasks)
        self._rows, self._support = min(rows, largest), min(support, largest // 2)

    def __len__(self) -> int:
        return len(self._X)

    def draw_evenly(self, count: int, rng: np.random.Generator) -> Rows:
        """Draw rows for validation: at most `count` draws, the same number from each task."""
        tasks = list(range(min(len(self), count)))
        return self.draw(tasks * (count // len(tasks)), rng)

    def draw(self, tasks: Sequence[int], rng: np.random.Generator) -> Rows:
        """Draw rows of tasks, without replacement within a task.

        Args:
            tasks: indices (B,) of the tasks; the same task can occur several times.
            rng: source of random numbers.
        """
        B, n, u, d = len(tasks), self._rows, max(1, self._support), self._X[0].shape[1]
        X, y, mask = np.zeros((B, n, d)), np.zeros((B, n)), np.zeros((B, n))
        items, pool = np.zeros((B, u, d + 1)), np.zeros((B, 1, u))
        for b, t in enumerate(tasks):
            order = rng.permutation(len(self._y[t]))
            seen = int(rng.random() ** 2 * (min(self._support, len(order) // 2) + 1))
            told, rest = order[:seen], order[seen : seen + n]
            X[b, : len(rest)], y[b, : len(rest)] = self._X[t][rest], self._y[t][rest]
            mask[b, : len(rest)] = 1.0
            if seen:
                items[b, :seen, :d], pool[b, 0, :seen] = self._X[t][told], 1.0 / seen
                items[b, :seen, d] = scaled_ranks(self._losses[t][told])
        return Rows(*(torch.from_numpy(array) for array in (X, y, mask, items, pool)))
