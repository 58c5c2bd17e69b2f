"""`Strategy`: the interface of all strategies, and random and grid search.

A method (`rankwise.methods`) is a strategy with all its parts chosen. A strategy keeps no state
between proposals: a proposal depends only on the history, the pending configurations and the
random generator. So runs are reproducible, can be resumed, and can be pickled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from typing_extensions import Self

from rankwise.acquisition.maximizer import Seen, best_of_set, random_unseen
from rankwise.errors import SpaceError, SpaceExhausted
from rankwise.history.task import Task
from rankwise.space.design import Design
from rankwise.space.encoder import Encoder
from rankwise.surrogates.transfer_trust import Evidence
from rankwise.types import Array, Foresight

FALLBACK = "the surrogate failed"
"""Beginning of the warning that a random configuration is proposed instead."""

_MOST_SOURCES = 8  # past studies whose weights are stored with a trial

RANDOM = "random"
"""Origin of random proposals (see `Strategy.origin`)."""


@dataclass(frozen=True)
class Explanation:
    """Prediction of a method for a configuration that it proposed; None for unknown values.

    Attributes:
        mean: predicted loss; None also if the model predicts a transformed loss.
        std: standard deviation of the prediction.
        evidence: agreement of the source tasks' predictions with the evaluations, and the transfer
            trust.
        sources: weight of each source task by name, largest first.
    """

    mean: float | None = None
    std: float | None = None
    evidence: Evidence | None = None
    sources: dict[str, float] | None = None

    def facts(self, sign: float) -> dict[str, Any]:
        """The predictions that are stored with a trial, in the direction of the study.

        Args:
            sign: 1 if smaller values of the study are better, else -1.
        """
        facts: dict[str, Any] = {}
        if self.mean is not None and self.std is not None:
            facts["expected"] = {"mean": sign * self.mean, "std": self.std}
        if self.evidence is not None:
            facts["trust"] = self.evidence.trust
        if self.sources:
            facts["influence"] = min(1.0, sum(self.sources.values()))
            facts["sources"] = dict(list(self.sources.items())[:_MOST_SOURCES])
        return facts


class Learner(Protocol):
    """A model of source tasks that can be saved."""

    def save(self, path: str | Path, *, fingerprint: str = "") -> None:
        """Write the model to a file that the method's option `model` reads."""


@dataclass(frozen=True)
class Strategy(ABC):
    """Proposes the next configuration of a study.

    Attributes:
        encoder: encoder of the search space.
        design: initial design, if the strategy needs one.
    """

    encoder: Encoder
    design: Design | None

    @property
    def informed(self) -> bool:
        """True if proposals before the first evaluation use source tasks."""
        return False

    @property
    def learner(self) -> Learner | None:
        """Model of the source tasks that can be saved; None if there is none."""
        return None

    @property
    def opening(self) -> Encoder:
        """Encoder of the part of the space in which the initial design is made."""
        return self.encoder

    def within(self, encoder: Encoder) -> Self:
        """Return a copy of the strategy, restricted to a part of its space.

        The strategies that it contains are restricted, too.

        Args:
            encoder: encoder of the part, from `Encoder.restricted`. It has the same columns, so
                that learnt models remain valid.
        """
        parts: dict[str, Any] = {
            part.name: value.within(encoder)
            for part in fields(self)
            if isinstance(value := getattr(self, part.name), Strategy)
        }
        return replace(self, encoder=encoder, **parts)

    @abstractmethod
    def propose(self, history: Task, pending: Array, rng: np.random.Generator) -> Array:
        """Propose a configuration (d,) that is neither evaluated nor pending.

        Args:
            history: evaluations so far.
            pending: configurations (m, d) that are being evaluated.
            rng: random generator.

        Raises:
            SpaceExhausted: there is no new configuration.
        """

    @property
    def shares_proposals(self) -> bool:
        """True if all proposals are marked as shared trials (`Task.shared`).

        The guard shows shared trials to both of its strategies.
        """
        return False

    def level(self, history: Task, pending: int, proposing: float = 0.0) -> int:
        """Current level of a growing search (`GrowingStrategy`); 0 for all other strategies.

        Args:
            history: evaluations so far.
            pending: number of configurations that are being evaluated.
            proposing: seconds that all proposals took so far.
        """
        return 0

    def propose_at(
        self, level: int, history: Task, pending: Array, rng: np.random.Generator
    ) -> Array:
        """Like `propose`, at a given level (see `level`)."""
        return self.propose(history, pending, rng)

    def evidence(self, history: Task) -> Evidence | None:
        """Agreement of the source tasks' predictions with the evaluations; None if unknown."""
        return None

    def trust(self, history: Task) -> float | None:
        """Transfer trust after the evaluations so far; None if it is not estimated."""
        found = self.evidence(history)
        return None if found is None else found.trust

    def origin(self, history: Task, pending: int = 0) -> str:
        """What the next proposal is based on, such as "past studies".

        Args:
            history: evaluations so far.
            pending: number of configurations that are being evaluated.
        """
        return "this study" if len(history) else RANDOM

    def similar_tasks(self, history: Task) -> dict[str, float] | None:
        """Similarity of each source task to the study by name, largest first; None if unknown."""
        return None

    @property
    def foresees(self) -> bool:
        """True if `foresight` predicts more than the mean of the source tasks' functions."""
        return False

    def foresight(self, context: Mapping[str, float]) -> Foresight | None:
        """Return a function that predicts the order of configurations from source tasks alone.

        The function maps configurations (n, d) to numbers (n,); the smallest is predicted to be
        the best. The result is None if there are no source tasks, or if they make no prediction
        for most configurations.

        Args:
            context: context of the target study.
        """
        return None

    def explain(self, history: Task, X: Array) -> list[Explanation]:
        """Return the predictions for m configurations X (m, d), given the evaluations so far."""
        return [Explanation()] * len(X)

    def choose(self, history: Task, pool: Array, rng: np.random.Generator) -> int:
        """Choose the next configuration from a pool; return its index.

        By default it is the one nearest to what `propose` returns.

        Args:
            history: evaluations so far.
            pool: configurations (m, d), at least one, none of them evaluated.
            rng: random generator.
        """
        nothing = np.empty((0, pool.shape[1]))
        try:
            wanted = self.propose(history, nothing, rng)
        except SpaceExhausted:
            return int(rng.integers(len(pool)))
        return int(np.argmin(((pool - wanted) ** 2).sum(axis=1)))


class RandomStrategy(Strategy):
    """Random search without repetitions; it samples from the priors of the space."""

    def origin(self, history: Task, pending: int = 0) -> str:
        return RANDOM

    def propose(self, history: Task, pending: Array, rng: np.random.Generator) -> Array:
        return random_unseen(self.encoder, Seen(history.X, pending), rng)

    def choose(self, history: Task, pool: Array, rng: np.random.Generator) -> int:
        return int(rng.integers(len(pool)))


@dataclass(frozen=True)
class GridStrategy(Strategy):
    """Grid search in random order.

    Attributes:
        levels: number of values of each numeric hyperparameter. If None, grids with 2, 3, 5, 9,
            ... values follow each other; each grid contains the one before.
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
        return random_unseen(self.encoder, seen, rng)  # the grid is too large to list
