"""Model-based optimization: propose the configuration with the largest utility."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from rankwise._core.threads import one_thread
from rankwise.acquisition.functions import Acquisition, LowerConfidenceBound
from rankwise.acquisition.maximizer import (
    EVERYWHERE,
    Maximizer,
    Seen,
    best_of_set,
    crowded,
    random_unseen,
)
from rankwise.acquisition.search import Slope, Utility
from rankwise.errors import SpaceExhausted, check_name
from rankwise.history.task import Task
from rankwise.strategies.base import FALLBACK, RANDOM, Explanation, Learner, Strategy
from rankwise.strategies.guard.trend_surrogate import places_among
from rankwise.surrogates.base import Posterior, Surrogate
from rankwise.surrogates.cost import CostModel, CostPrior
from rankwise.surrogates.transfer_trust import Evidence
from rankwise.types import Array, Foresight

DOUBT = (
    "past studies do not predict the order of this study's trials (low transfer trust); proposals "
    "rely more and more on its own trials. Leave out the archive to search without past studies"
)
"""Text of the warning that past studies do not predict the study."""

CHECK = "check of past studies"
"""Origin of a trial that checks past studies (see `Strategy.origin`)."""

LIARS = ("min", "mean", "max", "believer", "sampled-lambda")

_LARGE_POOL, _SHORT_LIST = 4000, 500  # rows of a pool above which a short list is made; its size
_DOUBT, _ENOUGH_TO_DOUBT = 0.2, 10  # warn below this trust, from this number of evaluations on
_CHECKS, _UNDECIDED = (8, 11, 13), (0.2, 0.8)  # trials that may be checks; trust that needs one
_STILL = 3  # trials without progress before a check
_LATE, _LONG_STILL = 9, 6  # trials before proposals without past studies; trials without progress
_POOR, _CANDIDATES = 0.7, 200  # a check is predicted to be worse than this share of so many
_ELITE = 5  # number of best evaluated configurations from which local search starts
_REFERENCE = 300  # number of random configurations that ranks are relative to
_RIVALS = 200  # number of best evaluated configurations that can be the incumbent


@dataclass(frozen=True)
class ModelStrategy(Strategy):
    """Proposes the configuration that maximizes an acquisition function of a surrogate.

    Attributes:
        make_surrogate: function that makes an unfitted surrogate from a seed.
        acquisition: acquisition function.
        maximizer: search for the configuration with the largest utility.
        liar: loss that the surrogate assumes for pending configurations: the "min", "mean" or
            "max" of all losses, or its own prediction ("believer", if the surrogate supports it).
            With "sampled-lambda" pending configurations are ignored; a lower confidence bound with
            a random lambda (exponential, its mean is `acquisition.lam`) spreads the proposals.
        informed: True if the surrogate has learnt from source tasks.
        make_cost_surrogate: function that makes the surrogate of log seconds, for acquisition
            functions with `needs_cost`; by default `make_surrogate`.
        learner: model of the source tasks that can be saved, if there is one.
        make_pool_surrogate: function that makes the surrogate for `choose`, where the same
            configurations are predicted many times; by default `make_surrogate`.
        openings: configurations (k, d) from which the first proposal is chosen; None for all.
        checks: True if some of the first trials may check the predictions of source tasks, see
            `_checks_now`.
        cost_prior: what source tasks say about seconds, for acquisition functions with
            `needs_cost`.
        alone: strategy without source tasks that makes every second proposal while the study
            makes no progress, see `_alone_now`; None if there is none.
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
    checks: bool = False
    cost_prior: CostPrior | None = None
    alone: ModelStrategy | None = None

    def __post_init__(self) -> None:
        check_name("liar", self.liar, LIARS)

    def propose(self, history: Task, pending: Array, rng: np.random.Generator) -> Array:
        seen = Seen(history.X, pending)
        if self.encoder.n_columns == 0 or not (self.informed or len(history)):
            return random_unseen(self.encoder, seen, rng)
        if self.alone is not None and self._alone_now(history, len(pending)):
            return self.alone.propose(history, pending, rng)
        try:
            with one_thread():
                if self._checks_now(history, len(pending)):
                    codes = self.encoder.sample_codes(_CANDIDATES, rng)
                    rows: Array = self.encoder.encode_codes(codes)
                    rows = rows[seen.new(rows)]
                    if len(rows):
                        row: Array = rows[self._check(history, rows, rng)]
                        return row
                return self._search(history, pending, seen, rng)
        except SpaceExhausted:
            raise
        except Exception as error:  # a failing surrogate must not end a study
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
        """Choose the row of the pool with the largest utility; ties are broken at random."""
        if not (self.informed or len(history)):
            return int(rng.integers(len(pool)))
        if self.alone is not None and self._alone_now(history, 0):
            return self.alone.choose(history, pool, rng)
        try:
            make = self.make_pool_surrogate or self.make_surrogate
            with one_thread():
                if self._checks_now(history, 0):
                    return self._check(history, pool, rng)
                utility, _ = self._utility(history, np.empty((0, pool.shape[1])), rng, make)
                if self._opens(history, Seen(history.X)):
                    assert self.openings is not None
                    wanted = self.openings[int(np.argmax(utility(self.openings)))]
                    return int(np.argmin(np.square(pool - wanted).sum(axis=1)))
                rows = self._short_list(history, pool, rng)
                values = utility(pool[rows])
            if np.isnan(values).any():
                raise ValueError("a utility is not a number")
        except Exception as error:
            _warn_of_fallback(error)
            return int(rng.integers(len(pool)))
        best = rows[values == values.max()]
        return int(best[0] if len(best) == 1 else rng.choice(best))

    def _short_list(self, history: Task, pool: Array, rng: np.random.Generator) -> np.ndarray:
        """Indices of the rows of a pool among which the pool's surrogate chooses.

        With more than `_LARGE_POOL` rows they are the `_SHORT_LIST` best by the surrogate of
        proposals, which is many times cheaper. Surrogates that rank rows see all of them.
        """
        every = np.arange(len(pool))
        if len(pool) <= _LARGE_POOL or self.make_pool_surrogate is None:
            return every
        nothing = np.empty((0, pool.shape[1]))
        utility, surrogate = self._utility(history, nothing, rng, self.make_surrogate)
        if surrogate.relative:
            return every
        values = utility(pool)
        if np.isnan(values).any():
            raise ValueError("a utility is not a number")
        return np.sort(np.argsort(-values, kind="stable")[:_SHORT_LIST])

    def _opens(self, history: Task, seen: Seen) -> bool:
        """True if the next proposal is chosen from the openings."""
        if self.openings is None or len(history):
            return False
        return bool(seen.new(self.openings).any())

    def similar_tasks(self, history: Task) -> dict[str, float] | None:
        if not self.informed:
            return None
        with one_thread():
            surrogate = self.make_surrogate(0).fit(history)
        return surrogate.similarities or surrogate.sources

    def evidence(self, history: Task) -> Evidence | None:
        return self.make_surrogate(0).evidence(history) if self.informed else None

    def origin(self, history: Task, pending: int = 0) -> str:
        if not self.informed:
            return "this study" if len(history) else RANDOM
        if self.alone is not None and self._alone_now(history, pending):
            return self.alone.origin(history, pending)
        if self._checks_now(history, pending):
            return CHECK
        return "past studies and this study" if len(history) else "past studies"

    def _alone_now(self, history: Task, pending: int) -> bool:
        """True if `alone` makes the next proposal.

        Source tasks that mislead can keep a study where they were good, and after many trials a
        model of the study's own trials is often better. So a study that makes no progress gets
        every second proposal without source tasks, from its tenth trial on.
        """
        late, still = len(history) >= _LATE, len(history) - _LONG_STILL
        return (
            late and (len(history) + pending) % 2 == 0 and int(np.argmin(history.losses)) < still
        )

    def _checks_now(self, history: Task, pending: int) -> bool:
        """True if the next trial checks the predictions of source tasks.

        Trials that source tasks recommend are similar to each other, so their order hardly shows
        whether source tasks predict the study. A configuration with a poor prediction shows more.
        There are at most three such trials, none while other trials are running, none while the
        study makes progress, none once the transfer trust is decided, and none if enough trials
        were predicted to be worse than average, as initial points often are.
        """
        if not self.checks or pending or len(history) not in _CHECKS:
            return False
        if int(np.argmin(history.losses)) >= len(history) - _STILL:
            return False
        found = self.evidence(history)
        if found is None or not _UNDECIDED[0] < found.trust < _UNDECIDED[1]:
            return False
        foresight = self.foresight(history.context)
        assert foresight is not None
        # Predictions of source tasks are scores with a mean of about zero.
        return int((foresight(history.X) > 0.0).sum()) <= _CHECKS.index(len(history))

    def _check(self, history: Task, X: Array, rng: np.random.Generator) -> int:
        """Choose a random row of X (m, d) among those with poor predictions; return its index."""
        foresight = self.foresight(history.context)
        assert foresight is not None
        order = np.argsort(foresight(X), kind="stable")
        return int(rng.choice(order[int(_POOR * len(order)) :]))

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
        except Exception:  # a failing explanation must not end a study
            return [Explanation()] * len(X)
        evidence, sources = surrogate.evidence(history), surrogate.sources
        # The scale of the losses is unknown before the first evaluation.
        known = len(history) > 0 and surrogate.in_losses
        return [
            Explanation(mean if known else None, std if known else None, evidence, sources)
            for mean, std in zip(posterior.mean.tolist(), posterior.std.tolist(), strict=True)
        ]

    def cost_surrogate(self, seed: int) -> Surrogate:
        """An unfitted surrogate of log seconds."""
        return (self.make_cost_surrogate or self.make_surrogate)(seed)

    def _slope(self, surrogate: Surrogate, X: Array) -> Slope | None:
        """Return the function for the gradient of the utility; None if it is not known.

        Args:
            surrogate: fitted surrogate.
            X: configurations (n, d), of which the first tests whether the gradient is known.
        """
        gradient = partial(self.acquisition.gradient, surrogate)
        if not len(X) or surrogate.relative or gradient(X[0]) is None:
            return None
        return gradient  # type: ignore[return-value]  # known at one point means known at all

    def _utility(
        self,
        history: Task,
        pending: Array,
        rng: np.random.Generator,
        make_surrogate: Callable[[int], Surrogate],
    ) -> tuple[Utility, Surrogate]:
        """Fit a surrogate; return the utility function and the surrogate.

        Args:
            history: evaluations so far.
            pending: configurations (m, d) that are being evaluated.
            rng: random generator.
            make_surrogate: function that makes an unfitted surrogate from a seed.
        """
        acquisition, task = self.acquisition, history
        if len(pending) and self.liar == "sampled-lambda":
            acquisition = LowerConfidenceBound(float(rng.exponential(acquisition.lam)))
        elif len(pending) and len(history) and self.liar != "believer":
            losses = history.losses
            lie = {"min": losses.min(), "mean": losses.mean(), "max": losses.max()}[self.liar]
            task = history.extended(pending, float(lie))
        seed = int(rng.integers(2**31))
        surrogate = make_surrogate(seed).fit(task)
        if len(pending) and self.liar == "believer":
            surrogate = surrogate.believing(pending)
        warn_of_doubt(self.evidence(history))
        cost = None
        if acquisition.needs_cost:
            cost = CostModel(lambda: self.cost_surrogate(seed), self.cost_prior).fit(history)
        rivals = history.X[np.argsort(history.losses, kind="stable")[:_RIVALS]]

        def utility(X: Array) -> Array:
            log_seconds = None if cost is None else cost.predict(X)
            known = acquisition.from_surrogate(surrogate, X, log_seconds)
            if known is not None:
                return known
            # One prediction for candidates and rivals, because ranks are relative to a set.
            posterior = surrogate.predict(np.concatenate([X, rivals]), joint=acquisition.random)
            n, covariance = len(X), posterior.covariance
            candidates = Posterior(
                posterior.mean[:n],
                posterior.std[:n],
                None if covariance is None else covariance[:n, :n],
            )
            incumbent = float(np.min(posterior.mean[n:] if len(rivals) else posterior.mean))
            return acquisition(candidates, incumbent, rng, log_seconds)

        return utility, surrogate


def warn_of_doubt(evidence: Evidence | None) -> None:
    """Warn if the transfer trust is low after enough evaluations."""
    if evidence is not None and evidence.trust < _DOUBT and evidence.trials >= _ENOUGH_TO_DOUBT:
        warnings.warn(DOUBT, UserWarning, stacklevel=3)


def _warn_of_fallback(error: Exception) -> None:
    warnings.warn(
        f"{FALLBACK} ({type(error).__name__}: {error}); proposing a random configuration instead",
        RuntimeWarning,
        stacklevel=3,
    )
