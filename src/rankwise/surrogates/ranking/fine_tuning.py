"""Fine-tuning of an ensemble of scorers on the order of one task's trials."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from rankwise.surrogates.numeric.batched_networks import (
    Adam,
    Architecture,
    Buffers,
    Scorers,
    cosine,
)
from rankwise.surrogates.ranking.losses import Lists, RankingLoss
from rankwise.types import Array

_BLOCK = 50  # number of epochs for which random subsets are drawn at once


@dataclass(frozen=True)
class Observations:
    """Trials of a task as tensors, sorted by loss with the best first.

    Attributes:
        X: Configurations (N, d).
        y: Training targets (N,), ascending; see `targets`.
        items: Inputs of the Deep Set (N, d + 1): each configuration and its rank in [-1, 1].
    """

    X: Tensor
    y: Tensor
    items: Tensor

    @classmethod
    def of(cls, X: Array, losses: Array, loss: RankingLoss, dtype: torch.dtype) -> Observations:
        """Sort configurations X (N, d) by their losses (N,) and convert them.

        Args:
            X: Configurations (N, d).
            losses: Losses (N,).
            loss: Ranking loss, which decides what `y` contains.
            dtype: Data type of the tensors.
        """
        order = np.argsort(losses, kind="stable")
        X, losses = X[order], losses[order]
        columns = torch.as_tensor(X, dtype=dtype)
        ranks = torch.as_tensor(scaled_ranks(losses), dtype=dtype)
        items = torch.cat([columns, ranks[:, None]], dim=1)
        return cls(columns, torch.as_tensor(targets(losses, loss), dtype=dtype), items)

    def __len__(self) -> int:
        return len(self.y)


def targets(losses: Array, loss: RankingLoss) -> Array:
    """Convert losses (N,) of a task to the targets (N,) of a ranking loss.

    Targets are dense ranks for a loss that depends on the order only, and standardized losses
    otherwise. Ranks stay distinct in float32 even where two losses differ by less than its
    precision.
    """
    if loss.ordinal:
        ranks: Array = np.unique(losses, return_inverse=True)[1].astype(float)
        return ranks
    if not len(losses):
        return losses
    largest = np.max(np.abs(losses))
    scaled = losses / largest if largest > 0 else losses  # squares of huge losses would overflow
    spread = float(np.std(scaled))
    centred: Array = scaled - np.mean(scaled)
    return centred / spread if spread > 0 else centred


def scaled_ranks(losses: Array) -> Array:
    """Return the ranks of losses (..., N), scaled to [-1, 1].

    The smallest loss has the smallest rank. Equal losses get the mean of their ranks.
    """
    n = losses.shape[-1]
    if n == 0:
        return losses
    ranks: Array = (rankdata(losses, axis=-1) - (n + 1) / 2) / (n / 2)
    return ranks


@dataclass(frozen=True)
class Tuning:
    """Settings of fine-tuning.

    Attributes:
        epochs: Number of steps of Adam.
        rate: Initial learning rate, annealed to zero along half a cosine.
        support: Share of the trials that the Deep Set encodes for each scorer at each step; the
            scorer ranks the others. With 0, the Deep Set encodes all trials and the scorers rank
            all of them.
        patience: Stop early when every scorer has ranked the `top` best trials correctly for this
            many steps in a row; 0: no early stopping.
        top: Number of best trials that `patience` refers to.
    """

    epochs: int
    rate: float
    support: float = 0.2
    patience: int = 0
    top: int = 5


def fine_tune(
    architecture: Architecture,
    start: Tensor,
    observations: Observations,
    loss: RankingLoss,
    tuning: Tuning,
    generator: torch.Generator,
) -> tuple[Tensor, int]:
    """Fine-tune weights on the trials of a task.

    Args:
        architecture: Layer sizes of the ensemble.
        start: Initial weights (size,), not changed.
        observations: Trials of the task, at least two.
        loss: Ranking loss to minimize.
        tuning: Settings of the training.
        generator: Random numbers for the support sets.

    Returns:
        The new weights (size,) and the number of epochs.
    """
    with torch.inference_mode():
        weights = start.clone()
        gradient = torch.zeros_like(weights)
        parts, slopes = architecture.views(weights), architecture.views(gradient)
        M, N, d = architecture.members, len(observations), architecture.columns
        scorers = Scorers(parts, slopes, slice(None), Buffers(architecture, M, 1, N, start.dtype))
        contexts = architecture.context_network(parts, slopes)
        adam = Adam(weights, gradient)
        X = observations.X.expand(M, N, d).contiguous()
        items = observations.items[None]
        stopping = _EarlyStopping(observations.y, tuning)
        done = 0
        for lists, pool in _subsets(architecture, observations, loss, tuning, generator):
            gradient.zero_()
            z = None if contexts is None else contexts.forward(items, pool).view(M, 1, -1)
            scores = scorers.forward(X, z).view(M, N)
            slope = loss.gradient(scores, lists).div_(lists.total.unsqueeze(-1))
            dz = scorers.backward(slope)
            if contexts is not None and dz is not None:
                contexts.backward(dz.view(M, -1))
            adam.step(cosine(tuning.rate, done, tuning.epochs))
            done += 1
            if stopping(scores):
                break
    return weights.clone(), done


class _EarlyStopping:
    """Decides when every scorer has ranked the best trials correctly for long enough.

    Args:
        y: Targets (N,), ascending.
        tuning: Settings with `patience` and `top`.
    """

    def __init__(self, y: Tensor, tuning: Tuning) -> None:
        self._patience = tuning.patience
        self._steps = 0
        top = min(tuning.top, len(y))
        # Each of the best trials must score above every trial with a larger loss. The order of
        # tied trials does not matter.
        better = y[:top, None] < y[None, :]
        self._rows, self._columns = torch.nonzero(better, as_tuple=True)

    def __call__(self, scores: Tensor) -> bool:
        """Take the scores (M, N) of one more step into account; return True to stop."""
        if not self._patience:
            return False
        right = bool((scores[:, self._rows] > scores[:, self._columns]).all())
        self._steps = self._steps + 1 if right else 0
        return self._steps >= self._patience


def _subsets(
    architecture: Architecture,
    observations: Observations,
    loss: RankingLoss,
    tuning: Tuning,
    generator: torch.Generator,
) -> Iterator[tuple[Lists, Tensor]]:
    """Yield, for every epoch, the lists (M, N) to rank and the Deep Set's weights (1, M, N).

    The support set and the list of a scorer are disjoint. If support * N is below 1, there are too
    few trials to divide: the Deep Set encodes the empty set and the list contains all trials.
    """
    M, N = architecture.members, len(observations)
    size = int(tuning.support * N)
    if not architecture.context or not tuning.support or not size:
        share = 1.0 / N if architecture.context and not tuning.support else 0.0
        pool = torch.full((1, M, N), share, dtype=observations.X.dtype)
        lists = loss.prepare_sorted(observations.y, torch.ones((M, N), dtype=torch.bool))
        for _ in range(tuning.epochs):
            yield lists, pool
        return
    for begin in range(0, tuning.epochs, _BLOCK):
        block = min(_BLOCK, tuning.epochs - begin)
        keys = torch.rand((block, M, N), generator=generator)
        # Each row of argsort is a permutation, so exactly `size` of its entries are below `size`.
        # NumPy sorts short rows faster than PyTorch.
        query = torch.from_numpy(np.argsort(keys.numpy(), axis=-1) >= size)
        lists = loss.prepare_sorted(observations.y, query)
        pools = (~query).to(observations.X.dtype) / size
        for k in range(block):
            yield (
                replace(lists, mask=lists.mask[k], target=lists.target[k], total=lists.total[k]),
                pools[k : k + 1],
            )
