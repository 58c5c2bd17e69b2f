"""Models of `eb-gp` that were learnt from built-in records, so that nothing has to be fitted.

The arrays `learnt.METRIC.NAME` of a data file (see `records`), for t source tasks, d columns and h
models:

| name | shape | content |
|---|---|---|
| `lengthscales` | (t, d) | length-scales of each source task's Gaussian process |
| `noise` | (t,) | noise variance of each process; NaN for a data set with equal scores only |
| `check` | (t, d) | weighted sums of the encoded configurations, which must be the same |
| `models.*` | (h,) | `rankwise.surrogates.empirical_bayes.model_grid.Models` |
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankwise.builtin.records import Records
from rankwise.history.task import Task
from rankwise.surrogates.empirical_bayes.model_grid import MODEL_FIELDS, Models
from rankwise.surrogates.empirical_bayes.past_functions import (
    Source,
    SourcePast,
    scores,
    source_context,
    task_digest,
)
from rankwise.surrogates.empirical_bayes.source_weights import Similarity
from rankwise.surrogates.empirical_bayes.surrogate import EmpiricalBayes
from rankwise.types import Array

_TOLERANCE = 1e-4  # of `_check`: float32 and other logarithms differ by less


def learnt_arrays(surrogate: EmpiricalBayes, tasks: Sequence[Task]) -> dict[str, Array]:
    """The arrays to store for a surrogate that learnt from tasks."""
    assert isinstance(surrogate.past, SourcePast)
    by_digest = {source.digest: source for source in surrogate.past.sources}
    d = tasks[0].X.shape[1]
    found = [by_digest.get(task_digest(task)) for task in tasks]
    models = {f"models.{name}": getattr(surrogate.models, name) for name in MODEL_FIELDS}
    return {
        "lengthscales": np.array([np.ones(d) if s is None else s.lengthscales for s in found]),
        "noise": np.array([np.nan if s is None else s.noise for s in found]),
        "check": np.array([_check(task) for task in tasks]),
        **models,
    }


def learnt_surrogate(
    records: Records, metric: str, tasks: Sequence[Task]
) -> EmpiricalBayes | None:
    """The stored surrogate; None if nothing is stored, or the space is not the one of the file.

    Args:
        records: the records of one learner.
        metric: name of a metric.
        tasks: all tasks that `source_tasks` made of these records.
    """
    stored = records.learnt.get(metric)
    if stored is None or len(stored["noise"]) != len(tasks):
        return None
    check = np.array([_check(task) for task in tasks])
    if check.shape != stored["check"].shape or not np.allclose(
        check, stored["check"], atol=_TOLERANCE, rtol=0
    ):
        return None
    sources = [
        Source(
            task.X,
            scores(task.losses),
            stored["lengthscales"][k].astype(float),
            float(noise),
            task_digest(task),
            task.name,
            source_context(task.context),
        )
        for k, (task, noise) in enumerate(zip(tasks, stored["noise"].tolist(), strict=True))
        if noise == noise
    ]
    surrogate = EmpiricalBayes()
    similar = None
    if metric in records.similarity:
        names, bandwidth = records.similarity[metric]
        similar = Similarity.of(names, sources, bandwidth)
    surrogate.past = SourcePast(sources, remember=True, similarity=similar)
    surrogate.models = Models(*(stored[f"models.{name}"] for name in MODEL_FIELDS))
    surrogate.exam = records.exam[metric]
    return surrogate


def _check(task: Task) -> Array:
    """Checksum (d,) of the encoded configurations: means with a weight that grows with the row."""
    weights = np.linspace(0.0, 1.0, len(task)) + 0.5
    checked: Array = weights @ task.X / max(len(task), 1)
    return checked
