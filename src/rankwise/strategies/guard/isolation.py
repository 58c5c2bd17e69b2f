"""Isolation of a strategy from the trials that other strategies propose in the same study.

A strategy that uses the trials of others can do worse than alone. An isolated strategy uses only
the first trials of the study and its own. So after m of these trials it is as good as it would be
alone after m trials. If it would propose a configuration that is already evaluated, that trial is
added to its history for free.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from rankwise.acquisition.maximizer import NEAR_EVALUATED
from rankwise.history.task import Task
from rankwise.strategies.base import Explanation, Strategy
from rankwise.types import Array

Memory: TypeAlias = dict[bytes, tuple[int, ...]]
"""Cache: digest of the trials → indices of the trials that the strategy uses."""

_REMEMBERED = 500  # maximum number of entries of the cache


@dataclass(frozen=True)
class IsolatedStrategy:
    """A strategy that uses only the first trials, shared trials and its own trials.

    If the strategy is deterministic and trials are proposed one at a time, its proposals are
    exactly those of the strategy alone. Shared trials (`Task.shared`) belong to an initial design
    or a batch; all strategies use them.

    Attributes:
        strategy: strategy to isolate.
        first: number of trials at the beginning of a study that it uses, also if another strategy
            proposed them.
        memory: cache of the trials that it uses. Without it, every proposal would repeat all
            earlier ones.
    """

    strategy: Strategy
    first: int
    memory: Memory = field(default_factory=dict, repr=False, compare=False)

    def propose(
        self, history: Task, own: Sequence[int], pending: Array, rng: np.random.Generator
    ) -> Array:
        """Propose a new configuration (d,).

        Args:
            history: all trials.
            own: indices of the trials that the strategy proposed.
            pending: configurations (m, d) that are being evaluated.
            rng: random generator.
        """
        used, others = self._used(history, own, recall=self._finite)
        while True:
            row = self.strategy.propose(history.rows(used), pending, rng)
            distances = np.abs(history.X[others] - row).max(axis=1, initial=0.0)
            if not others or distances.min() > NEAR_EVALUATED:
                return row
            used.append(others.pop(int(np.argmin(distances))))

    def choose(
        self, history: Task, own: Sequence[int], pool: Array, rng: np.random.Generator
    ) -> int:
        """Choose the next configuration from a pool; return its index.

        Args:
            history: all trials.
            own: indices of the trials that the strategy proposed.
            pool: configurations (m, d), none of them evaluated.
            rng: random generator.
        """
        used, others = self._used(history, own, recall=True)
        while True:
            rows = np.concatenate([pool, history.X[others]])
            number = self.strategy.choose(history.rows(used), rows, rng)
            if number < len(pool):
                return number
            used.append(others.pop(number - len(pool)))

    def explain(self, history: Task, own: Sequence[int], X: Array) -> list[Explanation]:
        """Return the strategy's predictions for configurations X (m, d).

        Args:
            history: all trials.
            own: indices of the trials that the strategy proposed.
            X: configurations (m, d).
        """
        used, _ = self._used(history, own, recall=self._finite)
        return self.strategy.explain(history.rows(used), X)

    def _used(
        self, history: Task, own: Sequence[int], *, recall: bool
    ) -> tuple[list[int], list[int]]:
        """Return the indices of the trials that the strategy uses, and of the others.

        Args:
            history: all trials.
            own: indices of the trials that the strategy proposed.
            recall: True to include the trials of others that were added for free.
        """
        shared = np.zeros(len(history), dtype=bool) if history.shared is None else history.shared
        beginning = list(range(min(self.first, len(history))))
        shown = sorted({*own, *np.flatnonzero(shared).tolist()} - set(beginning))
        asked = [not shared[k] for k in shown]
        used = [*beginning, *shown]
        if recall and len(used) < len(history):
            used = self._recalled(history, beginning, shown, asked)
        return used, sorted(set(range(len(history))) - set(used))

    @property
    def _finite(self) -> bool:
        """True if the space is finite, so that two strategies may propose equal rows."""
        return self.strategy.encoder.points is not None

    def _recalled(
        self, history: Task, beginning: list[int], shown: Sequence[int], asked: Sequence[bool]
    ) -> list[int]:
        """Return the indices of the trials that the strategy uses, including free ones.

        Before each of its own trials, the strategy chooses between that trial and all trials of
        others that were finished by then. If it chooses one of the others, that trial is added to
        its history for free, and it chooses again.

        Args:
            history: all trials.
            beginning: indices of the first trials.
            shown: indices of its own and of shared trials after the first ones.
            asked: True for each of `shown` that is its own trial.
        """
        start, rest = len(shown), []
        while start:
            key = self._digest(history, shown[:start])
            if key in self.memory:
                break
            rest.append(key)
            start -= 1
        used = list(self.memory[key]) if start else beginning
        for k, alone, key in zip(shown[start:], asked[start:], reversed(rest), strict=True):
            known = set(used)
            others = [j for j in range(self.first, k) if j not in known] if alone else []
            while others:
                rng = np.random.default_rng(len(used))
                rows = history.X[[k, *others]]
                wanted = self.strategy.choose(history.rows(used), rows, rng)
                if wanted == 0:
                    break
                used.append(others.pop(wanted - 1))
            used.append(k)
            if len(self.memory) >= _REMEMBERED:
                self.memory.clear()
            self.memory[key] = tuple(used)
        return used

    @staticmethod
    def _digest(history: Task, shown: Sequence[int]) -> bytes:
        """Digest of all trials up to the last one in `shown`, and of `shown`."""
        end = shown[-1] + 1
        numbers = np.array(shown).tobytes() + history.X[:end].tobytes() + history.y[:end].tobytes()
        return hashlib.sha256(numbers).digest()
