"""Losses for learning to rank, point-, pair- and listwise.

A scorer gives every item of a list a score, higher is better; a loss compares the order of the
scores with that of the true losses y, smaller is better. All losses here work on any number of
lists at once, whatever the leading shape (..., n): lists, batches of lists, those of each member
of an ensemble. Lists of different lengths are padded and masked.

**Ties are equals.** Items with the same y get the same position: their weights are averaged,
and none of them is taught to be above the other. For ListMLE each member of a tied group is
compared with the whole group and all that comes after (Breslow's rule for tied events); for
RankNet the target of a tied pair is one half. So the loss does not change when tied items
change places, and its gradient pulls their scores together.

**Gradients are written out.** `RankingLoss.value` can be differentiated by autograd;
`RankingLoss.gradient` is the same derivative in closed form, for training loops that do
without autograd. Range control, k tanh(alpha s), is part of a loss rather than of a network, so
that it limits what is learnt and never makes two scores equal.

Equation numbers: "paper" is Khazi et al., "Deep Ranking Ensembles for Hyperparameter
Optimization" (ICLR 2023); "thesis" is the master's thesis behind it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from rankwise.errors import OptionError, check_name

_PADDING = -1e30  # the score of what is not there: its exponential is zero, and it is finite
_SAFE_SPREAD = 60.0  # exponentials of scores this far apart are representable in float32


@dataclass(frozen=True)
class Lists:
    """Lists in their true order, and what a loss has to know about it.

    Attributes:
        order: (..., n) positions of the items in the lists as given, best first, padding last.
        mask: (..., n) ones, and zeros for the padding, in sorted order.
        target: what the scores are compared with, in sorted order: weights (..., n) of a
            listwise loss, wanted scores (..., n) of a pointwise one, wanted
            preferences (..., n, n) of a pairwise one.
        total: (...,) by which the loss of a list is divided to get a mean.
        first: (..., n) where the tied group of each item begins; None without ties.
        last: (..., n) where it ends.
    """

    order: Tensor
    mask: Tensor
    target: Tensor
    total: Tensor
    first: Tensor | None = None
    last: Tensor | None = None


class RankingLoss(ABC):
    """A loss of scores (..., n) against the order of y (..., n).

    Args:
        limit: k of the range control k tanh(alpha s) (thesis, eq. 4.2); None: none.
        slope: alpha; by default 1 / k, so that small scores stay as they are.
    """

    ordinal = True  # whether only the order of y matters, not its values

    def __init__(self, *, limit: float | None = None, slope: float | None = None) -> None:
        for name, value in (("limit", limit), ("slope", slope)):
            if value is not None and not value > 0:
                raise OptionError(f"{name} must be positive or None, not {value!r}")
        if slope is not None and limit is None:
            raise OptionError("a slope without a limit means nothing: give both, or none")
        self.limit = limit
        self.slope = slope if slope is not None or limit is None else 1.0 / limit

    @property
    def description(self) -> dict[str, object]:
        """What identifies the loss, for records."""
        return {"name": type(self).__name__, **vars(self)}

    def __call__(self, scores: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """The loss (...,) of every list; differentiable.

        Args:
            scores: (..., n), higher is better.
            y: (..., n), smaller is better.
            mask: (..., n), false where there is no item; by default all are items.
        """
        lists = self.prepare(y, mask)
        return self.value(scores.gather(-1, lists.order.expand(scores.shape)), lists)

    def prepare(self, y: Tensor, mask: Tensor | None = None) -> Lists:
        """Sort lists y (..., n) once for many evaluations of the loss."""
        if y.shape[-1] == 0:
            raise OptionError("a list to be ranked must have items")
        items = torch.ones_like(y, dtype=torch.bool) if mask is None else mask.expand(y.shape)
        padded = y.masked_fill(~items, torch.inf)
        order = torch.argsort(padded, dim=-1, stable=True)
        return self.prepare_sorted(padded.gather(-1, order), items.gather(-1, order), order)

    def prepare_sorted(self, y: Tensor, mask: Tensor, order: Tensor | None = None) -> Lists:
        """The same for y (n,) or (..., n) that is sorted already, with gaps anywhere.

        Args:
            y: smallest first.
            mask: (..., n), false where an item does not belong to the list.
            order: what `Lists` is to say about the order before sorting; by default there
                was no other.
        """
        kept = mask.to(y.dtype)
        first, last = _tied_groups(y)
        order = torch.arange(y.shape[-1]) if order is None else order
        lists = Lists(order, kept, kept, kept.sum(-1), first, last)
        target, total = self._target(y.expand(kept.shape), lists)
        return replace(lists, target=target, total=total.clamp_min(torch.finfo(y.dtype).tiny))

    def value(self, scores: Tensor, lists: Lists) -> Tensor:
        """The loss (...,) of scores (..., n) in sorted order; differentiable."""
        return self._value(self.controlled(scores), lists)

    def gradient(self, scores: Tensor, lists: Lists) -> Tensor:
        """The derivative (..., n) of the sum of `value` by scores (..., n) in sorted order."""
        if self.limit is None or self.slope is None:
            return self._gradient(scores, lists)
        unit = torch.tanh(scores * self.slope)
        inner = self._gradient(unit * self.limit, lists)
        return inner.mul_(unit.square_().neg_().add_(1.0).mul_(self.limit * self.slope))

    def controlled(self, scores: Tensor) -> Tensor:
        """Scores after range control."""
        if self.limit is None or self.slope is None:
            return scores
        return range_control(scores, self.limit, self.slope)

    @abstractmethod
    def _target(self, y: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
        """Target and total of `Lists`, from sorted losses y (..., n), infinite where padded."""

    @abstractmethod
    def _value(self, scores: Tensor, lists: Lists) -> Tensor: ...

    @abstractmethod
    def _gradient(self, scores: Tensor, lists: Lists) -> Tensor: ...


def range_control(scores: Tensor, k: float, alpha: float) -> Tensor:
    """k tanh(alpha s), within [-k, k] (thesis, eq. 4.2)."""
    return k * torch.tanh(alpha * scores)


# ---------------------------------------------------------------------- listwise


class ListMLE(RankingLoss):
    """Minus the log-likelihood of the true order under the Plackett-Luce model, weighted.

    -sum_i w(i) [s(i) - log sum_{j >= i} exp s(j)], best first (paper, eq. 1; thesis, eq. 4.5), in
    O(n log n) by cumulative sums, without overflow for any finite scores.

    Args:
        weighting: of the positions: "none", "inverse-log" 1 / log(i + 1), "inverse-linear"
            1 / i, "attention" (n - i + 1) / sum_t t, or "position-aware" 2^(n - i) - 1 scaled
            to a sum of one (Lan et al., 2014).
        limit: see `RankingLoss`.
        slope: see `RankingLoss`.
    """

    def __init__(
        self,
        weighting: str = "inverse-log",
        *,
        limit: float | None = None,
        slope: float | None = None,
    ) -> None:
        super().__init__(limit=limit, slope=slope)
        self.weighting = check_name("weighting", weighting, WEIGHTINGS)

    def _target(self, y: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
        position = lists.mask.cumsum(-1).clamp_min(1.0)
        weights = WEIGHTINGS[self.weighting](position, lists.mask.sum(-1, keepdim=True))
        weights = _group_mean(weights, lists)
        return weights, weights.sum(-1)

    def _value(self, scores: Tensor, lists: Lists) -> Tensor:
        scores = scores.masked_fill(lists.mask == 0, _PADDING)
        behind = _at(_reversed_log_cumsum(scores), lists.first)
        return (lists.target * (behind - scores)).sum(-1)

    def _gradient(self, scores: Tensor, lists: Lists) -> Tensor:
        if self.limit is not None and 2 * self.limit <= _SAFE_SPREAD:
            return self._limited_gradient(scores, lists)
        scores = scores.masked_fill(lists.mask == 0, _PADDING)
        behind = _at(_reversed_log_cumsum(scores), lists.first)
        passed = torch.logcumsumexp(lists.target.log() - behind, dim=-1)
        return torch.exp(scores + _at(passed, lists.last)) - lists.target

    def _limited_gradient(self, scores: Tensor, lists: Lists) -> Tensor:
        """The same for scores that are known to be close together: no logarithms needed."""
        power = torch.exp(scores).mul_(lists.mask)
        behind = _at(torch.cumsum(power.flip(-1), dim=-1).flip(-1), lists.first)
        # Behind the last item of a list there is only padding: 0 / 0 is meant to be 0.
        share = lists.target / behind.clamp_min_(torch.finfo(scores.dtype).tiny)
        return power.mul_(_at(torch.cumsum(share, dim=-1), lists.last)).sub_(lists.target)


class ListNet(RankingLoss):
    """Cross entropy of the two distributions of the best item (Cao et al., 2007).

    The softmax of the scores against that of -y, standardised within each list.
    """

    ordinal = False

    def _target(self, y: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
        wanted = -_standardized(y, lists.mask).masked_fill(lists.mask == 0, -_PADDING)
        target = torch.softmax(wanted, dim=-1)
        return target, target.sum(-1)

    def _value(self, scores: Tensor, lists: Lists) -> Tensor:
        scores = scores.masked_fill(lists.mask == 0, _PADDING)
        log_share = torch.log_softmax(scores, dim=-1)
        return -(lists.target * log_share).masked_fill(lists.mask == 0, 0.0).sum(-1)

    def _gradient(self, scores: Tensor, lists: Lists) -> Tensor:
        scores = scores.masked_fill(lists.mask == 0, _PADDING)
        return torch.softmax(scores, dim=-1) - lists.target


# ---------------------------------------------------------------------- pair- and pointwise


class RankNet(RankingLoss):
    """Logistic loss of every pair (Burges et al., 2005); O(n^2) in time and memory."""

    def _target(self, y: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
        here, there = y[..., :, None], y[..., None, :]
        better = (here < there).to(y.dtype) + 0.5 * (here == there)
        n = lists.mask.sum(-1)
        return better, n * (n - 1) / 2

    def _value(self, scores: Tensor, lists: Lists) -> Tensor:
        wanted = self._pairs(lists) * lists.target
        return -(wanted * logsigmoid(self._gaps(scores, lists))).sum((-1, -2))

    def _gradient(self, scores: Tensor, lists: Lists) -> Tensor:
        above = torch.sigmoid(self._gaps(scores, lists))
        return (self._pairs(lists) * (above - lists.target)).sum(-1)

    def _gaps(self, scores: Tensor, lists: Lists) -> Tensor:
        scores = scores.masked_fill(lists.mask == 0, 0.0)
        return scores[..., :, None] - scores[..., None, :]

    def _pairs(self, lists: Lists) -> Tensor:
        """Ones (..., n, n) for two different items, zero for an item and itself or padding."""
        pairs = lists.mask[..., :, None] * lists.mask[..., None, :]
        return pairs * (1.0 - torch.eye(pairs.shape[-1], dtype=pairs.dtype))


class _Squared(RankingLoss):
    """Half the squared distance to wanted scores."""

    def _value(self, scores: Tensor, lists: Lists) -> Tensor:
        return 0.5 * (scores - lists.target).masked_fill(lists.mask == 0, 0.0).square().sum(-1)

    def _gradient(self, scores: Tensor, lists: Lists) -> Tensor:
        return lists.mask * (scores - lists.target)


class Pointwise(_Squared):
    """Regression on ranks: the best is wanted at 1, the worst at -1, tied ones at their mean."""

    def _target(self, y: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
        position = lists.mask.cumsum(-1) - 1.0
        n = lists.mask.sum(-1, keepdim=True)
        wanted = 1.0 - 2.0 * _group_mean(position, lists) / (n - 1).clamp_min(1.0)
        return wanted * lists.mask, lists.mask.sum(-1)


class MeanSquaredError(_Squared):
    """Regression on -y, standardised within each list: the reference that does not rank."""

    ordinal = False

    def _target(self, y: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
        return -_standardized(y, lists.mask), lists.mask.sum(-1)


def gaussian_nll(
    mean: Tensor, log_variance: Tensor, y: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Minus the Gaussian log-likelihood (...,) of y (..., n), without its constant.

    Args:
        mean: predicted (..., n).
        log_variance: predicted (..., n).
        y: observed (..., n).
        mask: (..., n), false where there is no item.
    """
    gap = y - mean
    if mask is not None:  # before the squares and exponentials, whose overflow would stay
        gap, log_variance = gap.masked_fill(~mask, 0.0), log_variance.masked_fill(~mask, 0.0)
    return 0.5 * (log_variance + gap.square() * torch.exp(-log_variance)).sum(-1)


# ---------------------------------------------------------------------- the tables

WEIGHTINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "none": lambda i, n: torch.ones_like(i),
    "inverse-log": lambda i, n: 1.0 / torch.log(i + 1.0),
    "inverse-linear": lambda i, n: 1.0 / i,
    "attention": lambda i, n: (n - i + 1.0) / (n * (n + 1.0) / 2.0).clamp_min(1.0),
    # 2^(n - i) - 1 over its sum, 2^n - 1 - n, with both divided by 2^n
    "position-aware": lambda i, n: (
        (torch.exp2(-i) - torch.exp2(-n)).clamp_min(0.0)
        / (1.0 - (1.0 + n) * torch.exp2(-n)).clamp_min(torch.finfo(i.dtype).tiny)
    ),
}
"""Weights (..., n) by position i = 1, 2, ... (..., n) and length of the list (..., 1)."""

LOSSES: dict[str, type[RankingLoss]] = {
    "listmle": ListMLE,
    "listnet": ListNet,
    "ranknet": RankNet,
    "pointwise": Pointwise,
    "mse": MeanSquaredError,
}


def make_loss(
    name: str = "listmle", *, weighting: str = "inverse-log", limit: float | None = None
) -> RankingLoss:
    """The loss of that name.

    Args:
        name: one of `LOSSES`.
        weighting: of the positions, for "listmle": one of `WEIGHTINGS`.
        limit: of the range of the scores; see `RankingLoss`.
    """
    check_name("loss", name, LOSSES)
    if name == "listmle":
        return ListMLE(weighting, limit=limit)
    return LOSSES[name](limit=limit)


# ---------------------------------------------------------------------- helpers


def _reversed_log_cumsum(scores: Tensor) -> Tensor:
    """log sum_{j >= i} exp s(j) at every i, over the last axis."""
    return torch.logcumsumexp(scores.flip(-1), dim=-1).flip(-1)


def _at(values: Tensor, index: Tensor | None) -> Tensor:
    """Values (..., n) at positions (..., n) of the last axis; None: as they are."""
    return values if index is None else values.gather(-1, index.expand(values.shape))


def _tied_groups(y: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Where the group of equal values begins and ends, for each of sorted y (..., n)."""
    change = y[..., 1:] != y[..., :-1]
    if bool(change.all()):
        return None, None
    n, edge = y.shape[-1], torch.ones_like(y[..., :1], dtype=torch.bool)
    position = torch.arange(n).expand(y.shape)
    begins, ends = torch.cat([edge, change], -1), torch.cat([change, edge], -1)
    first = torch.where(begins, position, 0).cummax(-1).values
    last = torch.where(ends, position, n - 1).flip(-1).cummin(-1).values.flip(-1)
    return first, last


def _group_mean(values: Tensor, lists: Lists) -> Tensor:
    """Values (..., n) averaged over the items of each tied group, zero where there is none."""
    values = values * lists.mask
    if lists.first is None:
        return values
    first = lists.first.expand(values.shape)
    zero = torch.zeros_like(values)
    sums, items = (zero.scatter_add(-1, first, v) for v in (values, lists.mask))
    return (sums / items.clamp_min(1.0)).gather(-1, first) * lists.mask


def _standardized(y: Tensor, mask: Tensor) -> Tensor:
    """Losses (..., n) with mean 0 and variance 1 over each list, 0 where padded."""
    # Distances to the best are exact where all are equal; those to a rounded mean are not.
    best = y.masked_fill(mask == 0, torch.inf).amin(-1, keepdim=True)
    y = (y - best).masked_fill(mask == 0, 0.0)
    n = mask.sum(-1, keepdim=True).clamp_min(1.0)
    y = (y - y.sum(-1, keepdim=True) / n) * mask
    scale = (y.square().sum(-1, keepdim=True) / n).sqrt()
    return y / torch.where(scale > 0, scale, 1.0)
