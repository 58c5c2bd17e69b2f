"""Weights of past studies that fall with their age."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest
from optuna.distributions import FloatDistribution

from rankwise.archive import Archive, PastStudy, open_archive
from rankwise.archive.ageing import DAY, Ageing, aged, learn_half_life
from rankwise.archive.used_past import UsedPast
from rankwise.errors import OptionError
from rankwise.history.task import OK, Task
from rankwise.surrogates.empirical_bayes.past_functions import effective_counts
from rankwise.surrogates.empirical_bayes.surrogate import EmpiricalBayes


def months(drift, count=20, trials=25, seed=0):
    """Studies of one month each: parabolas whose best configuration may move."""
    rng = np.random.default_rng(seed)
    tasks = []
    for k in range(count):
        centre = 0.15 + 0.7 * k / count if drift else rng.uniform(0.4, 0.6)
        X = rng.uniform(size=(trials, 2))
        y = ((X - centre) ** 2).sum(axis=1) + rng.normal(0, 0.01, trials)
        tasks.append(Task.of(X, y, name=f"month-{k}"))
    return tasks, 30 * DAY * np.arange(count)


def studies(drift):
    tasks, moments = months(drift)
    kinds = {name: FloatDistribution(0, 1) for name in ("a", "b")}
    return [
        PastStudy(
            task.name,
            "minimize",
            [dict(zip("ab", row, strict=True)) for row in task.X.tolist()],
            kinds,
            task.y,
            (OK,) * len(task),
            np.zeros(len(task), bool),
            np.full(len(task), np.nan),
            {},
            datetime(2024, 1, 1) + timedelta(seconds=moment),
        )
        for task, moment in zip(tasks, moments.tolist(), strict=True)
    ]


def test_a_drift_is_learnt():
    ageing = learn_half_life(*months(drift=True))
    assert ageing.half_life is not None and ageing.half_life < 200 * DAY
    assert ageing.aged > ageing.ageless + 0.05 and "halved every" in str(ageing)


@pytest.mark.parametrize("seed", range(5))
def test_without_a_drift_studies_do_not_age(seed):
    ageing = learn_half_life(*months(drift=False, seed=seed))
    assert ageing.half_life is None and "do not age" in str(ageing)


def test_few_studies_or_a_single_day_do_not_age():
    tasks, moments = months(drift=True)
    assert learn_half_life(tasks[:7], moments[:7]).half_life is None
    assert learn_half_life(tasks, moments / (40 * DAY)).half_life is None
    assert learn_half_life(tasks, np.full(len(tasks), -np.inf)).half_life is None


def test_weights():
    weights = Ageing(DAY).weights(np.array([0.0, DAY, 2 * DAY, -np.inf]))
    assert weights.tolist() == [0.25, 0.5, 1.0, 0.25]
    tasks, _ = months(drift=True, count=3)
    kept = aged(tasks, np.array([0.01, 0.5, 1.0]))
    assert [(task.name, task.weight) for task in kept] == [("month-1", 0.5), ("month-2", 1.0)]
    counts = effective_counts(kept)
    assert counts.sum() == pytest.approx(1.5**2 / 1.25) and counts[1] == pytest.approx(
        2 * counts[0]
    )
    assert effective_counts(tasks) is None


def test_an_archive_ages():
    archive = Archive(studies(drift=True))
    assert archive.ageing.learnt and archive.ageing.half_life is not None
    assert len(archive.tasks.tasks) < len(archive.studies)
    assert any("halved every" in note for note in archive.describe().notes)
    old, used = archive.too_old, UsedPast.of(archive)
    assert len(old) + len(archive.tasks.tasks) == len(archive.studies) and old
    assert set(used.left_out) == set(old) and not set(used.studies) & set(old)
    assert f"{len(old)} left out ({len(old)} too old)" in str(used)
    assert any(f"{len(old)} studies not used" in note for note in archive.describe().notes)
    ageless = Archive(studies(drift=True), half_life=None)
    assert len(ageless.tasks.tasks) == 20 and ageless.tasks.tasks[0].weight == 1.0
    given = Archive(studies(drift=False), half_life=60)
    assert given.tasks.tasks[-2].weight == pytest.approx(0.5**0.5)
    assert given.tasks.digest != Archive(studies(drift=False), half_life=90).tasks.digest
    assert open_archive(given, like="month-1*").half_life == timedelta(days=60)
    assert open_archive(given, half_life=timedelta(days=1)).ageing.half_life == DAY


@pytest.mark.parametrize("given", [0, -1, "soon", float("inf"), float("nan"), True])
def test_wrong_half_lives(given):
    with pytest.raises(OptionError, match="half_life is a positive number of days"):
        Archive([], half_life=given)


def test_the_prior_leans_on_newer_studies():
    archive = Archive(studies(drift=True), half_life=45)
    grid = np.linspace(0, 1, 41)[:, None] * np.ones(2)
    centres = {}
    for name, past in (("aged", archive), ("ageless", Archive(studies(True), half_life=None))):
        surrogate = EmpiricalBayes().meta_fit(past.tasks.tasks)
        mean = surrogate.past.view(grid).mean
        centres[name] = grid[np.argmin(mean), 0]
    assert centres["aged"] > centres["ageless"] + 0.15
