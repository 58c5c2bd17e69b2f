"""The way that a method goes alone, in a study in which others propose as well.

A method that proposes some of a study's trials and is shown all of them may end where it would
never have gone alone. On its own way it is shown the trials that it began with and its own, so
that after m of them it is as far as without the others after m. What it would ask for and another
has had evaluated already it is given for nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rankwise.proposal import NEAR_EVALUATED
from rankwise.strategy import Explanation, Strategy
from rankwise.task import Task
from rankwise.types import Array

_REMEMBERED = 500  # ways, so that one trial more does not mean to go all of it again


@dataclass(frozen=True)
class OwnWay:
    """Lets a strategy go its own way.

    On a finite set of configurations the way is exactly that of the strategy alone if it draws
    nothing; elsewhere it is if trials are told in the order in which they were asked for.

    Attributes:
        strategy: that goes it.
        first: trials at the beginning of a study that it is shown whoever proposed them.
    """

    strategy: Strategy
    first: int
    _known: dict[bytes, tuple[int, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def propose(
        self, history: Task, own: Sequence[int], pending: Array, rng: np.random.Generator
    ) -> Array:
        """One new configuration (d,).

        Args:
            history: all evaluations.
            own: the numbers of those that the strategy asked for.
            pending: configurations (m, d) that are being evaluated.
            rng: source of all randomness.
        """
        finite = self.strategy.encoder.points is not None
        way, others = self._gone(history, own, recall=finite)
        while True:
            row = self.strategy.propose(history.rows(way), pending, rng)
            distances = np.abs(history.X[others] - row).max(axis=1, initial=0.0)
            if not others or distances.min() > NEAR_EVALUATED:
                return row
            way.append(others.pop(int(np.argmin(distances))))

    def choose(
        self, history: Task, own: Sequence[int], pool: Array, rng: np.random.Generator
    ) -> int:
        """The number of a row of a pool (m, d) of new ones; the rest is as in `propose`."""
        way, others = self._gone(history, own, recall=True)
        while True:
            rows = np.concatenate([pool, history.X[others]])
            number = self.strategy.choose(history.rows(way), rows, rng)
            if number < len(pool):
                return number
            way.append(others.pop(number - len(pool)))

    def explain(self, history: Task, own: Sequence[int], X: Array) -> list[Explanation]:
        """What the strategy believes of configurations (m, d) on its way."""
        way, _ = self._gone(history, own, recall=False)
        return self.strategy.explain(history.rows(way), X)

    def _gone(
        self, history: Task, own: Sequence[int], *, recall: bool
    ) -> tuple[list[int], list[int]]:
        """The numbers of the evaluations that the strategy has been shown, and of the others.

        Args:
            history: all evaluations.
            own: the numbers of its own.
            recall: find out what it was given of others' evaluations.
        """
        beginning = list(range(min(self.first, len(history))))
        own = [k for k in own if k >= self.first]
        way = self._recalled(history, beginning, own) if recall else [*beginning, *own]
        return way, sorted(set(range(len(history))) - set(way))

    def _recalled(self, history: Task, beginning: list[int], own: Sequence[int]) -> list[int]:
        """The way to the last of its own evaluations, with what it was given in between.

        Before each of its own the strategy is asked whether it would rather have had one that was
        there by then.
        """
        numbers = [self._digest(history, k) for k in own]
        start = len(own)
        while start and numbers[start - 1] not in self._known:
            start -= 1
        way = list(self._known[numbers[start - 1]]) if start else beginning
        for k, number in zip(own[start:], numbers[start:], strict=True):
            others = [j for j in range(self.first, k) if j not in set(way)]
            while others:
                rng = np.random.default_rng(len(way))
                rows = history.X[[k, *others]]
                wanted = self.strategy.choose(history.rows(way), rows, rng)
                if wanted == 0:
                    break
                way.append(others.pop(wanted - 1))
            way.append(k)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[number] = tuple(way)
        return way

    @staticmethod
    def _digest(history: Task, k: int) -> bytes:
        """Of the evaluations up to number k, which decide what its way there was."""
        numbers = history.X[: k + 1].tobytes() + history.losses[: k + 1].tobytes()
        return hashlib.sha256(numbers).digest()
