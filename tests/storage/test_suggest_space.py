"""Asking a trial of Optuna for a configuration."""

from __future__ import annotations

import optuna
import pytest
from optuna.trial import TrialState

import rankwise
from rankwise.networks import convnet_space


class Opaque:
    """A choice that Optuna cannot store."""

    def __repr__(self) -> str:
        return "opaque"


def test_configurations_are_those_of_the_space():
    encoder = rankwise.Encoder(convnet_space((8, 8)))
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    found = []

    def objective(trial):
        found.append(rankwise.suggest(trial, encoder))
        return float(len(found[-1]))

    study.optimize(objective, n_trials=60)
    encoder.encode(found)  # raises if one of them is not legal
    assert {c["layers"] for c in found} == {1, 2, 3}
    complete = [t for t in study.trials if t.state == TrialState.COMPLETE]
    assert [set(t.params) for t in complete] == [set(c) for c in found]


def test_what_is_forbidden_is_pruned():
    space = rankwise.make_space({"a": [1, 2], "b": [1, 2]}, forbid=[{"a": 1, "b": 1}])
    study = optuna.create_study(sampler=optuna.samplers.BruteForceSampler())
    study.optimize(lambda trial: rankwise.suggest(trial, space)["a"], n_trials=4)
    states = [t.state for t in study.trials]
    assert states.count(TrialState.PRUNED) == 1 and states.count(TrialState.COMPLETE) == 3


def test_choices_come_back_as_they_are():
    choice = Opaque()
    space = {"kind": [choice, "plain"], "n": (1, 1000, "log"), "x": (0.0, 1.0)}
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    kinds = [rankwise.suggest(study.ask(), space)["kind"] for _ in range(12)]
    assert any(kind is choice for kind in kinds) and "plain" in kinds


def test_a_fixed_trial_gives_its_values():
    trial = optuna.trial.FixedTrial({"x": 0.25, "n": 3})
    assert rankwise.suggest(trial, {"x": (0.0, 1.0), "n": (1, 5)}) == {"x": 0.25, "n": 3}


@pytest.mark.parametrize("sampler", ["tpe", "rankwise"])
def test_any_sampler_can_be_asked(sampler):
    chosen = (
        optuna.samplers.TPESampler(seed=0)
        if sampler == "tpe"
        else rankwise.RankwiseSampler(seed=0)
    )
    study = optuna.create_study(sampler=chosen)
    study.optimize(lambda t: rankwise.suggest(t, {"x": (-1.0, 1.0)})["x"] ** 2, n_trials=15)
    assert study.best_value < 0.05
