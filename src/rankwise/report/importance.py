"""Which hyperparameters decide how good a trial is.

A random forest learns the ranks of some trials and predicts those of the others. The more its
error grows when the values of a hyperparameter are exchanged between trials, the more this
hyperparameter counts. Every exchange gives configurations that are possible: a hyperparameter is
exchanged between trials that have it, and with a choice comes what depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from rankwise.archive.agreement import rank_correlation
from rankwise.archive.common import CommonSpace
from rankwise.archive.studies import PastStudy
from rankwise.errors import SpaceError
from rankwise.surrogates.forest import RandomForest
from rankwise.task import Task
from rankwise.types import Array, Counts, Mask

FEWEST_TRIALS = 10
_MOST_TRIALS = 400
_PARTS = 5
_EXCHANGED = 800  # trials per hyperparameter, made of those that there are
_TREES = 60


@dataclass(frozen=True)
class Importance:
    """How much each hyperparameter counts.

    Attributes:
        names: of the hyperparameters, the most important first.
        shares: (p,) of the importance of all; they sum to 1, or to 0 if nothing counts.
        errors: (p,) standard errors of the shares.
        correlation: between the ranks and what the forest predicts of trials it has not seen; if
            it is not clearly positive, the shares say nothing.
    """

    names: tuple[str, ...]
    shares: Array
    errors: Array
    correlation: float


def importance(study: PastStudy, seed: int = 0) -> Importance | None:
    """How much each hyperparameter of a study counts; None if there are too few trials to tell.

    Args:
        study: its trials have values.
        seed: of the exchanges.
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
    """Rows X[test] (m, d) with the values that a hyperparameter has in other rows of X (n, d)."""
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
    """The columns of a hyperparameter: its values, and whether it is active."""
    values = np.arange(space.encoder.n_columns)[space.encoder.columns[name]]
    activity = space.encoder.activity.get(name)
    columns: Counts = values if activity is None else np.append(values, activity)
    return columns


def _descendants(space: CommonSpace, name: str) -> list[str]:
    """The hyperparameters whose activity depends on one, directly or not."""
    found = [name]
    for parent in found:
        found += [c for c, condition in space.conditions.items() if condition.parent == parent]
    return found[1:]
