"""Several objectives in the sampler: what past studies teach, and what is left out and why."""

from __future__ import annotations

import numpy as np
import optuna
import pytest

from rankwise import RankwiseSampler
from rankwise.acquisition.hypervolume import hypervolume
from rankwise.archive import open_archive

BOTH = {"error": "minimize", "seconds": "minimize"}


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def losses(trial: optuna.Trial, shift: float = 0.0) -> tuple[float, float]:
    """Error falls with the size, seconds grow with it; z = 0.7 is best for the error."""
    size, z = trial.suggest_float("size", 0, 1), trial.suggest_float("z", 0, 1)
    return (1 - size) ** 2 + 4 * (z - 0.7 - shift) ** 2, size**2 + (z - 0.7 - shift) ** 2


def study_of(storage, name, objective, kinds=BOTH, trials=25, names=True, seed=0):
    study = optuna.create_study(
        storage=storage,
        study_name=name,
        directions=list(kinds.values()),
        sampler=optuna.samplers.RandomSampler(seed=seed),
    )
    if names:
        study.set_metric_names(list(kinds))
    study.optimize(objective, n_trials=trials)
    return study


@pytest.fixture
def storage():
    storage = optuna.storages.InMemoryStorage()
    for k in range(4):
        study_of(storage, f"past-{k}", lambda t, k=k: losses(t, 0.02 * k), seed=k)
    return storage


def volume(study, trials):
    values = np.array([trial.values for trial in study.trials[:trials]])
    return hypervolume(values, np.array([1.2, 1.2]))


def run(sampler, trials=8, kinds=BOTH, names=True, objective=losses):
    study = optuna.create_study(study_name="new", directions=list(kinds.values()), sampler=sampler)
    if names:
        study.set_metric_names(list(kinds))
    study.optimize(objective, n_trials=trials)
    return study


def test_past_studies_give_a_larger_hypervolume_from_the_first_trials_on(storage):
    sampler = RankwiseSampler(storage, seed=0, strict=True)
    study = run(sampler)
    assert study.trials[0].user_attrs["rankwise:origin"] == "past studies"
    assert len(sampler.past_.studies) == 4
    random = [run(optuna.samplers.RandomSampler(seed=k)) for k in range(3)]
    assert volume(study, 4) > max(volume(other, 8) for other in random)


def test_objectives_are_matched_by_name_whatever_their_order(storage):
    turned = {"seconds": "minimize", "error": "minimize"}
    sampler = RankwiseSampler(storage, seed=0, strict=True)
    study = run(sampler, 3, turned, objective=lambda t: losses(t)[::-1])
    same = run(RankwiseSampler(storage, seed=0, strict=True), 3)
    assert volume(study, 3) == pytest.approx(volume(same, 3), rel=0.2)
    archive = open_archive(storage, objectives=turned)
    [first, *_] = archive.tasks_of(0).tasks
    assert first.y.tolist() == [t.values[1] for t in storage.get_all_trials(0)]


def test_a_study_with_one_of_the_objectives_teaches_that_one(storage):
    study_of(storage, "one", lambda t: losses(t)[0], {"error": "minimize"}, seed=7)
    archive = open_archive(storage, objectives=BOTH)
    assert [len(archive.tasks_of(k)) for k in (0, 1)] == [5, 4]
    only = open_archive(storage, like="one", objectives=BOTH)
    sampler = RankwiseSampler(only, seed=0, strict=True)
    run(sampler, 3)
    assert list(sampler.past_.studies) == ["one"]


def test_a_study_with_several_objectives_teaches_the_one_of_a_study_with_one(storage):
    archive = open_archive(storage, objectives={"seconds": "minimize"})
    assert archive.studies[1].values.tolist() == [t.values[1] for t in storage.get_all_trials(1)]
    sampler = RankwiseSampler(storage, seed=0, strict=True)
    study = optuna.create_study(study_name="new", sampler=sampler)
    study.set_metric_names(["seconds"])
    study.optimize(lambda t: losses(t)[1], n_trials=2)
    assert study.best_value < 0.1 and len(sampler.past_.studies) == 4


def test_what_cannot_be_matched_is_left_out_with_the_reason(storage):
    other = {"error": "minimize", "seconds": "maximize"}
    study_of(storage, "turned", losses, other, 3)
    study_of(storage, "nameless", losses, names=False, trials=3)
    study_of(storage, "three", lambda t: (*losses(t), 1.0), dict.fromkeys("abc", "minimize"), 3)
    study_of(storage, "nameless-one", lambda t: losses(t)[0], {"": "minimize"}, 3, names=False)
    reasons = open_archive(storage, objectives=BOTH).left_out
    assert reasons == {
        "turned": "it has 2 objectives, and the directions disagree: maximize seconds there, "
        "minimize seconds here",
        "three": "it has 3 objectives (a, b, c), none of which this study has",
        "nameless-one": "it has 1 objective and this study has 2: without study.set_metric_names "
        "they cannot be matched",
    }
    assert "three: it has 3 objectives" in str(open_archive(storage, objectives=BOTH).describe())


def test_failed_trials_and_several_workers_are_survived(storage):
    def failing(trial):
        found = losses(trial)
        if trial.number % 3 == 1:
            raise ValueError("no memory")
        return found

    study = optuna.create_study(
        directions=["minimize"] * 2, sampler=RankwiseSampler(storage, seed=0, strict=True)
    )
    study.optimize(failing, n_trials=6, catch=ValueError)
    trials = [study.ask() for _ in range(3)]
    asked = [(t.suggest_float("size", 0, 1), t.suggest_float("z", 0, 1)) for t in trials]
    assert len(set(asked)) == 3


def test_the_same_seed_gives_the_same_trials_with_four_objectives():
    def four(trial):
        x = np.array([trial.suggest_float(f"x{k}", 0, 1) for k in range(3)])
        return tuple(float(((x - c) ** 2).sum()) for c in (0.1, 0.4, 0.6, 0.9))

    studies = []
    for _ in range(2):
        study = optuna.create_study(
            directions=["minimize"] * 4, sampler=RankwiseSampler(seed=3, strict=True)
        )
        study.optimize(four, n_trials=9)
        studies.append([trial.params for trial in study.trials])
    assert studies[0] == studies[1]
