"""Growing searches: an integer that activates other hyperparameters increases level by level.

This is model-based optimization with an increasing number of layers (MBOINL; Klepper,
"Configuration of Deep Neural Networks Using Model-Based Optimization", 2018, algorithm 2) for any
such integer and any method. First only the lowest values are proposed, which are cheap and
activate few hyperparameters. Their trials are the history with which the next level begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np

from rankwise.acquisition.maximizer import Seen, random_unseen
from rankwise.errors import OptionError, SpaceExhausted, UnknownNameError, check_count, is_number
from rankwise.history.task import Task
from rankwise.space.design import Design
from rankwise.space.encoder import Encoder
from rankwise.space.parameters import Number
from rankwise.strategies.base import Explanation, Learner, Strategy
from rankwise.strategies.baselines import legal_rows
from rankwise.surrogates.transfer_trust import Evidence
from rankwise.types import Array, Mask

DESIGN = 5
"""Size of the initial design at the lowest level, as in the thesis, if the method needs one."""

MOST_LEVELS = 12
"""Largest number of values for which every value is a level by default."""

_SAMPLE = 256  # random configurations that show what is never active at the lowest level


@dataclass(frozen=True)
class Growing:
    """Settings of a growing search.

    Attributes:
        by: integer hyperparameter that activates others, such as the number of layers.
        levels: its largest value at each level, in increasing order. By default every value is a
            level.
        shares: share of the budget for each level. By default each level gets twice as much as
            the one before: 1/7, 2/7 and 4/7 for three levels.
        least: number of trials with new values of `by` at the beginning of each level above the
            lowest. They make sure that one bad trial does not end a level, and run even if the
            budget of the level is already used up.
        given: configurations that are evaluated at the beginning of their level, such as networks
            that are known to work.
        trials: budget in trials for all levels together; by default that of the run.
        seconds: budget in seconds of proposals and evaluations, instead of `trials`.
        workers: number of workers that share these seconds; by default that of the run.

    Example:
        >>> from rankwise import minimize
        >>> space = {"depth": (1, 3), "x": (0.0, 1.0)}
        >>> found = minimize(
        ...     lambda c: (c["x"] - 0.3) ** 2 + 1 / c["depth"],
        ...     space, trials=14, seed=0, grow=Growing("depth", least=1), progress=False,
        ... )
        >>> found.history["params_depth"].tolist()
        [1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3]
    """

    by: str
    levels: Sequence[int] | None = None
    shares: Sequence[float] | None = None
    least: int = 3
    given: Sequence[Mapping[str, Any]] = ()
    trials: int | None = None
    seconds: float | None = None
    workers: int = 1

    @classmethod
    def of(cls, grow: str | Growing) -> Growing:
        """Convert the name of a hyperparameter to settings; return a `Growing` unchanged.

        Raises:
            OptionError: the argument is something else.
        """
        if isinstance(grow, Growing):
            return grow
        if not isinstance(grow, str):
            raise OptionError(
                "grow is the name of a hyperparameter or a rankwise.Growing, "
                f"not a {type(grow).__name__}"
            )
        return cls(grow)

    def within(self, trials: int | None, seconds: float | None, workers: int) -> Growing:
        """Return a copy with the budget of a run; no change if a budget is already set.

        Args:
            trials: number of trials of the run, or None.
            seconds: seconds of the run, used if `trials` is None.
            workers: number of workers of the run.
        """
        if self.trials is not None or self.seconds is not None:
            return self
        timed = seconds if trials is None else None
        return replace(self, trials=trials, seconds=timed, workers=workers)

    @property
    def description(self) -> dict[str, Any]:
        """Settings as JSON data; `Growing(**description)` restores them."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    def strategy(self, inner: Strategy) -> GrowingStrategy:
        """Make a strategy that runs another one level by level.

        Raises:
            UnknownNameError: the space has no hyperparameter of this name.
            OptionError: it is not an integer, or levels, shares or budgets are invalid.
            ConfigurationError: a configuration in `given` is invalid.
        """
        levels = self._checked_levels(inner.encoder)
        shares = [2.0**k for k in range(len(levels))] if self.shares is None else self.shares
        if len(shares) != len(levels) or not all(is_number(s) and 0 < s < np.inf for s in shares):
            raise OptionError(f"{len(levels)} levels need as many positive shares, not {shares!r}")
        if self.least:
            check_count("least", self.least)
        budget = self._checked_budget()
        ends = budget * np.cumsum(shares)[:-1] / np.sum(shares)
        given = inner.encoder.encode(self.given)
        lowest = sum(c[self.by] <= levels[0] for c in self.given)
        room = int(ends[0]) - lowest if len(ends) and self.trials is not None else DESIGN
        return GrowingStrategy(
            inner.encoder,
            None if inner.design is None else Design("lhs", max(1, min(DESIGN, room))),
            inner,
            self.by,
            levels,
            tuple(ends.tolist()),
            self.trials is None,
            self.workers,
            self.least,
            given,
        )

    def _checked_levels(self, encoder: Encoder) -> tuple[int, ...]:
        known = dict(zip(encoder.names, encoder.parameters, strict=True))
        if self.by not in known:
            raise UnknownNameError("hyperparameter to grow by", self.by, known)
        parameter = known[self.by]
        if not (isinstance(parameter, Number) and parameter.integer):
            raise OptionError(
                f"a search grows by an integer with several values, and {self.by!r} is not one"
            )
        if self.by in encoder.activity:
            raise OptionError(f"a search cannot grow by {self.by!r}, which is not always active")
        low, high = int(parameter.lower), int(parameter.upper)
        if self.levels is None:
            if high - low >= MOST_LEVELS:
                raise OptionError(
                    f"{self.by!r} has {high - low + 1} values: choose the levels, as in "
                    f"Growing({self.by!r}, levels=({(low + high) // 2}, {high}))"
                )
            return tuple(range(low, high + 1))
        levels = tuple(self.levels)
        whole = all(is_number(level, Integral) for level in levels)
        if not (whole and levels and low <= levels[0] and levels[-1] == high):
            raise OptionError(f"levels of {self.by!r} are integers up to {high}, not {levels!r}")
        if any(b <= a for a, b in pairwise(levels)):
            raise OptionError(f"levels must be in increasing order, not {levels!r}")
        return tuple(int(level) for level in levels)

    def _checked_budget(self) -> float:
        if self.trials is not None and self.seconds is not None:
            raise OptionError("a growing search has a budget of trials or of seconds, not of both")
        if self.trials is not None:
            return float(check_count("trials", self.trials))
        if self.seconds is None:
            raise OptionError("a growing search needs a budget: Growing(..., trials=30)")
        check_count("workers", self.workers)
        if not (is_number(self.seconds) and 0 < self.seconds < np.inf):
            raise OptionError(f"seconds must be a positive number, not {self.seconds!r}")
        return float(self.seconds)


@dataclass(frozen=True)
class GrowingStrategy(Strategy):
    """Restricts another strategy to the values of a hyperparameter that the current level allows.

    The level depends on the history alone, so an interrupted run resumes at its level.

    Attributes:
        inner: strategy for the whole space.
        by: name of the hyperparameter.
        levels: largest value of the hyperparameter at each of L levels.
        ends: used budget at which each level except the last ends, L - 1 numbers.
        timed: True if `ends` are seconds, False if they are numbers of trials.
        workers: number of workers that share the seconds of trials.
        least: number of trials with new values at the beginning of each level.
        given: configurations (n, d) to evaluate at the beginning of their level.
    """

    inner: Strategy
    by: str
    levels: tuple[int, ...]
    ends: tuple[float, ...]
    timed: bool
    workers: int
    least: int
    given: Array

    @property
    def informed(self) -> bool:
        return self.inner.informed

    @property
    def learner(self) -> Learner | None:
        return self.inner.learner

    @property
    def shares_proposals(self) -> bool:
        return True

    @cached_property
    def opening(self) -> Encoder:
        """Encoder of the lowest level, where hyperparameters that are never active are fixed."""
        lowest = self._upto[0]
        codes = lowest.sample_codes(_SAMPLE, np.random.default_rng(0))
        idle = np.asarray(np.isnan(codes).all(axis=0))
        first = {
            p.name: (p.lower, p.lower) if isinstance(p, Number) else [p.value(p.levels(1)[0])]
            for p, never in zip(lowest.parameters, idle, strict=True)
            if never
        }
        return lowest.restricted(first)

    def _spent(self, history: Task, pending: int, proposing: float) -> float:
        """Return the budget that is used up, in trials or in seconds.

        Args:
            history: evaluations so far.
            pending: number of configurations that are being evaluated.
            proposing: seconds that all proposals took so far.

        Raises:
            OptionError: the budget is in seconds, and no evaluation has a cost.
        """
        if not self.timed:
            return len(history) + pending
        if len(history) and np.isnan(history.cost).all():
            raise OptionError(
                "a search with a budget in seconds needs the seconds of each trial: "
                "tell(configuration, value, cost=...)"
            )
        return (float(np.nansum(history.cost)) + proposing) / self.workers

    def level(self, history: Task, pending: int, proposing: float = 0.0) -> int:
        spent = self._spent(history, pending, proposing)
        return int(np.searchsorted(self.ends, spent, side="right"))

    def propose(self, history: Task, pending: Array, rng: np.random.Generator) -> Array:
        level = self.level(history, len(pending))
        return self.propose_at(level, history, pending, rng)

    def propose_at(
        self, level: int, history: Task, pending: Array, rng: np.random.Generator
    ) -> Array:
        """Like `propose`, at a given level.

        Configurations that must be evaluated at the beginning of this level or of a lower one
        come first.
        """
        for below in range(level + 1):
            row = self._owed(below, history, pending, rng)
            if row is not None:
                return row
        for above in range(level, len(self.levels) - 1):
            try:
                return self._kept_to(self._upto[above], history, pending, rng)
            except SpaceExhausted:
                pass  # all configurations of this level are evaluated: try the next level
        return self._kept_to(self._upto[-1], history, pending, rng)

    def choose(self, history: Task, pool: Array, rng: np.random.Generator) -> int:
        level = self.level(history, 0)
        values = self._values(pool)
        kept = np.flatnonzero(values <= self.levels[level])
        if self._owes(level, history.X):
            fresh = np.flatnonzero(self._is_new(level, values))
            kept = fresh if len(fresh) else kept
        if not len(kept):
            return self.inner.choose(history, pool, rng)
        return int(kept[self.inner.choose(history, pool[kept], rng)])

    def evidence(self, history: Task) -> Evidence | None:
        return self.inner.evidence(history)

    def origin(self, history: Task, pending: int = 0) -> str:
        return self.inner.origin(history, pending)

    def similar_tasks(self, history: Task) -> dict[str, float] | None:
        return self.inner.similar_tasks(history)

    def explain(self, history: Task, X: Array) -> list[Explanation]:
        return self.inner.explain(history, X)

    # ------------------------------------------------------------------ one level

    def _owed(
        self, level: int, history: Task, pending: Array, rng: np.random.Generator
    ) -> Array | None:
        """Return a configuration (d,) that must be evaluated at the beginning of a level.

        None if all of them are evaluated or pending.
        """
        seen = Seen(history.X, pending)
        given = legal_rows(self._new[level], self.given)
        fresh = given[seen.new(given)] if len(given) else given
        if len(fresh):
            first: Array = fresh[0]
            return first
        if not self._owes(level, np.concatenate([history.X, pending])):
            return None
        try:
            return self._kept_to(self._new[level], history, pending, rng)
        except SpaceExhausted:
            return None  # the level has fewer configurations than `least`

    def _kept_to(
        self, encoder: Encoder, history: Task, pending: Array, rng: np.random.Generator
    ) -> Array:
        row = self.inner.within(encoder).propose(history, pending, rng)
        # A strategy with a list of configurations may propose one of another level.
        nearest = encoder.encode_codes(encoder.decode_codes(row))
        seen = Seen(history.X, pending)
        if seen.new(nearest)[0] and encoder.allowed(encoder.decode_codes(nearest))[0]:
            legal: Array = nearest[0]
            return legal
        return random_unseen(encoder, seen, rng)

    def _owes(self, level: int, X: Array) -> bool:
        """True if fewer than `least` of the configurations (n, d) have new values of the level."""
        return level > 0 and int(self._is_new(level, self._values(X)).sum()) < self.least

    def _is_new(self, level: int, values: Array) -> Mask:
        below = self.levels[level - 1] if level else -np.inf
        new: Mask = (values > below) & (values <= self.levels[level])
        return new

    def _values(self, X: Array) -> Array:
        """Values (n,) of the hyperparameter in configurations (n, d)."""
        values: Array = self.encoder.decode_codes(X)[:, self._place]
        return values

    @cached_property
    def _upto(self) -> list[Encoder]:
        """Encoder of the space of each level."""
        low = self._bounds[0]
        return [self.encoder.restricted({self.by: (low, level)}) for level in self.levels]

    @cached_property
    def _new(self) -> list[Encoder]:
        """Encoder of the part of the space that each level adds to the level below."""
        lows = [self._bounds[0], *(level + 1 for level in self.levels[:-1])]
        pairs = zip(lows, self.levels, strict=True)
        return [self.encoder.restricted({self.by: pair}) for pair in pairs]

    @property
    def _place(self) -> int:
        """Index of the hyperparameter in the space."""
        return self.encoder.names.index(self.by)

    @property
    def _bounds(self) -> tuple[int, int]:
        parameter = self.encoder.parameters[self._place]
        assert isinstance(parameter, Number)
        return int(parameter.lower), int(parameter.upper)


def _plain(value: Any) -> Any:
    """Convert numpy numbers, tuples and arrays to JSON data."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(entry) for entry in value]
    return value if isinstance(value, str | int | float | None) else repr(value)
