"""A ranking ensemble that is told what the data are like.

Deep Ranking Ensembles know a task by its evaluations; before the first there is nothing to know.
Here the scorers get, beside each configuration, a few numbers that describe the data set: what
`dist` learnt about data sets from how configurations fared on them, in units of its length-scales,
reduced to the directions in which past data sets differ most.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import Self

from rankwise.surrogates.base import Posterior, Surrogate
from rankwise.surrogates.dist import DistributionalTransfer
from rankwise.surrogates.dre import DeepRankingEnsemble
from rankwise.task import Task
from rankwise.types import Array

_NUMBERS = 4  # by which a data set is described
_WIDTH = 0.25  # standard deviation of these numbers, around one half


class DescribedRankingEnsemble(Surrogate):
    """Deep Ranking Ensembles with numbers about the data set as further inputs.

    Args:
        description: what the numbers come from: "data", the rows of the data sets, or "manual",
            hand-made numbers; see `DistributionalTransfer`.
        seed: of all that is drawn.
        **settings: of `DeepRankingEnsemble`.
    """

    relative = True
    foresees = True  # it knows the data

    def __init__(self, *, description: str = "data", seed: int = 0, **settings: Any) -> None:
        self.seed = seed
        self.describer = DistributionalTransfer(description=description, scale="task", seed=seed)
        self.ensemble = DeepRankingEnsemble(seed=seed, **settings)

    @property
    def meta_learned(self) -> bool:
        """Whether past tasks were learnt."""
        return self.describer.meta_learned and self.ensemble.meta_learned

    def with_seed(self, seed: int) -> Self:
        """The same surrogate, what was learnt included, with other random numbers."""
        twin = copy.copy(self)
        twin.seed, twin.ensemble = seed, self.ensemble.with_seed(seed)
        return twin

    def meta_fit(
        self,
        tasks: Sequence[Task],
        validation: Sequence[Task] = (),
        *,
        progress: bool | None = None,
    ) -> Self:
        """Learn first what matters about data sets, then to rank configurations on them.

        Args:
            tasks: to learn from.
            validation: other tasks, which say when to stop.
            progress: show a bar; by default if standard error is a terminal.
        """
        self.describer.meta_fit(tasks, validation, progress=progress)
        if not self.describer.meta_learned:
            return self
        together = [*tasks, *validation]
        vectors = [self.describer.vector(t.context) for t in together]
        self._centre = np.mean(vectors, axis=0)
        _, s, V = np.linalg.svd(vectors - self._centre, full_matrices=False)
        kept = min(_NUMBERS, int((s > 1e-9).sum()))
        spread = s[:kept] / max(len(vectors) - 1, 1) ** 0.5
        self._axes = V[:kept] / spread[:, None]
        told = [
            self._told(task, self._reduced(vector))
            for task, vector in zip(together, vectors, strict=True)
        ]
        self.ensemble.meta_fit(told[: len(tasks)], told[len(tasks) :], progress=progress)
        return self

    def fit(self, task: Task) -> Self:
        self._numbers = self._reduced(self.describer.vector(task.context))
        self.similarities = self.describer.similarities
        self.ensemble = copy.copy(self.ensemble).fit(self._told(task, self._numbers))
        return self

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        return self.ensemble.predict(self._beside(X, self._numbers), joint=joint)

    def _reduced(self, vector: Array) -> Array:
        """The numbers (k,) of a data set with a description (q,)."""
        numbers: Array = 0.5 + _WIDTH * (self._axes @ (vector - self._centre))
        return numbers.clip(-0.5, 1.5)

    def _told(self, task: Task, numbers: Array) -> Task:
        X = self._beside(task.X, numbers)
        return Task.of(X, task.y, task.cost, task.status, task.name)

    @staticmethod
    def _beside(X: Array, numbers: Array) -> Array:
        return np.hstack([X, np.broadcast_to(numbers, (len(X), len(numbers)))])
