"""Constraints in the sampler: feasibility is modelled, and past studies teach it."""

from __future__ import annotations

import numpy as np
import optuna
import pytest

from rankwise import RankwiseSampler
from rankwise.archive import open_archive
from rankwise.integrations.optuna.sub_space import past_study


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def objective(trial: optuna.Trial) -> float:
    """Smallest at (0, 0), which is not feasible: x + y must be at least 1."""
    x, y = trial.suggest_float("x", 0, 2), trial.suggest_float("y", 0, 2)
    trial.set_user_attr("sum", x + y)
    return x**2 + 2 * y**2


def limit(trial: optuna.trial.FrozenTrial) -> tuple[float]:
    return (1.0 - trial.user_attrs["sum"],)


def best_feasible(study, trials=None):
    values = [t.value for t in study.trials[:trials] if t.user_attrs["sum"] >= 1.0]
    return min(values, default=np.inf)


@pytest.fixture(scope="module")
def past():
    storage = optuna.storages.InMemoryStorage()
    for seed in range(4):
        sampler = optuna.samplers.NSGAIISampler(seed=seed, constraints_func=limit)
        study = optuna.create_study(storage=storage, study_name=f"past-{seed}", sampler=sampler)
        study.optimize(objective, n_trials=30)
    return storage


def test_the_feasible_optimum_is_found():  # 2/3, at (2/3, 1/3)
    sampler = RankwiseSampler(seed=0, constraints_func=limit, strict=True)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=18)
    assert best_feasible(study) < 0.75
    assert study.trials[0].system_attrs["constraints"] is not None


def test_infeasible_past_trials_teach_where_not_to_look(past):
    sampler = RankwiseSampler(past, seed=0, constraints_func=limit, strict=True)
    study = optuna.create_study(study_name="new", sampler=sampler)
    study.optimize(objective, n_trials=6)
    sums = [trial.user_attrs["sum"] for trial in study.trials]
    assert np.mean(np.array(sums) >= 0.9) >= 0.5  # without constraints the optimum is 0
    assert best_feasible(study) < 0.9
    archive = open_archive(past)
    [described, *_] = archive.describe().studies
    assert described.infeasible == sum(archive.studies[0].constraints["0"] > 0) > 0


@pytest.mark.skipif(not hasattr(optuna.Trial, "set_constraint"), reason="Optuna before 5.0")
def test_constraints_that_the_objective_sets_are_used():
    def own(trial):
        value = objective(trial)
        trial.set_constraint("sum", 1.0 - trial.params["x"] - trial.params["y"])
        return value

    study = optuna.create_study(sampler=RankwiseSampler(seed=1, strict=True))
    study.optimize(own, n_trials=18)
    assert best_feasible(study) < 0.75


@pytest.mark.skipif(not hasattr(optuna.Trial, "set_constraint"), reason="Optuna before 5.0")
def test_constraints_of_all_past_studies_hold_before_this_study_has_set_one():
    """The loss falls with x, and x above 0.6 is not feasible."""

    def own(trial):
        x = trial.suggest_float("x", 0, 1)
        trial.set_constraint("x", x - 0.6)
        trial.suggest_float("y", 0, 1)
        return 1 - x

    storage = optuna.storages.InMemoryStorage()
    for seed in range(3):
        sampler = optuna.samplers.RandomSampler(seed=seed)
        study = optuna.create_study(storage=storage, study_name=f"past-{seed}", sampler=sampler)
        study.optimize(own, n_trials=25)
    study = optuna.create_study(sampler=RankwiseSampler(storage, seed=0, strict=True))
    study.optimize(own, n_trials=4)
    assert study.trials[0].params["x"] < 0.7
    assert max(t.params["x"] for t in study.trials if t.params["x"] <= 0.6) > 0.45


def test_an_infeasible_trial_is_never_the_best():
    sampler = RankwiseSampler(seed=0, constraints_func=limit, alone="random")
    study = optuna.create_study(sampler=sampler)
    study.enqueue_trial({"x": 0.0, "y": 0.0})
    study.enqueue_trial({"x": 1.0, "y": 1.0})
    study.optimize(objective, n_trials=2)
    columns = past_study(study, study.trials)
    assert columns.ranking == [1, 0] and columns.feasible.tolist() == [False, True]


def test_before_a_feasible_trial_the_search_is_for_feasibility():
    def narrow(trial):
        return (abs(trial.params["x"] - 1.7) - 0.05,)

    def loss(trial):
        return trial.suggest_float("x", 0, 2)

    sampler = RankwiseSampler(seed=0, constraints_func=narrow, strict=True)
    study = optuna.create_study(sampler=sampler)
    study.optimize(loss, n_trials=12)
    assert any(abs(trial.params["x"] - 1.7) <= 0.05 for trial in study.trials)


def test_several_objectives_with_a_constraint():
    def both(trial):
        value = objective(trial)
        return value, (trial.params["x"] - 1) ** 2

    sampler = RankwiseSampler(seed=0, constraints_func=limit, strict=True)
    study = optuna.create_study(directions=["minimize"] * 2, sampler=sampler)
    study.optimize(both, n_trials=12)
    later = [trial.user_attrs["sum"] >= 0.99 for trial in study.trials[6:]]
    assert np.mean(later) >= 0.5
