"""A guard against a misleading past, the same for all methods that learn from one.

It watches how well the past alone, without any evaluation of the study, puts these evaluations in
order. As long as it does, the method that learns proposes; where it does not, a method without the
past. That one leans on the same order as far as the evaluations bear it out, and on the opposite
one if they turn it around. A probe, drawn at random, is among the first trials: of configurations
that the past recommends alone nothing can be learnt about the others.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from rankwise.strategy import (
    FALLBACK,
    Explanation,
    Learner,
    ModelStrategy,
    RandomStrategy,
    Strategy,
)
from rankwise.surrogates.exact import spread_over
from rankwise.surrogates.leaning import LeaningSurrogate
from rankwise.surrogates.sources import Past
from rankwise.surrogates.threads import one_thread
from rankwise.surrogates.votes import pair_agreement
from rankwise.task import Task
from rankwise.transforms import Standardize
from rankwise.types import Array, Foresight

_FIRST = 5  # trials that the past begins with, unless evaluations are there already
_PROBE = 3  # one in so many of them is drawn at random
_DOUBT = 1.0  # standard deviations above chance at which the past is trusted by half
_FOLLOWED = 2.0  # standard deviations from chance at which a model without the past follows it
_FULL, _LEAST = 10, 0.5  # trials in which it may propose all, and its share of many at most
_ENOUGH = 100  # evaluations that are compared
_TINY = 1e-9
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True)
class Judgement:
    """What the past alone foresees, and what came of it.

    Attributes:
        foresight: the order of the past.
        foreseen: its numbers (n,) for some evaluations.
        losses: of the evaluations (n,).
    """

    foresight: Foresight
    foreseen: Array
    losses: Array

    @property
    def trust(self) -> float:
        """How sure it is that the past orders the evaluations better than chance, from 0 to 1."""
        return trust_of(order_score(self.foreseen, self.losses))

    @property
    def lean(self) -> float:
        """How far a model of the study should follow the past; below zero: backwards.

        The slope of a straight line through the losses, those far above the bulk pulled in, times
        the trust in an order of its sign; zero unless that order is two standard deviations above
        chance.
        """
        transform = Standardize.fit(self.losses)
        losses = transform(self.losses)
        center, spread = float(self.foreseen.mean()), float(self.foreseen.std())
        if spread <= _TINY * abs(center):
            return 0.0
        slope = float(np.mean((self.foreseen - center) / spread * losses))
        score = math.copysign(1.0, slope) * order_score(self.foreseen, self.losses)
        return slope * transform.scale / spread * trust_of(score) if score >= _FOLLOWED else 0.0


@dataclass(frozen=True)
class GuardedStrategy(Strategy):
    """A strategy that learns from the past as far as the past can be trusted, else another one.

    Which of the two proposes depends on the number of trials and on the evaluations alone: trial k
    is the learner's if the fractional part of k times the golden section, which fills the unit
    interval evenly, is below `trust` times max(1/2, min(1, 10 / k)).

    Attributes:
        transfer: learns from the past.
        plain: does not, but for what it leans on the order of the past.
        past: functions of past tasks, for a strategy that knows good configurations and not how
            others compare with them: their mean says it.
    """

    transfer: Strategy
    plain: Strategy
    past: Past | None = None

    @property
    def informed(self) -> bool:
        return True

    @property
    def learner(self) -> Learner | None:
        """What has learnt past tasks and can be saved, if anything."""
        return getattr(self.transfer, "learner", None)

    def trust(self, history: Task) -> float | None:
        """How sure it is that the past orders the evaluations better than chance, from 0 to 1.

        Kendall's agreement is compared with what it is for two unrelated orders: an agreement one
        standard deviation above that is trusted by half; pairs of equal losses are none. None if
        the strategy cannot say how the past alone orders configurations.
        """
        judgement = self.judge(history)
        return None if judgement is None else judgement.trust

    def judge(self, history: Task) -> Judgement | None:
        """How the past alone orders the evaluations; None if it cannot say."""
        rows = spread_over(history.losses, _ENOUGH)
        if not rows:
            return None
        try:
            with one_thread():
                foresight = self.transfer.foresight(history.context)
                if foresight is None and (past := self.past) is not None:
                    foresight = lambda X: past.view(X).mean  # noqa: E731
                if foresight is None:
                    return None
                foreseen = foresight(history.X[rows])
        except Exception as error:  # a study must not die of its past
            warnings.warn(
                f"{FALLBACK} ({type(error).__name__}: {error}); proposing without the past",
                RuntimeWarning,
                stacklevel=2,
            )
            return None
        if not np.isfinite(foreseen).all():
            return None
        return Judgement(foresight, foreseen, history.losses[rows])

    def similar_tasks(self, history: Task) -> dict[str, float] | None:
        return self.transfer.similar_tasks(history)

    def propose(self, history: Task, pending: Array, rng: np.random.Generator) -> Array:
        return self._turn(history, self._judged(history), len(pending)).propose(
            history, pending, rng
        )

    def choose(self, history: Task, pool: Array, rng: np.random.Generator) -> int:
        return self._turn(history, self._judged(history)).choose(history, pool, rng)

    def explain(self, history: Task, X: Array) -> list[Explanation]:
        judgement = self._judged(history)
        found = self._turn(history, judgement).explain(history, X)
        trust = None if judgement is None else judgement.trust
        return [replace(belief, trust=trust) for belief in found]

    def _judged(self, history: Task) -> Judgement | None:
        """The judgement, once there are evaluations enough."""
        return self.judge(history) if len(history) >= _FIRST else None

    def _turn(self, history: Task, judgement: Judgement | None, pending: int = 0) -> Strategy:
        """Who proposes next."""
        k = len(history) + pending
        if len(history) < _FIRST:
            probes = k % _PROBE == _PROBE - 1
            return RandomStrategy(self.encoder, None) if probes else self.transfer
        if judgement is None:
            return self.plain
        share = judgement.trust * max(_LEAST, min(1.0, _FULL / k))
        if k * _GOLDEN % 1.0 < share:
            return self.transfer
        return leaning(self.plain, judgement.foresight, judgement.lean)


def leaning(strategy: Strategy, foresight: Foresight, lean: float) -> Strategy:
    """A strategy whose model follows foreseen numbers as far as `lean` says.

    It is left as it is if it has no model, or one that does not speak of losses, to which they
    could be added.
    """
    if lean == 0.0 or not isinstance(strategy, ModelStrategy):
        return strategy
    make = strategy.make_surrogate
    surrogate = make(0)
    if surrogate.relative or not surrogate.in_losses:
        return strategy
    return replace(
        strategy,
        make_surrogate=lambda seed: LeaningSurrogate(make(seed), foresight, lean),
        make_pool_surrogate=None,
        make_cost_surrogate=strategy.make_cost_surrogate or make,
    )


def trust_of(score: float) -> float:
    """From 0 to 1: how sure it is that an order of that `order_score` is better than chance."""
    return float(ndtr(score - _DOUBT))


def order_score(foresight: Array, losses: Array) -> float:
    """By how many standard deviations a foreseen order agrees better with losses than by chance.

    S, the number of pairs in the same order less that of pairs in the opposite one, has mean 0 and
    variance (1) if all orders are as probable, with groups of t equal losses and of u equal
    numbers foreseen (Kendall, Rank Correlation Methods, chapter 4):

        (n(n-1)(2n+5) - sum t(t-1)(2t+5) - sum u(u-1)(2u+5)) / 18
        + sum t(t-1) sum u(u-1) / (2n(n-1))
        + sum t(t-1)(t-2) sum u(u-1)(u-2) / (9n(n-1)(n-2))                                      (1)

    Args:
        foresight: numbers (n,), the smallest is expected to be the best.
        losses: what came out (n,).
    """
    both = np.stack([foresight, -foresight], axis=1)
    (same, opposite), _ = pair_agreement(both, losses)
    n = len(losses)
    t, u = (
        np.unique(values, return_counts=True)[1].astype(float) for values in (losses, foresight)
    )
    twos = [float((g * (g - 1)).sum()) for g in (t, u)]
    threes = [float((g * (g - 1) * (g - 2)).sum()) for g in (t, u)]
    ties = sum(float((g * (g - 1) * (2 * g + 5)).sum()) for g in (t, u))
    variance = (n * (n - 1) * (2 * n + 5) - ties) / 18.0
    variance += twos[0] * twos[1] / (2.0 * n * (n - 1)) if n > 1 else 0.0
    variance += threes[0] * threes[1] / (9.0 * n * (n - 1) * (n - 2)) if n > 2 else 0.0
    # Without a variance nothing speaks for the past or against it.
    return float(same - opposite) / math.sqrt(variance) if variance > _TINY else 0.0
