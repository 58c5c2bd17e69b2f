"""Strategies: from the history of a study to the next configuration.

A method of `methods.py` is a strategy with its parts chosen. A strategy keeps no state between
proposals: what it proposes depends on the history, the pending configurations and the random
generator alone. That is what makes runs reproducible, resumable and picklable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from typing_extensions import Self

from rankwise.design import Design
from rankwise.errors import SpaceError, SpaceExhausted
from rankwise.proposal import Seen, best_of_set, random_unseen
from rankwise.space import Encoder
from rankwise.task import Task
from rankwise.types import Array, Foresight

FALLBACK = "the surrogate failed"
"""How the warning begins that a proposal is a random one."""


@dataclass(frozen=True)
class Explanation:
    """What a method believed when it proposed a configuration; None where it cannot tell.

    Attributes:
        mean: the loss it expected; None, too, if it models a score made of losses.
        std: how sure it was.
        trust: how probable it was that the past applies.
        sources: how much each past task counted, by name, from most to least.
    """

    mean: float | None = None
    std: float | None = None
    trust: float | None = None
    sources: dict[str, float] | None = None


@dataclass(frozen=True)
class Strategy(ABC):
    """How a method proposes.

    Attributes:
        encoder: of the space.
        design: evaluated first, if there is one.
    """

    encoder: Encoder
    design: Design | None

    @property
    def informed(self) -> bool:
        """Whether something is known before the first evaluation."""
        return False

    @property
    def opening(self) -> Encoder:
        """Where the design is made."""
        return self.encoder

    def within(self, encoder: Encoder) -> Self:
        """The same strategy, and those that it is made of, in a part of its space.

        Args:
            encoder: of the same columns (`Encoder.restricted`), so that what was learnt stays.
        """
        parts: dict[str, Any] = {
            part.name: value.within(encoder)
            for part in fields(self)
            if isinstance(value := getattr(self, part.name), Strategy)
        }
        return replace(self, encoder=encoder, **parts)

    @abstractmethod
    def propose(self, history: Task, pending: Array, rng: np.random.Generator) -> Array:
        """One new configuration (d,), different from all evaluated and pending ones.

        Args:
            history: the evaluations so far.
            pending: configurations (m, d) that are being evaluated now.
            rng: source of all randomness.

        Raises:
            SpaceExhausted: there is no new configuration.
        """

    def trust(self, history: Task) -> float | None:
        """How probable it is that the past applies to a study; None if there is no telling."""
        return None

    def similar_tasks(self, history: Task) -> dict[str, float] | None:
        """How similar past tasks are to a study, from most to least; None: no telling."""
        return None

    @property
    def foresees(self) -> bool:
        """Whether its `foresight` says more than the mean of past tasks' functions does."""
        return False

    def foresight(self, context: Mapping[str, float]) -> Foresight | None:
        """What orders configurations by the past alone, without any evaluation of a study.

        None if the strategy has no past, or it says nothing of most configurations.

        Args:
            context: what is known of the study's data.
        """
        return None

    def explain(self, history: Task, X: Array) -> list[Explanation]:
        """What is believed of configurations (m, d) after the evaluations so far."""
        return [Explanation()] * len(X)

    def choose(self, history: Task, pool: Array, rng: np.random.Generator) -> int:
        """The number of the row to evaluate next where only a pool (m, d) of rows can be.

        Unless a strategy knows better, the row nearest to what it would propose.

        Args:
            history: the evaluations so far.
            pool: at least one configuration; none of them was evaluated.
            rng: source of all randomness.
        """
        nothing = np.empty((0, pool.shape[1]))
        try:
            wanted = self.propose(history, nothing, rng)
        except SpaceExhausted:
            return int(rng.integers(len(pool)))
        return int(np.argmin(((pool - wanted) ** 2).sum(axis=1)))


class RandomStrategy(Strategy):
    """Uniformly random configurations (or by the priors of the space), none twice."""

    def propose(self, history: Task, pending: Array, rng: np.random.Generator) -> Array:
        return random_unseen(self.encoder, Seen(history.X, pending), rng)

    def choose(self, history: Task, pool: Array, rng: np.random.Generator) -> int:
        return int(rng.integers(len(pool)))


@dataclass(frozen=True)
class GridStrategy(Strategy):
    """The points of a grid in random order; without fixed levels, of ever finer grids.

    Attributes:
        levels: values per number; None: 2, 3, 5, 9, ... so that each grid contains the last.
    """

    levels: int | None = None

    def propose(self, history: Task, pending: Array, rng: np.random.Generator) -> Array:
        seen = Seen(history.X, pending)
        for levels in [self.levels] if self.levels else [2**k + 1 if k else 2 for k in range(12)]:
            try:
                X = self.encoder.grid(levels)
            except SpaceError:
                if self.levels:
                    raise
                break
            try:
                return best_of_set(lambda X: rng.random(len(X)), X, seen)
            except SpaceExhausted:
                continue
        if self.levels or np.isfinite(self.encoder.size):
            raise SpaceExhausted("all points of the grid were proposed")
        return random_unseen(self.encoder, seen, rng)  # too large to list: points are all alike
