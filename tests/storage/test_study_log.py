"""Runs as Optuna studies: recorded trial by trial, resumed exactly, nothing lost."""

from __future__ import annotations

import warnings

import optuna
import pytest
from optuna.trial import TrialState
from support.killing import run_and_kill
from support.objectives import bowl, moody

from rankwise import make_space, minimize
from rankwise.errors import RunWarning, StorageError, StudyMismatchError

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
TREE = make_space(
    {
        "kernel": ["rbf", "linear", None, True, (1, 2)],
        "C": (1e-3, 1e3, "log"),
        "n": (1, 50, "log"),
        "gamma": (1e-4, 1.0, "log"),
        "size": (["s", "m", "l"], "ordered"),
        "fixed": 3,
    },
    when={"gamma": {"kernel": "rbf"}},
)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/runs.db"


def configurations(result):
    return [t.configuration for t in result.trials]


def loss(configuration):
    return configuration["C"] + configuration["n"]


@pytest.mark.parametrize("method", ["random", "mbo"])
def test_a_resumed_run_is_the_run_that_was_not_stopped(url, method):
    options = {"design": 5, "seed": 4, "method": method}
    whole = minimize(loss, TREE, trials=11, **options)
    for trials in (3, 7, 11):
        parts = minimize(loss, TREE, trials=trials, storage=url, name="run", **options)
    assert configurations(parts) == configurations(whole)
    assert [t.value for t in parts.trials] == [t.value for t in whole.trials]


@pytest.mark.parametrize("stops", [(3, 8), (5, 8), (1, 4, 7, 8)])
def test_batches_resume_as_they_would_have_been(url, stops):
    options = {"design": 3, "method": "forest", "trees": 20, "n_jobs": 2}
    whole = minimize(bowl, SPACE, trials=8, seed=1, **options)
    for trials in stops:
        parts = minimize(bowl, SPACE, trials=trials, seed=1, storage=url, name="a", **options)
    assert configurations(parts) == configurations(whole)


def test_designs_and_options_are_remembered(url):
    design = [{"x": 0.1, "y": 0.2}, {"x": 0.3, "y": 0.4}, {"x": 0.5, "y": 0.6}]
    minimize(bowl, SPACE, trials=2, design=design, seed=0, method="gp", storage=url, name="a")
    again = minimize(bowl, SPACE, trials=3, method="gp", storage=url, name="a")
    assert configurations(again) == design
    with pytest.warns(RunWarning, match="begun with options"):
        minimize(bowl, SPACE, trials=4, method="gp", acquisition="lcb", storage=url, name="a")


def test_the_seed_and_method_are_remembered(url):
    whole = minimize(bowl, SPACE, trials=6, method="random", seed=9)
    minimize(bowl, SPACE, trials=3, method="random", seed=9, storage=url, name="a")
    assert configurations(
        minimize(bowl, SPACE, trials=6, method="random", storage=url, name="a")
    ) == configurations(whole)
    with pytest.warns(RunWarning, match="begun with method 'random'"):
        minimize(bowl, SPACE, trials=7, method="grid", storage=url, name="a")


def test_a_finished_run_evaluates_nothing_more(url):
    minimize(bowl, SPACE, trials=4, method="random", seed=0, storage=url, name="a")
    called = []
    result = minimize(called.append, SPACE, trials=4, method="random", storage=url, name="a")
    assert not called
    assert len(result.trials) == 4


def test_trials_of_others_that_have_no_loss_are_read_for_what_they_are(url):
    study = optuna.create_study(storage=url, study_name="theirs")

    def theirs(trial):
        if trial.number == 0:
            raise RuntimeError("before the first suggestion")
        x = trial.suggest_float("x", 0, 1) + trial.suggest_float("y", 0, 1)
        if trial.number == 1:
            trial.report(-99.0, 0)
            raise optuna.TrialPruned
        return x

    study.optimize(theirs, n_trials=3, catch=RuntimeError)
    study.enqueue_trial({"x": 0.5, "y": 0.5})
    result = minimize(bowl, SPACE, trials=4, method="random", seed=0, storage=url, name="theirs")
    found = [(t.number, t.status) for t in result.trials]
    assert found == [(1, "pruned"), (2, "ok"), (4, "ok"), (5, "ok")]
    assert result.best_trial.number != 1 and result.trials[0].last == -99.0


def test_a_study_of_several_objectives_is_refused(url):
    study = optuna.create_study(storage=url, study_name="a", directions=["minimize", "maximize"])
    study.optimize(lambda t: (t.suggest_float("x", 0, 1), 1.0), n_trials=1)
    with pytest.raises(StudyMismatchError, match="minimize and maximize"):
        minimize(bowl, SPACE, trials=3, storage=url, name="a")


def test_what_optuna_sees(url):
    result = minimize(loss, TREE, trials=5, method="random", seed=0, storage=url, name="svm")
    study = optuna.load_study(study_name="svm", storage=url)
    assert study.best_value == result.best_value
    assert study.direction.name == "MINIMIZE"
    for stored, trial in zip(study.trials, result.trials, strict=True):
        assert stored.state == TrialState.COMPLETE
        assert stored.params["C"] == trial.configuration["C"]
        assert set(stored.params) == set(trial.configuration)
        assert stored.datetime_start <= stored.datetime_complete
        assert stored.user_attrs["rankwise:seconds"] == trial.cost
    assert isinstance(study.trials[0].distributions["C"], optuna.distributions.FloatDistribution)
    assert study.trials[0].distributions["n"].log


def test_failures_keep_their_status_over_a_resume(url):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        first = minimize(moody, SPACE, trials=25, method="random", seed=0, storage=url, name="a")
        again = minimize(moody, SPACE, trials=25, method="random", storage=url, name="a")
    assert set(first.history["status"]) == {"ok", "failed", "invalid"}
    assert [(t.status, t.error) for t in again.trials] == [
        (t.status, t.error) for t in first.trials
    ]
    states = [t.state for t in again.study.trials]
    assert states.count(TrialState.FAIL) == sum(t.status != "ok" for t in first.trials)


def test_maximize_is_stored_as_maximize(url):
    result = minimize(
        lambda c: c["x"], SPACE, trials=5, direction="maximize", method="random", seed=0,
        storage=url, name="a",
    )  # fmt: skip
    again = minimize(
        lambda c: c["x"], SPACE, trials=5, direction="maximize", method="random",
        storage=url, name="a",
    )  # fmt: skip
    assert result.study.best_value == max(c["x"] for c in configurations(result))
    assert again.best_value == result.best_value


def test_ctrl_c_and_resume_repeat_the_interrupted_trial(url):
    whole = minimize(bowl, SPACE, trials=8, design=3, seed=2, method="gp")
    calls = []

    def interrupted(configuration):
        calls.append(configuration)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return bowl(configuration)

    minimize(interrupted, SPACE, trials=8, design=3, seed=2, method="gp", storage=url, name="a")
    study = optuna.load_study(study_name="a", storage=url)
    assert [t.state for t in study.trials[5:]] == [TrialState.RUNNING]
    result = minimize(bowl, SPACE, trials=8, design=3, method="gp", storage=url, name="a")
    assert configurations(result) == configurations(whole)
    assert all(t.state == TrialState.COMPLETE for t in result.study.trials)


KILLED = """
import sys
from support.killing import stall_at
from support.objectives import bowl
from rankwise import minimize

log, call, storage, n_jobs = sys.argv[1:]
minimize(lambda c: stall_at(log, int(call), c, bowl), {"x": (0.0, 1.0), "y": (0.0, 1.0)},
         trials=40, n_jobs=int(n_jobs), design=4, method="forest", trees=20, seed=6,
         storage=storage, name="killed")
"""


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_killed_run_resumes_exactly(url, n_jobs, tmp_path):
    """A run killed during its seventh evaluation resumes with the trials of a whole run."""
    run_and_kill(KILLED, tmp_path / "calls", 7, url, str(n_jobs))
    left = optuna.load_study(study_name="killed", storage=url)
    states = [TrialState.COMPLETE] * 6 + [TrialState.RUNNING] * n_jobs
    assert [t.state for t in left.trials] == states
    options = {"trials": 10, "n_jobs": n_jobs, "design": 4, "method": "forest", "trees": 20}
    result = minimize(bowl, SPACE, storage=url, name="killed", **options)
    whole = minimize(bowl, SPACE, seed=6, **options)
    assert configurations(result) == configurations(whole)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"x": (0.0, 1.0)}, "'y' only there"),
        ({**SPACE, "z": (0, 3)}, "'z' only here"),
        ({"x": (0.0, 2.0), "y": (0.0, 1.0)}, "'x' changed"),
        (make_space(SPACE, forbid=[{"x": 0.25}]), "conditions or forbidden clauses changed"),
    ],
)
def test_a_study_of_another_space_is_refused(url, space, message):
    minimize(bowl, SPACE, trials=2, method="random", seed=0, storage=url, name="a")
    with pytest.raises(StudyMismatchError, match=message):
        minimize(bowl, space, trials=3, storage=url, name="a")
    assert len(optuna.load_study(study_name="a", storage=url).trials) == 2


def test_a_study_of_the_other_direction_is_refused(url):
    minimize(bowl, SPACE, trials=2, method="random", seed=0, storage=url, name="a")
    with pytest.raises(StudyMismatchError, match="to minimize, not to maximize"):
        minimize(bowl, SPACE, trials=3, direction="maximize", storage=url, name="a")


def test_a_study_made_by_optuna_can_be_continued_if_it_fits(url):
    study = optuna.create_study(storage=url, study_name="theirs")
    study.optimize(lambda t: t.suggest_float("x", 0, 1) + t.suggest_float("y", 0, 1), n_trials=3)
    result = minimize(bowl, SPACE, trials=5, method="random", seed=0, storage=url, name="theirs")
    assert [t.value for t in result.trials[:3]] == [t.value for t in study.trials[:3]]
    study.optimize(lambda t: t.suggest_float("other", 0, 1), n_trials=1)
    with pytest.raises(StudyMismatchError, match="trial 5"):
        minimize(bowl, SPACE, trials=9, method="random", storage=url, name="theirs")


@pytest.mark.parametrize(
    "storage",
    ["sqlite:////nowhere/at/all/runs.db", "nonsense", "postgresql://u:secret@127.0.0.1:1/none"],
)
def test_a_storage_that_cannot_be_opened_is_reported_without_its_password(storage):
    with pytest.raises(StorageError, match="cannot open the storage") as caught:
        minimize(bowl, SPACE, trials=1, storage=storage, name="a")
    assert "secret" not in str(caught.value)


class Flaky(optuna.storages.InMemoryStorage):
    """A storage whose writes fail while `broken`."""

    broken = False

    def _maybe_fail(self):
        if self.broken:
            raise OSError("No space left on device")

    def create_new_trial(self, *args, **kwargs):
        self._maybe_fail()
        return super().create_new_trial(*args, **kwargs)

    def set_trial_state_values(self, *args, **kwargs):
        self._maybe_fail()
        return super().set_trial_state_values(*args, **kwargs)


@pytest.mark.parametrize("recovers", [True, False])
def test_results_that_cannot_be_stored_are_not_lost(recovers):
    storage, calls = Flaky(), []

    def objective(configuration):
        calls.append(configuration)
        storage.broken = len(calls) in (3, 4) if recovers else len(calls) >= 3
        return bowl(configuration)

    with pytest.warns(RuntimeWarning, match="No space left"):
        result = minimize(objective, SPACE, trials=6, method="random", seed=0, storage=storage)
    assert configurations(result) == calls
    assert len(result.trials) == 6
    storage.broken = False
    stored = [t.values for t in result.study.trials if t.state == TrialState.COMPLETE]
    if recovers:
        assert result.unsaved == []
        assert stored == [[t.value] for t in result.trials]
    else:
        assert result.unsaved == [2, 3, 4, 5]
        assert len(stored) == 2
        assert "not written to the storage: trials [2, 3, 4, 5]" in str(result)


def test_numbers_stay_those_of_optuna_when_writing_fails_for_a_moment():
    class Hiccup(optuna.storages.InMemoryStorage):
        calls = 0

        def create_new_trial(self, *args, **kwargs):
            self.calls += 1
            if self.calls == 1:
                raise OSError("a hiccup")
            return super().create_new_trial(*args, **kwargs)

    options = {"method": "random", "seed": 0, "n_jobs": 2, "storage": Hiccup()}
    with pytest.warns(RuntimeWarning, match="a hiccup"):
        result = minimize(bowl, SPACE, trials=4, **options)
    assert result.unsaved == []
    assert [t.value for t in result.study.trials] == [t.value for t in result.trials]


def test_journal_files_work(tmp_path):
    backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / "journal.log"))
    storage = optuna.storages.JournalStorage(backend)
    options = {"method": "random", "storage": storage, "name": "a"}
    minimize(bowl, SPACE, trials=2, seed=0, **options)
    assert len(minimize(bowl, SPACE, trials=4, **options).trials) == 4


def test_optunas_own_logging_is_left_as_it_was(capfd):
    optuna.logging.set_verbosity(optuna.logging.INFO)
    minimize(bowl, SPACE, trials=2, method="random", seed=0)
    assert optuna.logging.get_verbosity() == optuna.logging.INFO
    assert "study created" not in capfd.readouterr().err
