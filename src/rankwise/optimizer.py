"""Optimizer: ask for configurations, tell what came of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from ConfigSpace import ConfigurationSpace

from rankwise import methods
from rankwise.design import Design
from rankwise.errors import OptionError, SpaceExhausted, check_name
from rankwise.proposal import Seen
from rankwise.space import Encoder
from rankwise.task import INVALID, OK, STATUSES, Task
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
        value: the loss, smaller is better; NaN unless the status is "ok".
        cost: seconds of the evaluation; NaN if unknown.
        error: what went wrong, if anything.
        proposal_seconds: how long it took to propose.
    """

    number: int
    configuration: Configuration
    status: str = PENDING
    value: float = math.nan
    cost: float = math.nan
    error: str = ""
    proposal_seconds: float = math.nan


class Optimizer:
    """Proposes configurations one by one or several at once; smaller values are better.

    The proposal of trial k depends on the seed, on k and on what was told before it, on nothing
    else: an optimizer can be pickled, or rebuilt from its history, and goes on the same.

    Args:
        space: a ConfigSpace space or the dict shorthand of `rankwise.make_space`.
        method: a name of `rankwise.methods.available()`.
        design: what to evaluate first instead of the method's own design: a `Design`, a text
            such as "lhs", "sobol-2d" or "random-10", a size, or a list of configurations.
        seed: of all randomness; None draws one (see `seed`).
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
        method: str = "mbo",
        design: Design | str | int | Sequence[Mapping[str, Any]] | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        self.encoder = space if isinstance(space, Encoder) else Encoder(space)
        self.method = method
        self.seed = check_seed(seed)
        self._strategy = methods.make(method, self.encoder, **options)
        self._design = self._choose_design(design)
        self._trials: dict[int, Trial] = {}
        self._rows: dict[int, Array] = {}

    # ------------------------------------------------------------------ what is known

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
        finished = [t for t in self.trials if t.status != PENDING]
        return Task.of(
            self._matrix([t.number for t in finished]),
            [t.value for t in finished],
            [t.cost for t in finished],
            [t.status for t in finished],
        )

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

    def propose(self, n: int = 1) -> list[Trial]:
        """Like `ask`, but returns the pending trials with their numbers."""
        if n < 1:
            raise OptionError(f"ask for at least one configuration, not {n}")
        proposed: list[Trial] = []
        for _ in range(n):
            number = self._next_number()
            try:
                row = self._propose_row(number)
            except SpaceExhausted:
                if proposed:
                    break
                raise
            [configuration] = self.encoder.decode(row[None])
            proposed.append(self.restore(Trial(number, configuration)))
        return proposed

    def restore(self, trial: Trial) -> Trial:
        """Take over a trial as it is, pending or finished, under its own number.

        Raises:
            ConfigurationError: its configuration is not one of the space.
        """
        self._rows[trial.number] = self.encoder.encode([trial.configuration])[0]
        self._trials[trial.number] = trial
        return trial

    def tell(
        self,
        configuration: Mapping[str, Any],
        value: float,
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
        known = self._trials.get(number) or Trial(number, dict(configuration))
        self._trials[number] = replace(
            known,
            status=status,
            value=value if status == OK else math.nan,
            cost=math.nan if cost is None else float(cost),
            error=error,
        )
        return self._trials[number]

    # ------------------------------------------------------------------ helpers

    def _propose_row(self, number: int) -> Array:
        history, pending = self.history, self.pending
        if number < len(self._design_rows):
            seen = Seen(history.X, pending)
            fresh = self._design_rows[seen.new(self._design_rows)]
            if len(fresh):
                row: Array = fresh[0]
                return row
        return self._strategy.propose(history, pending, self._rng(number))

    def _rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, stream])

    def _next_number(self) -> int:
        return max(self._trials, default=-1) + 1

    def _pending_number(self, row: Array) -> int | None:
        for number, trial in sorted(self._trials.items()):
            if trial.status == PENDING and np.array_equal(self._rows[number], row):
                return number
        return None

    def _matrix(self, numbers: list[int]) -> Array:
        rows = [self._rows[k] for k in numbers]
        return np.array(rows, dtype=float).reshape(len(rows), self.encoder.n_columns)

    @cached_property
    def _design_rows(self) -> Array:
        if isinstance(self._design, Design):
            return self._design.make(self.encoder, self._rng(_DESIGN_STREAM))
        return self.encoder.encode(self._design or [])

    def _choose_design(
        self, design: Design | str | int | Sequence[Mapping[str, Any]] | None
    ) -> Design | list[dict[str, Any]] | None:
        if design is None:
            return self._strategy.design
        if isinstance(design, Design | str | int):
            return Design.parse(design, self._strategy.design)
        configurations = [dict(configuration) for configuration in design]
        self.encoder.encode(configurations)  # a wrong one is reported now, not at trial k
        return configurations


def check_seed(seed: int | None) -> int:
    """The seed itself, or a fresh one for None."""
    if seed is None:
        return int(np.random.SeedSequence().entropy) % 2**32  # type: ignore[arg-type]
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise OptionError(f"a seed is a non-negative integer or None, not {seed!r}")
    return int(seed)
