"""Searches that grow: a number that unlocks other hyperparameters goes up level by level.

Model-based optimization with an increasing number of layers (MBOINL; Klepper, "Configuration of
Deep Neural Networks Using Model-Based Optimization", 2018, algorithm 2), for any integer that
unlocks others and with any method: first only its lowest values are proposed, which are cheap and
have few companions; what they taught is the history with which the next level begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np

from rankwise.baselines import legal_rows
from rankwise.design import Design
from rankwise.errors import OptionError, SpaceExhausted, UnknownNameError, check_count, is_number
from rankwise.model_strategy import Learner
from rankwise.parameters import Number
from rankwise.proposal import Seen, random_unseen
from rankwise.space import Encoder
from rankwise.strategy import Explanation, Strategy
from rankwise.task import Task
from rankwise.types import Array, Mask

DESIGN = 5
"""Size of the design at the lowest level, unless the method has no use for one (as the thesis)."""

MOST_LEVELS = 12
"""Values that are levels of their own, at most."""

_SAMPLE = 256  # configurations by which it is seen what can be active at the lowest level


@dataclass(frozen=True)
class Growing:
    """How a search grows.

    Attributes:
        by: the integer hyperparameter that unlocks others, such as the number of layers.
        levels: its largest value at each level, in increasing order; by default every value is a
            level of its own.
        shares: of the budget, for each level; by default each gets twice as much as the one below
            it: 1/7, 2/7 and 4/7 of three.
        least: a level begins with so many evaluations of the values that it brings, proposed by
            the method like any others, so that one bad trial does not close the level. They are
            made even if its budget was used up before it began.
        given: configurations to evaluate first at the level to which they belong, such as networks
            of several convolutions that are known to be possible.
        trials: all levels together; by default what the run has.
        seconds: instead of trials, of proposals and evaluations.
        workers: among which these seconds are divided; by default those of the run.

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
        """The name of a hyperparameter is enough."""
        if isinstance(grow, Growing):
            return grow
        if not isinstance(grow, str):
            raise OptionError(
                "grow is the name of a hyperparameter or a rankwise.Growing, "
                f"not a {type(grow).__name__}"
            )
        return cls(grow)

    def within(self, trials: int | None, seconds: float | None, workers: int) -> Growing:
        """The same with the budget of a run, if it has none of its own."""
        if self.trials is not None or self.seconds is not None:
            return self
        timed = seconds if trials is None else None
        return replace(self, trials=trials, seconds=timed, workers=workers)

    @property
    def description(self) -> dict[str, Any]:
        """As JSON data, from which `Growing(**description)` makes it again."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    def strategy(self, inner: Strategy) -> GrowingStrategy:
        """A method's strategy for the whole space, let loose level by level.

        Raises:
            UnknownNameError: the space has no such hyperparameter.
            OptionError: it is not an integer, or levels, shares and budgets do not fit.
            ConfigurationError: a given configuration is not one of the space.
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
                f"a search grows by an integer of several values, and {self.by!r} is none"
            )
        if self.by in encoder.activity:
            raise OptionError(f"a search cannot grow by {self.by!r}, which is not always active")
        low, high = int(parameter.lower), int(parameter.upper)
        if self.levels is None:
            if high - low >= MOST_LEVELS:
                raise OptionError(
                    f"{self.by!r} has {high - low + 1} values: say which are levels, as in "
                    f"Growing({self.by!r}, levels=({(low + high) // 2}, {high}))"
                )
            return tuple(range(low, high + 1))
        levels = tuple(self.levels)
        whole = all(is_number(level, Integral) for level in levels)
        if not (whole and levels and low <= levels[0] and levels[-1] == high):
            raise OptionError(f"levels of {self.by!r} are integers up to {high}, not {levels!r}")
        if any(b <= a for a, b in pairwise(levels)):
            raise OptionError(f"each level is above the one before it: {levels!r}")
        return tuple(int(level) for level in levels)

    def _checked_budget(self) -> float:
        if self.trials is not None and self.seconds is not None:
            raise OptionError("a growing search has a budget of trials or of seconds, not of both")
        if self.trials is not None:
            return float(check_count("trials", self.trials))
        if self.seconds is None:
            raise OptionError("a growing search must know its budget: Growing(..., trials=30)")
        check_count("workers", self.workers)
        if not (is_number(self.seconds) and 0 < self.seconds < np.inf):
            raise OptionError(f"seconds must be a positive number, not {self.seconds!r}")
        return float(self.seconds)


@dataclass(frozen=True)
class GrowingStrategy(Strategy):
    """Another strategy, kept to the values of one hyperparameter that its level allows.

    The level follows from the history alone, so that a run that was interrupted goes on at the
    level where it was.

    Attributes:
        inner: proposes, for the whole space.
        by: the hyperparameter.
        levels: its largest value at each level (L,).
        ends: trials, or seconds, after which a level is over; of the last, none.
        timed: whether these are seconds.
        workers: among which the seconds of trials are divided.
        least: evaluations of the new values with which a level begins.
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
        """What has learnt past tasks and can be saved, if anything."""
        return getattr(self.inner, "learner", None)

    @cached_property
    def opening(self) -> Encoder:
        """The lowest level, without the hyperparameters that it does not have."""
        lowest = self._upto[0]
        codes = lowest.sample_codes(_SAMPLE, np.random.default_rng(0))
        idle = np.asarray(np.isnan(codes).all(axis=0))
        first = {
            p.name: (p.lower, p.lower) if isinstance(p, Number) else [p.value(p.levels(1)[0])]
            for p, never in zip(lowest.parameters, idle, strict=True)
            if never
        }
        return lowest.restricted(first)

    def spent(self, history: Task, pending: int, proposing: float) -> float:
        """How much of the budget is used up.

        Args:
            history: the evaluations so far.
            pending: how many more are being evaluated.
            proposing: seconds that all proposals took.

        Raises:
            OptionError: levels take seconds, and nobody said how many the evaluations took.
        """
        if not self.timed:
            return len(history) + pending
        if len(history) and np.isnan(history.cost).all():
            raise OptionError(
                "a search that grows by seconds must know them: "
                "tell(configuration, value, cost=...)"
            )
        return (float(np.nansum(history.cost)) + proposing) / self.workers

    def level(self, spent: float) -> int:
        """The number of the level, from 0, when so much of the budget is used up."""
        return int(np.searchsorted(self.ends, spent, side="right"))

    def propose(self, history: Task, pending: Array, rng: np.random.Generator) -> Array:
        level = self.level(self.spent(history, len(pending), 0.0))
        return self.propose_at(level, history, pending, rng)

    def propose_at(
        self, level: int, history: Task, pending: Array, rng: np.random.Generator
    ) -> Array:
        """Like `propose`, at a level; what it and those below it owe comes first."""
        for below in range(level + 1):
            row = self._owed(below, history, pending, rng)
            if row is not None:
                return row
        for above in range(level, len(self.levels) - 1):
            try:
                return self._kept_to(self._upto[above], history, pending, rng)
            except SpaceExhausted:
                pass  # it has nothing left: the next one begins before its time
        return self._kept_to(self._upto[-1], history, pending, rng)

    def choose(self, history: Task, pool: Array, rng: np.random.Generator) -> int:
        level = self.level(self.spent(history, 0, 0.0))
        values = self._values(pool)
        kept = np.flatnonzero(values <= self.levels[level])
        if self._owes(level, history.X):
            fresh = np.flatnonzero(self._is_new(level, values))
            kept = fresh if len(fresh) else kept
        if not len(kept):
            return self.inner.choose(history, pool, rng)
        return int(kept[self.inner.choose(history, pool[kept], rng)])

    def trust(self, history: Task) -> float | None:
        return self.inner.trust(history)

    def similar_tasks(self, history: Task) -> dict[str, float] | None:
        return self.inner.similar_tasks(history)

    def explain(self, history: Task, X: Array) -> list[Explanation]:
        return self.inner.explain(history, X)

    # ------------------------------------------------------------------ one level

    def _owed(
        self, level: int, history: Task, pending: Array, rng: np.random.Generator
    ) -> Array | None:
        """A given configuration of a level, or one of its new values if there were too few."""
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
            return None  # it has fewer configurations than are asked for

    def _kept_to(
        self, encoder: Encoder, history: Task, pending: Array, rng: np.random.Generator
    ) -> Array:
        row = self.inner.within(encoder).propose(history, pending, rng)
        # A list of past configurations does not know of levels.
        nearest = encoder.encode_codes(encoder.decode_codes(row))
        seen = Seen(history.X, pending)
        if seen.new(nearest)[0] and encoder.allowed(encoder.decode_codes(nearest))[0]:
            legal: Array = nearest[0]
            return legal
        return random_unseen(encoder, seen, rng)

    def _owes(self, level: int, X: Array) -> bool:
        """Whether too few of the configurations (n, d) have values that the level brings."""
        return level > 0 and int(self._is_new(level, self._values(X)).sum()) < self.least

    def _is_new(self, level: int, values: Array) -> Mask:
        below = self.levels[level - 1] if level else -np.inf
        new: Mask = (values > below) & (values <= self.levels[level])
        return new

    def _values(self, X: Array) -> Array:
        """Of the hyperparameter in configurations (n, d); NaN where it is inactive."""
        values: Array = self.encoder.decode_codes(X)[:, self._place]
        return values

    @cached_property
    def _upto(self) -> list[Encoder]:
        """The space of each level."""
        low = self._bounds[0]
        return [self.encoder.restricted({self.by: (low, level)}) for level in self.levels]

    @cached_property
    def _new(self) -> list[Encoder]:
        """What each level adds to the one below it; of the lowest, all."""
        lows = [self._bounds[0], *(level + 1 for level in self.levels[:-1])]
        pairs = zip(lows, self.levels, strict=True)
        return [self.encoder.restricted({self.by: pair}) for pair in pairs]

    @property
    def _place(self) -> int:
        """The number of the hyperparameter among those of the space."""
        return self.encoder.names.index(self.by)

    @property
    def _bounds(self) -> tuple[int, int]:
        parameter = self.encoder.parameters[self._place]
        assert isinstance(parameter, Number)
        return int(parameter.lower), int(parameter.upper)


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's, tuples and arrays as lists, as JSON has them."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(entry) for entry in value]
    return value if isinstance(value, str | int | float | None) else repr(value)
