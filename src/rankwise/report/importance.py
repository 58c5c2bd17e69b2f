"""Permutation importance of hyperparameters.

A random forest is fitted to the ranks of some trials and predicts the ranks of the others. A
hyperparameter is important if the error grows when its values are exchanged between trials.
Exchanged configurations stay valid: values are exchanged only between trials in which the
hyperparameter is active, and hyperparameters that depend on it are exchanged with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from rankwise.archive.agreement import rank_correlation
from rankwise.archive.common_space import CommonSpace
from rankwise.archive.past_study import PastStudy
from rankwise.errors import SpaceError
from rankwise.history.task import Task
from rankwise.surrogates.single_study.forest import RandomForest
from rankwise.types import Array, Counts, Mask

FEWEST_TRIALS = 10
_MOST_TRIALS = 400
_PARTS = 5  # folds of the cross-validation
_EXCHANGED = 800  # smallest number of exchanged configurations per hyperparameter
_TREES = 60


@dataclass(frozen=True)
class Importance:
    """Importance of each hyperparameter.

    Attributes:
        names: names of the hyperparameters, the most important first.
        shares: shares (p,) of the total importance; they sum to 1, or to 0 if none matters.
        errors: standard errors (p,) of the shares.
        correlation: rank correlation between losses and the forest's predictions on held-out
            trials; if it is not clearly positive, the shares are meaningless.
    """

    names: tuple[str, ...]
    shares: Array
    errors: Array
    correlation: float


def importance(study: PastStudy, seed: int = 0) -> Importance | None:
    """Compute the importance of each hyperparameter of a study; None with too few trials.

    Args:
        study: a study whose trials have values.
        seed: seed of the permutations.
    """
    if len(study) < FEWEST_TRIALS or np.ptp(study.losses) == 0:
        return None
    try:
        space, left_out = CommonSpace.of([study])
    except SpaceError:
        return None
    if left_out:
        return None
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(study))[:_MOST_TRIALS]
    X = space.encode([study.params[k] for k in order])
    ranks = rankdata(study.losses[order]) / len(order)
    names = [name for name in space.distributions if np.ptp(X[:, _columns(space, name)], 0).any()]
    if not names:
        return None
    repeats = max(2, _EXCHANGED // len(X))
    predicted = np.empty(len(X))
    grown = np.empty((_PARTS, len(names)))
    for part in range(_PARTS):
        test = np.arange(len(X)) % _PARTS == part
        forest = RandomForest(space.encoder.layout, trees=_TREES, seed=seed)
        forest.fit(Task.of(X[~test], ranks[~test]))
        predicted[test] = forest.predict(X[test]).mean
        error = np.mean((predicted[test] - ranks[test]) ** 2)
        for j, name in enumerate(names):
            mixed = np.concatenate([_exchanged(space, name, X, test, rng) for _ in range(repeats)])
            wrong = forest.predict(mixed).mean - np.tile(ranks[test], repeats)
            grown[part, j] = np.mean(wrong**2) - error
    return _summary(names, grown, rank_correlation(predicted, ranks))


def _summary(names: Sequence[str], grown: Array, correlation: float) -> Importance:
    """Compute the importance from the growth of the error.

    Args:
        names: names of the p hyperparameters.
        grown: growth of the error (folds, p) per fold and hyperparameter.
        correlation: rank correlation of the forest's predictions.
    """
    means = np.maximum(grown.mean(axis=0), 0.0)
    errors = grown.std(axis=0, ddof=1) / np.sqrt(len(grown))
    order = np.argsort(-means, kind="stable")
    total = means.sum() or 1.0
    return Importance(
        tuple(names[j] for j in order), means[order] / total, errors[order] / total, correlation
    )


def _exchanged(
    space: CommonSpace, name: str, X: Array, test: Mask, rng: np.random.Generator
) -> Array:
    """Return rows X[test] (m, d) with the values of a hyperparameter taken from random rows of X.

    Hyperparameters whose activity changes with it are also replaced.
    """
    own: Array = X[test].copy()
    activity = space.encoder.activity
    having, can_give = np.arange(len(own)), np.arange(len(X))
    if name in activity:
        having = np.flatnonzero(own[:, activity[name]] > 0.5)
        can_give = np.flatnonzero(X[:, activity[name]] > 0.5)
    if not len(having) or not len(can_give):
        return own
    givers = X[rng.choice(can_give, len(having))]
    columns = _columns(space, name)
    own[np.ix_(having, columns)] = givers[:, columns]
    for child in _descendants(space, name):
        switched = own[having, activity[child]] != givers[:, activity[child]]
        columns = _columns(space, child)
        own[np.ix_(having[switched], columns)] = givers[np.ix_(switched, columns)]
    return own


def _columns(space: CommonSpace, name: str) -> Counts:
    """Return the encoded columns of a hyperparameter, including its activity column if any."""
    values = np.arange(space.encoder.n_columns)[space.encoder.columns[name]]
    activity = space.encoder.activity.get(name)
    columns: Counts = values if activity is None else np.append(values, activity)
    return columns


def _descendants(space: CommonSpace, name: str) -> list[str]:
    """Return the hyperparameters whose activity depends on `name`, directly or indirectly."""
    found = [name]
    for parent in found:
        found += [c for c, condition in space.conditions.items() if condition.parent == parent]
    return found[1:]
