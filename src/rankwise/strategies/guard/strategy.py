"""The guard: limits the loss if past studies mislead a transfer method.

The guard measures how well the source tasks alone predict the order of the evaluations so far. The
prior of this agreement is how well source tasks predict each other (`trust.py`). According to the
resulting probability, it divides the trials among three strategies:

- the transfer method;
- the plain method (without transfer), whose surrogate uses the prediction of the source tasks as a
  trend (`trend_surrogate.py`), with a negative slope if the study has the opposite order;
- the plain method alone, which uses only its own trials (`isolation.py`).

If w of k trials were not proposed by the plain method alone, the best of k trials is at least as
good as the best of k - w trials of that method, provided that it is deterministic and trials are
proposed one at a time. One of the first trials is a random probe, because the other trials, which
the past studies recommend, do not show how good other configurations are.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

import numpy as np

from rankwise._core.threads import one_thread
from rankwise.history.task import Task, impute
from rankwise.history.transforms import Standardize
from rankwise.strategies.base import (
    FALLBACK,
    Explanation,
    Learner,
    RandomStrategy,
    Strategy,
)
from rankwise.strategies.guard.isolation import IsolatedStrategy, Memory
from rankwise.strategies.guard.trend_surrogate import LeaningSurrogate
from rankwise.strategies.guard.trust import NOTHING_EXPECTED, Agreement, Expectation, agreement
from rankwise.strategies.model_based import ModelStrategy, warn_of_doubt
from rankwise.surrogates.empirical_bayes.past_functions import Past
from rankwise.surrogates.numeric.exact_gp import spread_over
from rankwise.surrogates.transfer_trust import (
    NO_EVIDENCE,
    Evidence,
    compare,
    compare_view,
    unknown_agreement,
)
from rankwise.types import Array, Foresight

_FIRST = 5  # number of trials before the agreement is measured; the transfer method proposes them
_PROBE = 3  # every third of them is random
_FOLLOWED = 2.0  # smallest agreement, in standard deviations from chance, for using the trend
_LEAST, _LEAST_OPPOSITE = 0.5, 0.8  # smallest usefulness of the order, or its opposite
_EARLY, _DOUBT = 10, 2.0  # see c in `Judgement.turn`
_ENOUGH = 100  # maximum number of evaluations that are compared
_TINY = 1e-9
_GOLDEN, _ROOT = (math.sqrt(5.0) - 1.0) / 2.0, math.sqrt(2.0)  # multiples are spread evenly mod 1


class Turn(Enum):
    """The strategy that proposes a trial."""

    PROBE = "random probe"
    PAST = "transfer method"
    LEANING = "plain method with the prediction of source tasks as a trend"
    OWN = "plain method alone"


@dataclass(frozen=True)
class Judgement:
    """Comparison of the source tasks' predictions with the losses of the study.

    Attributes:
        foresight: function that predicts the order of configurations from source tasks alone.
        foreseen: its predictions (n,) for the evaluated configurations.
        losses: losses (n,) in the order of the trials. They can be NaN; `after` imputes them.
        expectation: prior of the agreement between predictions and losses.
    """

    foresight: Foresight
    foreseen: Array
    losses: Array
    expectation: Expectation = NOTHING_EXPECTED

    def after(self, k: int) -> Judgement:
        """Return the comparison for the first k evaluations; at most `_ENOUGH` are used."""
        losses = impute(self.losses[:k])
        rows = spread_over(losses, _ENOUGH)
        return replace(self, foreseen=self.foreseen[rows], losses=losses[rows])

    @cached_property
    def agreement(self) -> Agreement:
        """Rank agreement of predictions and losses."""
        return agreement(self.foreseen, self.losses)

    @property
    def usefulness(self) -> float:
        """Probability that source tasks order three of four pairs correctly."""
        return self.expectation.usefulness(self.agreement)

    @cached_property
    def lean(self) -> float:
        """Slope of the losses over the predictions; negative for the opposite order.

        Outliers of the losses are clipped first. The slope is zero if its direction agrees with
        the losses by less than two standard deviations more than chance.
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
        """Choose the strategy that proposes trial number k > 0; the first trial has number 0.

        Let c = k / 10, but at least 1 and at most 2. An order of usefulness u gets a share of
        1 - c (1 - u) of the trials, and none if u is below 1/2 (4/5 for the opposite order). So
        later trials need a larger u.

        The transfer method proposes if the fractional part of k times the golden ratio is below
        its share divided by c. Of the other trials, the plain method with a trend gets the share
        of the order in which the trend points (the sign of `lean`), and the plain method alone
        gets the rest.

        Args:
            k: number of the trial.
            leans: True if the plain method can use a trend.
        """
        c = min(max(1.0, k / _EARLY), _DOUBT)

        def share(useful: float, least: float) -> float:
            return 1.0 - c * (1.0 - useful) if useful >= least else 0.0

        if k * _GOLDEN % 1.0 < share(self.usefulness, _LEAST) / c:
            return Turn.PAST
        if not leans or not self.lean:
            return Turn.OWN
        opposite = self.lean < 0
        sure = self.expectation.usefulness(self.agreement, opposite=opposite)
        part = share(sure, _LEAST_OPPOSITE if opposite else _LEAST)
        return Turn.LEANING if k * _ROOT % 1.0 < part else Turn.OWN


@dataclass(frozen=True)
class GuardedStrategy(Strategy):
    """A transfer strategy and a plain one; how useful source tasks are decides which one proposes.

    The choice depends only on the source tasks, the number of trials and the evaluations.

    Attributes:
        transfer: strategy that learns from source tasks.
        plain: strategy without transfer.
        past: functions of the source tasks whose mean predicts the order of configurations. They
            are needed if `transfer` predicts only good configurations, or only ranks, which cannot
            be a trend of losses. None if `transfer` predicts the order itself.
        expectation: prior of the agreement between predictions and losses.
        memory: cache for the plain strategy; it has no effect on proposals.
    """

    transfer: Strategy
    plain: Strategy
    past: Past | None = None
    expectation: Expectation = NOTHING_EXPECTED
    memory: Memory = field(default_factory=dict, repr=False, compare=False)

    @property
    def _isolated(self) -> IsolatedStrategy:
        return IsolatedStrategy(self.plain, _FIRST, self.memory)

    @property
    def informed(self) -> bool:
        return True

    @property
    def learner(self) -> Learner | None:
        return self.transfer.learner

    def evidence(self, history: Task) -> Evidence | None:
        """How well source tasks alone predict the order of the evaluations; None if unknown."""
        try:
            if self.past is not None:
                view = self.past.view(history.X)
                return compare_view(view, history.losses) if len(history) else NO_EVIDENCE
            found = self.transfer.evidence(history)
        except Exception:  # a proposal that fails for the same reason says so
            return None
        if found is not None:
            return found
        judgement = self.judge(history)
        if judgement is None:
            return None
        return compare(judgement.foreseen, history.losses, *unknown_agreement())

    def origin(self, history: Task, pending: int = 0) -> str:
        judgement, turn = self._next(history, pending)
        if turn in (Turn.PROBE, Turn.PAST):
            return self._proposer(turn, judgement).origin(history, pending)
        return "this study" if turn is Turn.OWN else "past studies and this study"

    def judge(self, history: Task) -> Judgement | None:
        """Compare the predictions of source tasks with the evaluations.

        None if there are no evaluations, or if the source tasks alone predict no order.
        """
        if not len(history):
            return None
        try:
            with one_thread():
                foresight = self._foresight(history.context)
                if foresight is None:
                    return None
                foreseen = foresight(history.X)
        except Exception as error:  # failing predictions must not end a study
            warnings.warn(
                f"{FALLBACK} ({type(error).__name__}: {error}); proposing without past studies",
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
        warn_of_doubt(self.evidence(history))
        if turn is Turn.OWN:
            own = self._own(judgement, len(history))
            return self._isolated.propose(history, own, pending, rng)
        return self._proposer(turn, judgement).propose(history, pending, rng)

    def choose(self, history: Task, pool: Array, rng: np.random.Generator) -> int:
        judgement, turn = self._next(history)
        warn_of_doubt(self.evidence(history))
        if turn is Turn.OWN:
            own = self._own(judgement, len(history))
            return self._isolated.choose(history, own, pool, rng)
        return self._proposer(turn, judgement).choose(history, pool, rng)

    def explain(self, history: Task, X: Array) -> list[Explanation]:
        judgement, turn = self._next(history)
        if turn is Turn.OWN:
            found = self._isolated.explain(history, self._own(judgement, len(history)), X)
        else:
            found = self._proposer(turn, judgement).explain(history, X)
        evidence = self.evidence(history)
        return [replace(belief, evidence=evidence) for belief in found]

    def _next(self, history: Task, pending: int = 0) -> tuple[Judgement | None, Turn]:
        """Choose the strategy of the next trial.

        Args:
            history: evaluations so far.
            pending: number of configurations that are being evaluated.

        Returns:
            The judgement, or None if there are too few evaluations or no predictions, and the
            strategy.
        """
        n = len(history)
        if n < _FIRST:
            probes = (n + pending) % _PROBE == _PROBE - 1
            return None, Turn.PROBE if probes else Turn.PAST
        judgement = self.judge(history)
        if judgement is None:
            return None, Turn.OWN
        return judgement, judgement.after(n).turn(n + pending, leans=self._leans)

    def _proposer(self, turn: Turn, judgement: Judgement | None) -> Strategy:
        if turn is Turn.PAST:
            return self.transfer
        if judgement is None:
            return RandomStrategy(self.encoder, None)
        now = judgement.after(len(judgement.losses))
        return leaning(self.plain, now.foresight, now.lean)

    @property
    def _leans(self) -> bool:
        """True if the plain strategy can use a trend."""
        return leaning(self.plain, lambda X: X[:, 0], 1.0) is not self.plain

    def _own(self, judgement: Judgement | None, n: int) -> list[int]:
        """Return the indices of the trials that the plain strategy alone proposed.

        The first `_FIRST` trials are left out. Without a judgement, it proposed all others.

        Args:
            judgement: comparison of the predictions with all evaluations, or None.
            n: number of trials.
        """
        after, leans = range(_FIRST, n), self._leans
        if judgement is None:
            return list(after)
        return [k for k in after if judgement.after(k).turn(k, leans=leans) is Turn.OWN]


def leaning(strategy: Strategy, foresight: Foresight, lean: float) -> Strategy:
    """Return a copy of a strategy whose surrogate has `lean` times `foresight` as a trend.

    The strategy is returned unchanged if `lean` is zero, if it has no surrogate, or if its
    surrogate does not predict losses.
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
