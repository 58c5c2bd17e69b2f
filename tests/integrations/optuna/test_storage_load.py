"""The load that the sampler puts on a storage, counted in statements, and its connections."""

from __future__ import annotations

import optuna
import pytest
import sqlalchemy

import rankwise
from rankwise import RankwiseSampler
from rankwise.archive import open_archive
from rankwise.integrations.optuna import collisions
from rankwise.storage.optuna_private import storage_of


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/study.db"


def objective(trial: optuna.Trial) -> float:
    kind = trial.suggest_categorical("kind", ["a", "b"])
    return sum(trial.suggest_float(f"x{k}", 0, 1) for k in range(5)) + (kind == "b")


def statements_per_trial(url: str, sampler: optuna.samplers.BaseSampler) -> float:
    """Mean number of SQL statements of a trial after the first five."""
    study = optuna.create_study(storage=url, sampler=sampler)
    study.optimize(objective, n_trials=5)
    count = [0]

    def tick(*_):
        count[0] += 1

    sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", tick)
    try:
        study.optimize(objective, n_trials=4)
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "before_cursor_execute", tick)
    return count[0] / 4


def test_a_trial_costs_about_as_many_statements_as_with_optunas_samplers(url):
    tpe = statements_per_trial(url, optuna.samplers.TPESampler(seed=0, n_startup_trials=2))
    ours = statements_per_trial(url, RankwiseSampler(seed=0, alone="random"))
    assert ours <= 85 / 78 * tpe


def test_one_worker_settles_nothing(url, monkeypatch):
    monkeypatch.setattr(collisions, "taken", None)  # calling it would fail
    sampler = RankwiseSampler(seed=0, alone="random")
    study = optuna.create_study(storage=url, sampler=sampler)
    study.optimize(objective, n_trials=3)
    assert not sampler._said


def test_settling_reads_the_trials_twice(url, monkeypatch):
    study = optuna.create_study(storage=url)
    study.ask()
    trial = storage_of(study).get_trial(study.ask()._trial_id)
    reads, real = [], optuna.Study.get_trials
    monkeypatch.setattr(
        optuna.Study, "get_trials", lambda *a, **k: reads.append(1) or real(*a, **k)
    )
    draft = collisions.Draft({"x": 0.5}, True, {}, undisputed=False)
    assert collisions.settle(study, trial, lambda withdrawn, attempt: draft) == {"x": 0.5}
    assert len(reads) == 2


@pytest.mark.parametrize("other", ["running", "waiting", "later"])
def test_proposals_beside_another_trial_are_settled(url, monkeypatch, other):
    settled = []
    real = collisions.taken
    monkeypatch.setattr(collisions, "taken", lambda *a, **k: settled.append(1) or real(*a, **k))
    study = optuna.create_study(storage=url, sampler=RankwiseSampler(seed=0, alone="random"))
    study.optimize(objective, n_trials=2)
    if other == "running":
        optuna.load_study(study_name=study.study_name, storage=url).ask()
    elif other == "waiting":
        study.enqueue_trial({"x0": 0.5})
        study.enqueue_trial({"x0": 0.6})
    else:  # it begins while the proposal is made
        propose = RankwiseSampler._propose

        def late(self, *arguments):
            found = propose(self, *arguments)
            optuna.load_study(study_name=study.study_name, storage=url).ask()
            return found

        monkeypatch.setattr(RankwiseSampler, "_propose", late)
    objective(study.ask())
    assert settled


def test_connections_that_we_open_are_closed(url):
    rankwise.minimize(lambda c: c["x"], {"x": (0.0, 1.0)}, trials=2, method="random", storage=url)
    opened = []

    def note(connection, *_):
        opened.append(connection)

    def forget(connection, *_):
        opened.remove(connection)

    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", note)
    sqlalchemy.event.listen(sqlalchemy.Engine, "close", forget)
    try:
        open_archive(url)
        result = rankwise.minimize(
            lambda c: c["x"], {"x": (0.0, 1.0)}, trials=2, method="random", storage=url
        )
        study = optuna.create_study(sampler=RankwiseSampler(url, seed=0, method="portfolio"))
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
        assert not opened
        assert len(result.study.trials) == 2  # the study is still usable
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "connect", note)
        sqlalchemy.event.remove(sqlalchemy.Engine, "close", forget)


def test_the_last_trial_is_known_by_its_number():
    study = optuna.create_study()
    trial = study.ask()
    frozen = study.trials[0]
    assert not collisions.follows(study, frozen) and collisions.is_undisputed(study.trials, frozen)
    later = study.ask()
    assert collisions.follows(study, frozen)
    assert not collisions.is_undisputed(study.trials, study.trials[1])
    study.tell(trial, 1.0)
    assert collisions.is_undisputed(study.trials, study.trials[1])
    study.tell(later, 1.0)
