"""Random lists of trials from source tasks, for the meta-training of an ensemble of scorers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from rankwise.history.task import Task
from rankwise.surrogates.ranking.fine_tuning import targets
from rankwise.surrogates.ranking.losses import Lists, RankingLoss
from rankwise.types import Counts

_SHUFFLE_EVERY = 20  # steps between two shuffles; a list is a run of trials in shuffled order


@dataclass(frozen=True)
class Batch:
    """B lists to rank, each with a disjoint support set of the same task.

    Attributes:
        X: Configurations (B, n, d), best first, padding last.
        lists: Precomputed targets of the ranking loss.
        items: Support sets (B, u, d + 1): each configuration and its rank in [-1, 1].
        pool: Weights (B, 1, u) of the mean over each support set; zeros for an empty set.
    """

    X: Tensor
    lists: Lists
    items: Tensor
    pool: Tensor

    def part(self, rows: slice) -> Batch:
        """Return the lists that a slice selects."""
        old = self.lists
        lists = Lists(
            old.order,
            old.mask[rows],
            old.target[rows],
            old.total[rows],
            None if old.first is None else old.first[rows],
            None if old.last is None else old.last[rows],
        )
        return Batch(self.X[rows], lists, self.items[rows], self.pool[rows])


class Corpus:
    """Source tasks in one table, from which lists are drawn.

    A list is drawn by choosing a task and then trials of it without replacement (Deep Ranking
    Ensembles, Khazi et al., 2023, algorithm 1). The probability of a task is proportional to its
    number of trials, up to the list size. With equal probabilities, each trial of a study with
    ten trials would count ten times as much as a trial of a study with a hundred.

    Args:
        tasks: Source tasks. Only tasks with at least three trials and different losses are used.
        loss: Ranking loss of the training.
        list_size: Largest number of trials in a list; smaller tasks give shorter lists.
        support: Largest size of a support set, and never more than half of a task. Sizes from 0
            to the largest are drawn. Small sizes are more frequent, because every study starts
            with few trials.
        seed: Seed of all draws; a draw depends only on the seed and the step number.
        dtype: Data type of the table.

    Attributes:
        tasks: Source tasks that are used.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        loss: RankingLoss,
        *,
        list_size: int,
        support: int,
        seed: int,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.tasks = [t for t in tasks if len(t) > 2 and np.unique(t.losses).size > 1]
        self._loss, self._seed = loss, seed
        self._sizes = np.array([len(t) for t in self.tasks], dtype=int)
        self._starts = np.concatenate([[0], np.cumsum(self._sizes)[:-1]]).astype(int)
        largest = int(self._sizes.max(initial=0))
        self._list_size, self._support = min(list_size, largest), min(support, largest // 2)
        if self.tasks:
            rows = np.concatenate([t.X for t in self.tasks])
            self._X = torch.as_tensor(rows, dtype=dtype)
            y = np.concatenate([targets(t.losses, loss) for t in self.tasks])
            self._y = torch.as_tensor(y, dtype=dtype)
        share = np.minimum(self._sizes, list_size).astype(float)
        self._share = share / share.sum() if len(share) else share
        self._shuffled = -1

    def __len__(self) -> int:
        return len(self.tasks)

    def draw(self, lists: int, step: int) -> Batch:
        """Draw `lists` lists for the training step with number `step`."""
        rng = np.random.default_rng([self._seed, 0, step])
        self._shuffle(step // _SHUFFLE_EVERY)
        return self._batch(rng.choice(len(self), size=lists, p=self._share), rng)

    def draw_evenly(self, lists: int) -> Batch:
        """Draw `lists` lists of every task for validation; every call gives the same lists."""
        rng = np.random.default_rng([self._seed, 1])
        self._shuffle(0)
        return self._batch(np.repeat(np.arange(len(self)), lists), rng)

    def _shuffle(self, period: int) -> None:
        """Permute the trials within each task; the permutation depends on seed and period."""
        if period != self._shuffled:
            rng = np.random.default_rng([self._seed, 2, period])
            self._permuted = np.concatenate(
                [s + rng.permutation(n) for s, n in zip(self._starts, self._sizes, strict=True)]
            )
            self._shuffled = period

    def _batch(self, tasks: Counts, rng: np.random.Generator) -> Batch:
        """Draw one list and one support set of each of the tasks with the given indices (B,)."""
        sizes, starts = self._sizes[tasks], self._starts[tasks]
        seen = np.minimum(self._support, sizes // 2)
        seen = np.floor(rng.random(len(tasks)) ** 2 * (seen + 1)).astype(int)
        ranked = np.minimum(self._list_size, sizes - seen)
        offsets = rng.integers(sizes)

        def rows(first: Counts, count: Counts, width: int) -> tuple[Tensor, Tensor]:
            """Return row indices (B, width) of the table and their mask (B, width).

            Args:
                first: Start of each window (B,), relative to its random offset.
                count: Number of rows of each window (B,); the mask is False after them.
                width: Number of columns of the result.
            """
            j = np.arange(width)
            place = (offsets[:, None] + first[:, None] + j) % sizes[:, None]
            index = self._permuted[starts[:, None] + place]
            return torch.as_tensor(index), torch.as_tensor(j < count[:, None])

        query, mask = rows(seen, ranked, self._list_size)
        y = self._y[query].masked_fill_(~mask, torch.inf)
        order = torch.from_numpy(np.argsort(y.numpy(), axis=1))  # NumPy sorts short rows faster
        y, query = y.gather(1, order), query.gather(1, order)  # padding stays last: y is infinite
        support, known = rows(np.zeros_like(seen), seen, max(1, self._support))
        ranks = _masked_ranks(self._y[support], known)
        items = torch.cat([self._X[support], ranks.unsqueeze(-1)], dim=-1)
        weight = known.to(items.dtype) / torch.as_tensor(np.maximum(seen, 1))[:, None]
        lists = self._loss.prepare_sorted(y, mask)
        X = self._X.index_select(0, query.view(-1)).view(*query.shape, -1)
        return Batch(X, lists, items, weight.to(items.dtype).unsqueeze(1))


def _masked_ranks(y: Tensor, mask: Tensor) -> Tensor:
    """Return the ranks of y (B, u) within each row, scaled to [-1, 1].

    Args:
        y: Values (B, u).
        mask: False at padding (B, u), which is ignored and gets rank 0.
    """
    n = mask.sum(-1, keepdim=True).clamp_min(1)
    rank = torch.from_numpy(rankdata(y.masked_fill(~mask, torch.inf).numpy(), axis=1))
    return ((rank - (n + 1) / 2) / (n / 2)).to(y.dtype).masked_fill_(~mask, 0.0)
