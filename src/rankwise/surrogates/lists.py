"""Drawing lists from past tasks: what an ensemble of scorers is meta-trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from rankwise.losses import Lists, RankingLoss
from rankwise.surrogates.tuning import targets
from rankwise.task import Task
from rankwise.types import Counts

_SHUFFLE_EVERY = 20  # steps; lists of one shuffle are windows of the same permutation


@dataclass(frozen=True)
class Batch:
    """B lists to rank, each with a support set of the same task that it does not overlap.

    Attributes:
        X: configurations (B, n, d), best first.
        lists: their order.
        items: the support sets (B, u, d + 1): configurations and ranks within [-1, 1].
        pool: weights (B, 1, u) of the mean over each support set, zeros for an empty one.
    """

    X: Tensor
    lists: Lists
    items: Tensor
    pool: Tensor

    def part(self, rows: slice) -> Batch:
        """Some of the lists."""
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
    """Past tasks in one table, from which lists are drawn.

    A list is drawn by drawing a task and then, without replacement, evaluations of it (paper,
    algorithm 1). A task is drawn with a probability that grows with its size up to the size of
    a list: a study of ten trials says less than one of a hundred, and drawn as often, each of
    its evaluations would count ten times as much.

    Args:
        tasks: only those with an order to be learnt are used: at least three evaluations, not
            all equal.
        loss: that will be trained with.
        list_size: evaluations to be ranked in a list; shorter where a task has fewer.
        support: largest size of a support set. Sizes from none to this are drawn, small ones
            more often, because at the start of a study there is little to see.
        seed: of all draws, which depend on the seed and the step alone.
        dtype: of the numbers.
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
        """So many lists for a training step."""
        rng = np.random.default_rng([self._seed, 0, step])
        self._shuffle(step // _SHUFFLE_EVERY)
        return self._batch(rng.choice(len(self), size=lists, p=self._share), rng)

    def draw_evenly(self, lists: int) -> Batch:
        """So many lists of every task, always the same: for validation."""
        rng = np.random.default_rng([self._seed, 1])
        self._shuffle(0)
        return self._batch(np.repeat(np.arange(len(self)), lists), rng)

    def _shuffle(self, period: int) -> None:
        if period != self._shuffled:
            rng = np.random.default_rng([self._seed, 2, period])
            self._permuted = np.concatenate(
                [s + rng.permutation(n) for s, n in zip(self._starts, self._sizes, strict=True)]
            )
            self._shuffled = period

    def _batch(self, tasks: Counts, rng: np.random.Generator) -> Batch:
        """One list of each of the given tasks (B,)."""
        sizes, starts = self._sizes[tasks], self._starts[tasks]
        seen = np.minimum(self._support, sizes // 2)
        seen = np.floor(rng.random(len(tasks)) ** 2 * (seen + 1)).astype(int)
        ranked = np.minimum(self._list_size, sizes - seen)
        offsets = rng.integers(sizes)

        def rows(first: Counts, count: Counts, width: int) -> tuple[Tensor, Tensor]:
            """Rows (B, width) of the table, and which of them are meant."""
            j = np.arange(width)
            place = (offsets[:, None] + first[:, None] + j) % sizes[:, None]
            index = self._permuted[starts[:, None] + place]
            return torch.as_tensor(index), torch.as_tensor(j < count[:, None])

        query, mask = rows(seen, ranked, self._list_size)
        y = self._y[query].masked_fill_(~mask, torch.inf)
        order = torch.from_numpy(np.argsort(y.numpy(), axis=1))  # NumPy sorts short rows faster
        y, query = y.gather(1, order), query.gather(1, order)  # padding was last and stays last
        support, known = rows(np.zeros_like(seen), seen, max(1, self._support))
        ranks = _masked_ranks(self._y[support], known)
        items = torch.cat([self._X[support], ranks.unsqueeze(-1)], dim=-1)
        weight = known.to(items.dtype) / torch.as_tensor(np.maximum(seen, 1))[:, None]
        lists = self._loss.prepare_sorted(y, mask)
        X = self._X.index_select(0, query.view(-1)).view(*query.shape, -1)
        return Batch(X, lists, items, weight.to(items.dtype).unsqueeze(1))


def _masked_ranks(y: Tensor, mask: Tensor) -> Tensor:
    """Ranks within [-1, 1] of y (B, u) among those of its row that are meant (B, u)."""
    n = mask.sum(-1, keepdim=True).clamp_min(1)
    rank = torch.from_numpy(rankdata(y.masked_fill(~mask, torch.inf).numpy(), axis=1))
    return ((rank - (n + 1) / 2) / (n / 2)).to(y.dtype).masked_fill_(~mask, 0.0)
