"""The Optuna sampler: Optuna's own conformance suite, and what it does not cover."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
from functools import partial

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    MultiObjectiveSamplerTestCase,
    RelativeSamplerTestCase,
)
from optuna.trial import TrialState
from support import TESTS

from rankwise import RankwiseSampler
from rankwise.errors import OptionError, UnknownNameError
from rankwise.integrations.optuna import collisions
from rankwise.integrations.optuna.sub_space import MISSING, fit_value, past_study
from rankwise.strategies.model_based import ModelStrategy

HASTY = {"members": 2, "width": 4, "layers": 1, "epochs": 3, "training": {"steps": 5}}


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


def past_objective(trial: optuna.Trial, shift: float = 0.0) -> float:
    """Best at x = 4, which is not where a sampler would begin."""
    x = trial.suggest_float("x", -10, 10)
    y = trial.suggest_int("y", -10, 10)
    return (x - 4 - shift) ** 2 + 0.01 * (y - 2) ** 2


def fill(storage, studies: int = 5, trials: int = 30, objective=past_objective, name="past-{}"):
    for k in range(studies):
        sampler = optuna.samplers.RandomSampler(seed=k)
        study = optuna.create_study(
            storage=storage, study_name=name.format(k), sampler=sampler, load_if_exists=True
        )
        study.optimize(partial(objective, shift=0.1 * k), n_trials=trials)
    return storage


@pytest.fixture(scope="module")
def archive():
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return fill(optuna.storages.InMemoryStorage())


def make(archive=None, seed=0, **options):
    """A sampler that follows the past closely and is fast."""
    return RankwiseSampler(archive, seed=seed, **{"method": "portfolio", **options})


# ---------------------------------------------------------------------- Optuna's own suite


class Proposing:
    """The suite would not notice that all is random because of an error."""

    @pytest.fixture(autouse=True)
    def no_fallback(self, caplog):
        yield
        assert "no proposal could be made" not in caplog.text
        assert "the surrogate failed" not in caplog.text


class TestWithoutPast(
    Proposing, BasicSamplerTestCase, RelativeSamplerTestCase, MultiObjectiveSamplerTestCase
):
    @pytest.fixture
    def sampler(self):
        return lambda: RankwiseSampler(seed=0)


class TestWithPast(
    Proposing, BasicSamplerTestCase, RelativeSamplerTestCase, MultiObjectiveSamplerTestCase
):
    @pytest.fixture
    def sampler(self, archive):
        return lambda: RankwiseSampler(archive, seed=0)


# ---------------------------------------------------------------------- reproducible


def run_study(seed=0, archive=None, trials=8, sampler=None):
    sampler = sampler or make(archive, seed)
    study = optuna.create_study(sampler=sampler)
    study.optimize(past_objective, n_trials=trials)
    return [trial.params for trial in study.trials]


def test_the_same_seed_gives_the_same_trials(archive):
    for past in (None, archive):
        assert run_study(3, past) == run_study(3, past) != run_study(4, past)


SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
import optuna
optuna.logging.set_verbosity(optuna.logging.WARNING)
from integrations.optuna.test_sampler import fill, run_study
past = fill(optuna.storages.InMemoryStorage(), 3, 12) if sys.argv[2] == "past" else None
print(json.dumps(run_study(7, past, 6)))
"""


@pytest.mark.parametrize("kind", ["past", "alone"])
def test_the_same_seed_gives_the_same_trials_in_another_process(kind):
    runs = []
    for hash_seed in ("0", "1"):
        words = [sys.executable, "-c", SCRIPT, str(TESTS), kind]
        done = subprocess.run(
            words,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    assert runs[0] == runs[1] and len(runs[0]) == 6


def test_reseeding_changes_the_trials():
    sampler = make(seed=5)
    sampler.reseed_rng()
    assert run_study(sampler=sampler) != run_study(5)


def test_a_sampler_survives_pickling(archive):
    for past in (None, archive):
        sampler = pickle.loads(pickle.dumps(make(past, 5)))
        assert run_study(sampler=sampler, trials=5) == run_study(5, past, 5)
    used = make(archive, 5)
    study = optuna.create_study(sampler=used)
    study.optimize(past_objective, n_trials=3)
    study.sampler = pickle.loads(pickle.dumps(used))
    study.optimize(past_objective, n_trials=2)
    assert [t.params for t in study.trials] == run_study(5, archive, 5)


def test_one_more_trial_goes_on_from_the_storage():
    storage = optuna.storages.InMemoryStorage()
    for _ in range(4):
        study = optuna.create_study(
            storage=storage, study_name="s", sampler=make(seed=1), load_if_exists=True
        )
        study.optimize(past_objective, n_trials=2)
    assert [t.params for t in study.trials] == run_study(1)


# ---------------------------------------------------------------------- the past


def test_the_first_trial_is_where_the_past_was_good(archive):
    assert abs(run_study(0, archive, 1)[0]["x"] - 4) < 2.0


def test_without_a_past_it_is_a_good_sampler():
    study = optuna.create_study(sampler=make())
    study.optimize(past_objective, n_trials=25)
    assert study.best_value < 0.3


def test_studies_of_both_directions_are_learnt(tmp_path):
    url = f"sqlite:///{tmp_path}/studies.db"
    for k in range(4):
        direction, sign = ("minimize", 1) if k % 2 else ("maximize", -1)
        study = optuna.create_study(storage=url, study_name=f"s{k}", direction=direction)
        study.sampler = optuna.samplers.RandomSampler(seed=k)
        study.optimize(lambda t, sign=sign: sign * past_objective(t), n_trials=25)
    for direction, sign in (("minimize", 1), ("maximize", -1)):
        study = optuna.create_study(sampler=make(url), direction=direction)
        study.optimize(lambda t, sign=sign: sign * past_objective(t), n_trials=4)
        assert abs(study.best_params["x"] - 4) < 2.0


def test_only_studies_of_the_pattern_are_learnt_and_never_the_study_itself(caplog):
    storage = fill(optuna.storages.InMemoryStorage(), 4, 25)
    bad = optuna.create_study(storage=storage, study_name="past-other")
    bad.add_trials(
        optuna.create_trial(
            params={"x": x},
            distributions={"x": CategoricalDistribution(["a", "b"])},
            value=1.0,
        )
        for x in "ab"
    )
    own = optuna.create_study(
        storage=storage, study_name="past-9", sampler=make(storage, like="past-[0-9]")
    )
    own.optimize(past_objective, n_trials=3)
    assert own.sampler._past.names == {"x", "y"}
    assert abs(own.trials[0].params["x"] - 4) < 2.0


def test_models_are_kept_next_to_the_archive(tmp_path):
    def start(seed=0):
        sampler = RankwiseSampler(url, seed=seed, method="dre", options=HASTY)
        optuna.create_study(sampler=sampler).optimize(past_objective, n_trials=1)

    url = f"sqlite:///{tmp_path}/studies.db"
    fill(url, 3, 15)
    start()
    [model] = tmp_path.rglob("*.safetensors")
    before = model.stat().st_mtime_ns
    start(seed=4)
    assert [p.stat().st_mtime_ns for p in tmp_path.rglob("*.safetensors")] == [before]
    fill(url, 1, 15, name="new-{}")
    start()
    assert len(list(tmp_path.rglob("*.safetensors"))) == 2


# ---------------------------------------------------------------------- spaces that differ


def conditional(trial: optuna.Trial, shift: float = 0.0) -> float:
    kind = trial.suggest_categorical("kind", ["rbf", "poly", "linear"])
    c = trial.suggest_float("C", 1e-3, 1e3, log=True)
    loss = (np.log10(c) - 1 - shift) ** 2
    if kind == "rbf":
        loss += (np.log10(trial.suggest_float("gamma", 1e-4, 1e1, log=True)) + 2) ** 2
    elif kind == "poly":
        loss += abs(trial.suggest_int("degree", 2, 5) - 3) + 2
    else:
        loss += 4
    return loss


def test_conditional_objectives_learn_and_gain():
    storage = fill(optuna.storages.InMemoryStorage(), 5, 40, conditional)
    study = optuna.create_study(sampler=make(storage))
    study.optimize(conditional, n_trials=6)
    random = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    random.optimize(conditional, n_trials=6)
    assert study.best_value < random.best_value
    assert study.trials[0].params["kind"] == "rbf"
    for trial in study.trials:
        extra = {"rbf": {"gamma"}, "poly": {"degree"}, "linear": set()}[trial.params["kind"]]
        assert set(trial.params) == {"kind", "C"} | extra


def test_a_new_parameter_is_learnt_from_this_study_with_one_message(archive, caplog, monkeypatch):
    """The message is among Optuna's own, at the level that Optuna shows by default."""
    said, logger = [], logging.getLogger("optuna.rankwise")
    monkeypatch.setattr(logger, "handle", lambda record: said.append(record.getMessage()))

    def objective(trial):
        return past_objective(trial) + (trial.suggest_float("new", -5, 5) - 3) ** 2

    study = optuna.create_study(sampler=make(archive, alone="gp"))
    with caplog.at_level(logging.INFO, "optuna.rankwise"):
        study.optimize(objective, n_trials=15)
    said = [text for text in said if "no past study" in text]
    assert said == ["no past study has parameter 'new': learnt from this study alone"]
    last = [trial.params["new"] for trial in study.trials[-5:]]
    assert np.abs(np.array(last) - 3).mean() < 1.5
    assert abs(study.best_params["x"] - 4) < 2


@pytest.mark.parametrize("second", [(-2.0, 2.0), (-30.0, 30.0), (20.0, 30.0)])
def test_other_ranges_than_in_the_past(second, archive, caplog):
    def objective(trial):
        x = trial.suggest_float("x", *second)
        return (x - second[1]) ** 2 + 0 * trial.suggest_int("y", -10, 10)

    study = optuna.create_study(sampler=make(archive))
    study.optimize(objective, n_trials=10)
    assert all(second[0] <= t.params["x"] <= second[1] for t in study.trials)
    assert len({t.params["x"] for t in study.trials}) > 5


def test_new_choices_can_be_proposed():
    def objective(trial, choices=("a", "b"), shift=0.0):
        return "abc".index(trial.suggest_categorical("k", choices)) + trial.suggest_float(
            "x", 0, 1
        )

    storage = fill(optuna.storages.InMemoryStorage(), 3, 15, objective)
    study = optuna.create_study(sampler=make(storage), direction="maximize")
    study.optimize(partial(objective, choices=("a", "b", "c")), n_trials=12)
    assert "c" in {t.params["k"] for t in study.trials}


def test_a_search_space_can_be_given(archive):
    space = {"x": FloatDistribution(-3, 3), "z": IntDistribution(0, 9)}
    study = optuna.create_study(sampler=make(archive, search_space=space))
    study.optimize(lambda t: t.suggest_float("x", -3, 3) + t.suggest_int("z", 0, 9), n_trials=4)
    assert all(-3 <= t.params["x"] <= 3 for t in study.trials)


@pytest.mark.parametrize(
    ("value", "distribution", "expected"),
    [
        (3.7, FloatDistribution(0, 10), 3.7),
        (30, FloatDistribution(0, 10), 10.0),
        (3.74, FloatDistribution(0, 10, step=0.5), 3.5),
        (99.0, FloatDistribution(0, 1.0, step=0.3), 0.9),
        (4, IntDistribution(1, 9, step=2), 5),
        (3.4, IntDistribution(0, 9), 3),
        ("a", CategoricalDistribution(["a", "b"]), "a"),
        (None, CategoricalDistribution([None, "b"]), None),
        (True, CategoricalDistribution([1, 2]), MISSING),
        (1, CategoricalDistribution([True, False]), MISSING),
        ("a", FloatDistribution(0, 1), MISSING),
        (True, IntDistribution(0, 1), MISSING),
        (MISSING, FloatDistribution(0, 1), MISSING),
        (float("nan"), FloatDistribution(0, 1), MISSING),
    ],
)
def test_values_are_fitted_to_what_is_asked_for(value, distribution, expected):
    found = fit_value(value, distribution)
    assert (
        found is expected
        if expected in (None, MISSING)
        else found == pytest.approx(expected)
        if isinstance(expected, float)
        else found == expected
    )
    assert type(found) is type(expected)


# ---------------------------------------------------------------------- what goes wrong


def test_a_missing_archive_is_said_once_and_the_study_goes_on(tmp_path, caplog):
    study = optuna.create_study(sampler=make("sqlite:////nowhere/at/all.db"))
    study.optimize(past_objective, n_trials=4)
    said = [r for r in caplog.records if "past studies cannot be used" in r.getMessage()]
    assert len(study.trials) == 4 and len(said) == 1
    alone = optuna.create_study(sampler=make(None))
    alone.optimize(past_objective, n_trials=4)
    assert [t.params for t in study.trials] == [t.params for t in alone.trials]


def test_an_archive_that_comes_back_is_read_again(archive, monkeypatch):
    from rankwise.integrations.optuna.sub_space import Part

    calls, real = [], Part.past

    def sometimes(*arguments):
        calls.append(len(calls))
        if len(calls) == 1:
            raise OSError("locked")
        return real(*arguments)

    monkeypatch.setattr(Part, "past", sometimes)
    study = optuna.create_study(sampler=make(archive))
    study.optimize(past_objective, n_trials=12)
    assert calls == [0, 1]  # not at every trial
    assert abs(study.trials[-1].params["x"] - 4) < 2  # the best of the past


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "rgpe", "options": {"guard": "yes"}},
        {"method": "rgpe", "options": {"acquisition": "eii"}},
        {"method": "rgpe", "options": {"model": "file"}},
        {"method": "fsbo", "options": {"steps": -3}},
        {"method": "init", "options": {"then": "rgpe"}},
        {"archive": 5},
    ],
    ids=str,
)
def test_a_wrong_option_is_refused_before_the_first_trial(wrong):
    with pytest.raises((OptionError, UnknownNameError)):
        RankwiseSampler(**{"archive": "sqlite:///never-opened.db", **wrong})


def test_a_past_that_is_not_found_is_said(archive, caplog):
    study = optuna.create_study(sampler=make(archive, like="xyz-*"))
    study.optimize(past_objective, n_trials=3)
    [said] = [r.getMessage() for r in caplog.records if "no past studies to" in r.getMessage()]
    assert "a name like 'xyz-*'" in said and "5 there: past-0, past-1" in said
    caplog.clear()
    first = optuna.storages.InMemoryStorage()
    study = optuna.create_study(storage=first, sampler=make(first, like="xyz-*"))
    study.optimize(past_objective, n_trials=3)
    assert not caplog.records  # the first study of all has no past, and that is no mistake


def test_trust_is_told(archive):
    sampler = make(archive, method="rgpe", options={"guard": True})
    study = optuna.create_study(sampler=sampler)
    assert sampler.trust(study) is None
    study.optimize(past_objective, n_trials=8)
    assert sampler.trust(study) > 0.5
    assert make(None).trust(study) is None
    wrong = optuna.create_study(sampler=sampler)
    wrong.optimize(lambda trial: -past_objective(trial), n_trials=12)
    assert sampler.trust(wrong) < 0.1


# ---------------------------------------------------------------------- fewer parameters


def branches(trial: optuna.Trial, shift: float = 0.0) -> float:
    trial.suggest_categorical("norm", [True, False])
    if trial.suggest_categorical("kind", ["a", "b"]) == "a":
        return (trial.suggest_float("x", -10, 10) - 4 - shift) ** 2 + 2
    return 0.1 * (trial.suggest_int("depth", 1, 20) - 9) ** 2


@pytest.mark.parametrize("method", ["rgpe", "tst", "gcp", "ablr", "eb-gp", "init", "portfolio"])
def test_what_is_not_asked_for_any_more_is_not_varied(method):
    """The past has "norm", always, and "depth", if kind is "b"; this study has neither."""
    past = fill(optuna.storages.InMemoryStorage(), 4, 20, branches)
    options = {"steps": 100} if method in ("gcp", "ablr") else {}
    study = optuna.create_study(sampler=make(past, method=method, options=options))

    def fewer(trial):
        if trial.suggest_categorical("kind", ["a", "b"]) == "a":
            return (trial.suggest_float("x", -10, 10) - 4) ** 2
        return 5.0

    study.optimize(fewer, n_trials=8)
    assert sum(trial.params["kind"] == "b" for trial in study.trials) <= 2
    assert len({trial.params.get("x") for trial in study.trials}) >= 7


def test_a_choice_that_is_settled_this_time_is_taken_for_granted():
    past = fill(optuna.storages.InMemoryStorage(), 4, 20, branches)
    study = optuna.create_study(sampler=make(past, method="rgpe"))
    study.optimize(lambda t: (t.suggest_float("x", -10, 10) - 4) ** 2, n_trials=6)
    assert study.best_value < 0.5
    assert len({trial.params["x"] for trial in study.trials}) == 6


def test_a_failing_surrogate_is_said_once_and_the_study_goes_on(archive, caplog, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("singular")

    monkeypatch.setattr(ModelStrategy, "_utility", fail)
    study = optuna.create_study(sampler=make(archive, method="dre", options=HASTY))
    study.optimize(past_objective, n_trials=4)
    assert len(study.trials) == 4
    assert sum("singular" in r.getMessage() for r in caplog.records) == 1


def test_failed_pruned_and_nan_trials_are_lived_with(archive):
    def objective(trial):
        value = past_objective(trial)
        if trial.number % 4 == 1:
            raise ValueError("bad luck")
        if trial.number % 4 == 2:
            trial.report(value, 0)
            raise optuna.TrialPruned
        return float("nan") if trial.number % 4 == 3 else value

    for past in (None, archive):
        study = optuna.create_study(sampler=make(past))
        study.optimize(objective, n_trials=12, catch=(ValueError,))
        states = [t.state for t in study.trials]
        assert states.count(TrialState.PRUNED) == 3 and states.count(TrialState.COMPLETE) == 3


def test_enqueued_added_and_asked_trials(archive):
    study = optuna.create_study(sampler=make(archive))
    study.enqueue_trial({"x": 1.5, "y": 3})
    study.enqueue_trial({"y": -7})
    study.optimize(past_objective, n_trials=3)
    assert study.trials[0].params == {"x": 1.5, "y": 3} and study.trials[1].params["y"] == -7
    study.add_trial(
        optuna.create_trial(
            params={"x": 9.0, "y": 9},
            distributions={"x": FloatDistribution(-10, 10), "y": IntDistribution(-10, 10)},
            value=25.5,
        )
    )
    trial = study.ask()
    study.tell(trial, past_objective(trial))
    assert len(study.trials) == 5


def test_pruners_keep_working(archive):
    def objective(trial):
        value = past_objective(trial)
        for step in range(4):
            trial.report(value + step, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return value

    for pruner in (
        optuna.pruners.MedianPruner(n_startup_trials=2),
        optuna.pruners.HyperbandPruner(),
    ):
        study = optuna.create_study(sampler=make(archive), pruner=pruner)
        study.optimize(objective, n_trials=10)
        assert {t.state for t in study.trials} <= {TrialState.COMPLETE, TrialState.PRUNED}


def test_hyperband_does_not_keep_it_from_proposing(caplog):
    """Samplers get another kind of study from it."""

    def objective(trial: optuna.Trial) -> float:
        x, y = (trial.suggest_float(name, -5.0, 5.0) for name in "xy")
        for step in range(3):
            trial.report(x * x + y * y, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return x * x + y * y

    pruner = optuna.pruners.HyperbandPruner(max_resource=3)
    study = optuna.create_study(sampler=RankwiseSampler(seed=0, alone="gp"), pruner=pruner)
    with caplog.at_level(logging.WARNING, logger="rankwise"):
        study.optimize(objective, n_trials=25)
    assert not [r for r in caplog.records if "no proposal" in r.getMessage()]
    assert study.best_value < 0.5


# ---------------------------------------------------------------------- many workers


def small(trial: optuna.Trial, shift: float = 0.0) -> float:
    a = trial.suggest_categorical("a", list("uvwxyz"))
    b = trial.suggest_int("b", 0, 9)
    time.sleep(0.01)
    return "uvwxyz".index(a) + abs(b - 4 - shift)


def test_threads_propose_no_duplicates():
    storage = fill(optuna.storages.InMemoryStorage(), 3, 15, small)
    study = optuna.create_study(
        sampler=RankwiseSampler(storage, seed=0, method="dre", options=HASTY)
    )
    study.optimize(small, n_trials=24, n_jobs=4)
    tried = [tuple(sorted(t.params.items())) for t in study.trials]
    assert len(tried) == 24 and len(set(tried)) == 24


def work(url: str, trials: int) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    past = url.replace("study.db", "past.db")
    study = optuna.load_study(
        storage=optuna.storages.RDBStorage(url, engine_kwargs={"connect_args": {"timeout": 60}}),
        study_name="shared",
        sampler=RankwiseSampler(past, seed=0),
    )
    study.optimize(small, n_trials=trials)


def test_processes_that_start_together_propose_no_duplicates(tmp_path):
    """With the same seed and the same past, all of them have the same favourite."""
    url = f"sqlite:///{tmp_path}/study.db"
    fill(f"sqlite:///{tmp_path}/past.db", 3, 15, small)
    optuna.create_study(storage=url, study_name="shared")
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=work, args=(url, 5)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(600)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    study = optuna.load_study(storage=url, study_name="shared")
    tried = [tuple(sorted(t.params.items())) for t in study.trials]
    assert len(tried) == 15 and len(set(tried)) == 15
    assert len(list(tmp_path.rglob("*.safetensors"))) == 1  # trained once


def test_two_workers_that_collide_are_settled(archive):
    """Both write the same proposal at the same moment; only one keeps it."""
    barrier = threading.Barrier(2)
    study = optuna.create_study(sampler=make())
    samplers = [RankwiseSampler(archive, seed=0, method="dre", options=HASTY) for _ in range(2)]
    real = collisions._write

    def together(*arguments):
        real(*arguments)
        try:
            barrier.wait(5)  # until the other has written, too
        except threading.BrokenBarrierError:
            pass

    trials = [study.ask() for _ in range(2)]
    found = {}

    def propose(k):
        frozen = study.trials[k]
        found[k] = samplers[k]._proposal(study, frozen)

    collisions._write = together
    try:
        threads = [threading.Thread(target=propose, args=(k,)) for k in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(600)
    finally:
        collisions._write = real
    assert len(trials) == 2 and found[0] != found[1]


# ---------------------------------------------------------------------- mistakes


def test_wrong_arguments_are_refused():
    with pytest.raises(UnknownNameError, match="unknown method 'dree'"):
        RankwiseSampler(method="dree")
    with pytest.raises(
        OptionError, match="'gp' cannot learn from past studies; these can: auto, dre, eb-gp"
    ):
        RankwiseSampler(method="gp")
    with pytest.raises(UnknownNameError, match="option of method 'dre' 'epoch'"):
        RankwiseSampler(method="dre", options={"epoch": 3})
    with pytest.raises(OptionError, match="seed"):
        RankwiseSampler(seed=-1)


# ---------------------------------------------------------------------- what trials have already


def test_what_a_trial_has_already_is_completed_without_repeating():
    storage = fill(optuna.storages.InMemoryStorage(), 3, 15, small)
    for past in (None, storage):
        study = optuna.create_study(sampler=make(past))
        study.optimize(small, n_trials=2)
        left = 10 - sum(t.params["a"] == "z" for t in study.trials)
        for _ in range(left):
            study.enqueue_trial({"a": "z"})
        study.optimize(small, n_trials=left)
        assert {t.params["a"] for t in study.trials[2:]} == {"z"}
        tried = [t.params["b"] for t in study.trials if t.params["a"] == "z"]
        assert sorted(tried) == list(range(10))


def test_a_proposal_that_was_not_evaluated_can_be_made_again():
    storage = fill(optuna.storages.InMemoryStorage(), 3, 15, small)
    free = optuna.create_study(sampler=make(storage))
    free.optimize(small, n_trials=1)
    favourite = free.trials[0].params
    other = next(a for a in "uvwxyz" if a != favourite["a"])
    study = optuna.create_study(sampler=make(storage))
    study.enqueue_trial({"a": other})
    study.optimize(small, n_trials=2)
    assert study.trials[1].params == favourite


def test_a_used_up_space_is_sampled_again(monkeypatch):
    calls = []
    real = RankwiseSampler._propose
    monkeypatch.setattr(
        RankwiseSampler, "_propose", lambda self, *a: (calls.append(1), real(self, *a))[1]
    )
    study = optuna.create_study(sampler=make(alone="random"))
    study.optimize(lambda t: t.suggest_categorical("k", [1, 2, 3]), n_trials=8)
    assert {t.params["k"] for t in study.trials} == {1, 2, 3} and len(calls) == 8


def test_a_trial_that_was_tried_again_is_history_once():
    study = optuna.create_study(sampler=make())
    facts = {"params": {"x": 1.0}, "distributions": {"x": FloatDistribution(0, 2)}}
    study.add_trial(optuna.create_trial(state=TrialState.FAIL, **facts))
    again = {"failed_trial": 0, "retry_history": [0]}
    study.add_trial(optuna.create_trial(value=0.5, system_attrs=again, **facts))
    finished = past_study(study, study.trials)
    assert finished.status == ("ok",) and finished.values.tolist() == [0.5]


@pytest.mark.parametrize("learnt", [True, False])
def test_a_condition_that_cannot_be_inferred_repeats_no_configuration(learnt):
    """A float decides whether a parameter is asked for, so its switch is hidden."""

    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        return (x - 0.3) ** 2 + (trial.suggest_float("only", 0, 1) if x > 0.5 else 0.0)

    storage = optuna.storages.InMemoryStorage()
    for k in range(4 if learnt else 0):
        sampler = optuna.samplers.RandomSampler(seed=k)
        optuna.create_study(storage=storage, study_name=f"past-{k}", sampler=sampler).optimize(
            objective, n_trials=12
        )
    study = optuna.create_study(sampler=RankwiseSampler(storage if learnt else None, seed=0))
    study.optimize(objective, n_trials=12)
    assert len({tuple(trial.params.items()) for trial in study.trials}) == 12
    assert study.best_value < 1e-3


def test_a_new_choice_where_it_is_not_asked_for_repeats_no_configuration():
    """Most choices of "kind" are a whole configuration; a float decides on "more"."""

    def objective(trial):
        kind = trial.suggest_categorical("kind", ["a", "b", "c", "d"])
        if kind != "d":
            return 0.1 + ord(kind) / 1000
        trial.suggest_categorical("way", ["v", "w", "x", "y"])
        x = trial.suggest_float("x", 0, 1)
        return 0.4 + (x - 0.4) ** 2 + (trial.suggest_float("more", 0, 1) if x > 0.6 else 0.0)

    storage = optuna.storages.InMemoryStorage()
    for k in range(4):
        sampler = optuna.samplers.RandomSampler(seed=k)
        past = optuna.create_study(storage=storage, study_name=f"past-{k}", sampler=sampler)
        past.optimize(objective, n_trials=8)
    study = optuna.create_study(sampler=RankwiseSampler(storage, seed=0))
    study.optimize(objective, n_trials=10)
    assert len({tuple(trial.params.items()) for trial in study.trials}) == 10
