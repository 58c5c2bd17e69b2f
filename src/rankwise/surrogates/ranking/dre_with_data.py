"""Deep Ranking Ensembles with a description of the data set as a further input.

Deep Ranking Ensembles recognize a task by its trials only, so they cannot distinguish tasks before
the first trial. Here each configuration is extended by a few numbers that describe the data set.
They are computed in two steps: distBO (`distbo.surrogate`) learns a description of data sets from
the losses of configurations on them, which is divided by its length-scales; then a principal
component analysis reduces it to the directions in which the data sets of the source tasks differ
most.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import Self

from rankwise.history.task import Task
from rankwise.surrogates.base import Posterior, Surrogate
from rankwise.surrogates.distbo.surrogate import DistributionalTransfer
from rankwise.surrogates.ranking.dre import DeepRankingEnsemble
from rankwise.types import Array

_NUMBERS = 4  # most numbers that describe a data set
_WIDTH = 0.25  # standard deviation of these numbers over the source tasks; their mean is 0.5


class DescribedRankingEnsemble(Surrogate):
    """Deep Ranking Ensemble whose inputs include a description of the data set.

    Args:
        description: Source of the description: "data" for the rows of the data set, "manual" for
            hand-made meta-features; see `DistributionalTransfer`.
        seed: Seed of all random numbers.
        **settings: Arguments of `DeepRankingEnsemble`.

    Attributes:
        describer: distBO surrogate that computes the descriptions.
        ensemble: Deep Ranking Ensemble on the extended configurations.
    """

    relative = True
    foresees = True  # predictions before the first trial depend on the data set

    def __init__(self, *, description: str = "data", seed: int = 0, **settings: Any) -> None:
        self.seed = seed
        self.describer = DistributionalTransfer(description=description, scale="task", seed=seed)
        self.ensemble = DeepRankingEnsemble(seed=seed, **settings)

    @property
    def meta_learned(self) -> bool:
        """True after `meta_fit` with usable source tasks."""
        return self.describer.meta_learned and self.ensemble.meta_learned

    def with_seed(self, seed: int) -> Self:
        """Return a copy with another seed that keeps everything learned from source tasks."""
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
        """Learn the description of data sets from source tasks, then train the ensemble.

        Args:
            tasks: Source tasks to train on.
            validation: Other source tasks. The description is learned from them, too; the
                ensemble uses them for early stopping.
            progress: Show progress bars; by default only if standard error is a terminal.
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
        extended = [
            self._extended(task, self._reduced(vector))
            for task, vector in zip(together, vectors, strict=True)
        ]
        self.ensemble.meta_fit(extended[: len(tasks)], extended[len(tasks) :], progress=progress)
        return self

    def fit(self, task: Task) -> Self:
        self._numbers = self._reduced(self.describer.vector(task.context))
        self.similarities = self.describer.similarities
        self.ensemble = copy.copy(self.ensemble).fit(self._extended(task, self._numbers))
        return self

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        return self.ensemble.predict(self._append(X, self._numbers), joint=joint)

    def _reduced(self, vector: Array) -> Array:
        """Reduce a description (q,) of a data set to k <= 4 numbers, clipped to [-0.5, 1.5]."""
        numbers: Array = 0.5 + _WIDTH * (self._axes @ (vector - self._centre))
        return numbers.clip(-0.5, 1.5)

    def _extended(self, task: Task, numbers: Array) -> Task:
        """Return the task with numbers (k,) appended to every configuration."""
        X = self._append(task.X, numbers)
        return Task.of(X, task.y, task.cost, task.status, task.name)

    @staticmethod
    def _append(X: Array, numbers: Array) -> Array:
        """Append numbers (k,) as columns to X (n, d), shape (n, d + k)."""
        return np.hstack([X, np.broadcast_to(numbers, (len(X), len(numbers)))])
