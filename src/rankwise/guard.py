"""A guard against a misleading past, the same for all methods that learn from one.

It watches how well the past alone, without any evaluation of the study, puts these evaluations in
order, and expects that to be as well as past tasks put each other in order (`trust.py`). As far as
it does, the method that learns proposes, and a model of the study that leans on the same order, or
on the opposite one if the evaluations turn it around. The other trials are those of a method
without the past, which goes its own way as if it were alone (`own_way.py`): a study of k trials, w
of which were not its own, is at least as far as that method after k - w, if trials are asked for
one at a time and the method draws nothing. A probe, drawn at random, is among the first trials: of
configurations that the past recommends alone nothing can be learnt about the others.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

import numpy as np

from rankwise.model_strategy import Learner, ModelStrategy, warn_of_doubt
from rankwise.own_way import Memory, OwnWay
from rankwise.strategy import FALLBACK, Explanation, RandomStrategy, Strategy
from rankwise.surrogates.exact import spread_over
from rankwise.surrogates.leaning import LeaningSurrogate
from rankwise.surrogates.sources import Past
from rankwise.surrogates.threads import one_thread
from rankwise.task import Task, impute
from rankwise.transforms import Standardize
from rankwise.trust import NOTHING_EXPECTED, Agreement, Expectation, agreement
from rankwise.types import Array, Foresight

_FIRST = 5  # trials that the past begins with, unless evaluations are there already
_PROBE = 3  # one in so many of them is drawn at random
_FOLLOWED = 2.0  # standard deviations from chance at which a model of the study leans
_LEAST, _LEAST_OPPOSITE = 0.5, 0.8  # trust from which on an order, or its opposite, has trials
_EARLY, _DOUBT = 10, 2.0  # trials in which a doubt counts once, and how often it counts at most
_ENOUGH = 100  # evaluations that are compared
_TINY = 1e-9
_GOLDEN, _ROOT = (math.sqrt(5.0) - 1.0) / 2.0, math.sqrt(2.0)  # multiples fill an interval evenly


class Turn(Enum):
    """Who proposes a trial."""

    PROBE = "nobody: it is drawn"
    PAST = "the method that learns from the past"
    LEANING = "a model of the study that leans on the past's order"
    OWN = "the method without the past, on its own way"


@dataclass(frozen=True)
class Judgement:
    """What the past alone foresees, and what came of it.

    Attributes:
        foresight: the order of the past.
        foreseen: its numbers (n,) for the evaluations.
        losses: of the evaluations (n,), in the order in which they were made; NaN where there is
            none, but only before `after`.
        expectation: of the agreement between them, by how past tasks agree.
    """

    foresight: Foresight
    foreseen: Array
    losses: Array
    expectation: Expectation = NOTHING_EXPECTED

    def after(self, k: int) -> Judgement:
        """The judgement when the first k evaluations were there, of some of them if k is large."""
        losses = impute(self.losses[:k])
        rows = spread_over(losses, _ENOUGH)
        return replace(self, foreseen=self.foreseen[rows], losses=losses[rows])

    @cached_property
    def agreement(self) -> Agreement:
        return agreement(self.foreseen, self.losses)

    @property
    def trust(self) -> float:
        """How sure it is that the past orders the evaluations usefully, from 0 to 1."""
        return self.expectation.trust(self.agreement)

    @cached_property
    def lean(self) -> float:
        """How far a model of the study should follow the past; below zero: backwards.

        The slope of a straight line through the losses, those far above the bulk pulled in; zero
        unless an order of its sign is two standard deviations better than chance.
        """
        transform = Standardize.fit(self.losses)
        losses = transform(self.losses)
        center, spread = float(self.foreseen.mean()), float(self.foreseen.std())
        if spread <= _TINY * abs(center):
            return 0.0
        slope = float(np.mean((self.foreseen - center) / spread * losses))
        if (self.agreement.score if slope > 0 else -self.agreement.score) < _FOLLOWED:
            return 0.0
        return slope * transform.scale / spread

    def turn(self, k: int, *, leans: bool = True) -> Turn:
        """Who proposes trial number k, the first of all being 0; k is above that.

        The later, the surer it has to be: with c = k / 10, but 1 at least and 2 at most, an order
        is followed in a share of 1 - c (1 - trust) of the trials, but in none if the trust is
        below 1/2 or, for the opposite of an order, 4/5: a trial for a past of no use is one that
        the method without it comes later. The past proposes if the fractional part of k times the
        golden section is below its share over c; of the other trials those of the share by the
        trust in the sign of `lean` are those of a model that leans.

        Args:
            k: the number of the trial.
            leans: there is a model that can lean.
        """
        c = min(max(1.0, k / _EARLY), _DOUBT)

        def share(trust: float, least: float) -> float:
            return 1.0 - c * (1.0 - trust) if trust >= least else 0.0

        if k * _GOLDEN % 1.0 < share(self.trust, _LEAST) / c:
            return Turn.PAST
        if not leans or not self.lean:
            return Turn.OWN
        opposite = self.lean < 0
        sure = self.expectation.trust(self.agreement, opposite=opposite)
        part = share(sure, _LEAST_OPPOSITE if opposite else _LEAST)
        return Turn.LEANING if k * _ROOT % 1.0 < part else Turn.OWN


@dataclass(frozen=True)
class GuardedStrategy(Strategy):
    """A strategy that learns from the past as far as the past can be trusted, else another one.

    Which of them proposes depends on the past, the number of trials and the evaluations alone.

    Attributes:
        transfer: learns from the past.
        plain: does not; it goes its own way, and leans on the order of the past where that is
            right.
        past: functions of past tasks, whose mean says how configurations compare, for a strategy
            that knows good ones only, or ranks: by these a model of losses cannot lean well. None:
            the strategy itself says it.
        expectation: how far the past is expected to put a study's evaluations in order.
        memory: of the way of the plain one; it changes how long a proposal takes, not which it is.
    """

    transfer: Strategy
    plain: Strategy
    past: Past | None = None
    expectation: Expectation = NOTHING_EXPECTED
    memory: Memory = field(default_factory=dict, repr=False, compare=False)

    @property
    def _way(self) -> OwnWay:
        return OwnWay(self.plain, _FIRST, self.memory)

    @property
    def informed(self) -> bool:
        return True

    @property
    def learner(self) -> Learner | None:
        """What has learnt past tasks and can be saved, if anything."""
        return getattr(self.transfer, "learner", None)

    def trust(self, history: Task) -> float | None:
        """How sure it is that the past orders the evaluations usefully, from 0 to 1.

        How sure it is that Kendall's agreement is 1/2 at least, three pairs of four in the right
        order, by the evaluations and by how past tasks agree; pairs of equal losses are none. None
        if the strategy cannot say how the past alone orders configurations.
        """
        judgement = self.judge(history)
        return None if judgement is None else judgement.after(len(history)).trust

    def judge(self, history: Task) -> Judgement | None:
        """How the past alone orders the evaluations; None if it cannot say."""
        if not len(history):
            return None
        try:
            with one_thread():
                foresight = self._foresight(history.context)
                if foresight is None:
                    return None
                foreseen = foresight(history.X)
        except Exception as error:  # a study must not die of its past
            warnings.warn(
                f"{FALLBACK} ({type(error).__name__}: {error}); proposing without the past",
                RuntimeWarning,
                stacklevel=2,
            )
            return None
        if not np.isfinite(foreseen).all():
            return None
        return Judgement(foresight, foreseen, history.y, self.expectation)

    def _foresight(self, context: Mapping[str, float]) -> Foresight | None:
        past = self.past
        return self.transfer.foresight(context) if past is None else lambda X: past.view(X).mean

    def similar_tasks(self, history: Task) -> dict[str, float] | None:
        return self.transfer.similar_tasks(history)

    def propose(self, history: Task, pending: Array, rng: np.random.Generator) -> Array:
        judgement, turn = self._next(history, len(pending))
        self._doubt(judgement)
        if turn is Turn.OWN:
            return self._way.propose(history, self._own(judgement, len(history)), pending, rng)
        return self._proposer(turn, judgement).propose(history, pending, rng)

    def choose(self, history: Task, pool: Array, rng: np.random.Generator) -> int:
        judgement, turn = self._next(history)
        self._doubt(judgement)
        if turn is Turn.OWN:
            return self._way.choose(history, self._own(judgement, len(history)), pool, rng)
        return self._proposer(turn, judgement).choose(history, pool, rng)

    def explain(self, history: Task, X: Array) -> list[Explanation]:
        judgement, turn = self._next(history)
        if turn is Turn.OWN:
            found = self._way.explain(history, self._own(judgement, len(history)), X)
        else:
            found = self._proposer(turn, judgement).explain(history, X)
        trust = None if judgement is None else judgement.after(len(history)).trust
        return [replace(belief, trust=trust) for belief in found]

    def _next(self, history: Task, pending: int = 0) -> tuple[Judgement | None, Turn]:
        """Who proposes, and the judgement of the past once there are evaluations enough."""
        n = len(history)
        if n < _FIRST:
            probes = (n + pending) % _PROBE == _PROBE - 1
            return None, Turn.PROBE if probes else Turn.PAST
        judgement = self.judge(history)
        if judgement is None:
            return None, Turn.OWN
        return judgement, judgement.after(n).turn(n + pending, leans=self._leans)

    def _doubt(self, judgement: Judgement | None) -> None:
        if judgement is not None:
            n = len(judgement.losses)
            warn_of_doubt(judgement.after(n).trust, n)

    def _proposer(self, turn: Turn, judgement: Judgement | None) -> Strategy:
        if turn is Turn.PAST:
            return self.transfer
        if judgement is None:
            return RandomStrategy(self.encoder, None)
        now = judgement.after(len(judgement.losses))
        return leaning(self.plain, now.foresight, now.lean)

    @property
    def _leans(self) -> bool:
        """Whether the method without the past has a model that can lean."""
        return leaning(self.plain, lambda X: X[:, 0], 1.0) is not self.plain

    def _own(self, judgement: Judgement | None, n: int) -> list[int]:
        """The numbers of the trials, of n, that the method without the past had after the first.

        All of them if the past cannot be judged.
        """
        after, leans = range(_FIRST, n), self._leans
        if judgement is None:
            return list(after)
        return [k for k in after if judgement.after(k).turn(k, leans=leans) is Turn.OWN]


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
