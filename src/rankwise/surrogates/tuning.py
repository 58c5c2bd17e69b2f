"""Fine-tuning: an ensemble of scorers learns the order of the observations of one task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from rankwise.losses import Lists, RankingLoss
from rankwise.surrogates.nets import Adam, Architecture, Buffers, Scorers, cosine
from rankwise.types import Array

_BLOCK = 50  # epochs whose random subsets are drawn at once


@dataclass(frozen=True)
class Observations:
    """The observations of a task, best first, as the networks see them.

    Attributes:
        X: configurations (N, d).
        y: (N,) ascending: dense ranks for a loss that only looks at the order, else losses.
        items: configurations and ranks within [-1, 1] (N, d + 1): what the Deep Set sees.
    """

    X: Tensor
    y: Tensor
    items: Tensor

    @classmethod
    def of(cls, X: Array, losses: Array, loss: RankingLoss, dtype: torch.dtype) -> Observations:
        """Sort X (N, d) by its losses (N,)."""
        order = np.argsort(losses, kind="stable")
        X, losses = X[order], losses[order]
        columns = torch.as_tensor(X, dtype=dtype)
        ranks = torch.as_tensor(scaled_ranks(losses), dtype=dtype)
        items = torch.cat([columns, ranks[:, None]], dim=1)
        return cls(columns, torch.as_tensor(targets(losses, loss), dtype=dtype), items)

    def __len__(self) -> int:
        return len(self.y)


def targets(losses: Array, loss: RankingLoss) -> Array:
    """What a loss is told about losses (N,): dense ranks, or standardised values.

    Ranks keep apart in single precision what is different at all, whatever the scale.
    """
    if loss.ordinal:
        ranks: Array = np.unique(losses, return_inverse=True)[1].astype(float)
        return ranks
    if not len(losses):
        return losses
    largest = np.max(np.abs(losses))
    scaled = losses / largest if largest > 0 else losses  # no overflow in what follows
    spread = float(np.std(scaled))
    centred: Array = scaled - np.mean(scaled)
    return centred / spread if spread > 0 else centred


def scaled_ranks(losses: Array) -> Array:
    """Ranks of losses (..., N) within [-1, 1], the smallest first, equal ones at their mean."""
    n = losses.shape[-1]
    if n == 0:
        return losses
    ranks: Array = (rankdata(losses, axis=-1) - (n + 1) / 2) / (n / 2)
    return ranks


@dataclass(frozen=True)
class Tuning:
    """How observations are learnt.

    Attributes:
        epochs: steps of Adam on all observations.
        rate: the first learning rate, annealed to zero along half a cosine.
        support: the part of the observations that each scorer sees through the Deep Set at
            each step, the others being the list it ranks; with 0 both see all of them.
        patience: end early when for so many steps in a row every scorer has had the
            `top` best observations in their right order; 0: never.
        top: see `patience`.
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
    """Weights (size,) after learning the observations, and the number of epochs it took.

    Args:
        architecture: of the ensemble.
        start: weights (size,) to begin with; they are left as they are.
        observations: at least two.
        loss: to be minimised.
        tuning: how.
        generator: draws the support sets.
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
        learnt = _Learnt(observations.y, tuning)
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
            if learnt(scores):
                break
    return weights.clone(), done


class _Learnt:
    """Whether every scorer has had the best observations in order for a while."""

    def __init__(self, y: Tensor, tuning: Tuning) -> None:
        self._patience = tuning.patience
        self._steps = 0
        top = min(tuning.top, len(y))
        # Each of the best must score above the next worse one; ties must not.
        better = y[:top, None] < y[None, :]
        self._rows, self._columns = torch.nonzero(better, as_tuple=True)

    def __call__(self, scores: Tensor) -> bool:
        """Whether it is time to stop, after one more step with scores (M, N)."""
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
    """For every epoch the lists (M, N) to rank and the pooling weights (1, M, N) of the Deep Set.

    A scorer's support and list are disjoint. With fewer than five observations there are too
    few to divide: the Deep Set sees the empty set and the list is complete.
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
        # As many positions of a permutation are below `size`. NumPy sorts short rows faster.
        query = torch.from_numpy(np.argsort(keys.numpy(), axis=-1) >= size)
        lists = loss.prepare_sorted(observations.y, query)
        pools = (~query).to(observations.X.dtype) / size
        for k in range(block):
            yield (
                replace(lists, mask=lists.mask[k], target=lists.target[k], total=lists.total[k]),
                pools[k : k + 1],
            )
