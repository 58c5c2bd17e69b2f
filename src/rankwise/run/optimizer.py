"""Optimizer: ask for configurations and tell their losses."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import Self

from rankwise import methods
from rankwise.acquisition.maximizer import Seen
from rankwise.context.data import known_facts
from rankwise.errors import OptionError, SpaceExhausted, check_name, is_number
from rankwise.history.build import build_task
from rankwise.history.task import INVALID, OK, STATUSES, Task, TaskSet
from rankwise.history.trial import PENDING, PRUNED, Trial
from rankwise.run.next_row import make_design, next_row, trial_rng
from rankwise.space.design import Design
from rankwise.space.encoder import Encoder
from rankwise.strategies.base import Explanation, Strategy
from rankwise.strategies.growing import Growing
from rankwise.surrogates.transfer_trust import Evidence
from rankwise.types import Array, Configuration

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

_DEFAULT_AT = 2  # number of the trial that evaluates the default configuration at the latest


class Optimizer:
    """Proposes configurations one by one or several at once; smaller values are better.

    The proposal of trial k depends only on the seed, on k and on the earlier trials. So an
    optimizer can be pickled, or rebuilt from its trials, and continues in the same way.

    Args:
        space: a ConfigSpace space or the dict shorthand of `rankwise.make_space`.
        method: a name of `rankwise.methods.available()`.
        design: initial design that replaces the method's own: a `Design`, a text
            such as "lhs", "sobol-2d" or "random-10", a size, or a list of configurations.
        tasks: source tasks of the same space, for transfer methods.
        seed: seed of all random numbers; None draws one (see `seed`).
        context: facts about the data set of the study: `rankwise.Context.of(X, y)`, or numbers by
            name, such as `rankwise.context.meta_features` returns. Methods that compare data sets
            use it.
        grow: a `rankwise.Growing`: an integer that activates other hyperparameters, such as the
            number of layers, increases level by level within a budget.
        **options: options of the method.

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

    def with_strategy(self, strategy: Strategy) -> Self:
        """A copy with another strategy of the same space; call `restarted` before use."""
        twin = copy.copy(self)
        twin._strategy = strategy
        return twin

    def growing(self, grow: Growing) -> Self:
        """A copy whose search grows level by level; call `restarted` before use."""
        return self.with_strategy(grow.strategy(self._strategy))

    def restarted(
        self,
        *,
        design: Design | str | int | Sequence[Mapping[str, Any]] | None = None,
        seed: int | None = None,
    ) -> Self:
        """A copy without trials that keeps what was learnt from source tasks."""
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

    # ------------------------------------------------------------------ state

    @property
    def trust(self) -> float | None:
        """Transfer trust: probability that source tasks predict the order of the trials.

        See `evidence`. None for methods without such a prediction: `auto`, `eb-gp`, `eb-net`
        and `dre-gp` have one, and all transfer methods with `guard=True`.
        """
        return self._strategy.trust(self.history)

    @property
    def evidence(self) -> Evidence | None:
        """Evidence for the transfer trust: how well source tasks ordered the trials.

        None if the trust is None.
        """
        return self._strategy.evidence(self.history)

    def origin(self, trial: Trial, pending: int = 0) -> str:
        """What the proposal of a new trial is based on (see `Strategy.origin`).

        Args:
            trial: the trial.
            pending: number of trials that were being evaluated when it was proposed.
        """
        if trial.number < len(self._design_rows):
            return "initial design"
        return self._strategy.origin(self.history, pending)

    def similar_tasks(self) -> dict[str, float] | None:
        """Similarity of source tasks to this study by name, most similar first.

        For `dist-gp` and its relatives it is the learnt similarity of the data sets, from 0 to 1;
        for methods that weight source tasks, their weights. None for other methods.
        """
        return self._strategy.similar_tasks(self.history)

    def explain(self, configurations: Sequence[Mapping[str, Any]]) -> list[Explanation]:
        """Predictions of the method for configurations, given the trials so far."""
        return self._strategy.explain(self.history, self.encoder.encode(configurations))

    def explain_trials(self, trials: Sequence[Trial]) -> list[Explanation]:
        """Like `explain`, for trials of this optimizer."""
        return self._strategy.explain(self.history, self._matrix([t.number for t in trials]))

    @property
    def strategy(self) -> Strategy:
        """The strategy of the method, including what it learnt from source tasks."""
        return self._strategy

    @property
    def trials(self) -> list[Trial]:
        """All trials, including pending ones, ordered by number."""
        return [self._trials[k] for k in sorted(self._trials)]

    @property
    def best(self) -> Trial | None:
        """The trial with the smallest value, the earliest in a tie; None without a value."""
        return min((t for t in self.trials if t.status == OK), key=lambda t: t.value, default=None)

    @property
    def history(self) -> Task:
        """The finished trials as a task, ordered by number."""
        return self._task([t for t in self.trials if t.status != PENDING])

    @property
    def pending(self) -> Array:
        """The configurations (m, d) that were proposed and not told yet."""
        return self._matrix([t.number for t in self.trials if t.status == PENDING])

    # ------------------------------------------------------------------ ask and tell

    def ask(self, n: int = 1) -> list[Configuration]:
        """Propose n new configurations, different from all proposed or told so far.

        A finite space that is nearly exhausted gives fewer than n.

        Raises:
            SpaceExhausted: the space has no new configuration.
        """
        return [trial.configuration for trial in self.propose(n)]

    def propose(self, n: int = 1, *, since: int | None = None) -> list[Trial]:
        """Like `ask`, but returns the pending trials with their numbers.

        Args:
            n: number of configurations.
            since: number of the first trial of the current batch. Results of trials from this
                number on are ignored, as if they were pending, so that an interrupted batch is
                completed as it would have been.
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
        """Add a trial, pending or finished, under its own number.

        Raises:
            ConfigurationError: its configuration does not belong to the space.
        """
        known = self._trials.get(trial.number)
        if known is None or known.configuration is not trial.configuration:
            self._rows[trial.number] = self.encoder.encode([trial.configuration])[0]
        self._trials[trial.number] = trial
        return trial

    def reserve(self, n: int) -> None:
        """Reserve the numbers below n for trials that are not known here."""
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
        """Record an evaluation of a proposed or of any other configuration.

        Args:
            configuration: a configuration of the space.
            value: the loss; smaller is better. NaN and infinities make the trial "invalid".
            cost: seconds of the evaluation.
            status: "ok", "failed", "invalid" or "timeout"; by default derived from the value.
            error: error message.

        Raises:
            ConfigurationError: the configuration does not belong to the space; nothing is
                recorded.
        """
        row = self.encoder.encode([configuration])[0]
        number = self._pending_number(row)
        if number is not None:
            return self.finish(number, value, cost=cost, status=status, error=error)
        trial = Trial(self._next_number(), dict(configuration), shared=True)
        trial = _finished(trial, value, cost, status, error)
        self._rows[trial.number], self._trials[trial.number] = row, trial
        return trial

    def finish(
        self,
        number: int,
        value: float = math.nan,
        *,
        cost: float | None = None,
        status: str | None = None,
        error: str = "",
        values: Sequence[float] = (),
        curve: Mapping[int, float] | None = None,
    ) -> Trial:
        """Record the evaluation of a pending trial.

        Args:
            number: number of the trial.
            value: see `tell`; so are the other arguments.
            cost: seconds of the evaluation.
            status: "ok", "failed", "invalid", "timeout" or "pruned"; by default derived from the
                value.
            error: error message.
            values: losses of all objectives, if there are several; `value` is the first.
            curve: intermediate losses by step.

        Raises:
            OptionError: there is no pending trial of this number.
        """
        if number not in self._trials or self._trials[number].status != PENDING:
            raise OptionError(f"there is no pending trial {number}")
        done = _finished(self._trials[number], value, cost, status, error)
        self._trials[number] = replace(done, values=tuple(values), curve=dict(curve or {}))
        return self._trials[number]

    # ------------------------------------------------------------------ helpers

    def _propose_row(self, number: int, since: int | None) -> tuple[Array, bool]:
        """The next row (d,), and the value of `Trial.shared`."""
        known = [
            t for t in self.trials if t.status != PENDING and (since is None or t.number < since)
        ]
        history = self._task(known)
        pending = self._matrix(sorted(set(self._trials) - {t.number for t in known}))
        proposing = float(np.nansum([trial.proposal_seconds for trial in known]))
        level = self._strategy.level(history, len(pending), proposing)
        design = self._design_rows[: 0 if level else None]  # it belongs to the lowest level
        propose = partial(self._strategy.propose_at, level)
        rng = trial_rng(self.seed, number)
        if number == _DEFAULT_AT and (default := self._default_row(history, pending)) is not None:
            return default, True
        row, shared = next_row(propose, design, number, history, pending, rng)
        if number == 0 and (default := self._default_row(history, pending)) is not None:
            expected = self._strategy.foresight(self.context)
            if expected is not None and np.diff(expected(np.stack([default, row])))[0] > 0:
                row = default
        return row, shared or self._strategy.shares_proposals

    def _default_row(self, history: Task, pending: Array) -> Array | None:
        """The default configuration (d,), a candidate among the first trials of a transfer method.

        None if nobody chose a default, if it was proposed already, or without past studies: then
        the initial design decides.
        """
        strategy, encoder = self._strategy, self.encoder
        learnt = strategy.informed and strategy.learner is not None
        if not learnt or self._design is not None or strategy.opening is not encoder:
            return None
        if not encoder.has_default:
            return None
        default = encoder.encode([encoder.default])
        return default[0] if Seen(history.X, pending).new(default)[0] else None

    def _next_number(self) -> int:
        return max(max(self._trials, default=-1) + 1, self._reserved)

    def _pending_number(self, row: Array) -> int | None:
        for number, trial in sorted(self._trials.items()):
            if trial.status == PENDING and np.array_equal(self._rows[number], row):
                return number
        return None

    def _task(self, trials: list[Trial]) -> Task:
        several = None
        m = max((len(t.values) for t in trials), default=1)
        if m > 1:  # a failed trial has no values
            several = np.array([t.values or (np.nan,) * m for t in trials], dtype=float)
        return build_task(
            self._matrix([t.number for t in trials]),
            [t.last for t in trials],
            costs=[t.cost for t in trials],
            statuses=[_status(t) for t in trials],
            pruned=[t.pruned for t in trials],
            shared=[t.shared for t in trials],
            context=self.context,
            objectives=several,
            directions=["minimize"] * m,
        )

    def _matrix(self, numbers: list[int]) -> Array:
        rows = [self._rows[k] for k in numbers]
        return np.array(rows, dtype=float).reshape(len(rows), self.encoder.n_columns)

    @cached_property
    def _design_rows(self) -> Array:
        if isinstance(self._design, list):
            return self.encoder.encode(self._design)
        return make_design(self._design, self._strategy, self.seed)

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
        self.encoder.encode(
            configurations
        )  # raise on an invalid configuration now, not at trial k
        return configurations


def _finished(
    trial: Trial, value: float, cost: float | None, status: str | None, error: str
) -> Trial:
    """The trial with the result of its evaluation; the arguments are those of `tell`."""
    value = float(value)
    if status is None:
        status = OK if math.isfinite(value) else INVALID
    check_name("status", status, (*STATUSES, PRUNED))
    if status == OK and not math.isfinite(value):
        status = INVALID
    return replace(
        trial,
        status=status,
        value=value if status == OK else math.nan,
        cost=math.nan if cost is None else float(cost),
        error=error,
    )


def _status(trial: Trial) -> str:
    """The status of a trial in a task: a pruned one has a loss if it reported a number."""
    if trial.status != PRUNED:
        return trial.status
    return OK if trial.pruned else INVALID


def check_seed(seed: int | None) -> int:
    """Check a seed; None draws a new one."""
    if seed is None:
        return int(np.random.SeedSequence().entropy) % 2**32  # type: ignore[arg-type]
    if not is_number(seed, Integral) or seed < 0:
        raise OptionError(f"a seed is a non-negative integer or None, not {seed!r}")
    return int(seed)
