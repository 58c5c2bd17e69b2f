"""The prior of a transfer GP's models, learnt by predicting past studies from the others."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from scipy.special import logsumexp

from rankwise.surrogates.models import Models, fit_models, learn_prior, residual_kernels
from rankwise.surrogates.sources import Lesson
from rankwise.transforms import Standardize
from rankwise.types import Array

_KEPT, _KEPT_OF_EACH = 20, 4  # models: the most probable ones, and of each use of the past
_EXERCISES = 6  # parts of a past study
_SIZES = (4, 24)  # observations in a part
_TEMPER, _FLOOR = 0.3, 0.02


def learnt_models(
    lessons: Iterable[Lesson], lengthscales: Array, seed: int
) -> tuple[Models, float]:
    """The grid of models with a prior learnt by predicting past studies from the others.

    With it comes what was gained by doing so: the mean difference in log evidence between models
    that use the other studies and models that do not. Of fewer than three studies nothing can be
    said, and the gain counts as infinite.
    """
    models = Models.grid()
    rng = np.random.default_rng(seed)
    evidence = []
    for lesson in lessons:
        for k in range(_EXERCISES):
            rows = _some_rows(lesson.scores, rng, bias=float(k % 3))
            y = lesson.scores[rows]
            if np.unique(y).size < 2:
                continue
            view = lesson.view.rows(rows)
            X = lesson.X[rows]
            kernels = residual_kernels(X, X, lengthscales)
            y = Standardize.fit(y)(y)
            evidence.append(fit_models(models, view.mean, view.spread, kernels, y).log_evidence)
    if not evidence:
        return models, math.inf
    table = np.array(evidence)
    prior = learn_prior(table, temper=_TEMPER, floor=_FLOOR)
    with_past, without = (
        logsumexp(table[:, which], axis=1, b=prior[which] / prior[which].sum())
        for which in (~models.plain, models.plain)
    )
    order = np.argsort(-prior, kind="stable")
    kept = set(order[:_KEPT].tolist())
    for mean, source in {*zip(models.mean, models.source, strict=True)}:  # no use is ruled out
        alike = (models.mean[order] == mean) & (models.source[order] == source)
        kept.update(order[alike][:_KEPT_OF_EACH].tolist())
    kept_models = models.with_prior(prior).some(np.array(sorted(kept)))
    return kept_models, float(np.mean(with_past - without))


def _some_rows(z: Array, rng: np.random.Generator, bias: float) -> list[int]:
    """Rows of a past study (n,) as a search might have seen them: the better, the likelier."""
    low, high = _SIZES
    size = int(np.exp(rng.uniform(np.log(low), np.log(high + 0.99))))
    chance = np.exp(-bias * z)
    rows = rng.choice(len(z), min(size, len(z)), replace=False, p=chance / chance.sum())
    return [int(row) for row in rows]
