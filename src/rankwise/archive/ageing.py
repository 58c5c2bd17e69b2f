"""Ageing: weights of past studies that fall with their age, by a half-life that is learnt.

The half-life is learnt leave-future-out: each study is predicted from the studies before it, which
are weighted by their age at that time. "No ageing" is one of the hypotheses. Another one replaces
it only if it predicts the ranks of later studies clearly better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
from scipy.special import ndtri

from rankwise._core.numerics import rankdata
from rankwise.archive.agreement import rank_correlation
from rankwise.archive.past_study import PastStudy
from rankwise.errors import OptionError, is_number
from rankwise.history.task import Task
from rankwise.types import Array

DAY = 86400.0
LEARNT = "auto"
"""Value of `half_life` with which it is learnt."""

SMALLEST = 0.05
"""Studies with a smaller weight are left out."""

_FEWEST_STUDIES, _MOST_STUDIES = 8, 40
_FEWEST_TRIALS, _MOST_TRIALS = 5, 100
_BEFORE = 3  # studies before the first one that is predicted
_NEIGHBOURS = 3
_SHORTEST = DAY  # a past that is shorter does not age
_SHARES = (1.0, 0.5, 0.25, 0.125, 0.0625)  # half-lives that are tried, as shares of the past
_ERRORS = 2.5  # standard errors by which ageing has to be better than no ageing
_GAIN = 0.02  # and by how much rank correlation at least


@dataclass(frozen=True)
class Ageing:
    """How the weight of a past study falls with its age.

    Attributes:
        half_life: time in seconds after which the weight is halved; None if studies do not age.
        learnt: True if it was learnt, False if it was given.
        aged: mean rank correlation of predictions with later studies, with this half-life.
        ageless: mean rank correlation without ageing; NaN if nothing was compared.
        compared: number of studies that were predicted.
    """

    half_life: float | None = None
    learnt: bool = False
    aged: float = math.nan
    ageless: float = math.nan
    compared: int = 0

    def __str__(self) -> str:
        if self.half_life is None:
            if not self.compared:
                return "past studies do not age"
            return (
                f"past studies do not age: {self.compared} later studies are predicted as well "
                f"without it (mean rank correlation {self.ageless:.2f})"
            )
        text = f"the weight of a past study is halved every {self.half_life / DAY:.3g} days"
        if self.learnt:
            text += (
                f": mean rank correlation with {self.compared} later studies {self.aged:.2f}, "
                f"without ageing {self.ageless:.2f}"
            )
        return text

    def weights(self, moments: Array) -> Array:
        """Weights (n,) of studies that began at `moments` (n,), in seconds; the newest has 1.

        A study without a known start is as old as the oldest.
        """
        known = np.isfinite(moments)
        if self.half_life is None or not known.any():
            return np.ones(len(moments))
        first, last = moments[known].min(), moments[known].max()
        ages = last - np.where(known, moments, first)
        weights: Array = 0.5 ** (ages / self.half_life)
        return weights


def check_half_life(given: Any) -> timedelta | str | None:
    """Return a valid `half_life`: "auto", None, or a timedelta.

    Raises:
        OptionError: it is something else.
    """
    if given is None or given == LEARNT:
        return LEARNT if given else None
    seconds = given.total_seconds() if isinstance(given, timedelta) else math.nan
    if is_number(given):
        seconds = float(given) * DAY
    if not 0 < seconds < 1e12:
        raise OptionError(
            f"half_life is a positive number of days, a timedelta, 'auto' or None, not {given!r}"
        )
    return timedelta(seconds=seconds)


def ageing_of(
    half_life: timedelta | str | None, studies: Sequence[PastStudy], tasks: Sequence[Task]
) -> Ageing:
    """The ageing of studies.

    Args:
        half_life: result of `check_half_life`.
        studies: the studies (n).
        tasks: their tasks (n), in the same order.
    """
    if half_life is None:
        return Ageing()
    if isinstance(half_life, timedelta):
        return Ageing(half_life.total_seconds())
    return learn_half_life(tasks, np.array([study.age for study in studies]))


def learn_half_life(tasks: Sequence[Task], moments: Array) -> Ageing:
    """Learn the half-life from how studies predict later ones.

    At most 40 studies are compared, the newest ones. Fewer than eight, or studies of a single day,
    do not age.

    Args:
        tasks: tasks of one space (n).
        moments: their start times (n,) in seconds; not finite if unknown.
    """
    able = [
        k for k, t in enumerate(tasks) if np.isfinite(moments[k]) and _trials(t) >= _FEWEST_TRIALS
    ]
    able = sorted(able, key=lambda k: float(moments[k]))[-_MOST_STUDIES:]
    if len(able) < _FEWEST_STUDIES:
        return Ageing(learnt=True)
    times = moments[able]
    span = float(times[-1] - times[0])
    if span < _SHORTEST:
        return Ageing(learnt=True)
    half_lives = [math.inf, *(share * span for share in _SHARES)]
    table = _correlations([tasks[k] for k in able], times, half_lives)
    table = table[~np.isnan(table).any(axis=1)]
    if len(table) < _FEWEST_STUDIES - _BEFORE:
        return Ageing(learnt=True)
    means = table.mean(axis=0)
    best = int(np.argmax(means))
    gain = table[:, best] - table[:, 0]
    error = float(gain.std(ddof=1) / math.sqrt(len(gain)))
    better = best > 0 and gain.mean() > max(_GAIN, _ERRORS * error)
    return Ageing(
        half_lives[best] if better else None,
        True,
        float(means[best]),
        float(means[0]),
        len(table),
    )


def aged(tasks: Sequence[Task], weights: Array) -> list[Task]:
    """The tasks with their weights (n,), without those of hardly any weight."""
    pairs = zip(tasks, weights.tolist(), strict=True)
    return [replace(task, weight=weight) for task, weight in pairs if weight >= SMALLEST]


def _correlations(tasks: Sequence[Task], times: Array, half_lives: Sequence[float]) -> Array:
    """Rank correlation (m, h) of each later task with its predictions by each half-life.

    The prediction for a configuration is the weighted mean over earlier tasks of the normal
    scores at the three nearest configurations.
    """
    from scipy.spatial import cKDTree

    rng = np.random.default_rng(0)
    parts = [_some(task, rng) for task in tasks]
    trees = [cKDTree(X) for X, _ in parts]
    scores = [ndtri((rankdata(y) - 0.5) / len(y)) for _, y in parts]
    rows = []
    for i in range(_BEFORE, len(parts)):
        X, y = parts[i]
        near = [
            scores[j][trees[j].query(X, k=_NEIGHBOURS)[1]].mean(axis=1) for j in range(i)
        ]  # (i, n)
        ages = times[i] - times[:i]
        predictions = [(0.5 ** (ages / h)) @ np.array(near) for h in half_lives]
        rows.append([rank_correlation(p, y) for p in predictions])
    return np.array(rows)


def _trials(task: Task) -> int:
    return int(task.ok.sum())


def _some(task: Task, rng: np.random.Generator) -> tuple[Array, Array]:
    rows = np.flatnonzero(task.ok)
    if len(rows) > _MOST_TRIALS:
        rows = np.sort(rng.choice(rows, _MOST_TRIALS, replace=False))
    return task.X[rows], task.y[rows]
