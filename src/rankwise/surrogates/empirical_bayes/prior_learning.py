"""Learn the prior of the `eb-gp` models by predicting held-out source tasks from the others."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from scipy.special import logsumexp

from rankwise.history.transforms import Standardize
from rankwise.surrogates.empirical_bayes.model_grid import (
    Models,
    fit_models,
    learn_prior,
    residual_kernels,
)
from rankwise.surrogates.empirical_bayes.past_functions import Lesson
from rankwise.types import Array

_KEPT = 20  # most probable models that are kept
_KEPT_PER_USE = 4  # models that are kept for each pair (m_h, a_h), the use of source tasks
_SUBSETS = 6  # subsets drawn from each held-out source task
_SUBSET_SIZES = (4, 24)  # smallest and largest number of observations in a subset
_TEMPER, _FLOOR = 0.3, 0.02  # arguments of `learn_prior`


def learnt_models(
    lessons: Iterable[Lesson], lengthscales: Array, seed: int
) -> tuple[Models, float]:
    """Learn which models of the grid predict held-out source tasks well.

    Args:
        lessons: Held-out source tasks with the predictions of the others.
        lengthscales: Length-scales of the residual kernel (d,).
        seed: Seed of the subsets and of the permutations.

    Returns:
        The most probable models with the learnt prior, and the gain in nats per subset. The gain
        is the mean difference in log evidence between informed models (which use the other source
        tasks) and plain models (which do not), minus the same difference for a placebo. In
        the placebo the predictions of the other source tasks are permuted among the
        configurations. Without lessons, that is with fewer than three source tasks, the result is
        the whole grid with equal priors and an infinite gain.
    """
    models = Models.grid()
    rng, placebo_rng = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    evidence: list[Array] = []
    placebo: list[Array] = []
    for lesson in lessons:
        for k in range(_SUBSETS):
            rows = _draw_rows(lesson.scores, rng, bias=float(k % 3))
            y = lesson.scores[rows]
            if np.unique(y).size < 2:
                continue
            X = lesson.X[rows]
            kernels = residual_kernels(X, X, lengthscales)
            y = Standardize.fit(y)(y)
            permuted = [rows[k] for k in placebo_rng.permutation(len(rows))]
            for predicted, table in ((rows, evidence), (permuted, placebo)):
                view = lesson.view.rows(predicted)
                fit = fit_models(models, view.mean, view.spread, kernels, y)
                table.append(fit.log_evidence)
    if not evidence:
        return models, math.inf
    prior, gain = _prior_and_gain(models, np.array(evidence))
    gain -= _prior_and_gain(models, np.array(placebo))[1]
    order = np.argsort(-prior, kind="stable")
    kept = set(order[:_KEPT].tolist())
    # Keep some models of every pair (m_h, a_h): the target task may need any of them.
    for mean, source in {*zip(models.mean, models.source, strict=True)}:
        alike = (models.mean[order] == mean) & (models.source[order] == source)
        kept.update(order[alike][:_KEPT_PER_USE].tolist())
    kept_models = models.with_prior(prior).some(np.array(sorted(kept)))
    return kept_models, gain


def _prior_and_gain(models: Models, evidence: Array) -> tuple[Array, float]:
    """Learn the prior (H,) and compute the gain from the log evidence (N, H) on N subsets.

    The gain is the mean over subsets of the log evidence of the informed models minus that of the
    plain models.
    """
    prior = learn_prior(evidence, temper=_TEMPER, floor=_FLOOR)
    with_past, without = (
        logsumexp(evidence[:, which], axis=1, b=prior[which] / prior[which].sum())
        for which in (~models.plain, models.plain)
    )
    return prior, float(np.mean(with_past - without))


def _draw_rows(z: Array, rng: np.random.Generator, bias: float) -> list[int]:
    """Draw a random subset of rows, as an optimizer might have evaluated them.

    Args:
        z: Scores of a source task (n,), lower is better.
        rng: Random number generator.
        bias: Preference for good rows: each is drawn with weight exp(-bias * z).
    """
    low, high = _SUBSET_SIZES
    size = int(np.exp(rng.uniform(np.log(low), np.log(high + 0.99))))
    chance = np.exp(-bias * z)
    rows = rng.choice(len(z), min(size, len(z)), replace=False, p=chance / chance.sum())
    return [int(row) for row in rows]
