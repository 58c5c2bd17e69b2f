"""Optuna's own conformance tests of samplers, and a study that learns from an archive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import optuna
from optuna.samplers import BaseSampler
from optuna.testing.pytest_samplers import BasicSamplerTestCase
from optuna.testing.pytest_samplers import MultiObjectiveSamplerTestCase
from optuna.testing.pytest_samplers import RelativeSamplerTestCase
import optunahub
import pytest


RankwiseSampler = optunahub.load_local_module(
    package="package/samplers/rankwise", registry_root=str(Path(__file__).parents[4])
).RankwiseSampler


class TestRankwiseSampler(
    BasicSamplerTestCase, MultiObjectiveSamplerTestCase, RelativeSamplerTestCase
):
    """Without past studies, so that no test has to wait for training."""

    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return lambda: RankwiseSampler(seed=0)


class Objective:
    """A bowl with its lowest value at `best`."""

    def __init__(self, best: float) -> None:
        self.best = best

    def __call__(self, trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", -5, 5)
        kind = trial.suggest_categorical("kind", ["a", "b"])
        return (x - self.best) ** 2 + (kind == "b")


@pytest.fixture
def archive(tmp_path: Path) -> str:
    """The URL of a storage with three past studies, and an unrelated one."""
    url = f"sqlite:///{tmp_path}/studies.db"
    for seed, best in enumerate((1.8, 2.0, 2.2)):
        random = optuna.samplers.RandomSampler(seed=seed)
        study = optuna.create_study(storage=url, study_name=f"past-{best}", sampler=random)
        study.optimize(Objective(best), n_trials=25)
    other = optuna.create_study(storage=url, study_name="other")
    other.optimize(lambda trial: trial.suggest_int("depth", 1, 5), n_trials=3)
    return url


def test_a_study_starts_from_its_archive(archive: str) -> None:
    study = optuna.create_study(sampler=RankwiseSampler(archive, like="past-*", seed=0))
    study.optimize(Objective(2.1), n_trials=5)
    assert study.trials[0].value is not None
    assert study.trials[0].value < 1.0  # a random configuration is that good in one of ten trials
    assert study.best_value < 0.1


def test_the_same_seed_gives_the_same_trials(archive: str) -> None:
    found = []
    for _ in range(2):
        study = optuna.create_study(sampler=RankwiseSampler(archive, like="past-*", seed=1))
        study.optimize(Objective(2.1), n_trials=4)
        found.append([trial.params for trial in study.trials])
    assert found[0] == found[1]


def test_a_parameter_that_no_past_study_has(archive: str) -> None:
    def objective(trial: optuna.Trial) -> float:
        return Objective(2.1)(trial) + trial.suggest_float("new", 0, 1)

    sampler = RankwiseSampler(archive, like="past-*", seed=0, warn_independent_sampling=False)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=4)
    assert all(set(trial.params) == {"x", "kind", "new"} for trial in study.trials)
