"""Rank agreement between studies, the best early sign of whether transfer helps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankwise._core.numerics import rankdata
from rankwise.history.task import Task
from rankwise.types import Array

_MOST_STUDIES = 30
_MOST_TRIALS = 200
_FEWEST_TRIALS = 5


@dataclass(frozen=True)
class Agreement:
    """Rank correlations between studies.

    The losses of one study are compared with those of another study at the nearest
    configurations: 1 for equal rankings, 0 for unrelated ones.

    Attributes:
        mean: mean over pairs of studies; NaN with too few trials.
        by_study: mean of each study with all others.
        least: name of the study with the smallest mean; "" if unknown.
        compared: number of studies that were compared.
    """

    mean: float
    by_study: dict[str, float]
    least: str
    compared: int

    def __str__(self) -> str:
        if math.isnan(self.mean):
            return "agreement of the rankings: n/a (too few trials)"
        return (
            f"agreement of the rankings: mean rank correlation {self.mean:.2f} between "
            f"{self.compared} studies; least: {self.least} ({self.by_study[self.least]:.2f})"
        )


def agreement(tasks: Sequence[Task], seed: int = 0) -> Agreement:
    """Compute the rank agreement of tasks; at most 30 random ones are compared.

    Args:
        tasks: tasks of one space.
        seed: seed of the random choice.
    """
    from scipy.spatial import cKDTree

    rng = np.random.default_rng(seed)
    able = [task for task in tasks if task.ok.sum() >= _FEWEST_TRIALS]
    chosen = np.sort(rng.permutation(len(able))[:_MOST_STUDIES])
    parts = [_some_trials(able[k], rng) for k in chosen]
    trees = [cKDTree(X) for X, _ in parts]
    table = np.full((len(parts), len(parts)), np.nan)
    for i, (X, y) in enumerate(parts):
        for j, (_, other) in enumerate(parts):
            if i != j:
                _, nearest = trees[j].query(X)
                table[i, j] = rank_correlation(y, other[nearest])
    # A study's agreement counts both directions: predicting others and being predicted.
    both = np.concatenate([table, table.T], axis=1)
    by_study = {
        able[k].name: float(np.nanmean(row))
        for k, row in zip(chosen, both, strict=True)
        if not np.isnan(row).all()
    }
    if not by_study:
        return Agreement(math.nan, {}, "", 0)
    least = min(by_study, key=lambda name: by_study[name])
    return Agreement(float(np.nanmean(table)), by_study, least, len(by_study))


def rank_correlation(a: Array, b: Array) -> float:
    """Spearman's correlation of two samples (n,); NaN if one of them is constant."""
    ranks = rankdata(a), rankdata(b)
    if np.ptp(ranks[0]) == 0 or np.ptp(ranks[1]) == 0:
        return math.nan
    return float(np.corrcoef(*ranks)[0, 1])


def _some_trials(task: Task, rng: np.random.Generator) -> tuple[Array, Array]:
    rows = np.flatnonzero(task.ok)
    if len(rows) > _MOST_TRIALS:
        rows = np.sort(rng.choice(rows, _MOST_TRIALS, replace=False))
    return task.X[rows], task.y[rows]
