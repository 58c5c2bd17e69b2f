"""JointStrategy: several objectives, and constraints, with one surrogate for each of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import log_ndtr

from rankwise._core.threads import one_thread
from rankwise.acquisition.functions import times_dominated
from rankwise.acquisition.hypervolume import (
    free_boxes,
    log_expected_improvement,
    on_front,
    reference_point,
)
from rankwise.acquisition.maximizer import EVERYWHERE, Maximizer, Seen, crowded, random_unseen
from rankwise.acquisition.search import FocusSearch, LocalSearch, Utility
from rankwise.errors import OptionError, SpaceExhausted
from rankwise.history.task import OK, Task
from rankwise.strategies.base import FALLBACK, RANDOM, Explanation, Strategy
from rankwise.strategies.guard.strategy import GuardedStrategy
from rankwise.strategies.model_based import ModelStrategy
from rankwise.surrogates.base import Surrogate
from rankwise.surrogates.cost import CostModel
from rankwise.surrogates.transfer_trust import Evidence
from rankwise.types import Array

BLIND = ("random", "grid")
"""Methods that do not look at values, so that they need no surrogate."""

_ELITE = 5  # number of best evaluated configurations from which local search starts
_RIVALS = 200  # number of best evaluated configurations that can be on the front
_REFERENCE = 200  # random configurations that stand for the front before the first evaluation
_MOST_ON_FRONT = {3: 60, 4: 25}  # by number of objectives: the boxes become many
_LINEAR_FROM = 3  # objectives from which losses are not transformed
_UNCERTAIN = 0.5  # smallest standard deviation before the first evaluation
_TINY = 1e-9  # smallest standard deviation, relative to the range of the objective


@dataclass(frozen=True)
class JointStrategy(Strategy):
    """Proposes the configuration with the largest expected improvement of the Pareto front.

    Objectives and constraints are independent; each has its own surrogate, with what it learnt
    from its own source tasks. The utility is the logarithm of the expected hypervolume improvement
    plus the logarithms of the probabilities that the constraints hold. With one objective this is
    expected improvement times the probability of feasibility. The front has the posterior means of
    feasible evaluations only; before there is one, the probability of feasibility decides. With
    an acquisition function that needs seconds, their logarithm is subtracted.

    Attributes:
        objectives: for each objective its strategy, of which the surrogate is used.
        constraints: strategy by name of each constraint that source tasks have.
        plain: strategy of constraints that no source task has.
        limits: value of each constraint's limit in units of its source tasks' losses, by name.
            It is used before the first evaluation, when the scale of the constraint is unknown.
        maximizer: search for the configuration with the largest utility.
    """

    objectives: tuple[ModelStrategy, ...]
    plain: ModelStrategy
    constraints: Mapping[str, ModelStrategy] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    maximizer: Maximizer = field(
        default_factory=lambda: Maximizer(FocusSearch(300, 4, 1), LocalSearch(5, 20, 6))
    )

    def within(self, encoder):  # type: ignore[no-untyped-def]
        return replace(
            self,
            encoder=encoder,
            objectives=tuple(part.within(encoder) for part in self.objectives),
            plain=self.plain.within(encoder),
            constraints={k: part.within(encoder) for k, part in self.constraints.items()},
        )

    @property
    def informed(self) -> bool:
        return any(part.informed for part in (*self.objectives, *self.constraints.values()))

    def origin(self, history: Task, pending: int = 0) -> str:
        if not self.informed:
            return "this study" if len(history) else RANDOM
        return "past studies and this study" if len(history) else "past studies"

    def evidence(self, history: Task) -> Evidence | None:
        """The evidence of the objective with the lowest transfer trust."""
        tasks = self._tasks(history)
        pairs = zip(self.objectives, tasks, strict=True)
        found = [e for part, task in pairs if (e := part.evidence(task)) is not None]
        return min(found, key=lambda evidence: evidence.trust, default=None)

    def explain(self, history: Task, X: Array) -> list[Explanation]:
        """The predictions of the only objective; nothing for several."""
        if len(self.objectives) == 1:
            return self.objectives[0].explain(self._tasks(history)[0], X)
        evidence = self.evidence(history)
        return [Explanation(evidence=evidence)] * len(X)

    def propose(self, history: Task, pending: Array, rng: np.random.Generator) -> Array:
        seen = Seen(history.X, pending)
        if self.encoder.n_columns == 0 or not (self.informed or len(history)):
            return random_unseen(self.encoder, seen, rng)
        try:
            with one_thread():
                return self._search(history, pending, seen, rng)
        except SpaceExhausted:
            raise
        except Exception as error:  # a failing surrogate must not end a study
            warnings.warn(
                f"{FALLBACK} ({type(error).__name__}: {error}); proposing a random configuration "
                "instead",
                RuntimeWarning,
                stacklevel=2,
            )
            return random_unseen(self.encoder, seen, rng)

    def _search(
        self, history: Task, pending: Array, seen: Seen, rng: np.random.Generator
    ) -> Array:
        best = best_rows(history)
        utility, surrogates = self._utility(history, best[:_RIVALS], pending, rng)
        relative = any(surrogate.relative for surrogate in surrogates)
        losses = history.all_losses
        flat = len(history) > 1 and not np.ptp(losses, axis=0).any()  # or all failed
        repeating = any(surrogate.revisits for surrogate in surrogates) and crowded(history.X)
        stalled = EVERYWHERE if flat or repeating else 0
        return self.maximizer(
            utility,
            self.encoder,
            rng,
            seen,
            history.X[best[:_ELITE]],
            relative=relative,
            stalled=stalled,
            blind=not len(history),
        )

    def _tasks(self, history: Task) -> list[Task]:
        """The history of each objective; without a value all of them are alike."""
        if history.objectives is None:
            return [history.single(history.y)] * len(self.objectives)
        return [history.single(column) for column in history.objectives.T]

    def _utility(
        self, history: Task, rows: list[int], pending: Array, rng: np.random.Generator
    ) -> tuple[Utility, list[Surrogate]]:
        """Fit the surrogates; return the utility function and the surrogates.

        Args:
            history: evaluations so far.
            rows: indices of the evaluations that can be on the front.
            pending: configurations (m, d) that are being evaluated.
            rng: random generator.
        """
        seed = int(rng.integers(2**31))
        pairs = zip(self.objectives, self._tasks(history), strict=True)
        surrogates = [believing(part, task, pending, seed) for part, task in pairs]
        limits = self._limits(history, pending, seed)
        cost = self._cost(history, seed)
        usable = [k for k in rows if history.feasible[k]]
        if len(history):
            rivals = np.concatenate([history.X[usable], pending]) if usable else history.X[:0]
        else:
            codes = self.encoder.sample_codes(_REFERENCE, np.random.default_rng(seed))
            rivals = self.encoder.encode_codes(codes)

        def utility(X: Array) -> Array:
            total = np.zeros(len(X))
            for surrogate, limit in limits:
                posterior = surrogate.predict(X)
                std = posterior.std if len(history) else without_level(posterior.std)
                std = np.maximum(std, _TINY * max(1.0, float(np.ptp(posterior.mean))))
                total += log_ndtr((limit - posterior.mean) / std)
            if cost is not None:
                total -= cost.predict(X)
            if not len(rivals):
                return total
            # One prediction for candidates and rivals, because ranks are relative to a set.
            both = [surrogate.predict(np.concatenate([X, rivals])) for surrogate in surrogates]
            mean = np.stack([posterior.mean for posterior in both], axis=1)
            std = np.stack([posterior.std for posterior in both], axis=1)
            if not len(history):
                std = without_level(std)
            std = np.maximum(std, _TINY * np.maximum(np.ptp(mean, axis=0), 1e-300))[: len(X)]
            lower, upper = self._boxes(mean[len(X) :], known=len(history) > 0)
            return total + log_expected_improvement(mean[: len(X)], std, lower, upper)

        return utility, surrogates

    def _cost(self, history: Task, seed: int) -> CostModel | None:
        """The model of seconds, if the acquisition function of the objectives needs one."""
        part = self.objectives[0]
        if not part.acquisition.needs_cost:
            return None
        return CostModel(lambda: part.cost_surrogate(seed), part.cost_prior).fit(history)

    def _boxes(self, rivals: Array, *, known: bool) -> tuple[Array, Array]:
        """What the front of the rivals' means (n, m) leaves, see `free_boxes`.

        Before the first evaluation the rivals are random, and what is better than their mean
        counts as an improvement.
        """
        if not known:
            return free_boxes(rivals[:0], rivals.mean(axis=0))
        front = np.unique(rivals[on_front(rivals)], axis=0)
        if rivals.shape[1] == 1:
            return free_boxes(front[:0], front[0])
        most = _MOST_ON_FRONT.get(rivals.shape[1], len(front))
        if len(front) > most:
            front = front[np.linspace(0, len(front) - 1, most).astype(int)]
        return free_boxes(front, reference_point(rivals))

    def _limits(self, history: Task, pending: Array, seed: int) -> list[tuple[Surrogate, float]]:
        """For each constraint, the surrogate of its values and the limit that must not be passed.

        Before the first evaluation they are those of the source tasks, then those that this study
        has. A constraint without a value is left out, unless source tasks have it.
        """
        found = []
        for name in history.constraints if len(history) else self.constraints:
            values = history.constraints.get(name, np.full(len(history), np.nan))
            known = np.flatnonzero(np.isfinite(values))
            part = self.constraints.get(name, self.plain)
            if not len(known) and not part.informed:
                continue
            task = history.single(softened(values)).rows(known.tolist())
            task = replace(task, status=(OK,) * len(known), fence=math.inf)
            limit = 0.0 if len(known) else self.limits.get(name, 0.0)
            found.append((believing(part, task, pending, seed), limit))
        return found


def believing(part: ModelStrategy, task: Task, pending: Array, seed: int) -> Surrogate:
    """A surrogate of a task that expects its own prediction at pending configurations.

    Args:
        part: strategy with the surrogate.
        task: evaluations so far.
        pending: configurations (m, d) that are being evaluated.
        seed: seed of the surrogate.
    """
    surrogate = part.make_surrogate(seed).fit(task)
    if not len(pending):
        return surrogate
    if surrogate.believes:
        return surrogate.believing(pending)
    if not len(task):
        return surrogate
    usual = np.full(len(pending), task.losses.mean())
    expected = surrogate.predict(pending).mean if surrogate.in_losses else usual
    return part.make_surrogate(seed).fit(task.extended(pending, expected))


def softened(values: Array) -> Array:
    """Values (n,) of a constraint on a scale that is linear near the limit, logarithmic far away.

    It is the transform of Eriksson and Poloczek, "Scalable constrained Bayesian optimization"
    (AISTATS 2021), after division by the median size. Signs are kept.
    """
    size = np.abs(values[np.isfinite(values)])
    scale = float(np.median(size[size > 0])) if (size > 0).any() else 1.0
    found: Array = np.sign(values) * np.log1p(np.abs(values) / scale)
    return found


def without_level(std: Array) -> Array:
    """Standard deviations (n, ...) of standardized losses before the first evaluation.

    The level of the losses is unknown then, and it is the same for all configurations, so that
    their smallest variance says nothing about differences. Half a standard deviation remains.
    """
    variance = np.square(std) - np.square(std.min(axis=0, initial=np.inf))
    found: Array = np.sqrt(np.maximum(variance, 0.0) + _UNCERTAIN**2)
    return found


def best_rows(history: Task) -> list[int]:
    """Indices of the evaluations, best first: feasible ones, then by the number that dominate."""
    dominated = times_dominated(-history.all_losses)
    order: list[int] = np.lexsort((dominated, ~history.feasible)).tolist()
    return order


def joint(
    objectives: list[Strategy],
    plain: Strategy,
    constraints: Mapping[str, Strategy] | None = None,
    limits: Mapping[str, float] | None = None,
) -> JointStrategy:
    """Join strategies, one for each objective and constraint, to one strategy.

    Args:
        objectives: strategy of each objective, all of one space.
        plain: strategy for constraints that no source task has.
        constraints: strategy by name of the constraints that source tasks have.
        limits: see `JointStrategy.limits`.

    Raises:
        OptionError: a strategy has no surrogate.
    """
    parts = tuple(_with_surrogate(strategy) for strategy in objectives)
    if len(parts) >= _LINEAR_FROM:
        parts = tuple(_in_their_scale(part) for part in parts)
    others = {name: _with_surrogate(part) for name, part in (constraints or {}).items()}
    informed = any(part.informed for part in parts)
    design = None if informed else parts[0].design
    values = _in_their_scale(_with_surrogate(plain))
    return JointStrategy(parts[0].encoder, design, parts, values, others, dict(limits or {}))


def _in_their_scale(part: ModelStrategy) -> ModelStrategy:
    """A strategy without source tasks whose surrogate does not transform the losses.

    On a logarithmic scale the smallest loss of an objective is uncertain by much of what lies
    above it. With three objectives the volume behind such a loss is so large that its corner of
    the front is searched for ever.
    """
    if part.informed or part.make_cost_surrogate is None:
        return part
    return replace(part, make_surrogate=part.make_cost_surrogate)


def _with_surrogate(strategy: Strategy) -> ModelStrategy:
    if isinstance(strategy, GuardedStrategy):
        strategy = strategy.transfer
    if isinstance(strategy, ModelStrategy):
        return strategy
    raise OptionError(
        f"{type(strategy).__name__} has no model of the losses, which several objectives and "
        "constraints need: choose another method, such as 'auto' (with past studies) or 'mbo'"
    )
