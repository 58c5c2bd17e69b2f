"""The strategy of methods that have a model: the most useful configuration by its posterior."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from rankwise.acquisition import Acquisition, ExpectedImprovement, LowerConfidenceBound
from rankwise.cost import CostModel
from rankwise.errors import SpaceExhausted, check_name
from rankwise.proposal import (
    EVERYWHERE,
    Maximizer,
    Seen,
    best_of_set,
    crowded,
    random_unseen,
)
from rankwise.searches import Slope, Utility
from rankwise.strategy import FALLBACK, Explanation, Strategy
from rankwise.surrogates.base import Posterior, Surrogate
from rankwise.surrogates.leaning import places_among
from rankwise.surrogates.threads import one_thread
from rankwise.task import Task
from rankwise.types import Array, Foresight

DOUBT = "the past does not seem to apply to this study: it is searched mostly without it"
"""The warning when the evaluations contradict past studies."""

LIARS = ("min", "mean", "max", "believer", "sampled-lambda")

_DOUBT, _ENOUGH_TO_DOUBT = 0.2, 10  # trust below which, and evaluations after which, we say so
_ELITE = 5  # evaluated configurations from which local search starts
_REFERENCE = 300  # random configurations among which others are put in their place
_RIVALS = 200  # evaluated configurations among which the incumbent is looked for


class Learner(Protocol):
    """Something that has learnt past tasks."""

    def save(self, path: str | Path, *, fingerprint: str = "") -> None:
        """Write it to a file, from which the method's option `model` takes it."""


@dataclass(frozen=True)
class ModelStrategy(Strategy):
    """A surrogate, an acquisition and a search for its maximum.

    Attributes:
        make_surrogate: makes an unfitted surrogate for a seed.
        acquisition: utility of a posterior.
        maximizer: finds the largest utility.
        liar: what the model is told about pending configurations: that their loss is the
            "min", "mean" or "max" of those seen, what the model itself expects ("believer", for
            surrogates that can), or, with "sampled-lambda", nothing: a
            confidence bound with a random lambda (exponential, with the mean of the
            acquisition's) spreads the points.
        informed: the surrogate knows something before the first evaluation.
        make_cost_surrogate: makes the model of the logarithm of the seconds, for acquisitions
            that weigh the cost; by default `make_surrogate`.
        learner: what has learnt past tasks and can be saved, if anything.
        make_pool_surrogate: makes the surrogate for choosing among the rows of a pool, which are
            asked about again and again; by default `make_surrogate`.
        openings: configurations (k, d) to which proposals before the first evaluation are
            restricted; None: all.
    """

    make_surrogate: Callable[[int], Surrogate]
    acquisition: Acquisition
    maximizer: Maximizer = field(default_factory=Maximizer)
    liar: str = "min"
    informed: bool = False
    make_cost_surrogate: Callable[[int], Surrogate] | None = None
    learner: Learner | None = None
    make_pool_surrogate: Callable[[int], Surrogate] | None = None
    openings: Array | None = None

    def __post_init__(self) -> None:
        check_name("liar", self.liar, LIARS)

    def propose(self, history: Task, pending: Array, rng: np.random.Generator) -> Array:
        seen = Seen(history.X, pending)
        if self.encoder.n_columns == 0 or not (self.informed or len(history)):
            return random_unseen(self.encoder, seen, rng)
        try:
            with one_thread():
                return self._search(history, pending, seen, rng)
        except SpaceExhausted:
            raise
        except Exception as error:  # a study must not die of its surrogate
            _warn_of_fallback(error)
            return random_unseen(self.encoder, seen, rng)

    def _search(
        self, history: Task, pending: Array, seen: Seen, rng: np.random.Generator
    ) -> Array:
        utility, surrogate = self._utility(history, pending, rng, self.make_surrogate)
        if self._opens(history, seen):
            assert self.openings is not None
            return best_of_set(utility, self.openings, seen)
        best = np.argsort(history.losses, kind="stable")[:_ELITE]
        relative = surrogate.relative or self.acquisition.relative
        stalled, plateau = 0, len(history) > 1 and not np.ptp(history.losses)  # or all failed
        if plateau or (surrogate.revisits and crowded(history.X)):
            stalled = EVERYWHERE
        elif len(history) and (relative or surrogate.revisits):
            stalled = len(history) - 1 - int(best[0])
        return self.maximizer(
            utility,
            self.encoder,
            rng,
            seen,
            history.X[best],
            relative=relative,
            once=self.acquisition.random,
            stalled=stalled,
            blind=not len(history),
            slope=self._slope(surrogate, history.X if len(history) else pending),
        )

    def choose(self, history: Task, pool: Array, rng: np.random.Generator) -> int:
        """The row with the largest utility; which of several equal ones is drawn."""
        if not (self.informed or len(history)):
            return int(rng.integers(len(pool)))
        try:
            make = self.make_pool_surrogate or self.make_surrogate
            with one_thread():
                utility, _ = self._utility(history, np.empty((0, pool.shape[1])), rng, make)
                if self._opens(history, Seen(history.X)):
                    assert self.openings is not None
                    wanted = self.openings[int(np.argmax(utility(self.openings)))]
                    return int(np.argmin(np.square(pool - wanted).sum(axis=1)))
                values = utility(pool)
            if np.isnan(values).any():
                raise ValueError("a utility is not a number")
        except Exception as error:
            _warn_of_fallback(error)
            return int(rng.integers(len(pool)))
        best = np.flatnonzero(values == values.max())
        return int(best[0] if len(best) == 1 else rng.choice(best))

    def _opens(self, history: Task, seen: Seen) -> bool:
        """Whether the proposal is one of the openings."""
        if self.openings is None or len(history):
            return False
        return bool(seen.new(self.openings).any())

    def similar_tasks(self, history: Task) -> dict[str, float] | None:
        if not self.informed:
            return None
        with one_thread():
            surrogate = self.make_surrogate(0).fit(history)
        return surrogate.similarities or surrogate.sources

    def trust(self, history: Task) -> float | None:
        surrogate = self.make_surrogate(0)
        if "trust" not in vars(type(surrogate)):  # fitting it would be in vain
            return None
        return surrogate.fit(history).trust

    @property
    def foresees(self) -> bool:
        return self.make_surrogate(0).foresees

    def foresight(self, context: Mapping[str, float]) -> Foresight | None:
        if not self.informed:
            return None
        nothing = Task.of(np.empty((0, self.encoder.n_columns)), [], context=context)
        with one_thread():
            surrogate = self.make_surrogate(0).fit(nothing)
        if not surrogate.relative:
            return lambda X: surrogate.predict(X).mean
        codes = self.encoder.sample_codes(_REFERENCE, np.random.default_rng(0))
        return partial(places_among, self.encoder.encode_codes(codes), surrogate)

    def explain(self, history: Task, X: Array) -> list[Explanation]:
        surrogate = self.make_surrogate(0)
        if surrogate.relative or not len(X) or not (self.informed or len(history)):
            return [Explanation()] * len(X)
        try:
            with one_thread():
                surrogate.fit(history)
                posterior = surrogate.predict(X)
        except Exception:  # no reason to stop a study, which only wanted to write this down
            return [Explanation()] * len(X)
        trust, sources = surrogate.trust, surrogate.sources
        # Before there is an evaluation the scale of the losses is not known.
        known = len(history) > 0 and surrogate.in_losses
        return [
            Explanation(mean if known else None, std if known else None, trust, sources)
            for mean, std in zip(posterior.mean.tolist(), posterior.std.tolist(), strict=True)
        ]

    def _slope(self, surrogate: Surrogate, X: Array) -> Slope | None:
        """The gradient of the utility, if the surrogate knows it."""
        known = type(self.acquisition) is ExpectedImprovement and len(X) and not surrogate.relative
        if not known or surrogate.slope(X[0]) is None:
            return None
        return surrogate.slope  # type: ignore[return-value]  # it is known at one point, so at all

    def _utility(
        self,
        history: Task,
        pending: Array,
        rng: np.random.Generator,
        make_surrogate: Callable[[int], Surrogate],
    ) -> tuple[Utility, Surrogate]:
        """The utility, and the fitted surrogate that it is of."""
        acquisition, task = self.acquisition, history
        if len(pending) and self.liar == "sampled-lambda":
            mean = getattr(acquisition, "lam", LowerConfidenceBound().lam)
            acquisition = LowerConfidenceBound(float(rng.exponential(mean)))
        elif len(pending) and len(history) and self.liar != "believer":
            losses = history.losses
            lie = {"min": losses.min(), "mean": losses.mean(), "max": losses.max()}[self.liar]
            task = history.extended(pending, float(lie))
        seed = int(rng.integers(2**31))
        surrogate = make_surrogate(seed).fit(task)
        if len(pending) and self.liar == "believer":
            surrogate = surrogate.believing(pending)
        warn_of_doubt(surrogate.trust, len(history))
        cost = None
        if acquisition.needs_cost:
            make = self.make_cost_surrogate or self.make_surrogate
            cost = CostModel(lambda: make(seed)).fit(history)
        rivals = history.X[np.argsort(history.losses, kind="stable")[:_RIVALS]]

        improves = isinstance(acquisition, ExpectedImprovement)

        def utility(X: Array) -> Array:
            improvement = surrogate.improvement(X) if improves else None
            if improvement is not None:
                return improvement if cost is None else improvement - cost.predict(X)
            # Candidates and rivals go in together: ranks, unlike losses, depend on the set.
            posterior = surrogate.predict(np.concatenate([X, rivals]), joint=acquisition.random)
            n, covariance = len(X), posterior.covariance
            candidates = Posterior(
                posterior.mean[:n],
                posterior.std[:n],
                None if covariance is None else covariance[:n, :n],
            )
            incumbent = float(np.min(posterior.mean[n:] if len(rivals) else posterior.mean))
            return acquisition(candidates, incumbent, rng, cost.predict(X) if cost else None)

        return utility, surrogate


def warn_of_doubt(trust: float | None, evaluations: int) -> None:
    """Say that the past does not apply, if it is trusted little after enough evaluations."""
    if trust is not None and trust < _DOUBT and evaluations >= _ENOUGH_TO_DOUBT:
        warnings.warn(DOUBT, UserWarning, stacklevel=3)


def _warn_of_fallback(error: Exception) -> None:
    warnings.warn(
        f"{FALLBACK} ({type(error).__name__}: {error}); proposing a random configuration instead",
        RuntimeWarning,
        stacklevel=3,
    )
