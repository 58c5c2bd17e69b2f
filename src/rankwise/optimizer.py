"""Optimizer: ask for configurations, tell what came of them."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from ConfigSpace import ConfigurationSpace
from typing_extensions import Self

from rankwise import methods
from rankwise.context.data import known_facts
from rankwise.design import Design
from rankwise.errors import OptionError, SpaceExhausted, check_name, is_number
from rankwise.growing import Growing, GrowingStrategy
from rankwise.proposal import Seen
from rankwise.space import Encoder
from rankwise.strategy import Explanation, Strategy
from rankwise.task import INVALID, OK, STATUSES, Task, TaskSet
from rankwise.types import Array, Configuration

PENDING = "pending"
_DESIGN_STREAM = 2**32  # a trial number that no trial has: the design's own random numbers


@dataclass(frozen=True)
class Trial:
    """One configuration and what became of it.

    Attributes:
        number: trials are numbered from 0 in the order in which they were proposed.
        configuration: the active hyperparameters.
        status: "pending", "ok", "failed", "invalid" or "timeout".
        value: the loss, smaller is better; NaN unless the status is "ok". Where a result or
            a callback shows a trial, it is in the user's own direction.
        cost: seconds of the evaluation; NaN if unknown.
        error: what went wrong, if anything.
        proposal_seconds: how long it took to propose.
        shared: the method was not asked for it alone, with all earlier trials known: it is of a
            design, of a batch, or was told without being asked for.
    """

    number: int
    configuration: Configuration
    status: str = PENDING
    value: float = math.nan
    cost: float = math.nan
    error: str = ""
    proposal_seconds: float = math.nan
    shared: bool = False


class Optimizer:
    """Proposes configurations one by one or several at once; smaller values are better.

    The proposal of trial k depends on the seed, on k and on what was told before it, on nothing
    else: an optimizer can be pickled, or rebuilt from its history, and goes on the same.

    Args:
        space: a ConfigSpace space or the dict shorthand of `rankwise.make_space`.
        method: a name of `rankwise.methods.available()`.
        design: what to evaluate first instead of the method's own design: a `Design`, a text
            such as "lhs", "sobol-2d" or "random-10", a size, or a list of configurations.
        tasks: past tasks of the same space, for a method that learns from them.
        seed: of all randomness; None draws one (see `seed`).
        context: what is known about the data set of the study: `rankwise.Context.of(X, y)`, or
            numbers by name, such as `rankwise.context.meta_features` gives. Methods that compare
            data sets use it.
        grow: let a number that unlocks other hyperparameters, such as the number of layers, go up
            level by level: a `rankwise.Growing` that says its budget.
        **options: of the method.

    Example:
        >>> optimizer = Optimizer({"x": (-5.0, 5.0)}, method="gp", seed=1)
        >>> for _ in range(3):
        ...     [configuration] = optimizer.ask()
        ...     _ = optimizer.tell(configuration, configuration["x"] ** 2)
    """

    def __init__(
        self,
        space: ConfigurationSpace | Mapping[str, Any] | Encoder,
        *,
        method: str = "auto",
        design: Design | str | int | Sequence[Mapping[str, Any]] | None = None,
        tasks: TaskSet | Sequence[Task] = (),
        seed: int | None = None,
        context: Mapping[str, float] | None = None,
        grow: str | Growing | None = None,
        **options: Any,
    ) -> None:
        self.context = known_facts(context)
        self.encoder = space if isinstance(space, Encoder) else Encoder(space)
        self.method = method
        seed = check_seed(seed)
        self._strategy = methods.make(method, self.encoder, tasks, **options)
        if grow is not None:
            self._strategy = Growing.of(grow).strategy(self._strategy)
        self._begin(seed, design)

    def growing(self, grow: Growing) -> Self:
        """An optimizer of the same method that grows; call `restarted` to begin."""
        twin = copy.copy(self)
        twin._strategy = grow.strategy(self._strategy)
        return twin

    def restarted(
        self,
        *,
        design: Design | str | int | Sequence[Mapping[str, Any]] | None = None,
        seed: int | None = None,
    ) -> Self:
        """An optimizer without trials of the same method, which need not learn the past again."""
        twin = copy.copy(self)
        twin._begin(check_seed(seed), design)
        return twin

    def _begin(self, seed: int, design: Any) -> None:
        self.seed = seed
        self._design = self._choose_design(design)
        self.__dict__.pop("_design_rows", None)
        self._trials: dict[int, Trial] = {}
        self._rows: dict[int, Array] = {}
        self._reserved = 0

    # ------------------------------------------------------------------ what is known

    @property
    def trust(self) -> float | None:
        """How probable it is that the past applies to this study; None if there is no telling.

        `eb-gp` and `eb-net` weigh, by the evaluations so far, models that use past tasks against
        models that do not. With `guard=True` it is how sure the guard is that the past puts three
        pairs of four of the evaluations in the right order.
        """
        return self._strategy.trust(self.history)

    def similar_tasks(self) -> dict[str, float] | None:
        """How similar past tasks are to this study, by name, from most to least.

        For `dist-gp` and its kin the learnt similarity of the data sets, from 0 to 1; for methods
        that weigh past tasks, their weights. None for methods that cannot say.
        """
        return self._strategy.similar_tasks(self.history)

    def explain(self, configurations: Sequence[Mapping[str, Any]]) -> list[Explanation]:
        """What the method believes of configurations after the evaluations so far."""
        return self._strategy.explain(self.history, self.encoder.encode(configurations))

    @property
    def strategy(self) -> Strategy:
        """How the method proposes, with what it has learnt."""
        return self._strategy

    @property
    def trials(self) -> list[Trial]:
        """All trials in the order of their numbers, pending ones included."""
        return [self._trials[k] for k in sorted(self._trials)]

    @property
    def best(self) -> Trial | None:
        """The trial with the smallest value, the earliest of several; None without any."""
        return min((t for t in self.trials if t.status == OK), key=lambda t: t.value, default=None)

    @property
    def history(self) -> Task:
        """The finished trials as a task, ordered by number."""
        return self._task([t for t in self.trials if t.status != PENDING])

    @property
    def pending(self) -> Array:
        """The configurations (m, d) that were asked for and not told yet."""
        return self._matrix([t.number for t in self.trials if t.status == PENDING])

    # ------------------------------------------------------------------ ask and tell

    def ask(self, n: int = 1) -> list[Configuration]:
        """n new configurations, different from all asked or told so far.

        A finite space that runs out gives fewer than n.

        Raises:
            SpaceExhausted: it has none left.
        """
        return [trial.configuration for trial in self.propose(n)]

    def propose(self, n: int = 1, *, since: int | None = None) -> list[Trial]:
        """Like `ask`, but returns the pending trials with their numbers.

        Args:
            n: how many.
            since: the number of the first trial of the current batch. What came of the trials
                from there on is ignored, as if they were still pending, so that a batch
                that was interrupted is completed as it would have been.
        """
        if n < 1:
            raise OptionError(f"ask for at least one configuration, not {n}")
        proposed: list[Trial] = []
        for _ in range(n):
            number = self._next_number()
            try:
                row, shared = self._propose_row(number, since)
            except SpaceExhausted:
                if proposed:
                    break
                raise
            [configuration] = self.encoder.decode(row[None])
            proposed.append(self.restore(Trial(number, configuration, shared=shared)))
        return proposed

    def restore(self, trial: Trial) -> Trial:
        """Take over a trial as it is, pending or finished, under its own number.

        Raises:
            ConfigurationError: its configuration is not one of the space.
        """
        self._rows[trial.number] = self.encoder.encode([trial.configuration])[0]
        self._trials[trial.number] = trial
        return trial

    def reserve(self, n: int) -> None:
        """Leave the numbers below n to trials of which nothing is known."""
        self._reserved = max(self._reserved, n)

    def tell(
        self,
        configuration: Mapping[str, Any],
        value: float = math.nan,
        *,
        cost: float | None = None,
        status: str | None = None,
        error: str = "",
    ) -> Trial:
        """Record an evaluation, of a configuration that was asked for or of any other.

        Args:
            configuration: of the space.
            value: the loss; smaller is better. NaN and infinities make the trial "invalid".
            cost: seconds it took.
            status: "ok", "failed", "invalid" or "timeout"; by default it follows from the value.
            error: what went wrong.

        Raises:
            ConfigurationError: the configuration is not one of the space. Nothing is recorded.
        """
        row = self.encoder.encode([configuration])[0]
        value = float(value)
        if status is None:
            status = OK if math.isfinite(value) else INVALID
        check_name("status", status, STATUSES)
        if status == OK and not math.isfinite(value):
            status = INVALID
        number = self._pending_number(row)
        if number is None:
            number = self._next_number()
        self._rows[number] = row
        known = self._trials.get(number) or Trial(number, dict(configuration), shared=True)
        self._trials[number] = replace(
            known,
            status=status,
            value=value if status == OK else math.nan,
            cost=math.nan if cost is None else float(cost),
            error=error,
        )
        return self._trials[number]

    # ------------------------------------------------------------------ helpers

    def _propose_row(self, number: int, since: int | None) -> tuple[Array, bool]:
        """A row (d,), and whether it is `Trial.shared`."""
        known = [
            t for t in self.trials if t.status != PENDING and (since is None or t.number < since)
        ]
        history = self._task(known)
        pending = self._matrix(sorted(set(self._trials) - {t.number for t in known}))
        level = self._level(known, history, len(pending))
        if number < len(self._design_rows) and not level:
            seen = Seen(history.X, pending)
            fresh = self._design_rows[seen.new(self._design_rows)]
            if len(fresh):
                return fresh[0], True
        rng = self._rng(number)
        if isinstance(self._strategy, GrowingStrategy):  # which adds some of its own
            return self._strategy.propose_at(level, history, pending, rng), True
        return self._strategy.propose(history, pending, rng), len(pending) > 0

    def _level(self, known: list[Trial], history: Task, pending: int) -> int:
        """Of a search that grows; a design is over when the lowest level is."""
        if not isinstance(self._strategy, GrowingStrategy):
            return 0
        proposing = float(np.nansum([trial.proposal_seconds for trial in known]))
        return self._strategy.level(self._strategy.spent(history, pending, proposing))

    def _rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, stream])

    def _next_number(self) -> int:
        return max(max(self._trials, default=-1) + 1, self._reserved)

    def _pending_number(self, row: Array) -> int | None:
        for number, trial in sorted(self._trials.items()):
            if trial.status == PENDING and np.array_equal(self._rows[number], row):
                return number
        return None

    def _task(self, trials: list[Trial]) -> Task:
        return Task.of(
            self._matrix([t.number for t in trials]),
            [t.value for t in trials],
            [t.cost for t in trials],
            [t.status for t in trials],
            context=self.context,
            shared=[t.shared for t in trials],
        )

    def _matrix(self, numbers: list[int]) -> Array:
        rows = [self._rows[k] for k in numbers]
        return np.array(rows, dtype=float).reshape(len(rows), self.encoder.n_columns)

    @cached_property
    def _design_rows(self) -> Array:
        if isinstance(self._design, Design):
            return self._design.make(self._strategy.opening, self._rng(_DESIGN_STREAM))
        return self.encoder.encode(self._design or [])

    def _choose_design(self, design: Any) -> Design | list[dict[str, Any]] | None:
        if design is None:
            return self._strategy.design
        if is_number(design, Integral):
            design = int(design)
        if isinstance(design, Design | str | int):
            return Design.parse(design, self._strategy.design)
        if isinstance(design, Mapping) or not isinstance(design, Sequence):
            raise OptionError(
                "a design is a name, a size or a list of configurations, "
                f"not a {type(design).__name__}"
            )
        configurations = [dict(configuration) for configuration in design]
        self.encoder.encode(configurations)  # a wrong one is reported now, not at trial k
        return configurations


def check_seed(seed: int | None) -> int:
    """The seed itself, or a fresh one for None."""
    if seed is None:
        return int(np.random.SeedSequence().entropy) % 2**32  # type: ignore[arg-type]
    if not is_number(seed, Integral) or seed < 0:
        raise OptionError(f"a seed is a non-negative integer or None, not {seed!r}")
    return int(seed)
