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
    that use the other studies and models that do not, less that difference with a placebo: what
    the others say of these configurations, exchanged among them. Of fewer than three studies
    nothing can be said, and the gain counts as infinite.
    """
    models = Models.grid()
    rng, others = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    evidence: list[Array] = []
    placebo: list[Array] = []
    for lesson in lessons:
        for k in range(_EXERCISES):
            rows = _some_rows(lesson.scores, rng, bias=float(k % 3))
            y = lesson.scores[rows]
            if np.unique(y).size < 2:
                continue
            X = lesson.X[rows]
            kernels = residual_kernels(X, X, lengthscales)
            y = Standardize.fit(y)(y)
            exchanged = [rows[k] for k in others.permutation(len(rows))]
            for said, table in ((rows, evidence), (exchanged, placebo)):
                view = lesson.view.rows(said)
                fit = fit_models(models, view.mean, view.spread, kernels, y)
                table.append(fit.log_evidence)
    if not evidence:
        return models, math.inf
    prior, gain = _learn(models, np.array(evidence))
    gain -= _learn(models, np.array(placebo))[1]
    order = np.argsort(-prior, kind="stable")
    kept = set(order[:_KEPT].tolist())
    for mean, source in {*zip(models.mean, models.source, strict=True)}:  # no use is ruled out
        alike = (models.mean[order] == mean) & (models.source[order] == source)
        kept.update(order[alike][:_KEPT_OF_EACH].tolist())
    kept_models = models.with_prior(prior).some(np.array(sorted(kept)))
    return kept_models, gain


def _learn(models: Models, evidence: Array) -> tuple[Array, float]:
    """The prior (H,) from the log evidence (N, H), and what is gained by using the past."""
    prior = learn_prior(evidence, temper=_TEMPER, floor=_FLOOR)
    with_past, without = (
        logsumexp(evidence[:, which], axis=1, b=prior[which] / prior[which].sum())
        for which in (~models.plain, models.plain)
    )
    return prior, float(np.mean(with_past - without))


def _some_rows(z: Array, rng: np.random.Generator, bias: float) -> list[int]:
    """Rows of a past study (n,) as a search might have seen them: the better, the likelier."""
    low, high = _SIZES
    size = int(np.exp(rng.uniform(np.log(low), np.log(high + 0.99))))
    chance = np.exp(-bias * z)
    rows = rng.choice(len(z), min(size, len(z)), replace=False, p=chance / chance.sum())
    return [int(row) for row in rows]
