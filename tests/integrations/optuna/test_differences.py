"""Studies that differ a little from their past studies."""

from __future__ import annotations

import json
import logging
import warnings
from datetime import datetime, timedelta
from functools import partial

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

from rankwise import RankwiseSampler
from rankwise.integrations.optuna.choices import allowed_choices, new_choice
from rankwise.integrations.optuna.sub_space import PROPOSAL, stale_trials

PAST = {
    "rate": FloatDistribution(1e-3, 1.0, log=True),
    "depth": IntDistribution(1, 16),
    "booster": CategoricalDistribution(["tree", "linear"]),
}


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def loss(rate, depth, booster, shift=0.0) -> float:
    """Best at rate 0.1, depth 6 and booster "tree"."""
    bowl = (np.log10(rate) + 1 + 0.1 * shift) ** 2 + 0.03 * (depth - 6) ** 2
    return float(bowl + {"tree": 0.0, "linear": 0.5, "dart": -0.5}[booster])


@pytest.fixture(scope="module")
def archive():
    storage = optuna.storages.InMemoryStorage()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    for k in range(6):
        rng = np.random.default_rng(k)
        study = optuna.create_study(storage=storage, study_name=f"past-{k}")
        for _ in range(15):
            params = {
                "rate": float(10 ** rng.uniform(-3, 0)),
                "depth": int(rng.integers(1, 17)),
                "booster": ["tree", "linear"][rng.integers(2)],
            }
            value = loss(**params, shift=rng.normal())
            study.add_trial(create_trial(params=params, distributions=PAST, value=value))
    return storage


def run(archive, objective, n=10, **options):
    study = optuna.create_study(sampler=RankwiseSampler(archive, seed=0, **options))
    study.optimize(objective, n_trials=n, catch=(RuntimeError,))
    return study


def ask(trial, **others):
    """Ask for the parameters of the past studies, some with another distribution."""
    space = {**PAST, **others}
    return {name: trial._suggest(name, d) for name, d in space.items() if d is not None}


def distinct(study) -> int:
    return len({tuple(sorted(t.params.items(), key=str)) for t in study.trials})


@pytest.mark.parametrize(
    "other",
    [
        {"depth": FloatDistribution(1, 16)},
        {"depth": CategoricalDistribution([2, 4, 6, 8, 12])},
        {"depth": CategoricalDistribution(["2", "4", "6", "8", "12"])},
        {"depth": IntDistribution(2, 16, step=2)},
        {"rate": FloatDistribution(1e-3, 1.0)},
        {"rate": FloatDistribution(1e-2, 0.5, log=True), "depth": IntDistribution(3, 9)},
        {"rate": FloatDistribution(1e-5, 10.0, log=True), "depth": IntDistribution(1, 40)},
        {"seed": IntDistribution(0, 2**62)},
        {"seed": FloatDistribution(-1e300, 1e300)},
        {"seed": IntDistribution(1, 10**14, log=True)},
        {"seed": CategoricalDistribution([2**60, 2**60 + 1])},
    ],
    ids=str,
)
def test_a_small_difference_keeps_the_past(other, archive, caplog):
    def objective(trial):
        p = ask(trial, **other)
        return loss(p["rate"], float(p["depth"]), p["booster"])

    with caplog.at_level(logging.WARNING, "rankwise"):
        study = run(archive, objective, 6)
    said = [record.getMessage() for record in caplog.records]
    odd = "seed" in other and not isinstance(other["seed"], CategoricalDistribution)
    assert len(said) == odd
    assert all(text.startswith("parameter 'seed' is sampled at random: its ") for text in said)
    assert distinct(study) == 6
    assert study.best_value < 0.15
    assert sum(t.value < 0.6 for t in study.trials) >= 3  # one in six is as good at random


def test_a_parameter_that_is_no_longer_varied(archive):
    study = run(archive, lambda t: loss(**{**ask(t, booster=None), "booster": "linear"}), 6)
    assert distinct(study) == 6 and study.best_value < 0.65


def test_a_new_parameter_is_part_of_one_model(archive):
    def objective(trial):
        new = trial.suggest_float("new", 0.0, 1.0)
        return loss(**ask(trial)) + 3.0 * (new - 0.8) ** 2

    study = run(archive, objective, 14)
    assert study.best_value < 0.1
    assert sum(t.params["booster"] == "tree" for t in study.trials) >= 9


def test_new_conditional_parameters(archive, caplog):
    def objective(trial):
        extra = {"a": 0.3, "b": 0.0}[trial.suggest_categorical("policy", ["a", "b"])]
        if trial.params["policy"] == "b":
            extra += (trial.suggest_float("leaves", 0.0, 1.0) - 0.5) ** 2
        return loss(**ask(trial)) + extra

    with caplog.at_level(logging.WARNING, "rankwise"):
        study = run(archive, objective, 14)
    assert not caplog.records
    assert study.best_value < 0.25
    assert sum(t.value < 0.8 for t in study.trials) >= 9


def test_a_new_choice_is_tried_early_and_used(archive):
    boosters = CategoricalDistribution(["tree", "linear", "dart"])
    study = run(archive, lambda t: loss(**ask(t, booster=boosters)), 9)
    first = [t.params["booster"] for t in study.trials].index("dart")
    assert first <= 3
    assert study.best_params["booster"] == "dart" and study.best_value < -0.4


@pytest.mark.parametrize("method", ["auto", "portfolio"])
def test_a_choice_that_fails_is_avoided(method, archive):
    def objective(trial):
        if trial.suggest_categorical("booster", ["tree", "linear"]) == "tree":
            raise RuntimeError("tree is not installed")
        return loss(**{**ask(trial, booster=None), "booster": "linear"})

    study = run(archive, objective, 15, method=method)
    assert sum(t.state == TrialState.FAIL for t in study.trials) <= 3
    assert study.best_value < 0.8


def test_all_parameters_are_proposed_until_a_trial_has_a_value(archive):
    """In some past studies depth is missing, so a hidden switch decides whether it is active."""
    storage = optuna.storages.InMemoryStorage()
    optuna.copy_study(
        from_study_name="past-0",
        from_storage=archive,
        to_storage=storage,
        to_study_name="without depth",
    )
    source = optuna.load_study(study_name="without depth", storage=storage)
    other = optuna.create_study(storage=storage)
    for t in source.trials:
        params = {name: value for name, value in t.params.items() if name != "depth"}
        space = {name: PAST[name] for name in params}
        other.add_trial(create_trial(params=params, distributions=space, value=t.value))

    def objective(trial):
        if trial.suggest_categorical("booster", ["tree", "linear"]) == "tree":
            raise RuntimeError("tree is not installed")
        return loss(**{**ask(trial, booster=None), "booster": "linear"})

    study = run([archive, storage], objective, 2)
    first, second = study.trials
    assert first.state == TrialState.FAIL and second.params["booster"] == "linear"
    proposal = json.loads(second.system_attrs["rankwise:proposal"])
    assert proposal["depth"] == second.params["depth"]


def trial_of(number, state, start=None, **params):
    choices = {name: CategoricalDistribution(["a", "b", "c"]) for name in params}
    value = 0.0 if state == TrialState.COMPLETE else None
    trial = create_trial(params=params, distributions=choices, value=value, state=state)
    trial.number = number
    trial.datetime_start = start or trial.datetime_start
    return trial


def test_failing_choices_wait_longer_after_each_failure():
    known = {"x": CategoricalDistribution(["a", "b", "c"])}
    fail, fine = TrialState.FAIL, TrialState.COMPLETE
    limits = partial(allowed_choices, known)
    one = [trial_of(0, fail, x="a")]
    assert [limits(one, k) for k in (1, 3)] == [{"x": ["b", "c"]}] * 2 and not limits(one, 4)
    two = [*one, trial_of(4, fail, x="a")]
    assert limits(two, 13) == {"x": ["b", "c"]} and not limits(two, 14)
    assert not limits([*two, trial_of(5, fine, x="a")], 6)  # it does not always fail
    every = [trial_of(k, fail, x=c) for k, c in enumerate("abc")]
    assert not limits(every, 3)  # no choice is left


def test_every_third_trial_tries_a_new_choice():
    known = {"x": CategoricalDistribution(["a", "b", "c"])}
    tried = {("x", ("str", "a"))}
    assert new_choice(known, [], 2, tried) == {"x": "b"}
    assert not new_choice(known, [], 1, tried)
    running = [trial_of(2, TrialState.RUNNING, x="b")]
    assert new_choice(known, running, 5, tried) == {"x": "c"}
    assert not new_choice(known, running, 5, {*tried, ("x", ("str", "c"))})


def test_dead_workers_trials_are_not_pending_for_ever():
    study = optuna.create_study()
    now = datetime(2026, 1, 2)
    running = [
        trial_of(k, TrialState.RUNNING, now - timedelta(hours=hours))
        for k, hours in enumerate((0.5, 3, 20))
    ]
    assert stale_trials(study, running, now) == {1, 2}
    long = trial_of(3, TrialState.COMPLETE, now - timedelta(hours=1))
    long.datetime_complete = now
    assert stale_trials(study, [*running, long], now) == {2}


def test_running_trials_are_repeated_before_finished_ones():
    study = optuna.create_study(sampler=RankwiseSampler(seed=0))
    known = {"x": IntDistribution(0, 2)}
    for x in (0, 2):
        study.add_trial(create_trial(params={"x": x}, distributions=known, value=float(x)))
    dead = study.ask(known)
    assert dead.params["x"] == 1
    assert study.ask(known).params["x"] == 1


def test_first_workers_propose_different_configurations(archive):
    for past in (None, archive):
        study = optuna.create_study(sampler=RankwiseSampler(past, seed=0))
        seen = set()
        for _ in range(5):  # a sampler of its own, as in another process
            other = optuna.load_study(
                study_name=study.study_name,
                storage=study._storage,
                sampler=RankwiseSampler(past, seed=0),
            )
            seen.add(tuple(ask(other.ask()).values()))
        assert len(seen) == 5


def test_workers_that_propose_at_once_see_each_other(archive, monkeypatch):
    study = optuna.create_study(sampler=RankwiseSampler(archive, seed=0))
    sampler = RankwiseSampler(archive, seed=0)
    other = optuna.load_study(study_name=study.study_name, storage=study._storage, sampler=sampler)
    first, second = study.ask(), other.ask()
    propose, seen = sampler._propose, []

    def meanwhile(*args):
        seen.append(study.trials[0].system_attrs.get(PROPOSAL))
        proposal = propose(*args)
        ask(first)  # the other worker proposes now
        return proposal

    monkeypatch.setattr(sampler, "_propose", meanwhile)
    assert ask(second) != ask(first)
    assert seen == [None, study.trials[0].system_attrs[PROPOSAL]]


def test_a_renamed_parameter_keeps_its_past(archive):
    def objective(trial):
        p = ask(trial, rate=None)
        return loss(trial.suggest_float("eta", 1e-3, 1.0, log=True), p["depth"], p["booster"])

    study = run(archive, objective, 3, rename={"rate": "eta"})
    assert study.best_value < 0.15 and study.trials[0].value < 0.3
