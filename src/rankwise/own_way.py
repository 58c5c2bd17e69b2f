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
from typing import TypeAlias

import numpy as np

from rankwise.proposal import NEAR_EVALUATED
from rankwise.strategy import Explanation, Strategy
from rankwise.task import Task
from rankwise.types import Array

Memory: TypeAlias = dict[bytes, tuple[int, ...]]
"""From evaluations to the numbers of those that the strategy was shown."""

_REMEMBERED = 500  # ways


@dataclass(frozen=True)
class OwnWay:
    """Lets a strategy go its own way.

    It is exactly that of the strategy alone if the strategy draws nothing and trials are asked for
    one at a time. Evaluations that are shared (`Task.shared`), of a design or of a batch, are
    shown to all.

    Attributes:
        strategy: that goes it.
        first: trials at the beginning of a study that it is shown whoever proposed them.
        memory: of ways that were gone, so that one trial more does not mean to go all of it again.
    """

    strategy: Strategy
    first: int
    memory: Memory = field(default_factory=dict, repr=False, compare=False)

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
        way, others = self._gone(history, own, recall=self._finite)
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
        way, _ = self._gone(history, own, recall=self._finite)
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
        shared = np.zeros(len(history), dtype=bool) if history.shared is None else history.shared
        beginning = list(range(min(self.first, len(history))))
        shown = sorted({*own, *np.flatnonzero(shared).tolist()} - set(beginning))
        asked = [not shared[k] for k in shown]
        way = [*beginning, *shown]
        if recall and len(way) < len(history):
            way = self._recalled(history, beginning, shown, asked)
        return way, sorted(set(range(len(history))) - set(way))

    @property
    def _finite(self) -> bool:
        """Whether another may have had evaluated the very configuration that is wanted."""
        return self.strategy.encoder.points is not None

    def _recalled(
        self, history: Task, beginning: list[int], shown: Sequence[int], asked: Sequence[bool]
    ) -> list[int]:
        """The way to the last evaluation that was shown, with what was given in between.

        Before each that was asked for the strategy is asked whether it would rather have had one
        that was there by then.
        """
        start, rest = len(shown), []
        while start:
            key = self._digest(history, shown[:start])
            if key in self.memory:
                break
            rest.append(key)
            start -= 1
        way = list(self.memory[key]) if start else beginning
        for k, alone, key in zip(shown[start:], asked[start:], reversed(rest), strict=True):
            gone = set(way)
            others = [j for j in range(self.first, k) if j not in gone] if alone else []
            while others:
                rng = np.random.default_rng(len(way))
                rows = history.X[[k, *others]]
                wanted = self.strategy.choose(history.rows(way), rows, rng)
                if wanted == 0:
                    break
                way.append(others.pop(wanted - 1))
            way.append(k)
            if len(self.memory) >= _REMEMBERED:
                self.memory.clear()
            self.memory[key] = tuple(way)
        return way

    @staticmethod
    def _digest(history: Task, shown: Sequence[int]) -> bytes:
        """Of all evaluations up to the last shown one, and of which were shown."""
        end = shown[-1] + 1
        numbers = np.array(shown).tobytes() + history.X[:end].tobytes() + history.y[:end].tobytes()
        return hashlib.sha256(numbers).digest()
