"""Pointwise, pairwise and listwise losses for learning to rank.

A scorer assigns a score to every item of a list; higher is better. A ranking loss compares the
order of the scores with the order of the true losses y; smaller is better. All ranking losses
accept any leading shape (..., n), for example lists, batches of lists, or batches of lists of each
member of an ensemble. Lists of different lengths are padded and masked.

**Ties.** Items with the same y get the same position: their weights are averaged, and no order
between them is trained. In ListMLE each item of a tied group is compared with the whole group and
all items after it (Breslow's rule for tied events). In RankNet the target of a tied pair is 0.5.
So the loss does not change when tied items are exchanged, and its gradient moves their scores
towards each other.

**Gradients.** `RankingLoss.value` can be differentiated by autograd. `RankingLoss.gradient` is the
same derivative in closed form, for training loops without autograd. Range control,
k tanh(alpha s), is applied inside the loss and not in the network: it limits the scores during
training, and cannot make two predicted scores equal.

Equation numbers: "paper" is Khazi et al., "Deep Ranking Ensembles for Hyperparameter
Optimization" (ICLR 2023); "thesis" is Khazi's master's thesis on the same method.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rankwise._core.extras import LazyModule
from rankwise.errors import OptionError, check_name

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:  # names and options can be checked without PyTorch
    torch = LazyModule("torch", "a ranking loss", "neural")

_PADDING = -1e30  # score of padding: finite, and its exponential is zero
_SAFE_SPREAD = 60.0  # largest range of scores whose exponentials float32 can represent safely


@dataclass(frozen=True)
class Lists:
    """Lists in their true order, with everything that a ranking loss precomputes.

    "Sorted order" means: best item first. Padding comes last after `prepare`, and may be anywhere
    after `prepare_sorted`.

    Attributes:
        order: Index (..., n) of each sorted item in the list as given.
        mask: 1 for items and 0 for padding (..., n), in sorted order.
        target: Targets in sorted order: position weights (..., n) for ListMLE, probabilities
            (..., n) for ListNet, target scores (..., n) for a pointwise loss, preference
            probabilities (..., n, n) for a pairwise loss, permutations (..., n, n) for NeuralSort.
        total: Divisor (...,) that turns the loss of a list into a mean.
        first: Position (..., n) at which the tied group of each item begins; None without ties.
        last: Position (..., n) at which the tied group of each item ends; None without ties.
    """

    order: Tensor
    mask: Tensor
    target: Tensor
    total: Tensor
    first: Tensor | None = None
    last: Tensor | None = None


class RankingLoss(ABC):
    """Loss of scores (..., n) that depends on the true losses y (..., n).

    Args:
        limit: k of the range control k tanh(alpha s) (thesis, eq. 4.2); None: no range control.
        slope: alpha of the range control; by default 1 / k, which leaves small scores unchanged.
    """

    ordinal = True  # True if the loss depends only on the order of y, not on its values

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
        """Name and options of the loss; identifies it in the digest of a checkpoint."""
        return {"name": type(self).__name__, **vars(self)}

    def __call__(self, scores: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Compute the loss (...,) of every list; differentiable by autograd.

        Args:
            scores: Scores (..., n); higher is better.
            y: True losses (..., n); smaller is better.
            mask: False at padding (..., n); by default there is no padding.
        """
        lists = self.prepare(y, mask)
        return self.value(scores.gather(-1, lists.order.expand(scores.shape)), lists)

    def prepare(self, y: Tensor, mask: Tensor | None = None) -> Lists:
        """Sort lists and precompute targets, once for many evaluations of the loss.

        Args:
            y: True losses (..., n).
            mask: False at padding (..., n); by default there is no padding.
        """
        if y.shape[-1] == 0:
            raise OptionError("a list to be ranked must have items")
        items = torch.ones_like(y, dtype=torch.bool) if mask is None else mask.expand(y.shape)
        padded = y.masked_fill(~items, torch.inf)
        order = torch.argsort(padded, dim=-1, stable=True)
        return self.prepare_sorted(padded.gather(-1, order), items.gather(-1, order), order)

    def prepare_sorted(self, y: Tensor, mask: Tensor, order: Tensor | None = None) -> Lists:
        """Precompute targets as `prepare` does, for lists that are already sorted.

        Args:
            y: True losses (n,) or (..., n), ascending.
            mask: False where an item does not belong to the list (..., n); may be anywhere.
            order: Value of `Lists.order`; by default 0, 1, ..., n - 1.
        """
        kept = mask.to(y.dtype)
        first, last = _tied_groups(y)
        order = torch.arange(y.shape[-1]) if order is None else order
        lists = Lists(order, kept, kept, kept.sum(-1), first, last)
        target, total = self._target(y.expand(kept.shape), lists)
        return replace(lists, target=target, total=total.clamp_min(torch.finfo(y.dtype).tiny))

    def value(self, scores: Tensor, lists: Lists) -> Tensor:
        """Compute the loss (...,) of scores (..., n) in sorted order; differentiable by autograd.

        It is the sum over the items or pairs of each list; divide by `lists.total` for the mean.
        """
        return self._value(self.controlled(scores), lists)

    def gradient(self, scores: Tensor, lists: Lists) -> Tensor:
        """Compute the derivative (..., n) of `value` by scores (..., n) in sorted order."""
        if self.limit is None or self.slope is None:
            return self._gradient(scores, lists)
        unit = torch.tanh(scores * self.slope)
        inner = self._gradient(unit * self.limit, lists)
        return inner.mul_(unit.square_().neg_().add_(1.0).mul_(self.limit * self.slope))

    def controlled(self, scores: Tensor) -> Tensor:
        """Apply range control to scores (..., n)."""
        if self.limit is None or self.slope is None:
            return scores
        return range_control(scores, self.limit, self.slope)

    @abstractmethod
    def _target(self, y: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
        """Compute `Lists.target` and `Lists.total` from sorted true losses y (..., n).

        After `prepare`, y is infinite at padding.
        """

    @abstractmethod
    def _value(self, scores: Tensor, lists: Lists) -> Tensor:
        """Compute the loss (...,) of scores (..., n) after range control."""

    @abstractmethod
    def _gradient(self, scores: Tensor, lists: Lists) -> Tensor:
        """Compute the derivative (..., n) of `_value` by scores (..., n) after range control."""


def range_control(scores: Tensor, k: float, alpha: float) -> Tensor:
    """Limit scores s to [-k, k] by k tanh(alpha s), elementwise (thesis, eq. 4.2)."""
    return k * torch.tanh(alpha * scores)


# ---------------------------------------------------------------------- listwise


class ListMLE(RankingLoss):
    """Weighted negative log likelihood of the true order under the Plackett-Luce model.

    The loss is -sum_i w(i) [s(i) - log sum_{j >= i} exp s(j)], with the best item first (paper,
    eq. 1; thesis, eq. 4.5). Cumulative sums take O(n) time after sorting, and do not overflow for
    finite scores.

    Args:
        weighting: Weight w(i) of position i: "none" (1), "inverse-log" (1 / log(i + 1)),
            "inverse-linear" (1 / i), "attention" ((n - i + 1) / sum_t t), or "position-aware"
            (2^(n - i) - 1, divided by its sum; Lan et al., 2014).
        limit: See `RankingLoss`.
        slope: See `RankingLoss`.
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
        """Compute `_gradient` without logarithms, for scores in a small range."""
        power = torch.exp(scores).mul_(lists.mask)
        behind = _at(torch.cumsum(power.flip(-1), dim=-1).flip(-1), lists.first)
        # After the last item of a list there is only padding; there 0 / 0 must give 0.
        share = lists.target / behind.clamp_min_(torch.finfo(scores.dtype).tiny)
        return power.mul_(_at(torch.cumsum(share, dim=-1), lists.last)).sub_(lists.target)


class ListNet(RankingLoss):
    """Cross entropy between two distributions over the items of a list (Cao et al., 2007).

    The distributions are the softmax of the scores and the softmax of -y, where y is standardized
    within each list.
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


class NeuralSort(RankingLoss):
    """Cross entropy of a differentiable sorting of the scores (Grover et al., ICLR 2019).

    Row i of the relaxed permutation is softmax_j[((n + 1 - 2i) s_j - sum_k |s_j - s_k|) / t], the
    probabilities that item j has position i. For a small temperature t it is the permutation that
    sorts the scores. The target of position i is the item with this position in the true order,
    or all items of its tied group in equal parts. O(n^2) in time and memory.
    """

    temperature = 1.0

    def _target(self, y: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
        n = y.shape[-1]
        first = torch.arange(n).expand(y.shape) if lists.first is None else lists.first
        tied = (first[..., :, None] == first[..., None, :]) * _pairs(lists.mask)
        return tied / tied.sum(-1, keepdim=True).clamp_min(1.0), lists.mask.sum(-1)

    def _value(self, scores: Tensor, lists: Lists) -> Tensor:
        log_share = torch.log_softmax(self._logits(scores, lists), dim=-1)
        return -(lists.target * log_share.masked_fill(lists.target == 0, 0.0)).sum((-1, -2))

    def _gradient(self, scores: Tensor, lists: Lists) -> Tensor:
        share = torch.softmax(self._logits(scores, lists), dim=-1)
        by_logits = (share - lists.target) * (lists.mask[..., :, None] / self.temperature)
        column = by_logits.sum(-2)
        above = torch.sign(scores[..., :, None] - scores[..., None, :]) * _pairs(lists.mask)
        by_distances = ((column[..., :, None] + column[..., None, :]) * above).sum(-1)
        return (self._factors(lists)[..., :, None] * by_logits).sum(-2) - by_distances

    def _logits(self, scores: Tensor, lists: Lists) -> Tensor:
        """Return the logits (..., n, n) of the positions (rows) and the items (columns)."""
        gaps = (scores[..., :, None] - scores[..., None, :]).abs() * _pairs(lists.mask)
        logits = (
            self._factors(lists)[..., :, None] * scores[..., None, :] - gaps.sum(-2)[..., None, :]
        )
        return (logits / self.temperature).masked_fill(lists.mask[..., None, :] == 0, _PADDING)

    @staticmethod
    def _factors(lists: Lists) -> Tensor:
        """Return n + 1 - 2i (..., n) for the positions i = 1, 2, ... of the items."""
        return lists.mask.sum(-1, keepdim=True) + 1.0 - 2.0 * lists.mask.cumsum(-1)


# ---------------------------------------------------------------------- pair- and pointwise


class RankNet(RankingLoss):
    """Logistic loss of every pair of items (Burges et al., 2005), O(n^2) in time and memory."""

    def _target(self, y: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
        here, there = y[..., :, None], y[..., None, :]
        better = (here < there).to(y.dtype) + 0.5 * (here == there)
        n = lists.mask.sum(-1)
        return better, n * (n - 1) / 2

    def _value(self, scores: Tensor, lists: Lists) -> Tensor:
        wanted = self._pairs(lists) * lists.target
        return -(wanted * torch.nn.functional.logsigmoid(self._gaps(scores, lists))).sum((-1, -2))

    def _gradient(self, scores: Tensor, lists: Lists) -> Tensor:
        above = torch.sigmoid(self._gaps(scores, lists))
        return (self._pairs(lists) * (above - lists.target)).sum(-1)

    def _gaps(self, scores: Tensor, lists: Lists) -> Tensor:
        """Return the differences s_i - s_j (..., n, n) of scores (..., n)."""
        scores = scores.masked_fill(lists.mask == 0, 0.0)
        return scores[..., :, None] - scores[..., None, :]

    def _pairs(self, lists: Lists) -> Tensor:
        """Return a mask (..., n, n): 1 for two different items, 0 for the diagonal and padding."""
        pairs = _pairs(lists.mask)
        return pairs * (1.0 - torch.eye(pairs.shape[-1], dtype=pairs.dtype))


class _Squared(RankingLoss):
    """Half the squared distance between scores and target scores."""

    def _value(self, scores: Tensor, lists: Lists) -> Tensor:
        return 0.5 * (scores - lists.target).masked_fill(lists.mask == 0, 0.0).square().sum(-1)

    def _gradient(self, scores: Tensor, lists: Lists) -> Tensor:
        return lists.mask * (scores - lists.target)


class Pointwise(_Squared):
    """Regression on ranks: target score 1 for the best, -1 for the worst, the mean for ties."""

    def _target(self, y: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
        position = lists.mask.cumsum(-1) - 1.0
        n = lists.mask.sum(-1, keepdim=True)
        wanted = 1.0 - 2.0 * _group_mean(position, lists) / (n - 1).clamp_min(1.0)
        return wanted * lists.mask, lists.mask.sum(-1)


class MeanSquaredError(_Squared):
    """Regression on -y, standardized within each list; a baseline that is not a ranking loss."""

    ordinal = False

    def _target(self, y: Tensor, lists: Lists) -> tuple[Tensor, Tensor]:
        return -_standardized(y, lists.mask), lists.mask.sum(-1)


def gaussian_nll(
    mean: Tensor, log_variance: Tensor, y: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Compute the negative Gaussian log likelihood (...,) of y (..., n), without its constant.

    Args:
        mean: Predicted means (..., n).
        log_variance: Predicted log variances (..., n).
        y: Observed values (..., n).
        mask: False at padding (..., n); by default there is no padding.
    """
    gap = y - mean
    if mask is not None:  # mask first: an overflow at padding would spread to the sum
        gap, log_variance = gap.masked_fill(~mask, 0.0), log_variance.masked_fill(~mask, 0.0)
    return 0.5 * (log_variance + gap.square() * torch.exp(-log_variance)).sum(-1)


# ---------------------------------------------------------------------- the tables

WEIGHTINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "none": lambda i, n: torch.ones_like(i),
    "inverse-log": lambda i, n: 1.0 / torch.log(i + 1.0),
    "inverse-linear": lambda i, n: 1.0 / i,
    "attention": lambda i, n: (n - i + 1.0) / (n * (n + 1.0) / 2.0).clamp_min(1.0),
    # (2^(n - i) - 1) / (2^n - 1 - n), with numerator and denominator divided by 2^n
    "position-aware": lambda i, n: (
        (torch.exp2(-i) - torch.exp2(-n)).clamp_min(0.0)
        / (1.0 - (1.0 + n) * torch.exp2(-n)).clamp_min(torch.finfo(i.dtype).tiny)
    ),
}
"""Functions of position i = 1, 2, ... (..., n) and list length (..., 1) to weights (..., n)."""

LOSSES: dict[str, type[RankingLoss]] = {
    "listmle": ListMLE,
    "listnet": ListNet,
    "neuralsort": NeuralSort,
    "ranknet": RankNet,
    "pointwise": Pointwise,
    "mse": MeanSquaredError,
}
"""Ranking losses by name."""


def make_loss(
    name: str = "listmle", *, weighting: str = "inverse-log", limit: float | None = None
) -> RankingLoss:
    """Create a ranking loss by name.

    Args:
        name: Key of `LOSSES`.
        weighting: Weighting of the positions, a key of `WEIGHTINGS`; only used by "listmle".
        limit: Limit of the range control; see `RankingLoss`.
    """
    check_name("loss", name, LOSSES)
    if name == "listmle":
        return ListMLE(weighting, limit=limit)
    return LOSSES[name](limit=limit)


# ---------------------------------------------------------------------- helpers


def _reversed_log_cumsum(scores: Tensor) -> Tensor:
    """Return log sum_{j >= i} exp s(j) for every i of scores (..., n), along the last axis."""
    return torch.logcumsumexp(scores.flip(-1), dim=-1).flip(-1)


def _at(values: Tensor, index: Tensor | None) -> Tensor:
    """Gather values (..., n) at positions `index` (..., n) of the last axis.

    Returns the values unchanged if `index` is None.
    """
    return values if index is None else values.gather(-1, index.expand(values.shape))


def _tied_groups(y: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Return the first and last position (..., n) of each item's group of equal values.

    Both are None if no two neighbours are equal.

    Args:
        y: Sorted values (..., n).
    """
    change = y[..., 1:] != y[..., :-1]
    if bool(change.all()):
        return None, None
    n, edge = y.shape[-1], torch.ones_like(y[..., :1], dtype=torch.bool)
    position = torch.arange(n).expand(y.shape)
    begins, ends = torch.cat([edge, change], -1), torch.cat([change, edge], -1)
    first = torch.where(begins, position, 0).cummax(-1).values
    last = torch.where(ends, position, n - 1).flip(-1).cummin(-1).values.flip(-1)
    return first, last


def _pairs(mask: Tensor) -> Tensor:
    """Return a mask (..., n, n): 1 for two items, 0 where one of them is padding."""
    return mask[..., :, None] * mask[..., None, :]


def _group_mean(values: Tensor, lists: Lists) -> Tensor:
    """Average values (..., n) over the items of each tied group; 0 at padding."""
    values = values * lists.mask
    if lists.first is None:
        return values
    first = lists.first.expand(values.shape)
    zero = torch.zeros_like(values)
    sums, items = (zero.scatter_add(-1, first, v) for v in (values, lists.mask))
    return (sums / items.clamp_min(1.0)).gather(-1, first) * lists.mask


def _standardized(y: Tensor, mask: Tensor) -> Tensor:
    """Scale y (..., n) to mean 0 and variance 1 within each list; 0 at padding."""
    # Subtract the smallest value first: if all values are equal, the differences are exactly 0.
    # Differences to the mean would contain rounding errors.
    best = y.masked_fill(mask == 0, torch.inf).amin(-1, keepdim=True)
    y = (y - best).masked_fill(mask == 0, 0.0)
    n = mask.sum(-1, keepdim=True).clamp_min(1.0)
    y = (y - y.sum(-1, keepdim=True) / n) * mask
    scale = (y.square().sum(-1, keepdim=True) / n).sqrt()
    return y / torch.where(scale > 0, scale, 1.0)
