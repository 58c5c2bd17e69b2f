"""`acquisition="ei-per-second"` works in all doors, and past durations teach it."""

from __future__ import annotations

import numpy as np
import optuna
import pytest
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier

from rankwise import Encoder, RankwiseSampler, RankwiseSearchCV, TaskSet, minimize
from rankwise.history.task import Task
from rankwise.run.model_cache import learnt_optimizer
from rankwise.run.several import joint_optimizer
from rankwise.strategies.guard.strategy import GuardedStrategy
from rankwise.surrogates.cost import CostModel

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
PER_SECOND = {"acquisition": "ei-per-second"}


@pytest.fixture
def asked(monkeypatch):
    """For each prediction of seconds, whether past durations are its prior."""
    found, predict = [], CostModel.predict

    def watched(self, X):
        found.append(self._prior is not None)
        return predict(self, X)

    monkeypatch.setattr(CostModel, "predict", watched)
    return found


def past(several=False):
    """Tasks with equal losses along x, where small x is cheap."""
    rng, tasks = np.random.default_rng(0), []
    for k in range(3):
        X = rng.random((25, 2))
        y = (X[:, 1] - 0.5) ** 2
        task = Task.of(X, y, np.exp(4 * X[:, 0]), name=f"past-{k}")
        if several:
            object.__setattr__(task, "objectives", np.stack([y, 1 - X[:, 1]], axis=1))
        tasks.append(task)
    return TaskSet(tuple(tasks), (), Encoder(SPACE).fingerprint)


@pytest.mark.parametrize("guard", [False, True])
def test_minimize(asked, guard):
    result = minimize(
        lambda c: (c["y"] - 0.5) ** 2,
        SPACE,
        trials=4,
        tasks=past(),
        method="eb-gp",
        seed=0,
        **PER_SECOND,
        **({"guard": True} if guard else {}),
    )
    assert asked and all(asked)
    assert result.trials[0].configuration["x"] < 0.5  # cheap, from the first trial on


def test_the_guard_gives_past_durations_to_the_transfer_method():
    encoder = Encoder(SPACE)
    guarded = learnt_optimizer("eb-gp", encoder, past(), None, guard=True, **PER_SECOND).strategy
    assert isinstance(guarded, GuardedStrategy) and guarded.transfer.cost_prior is not None
    plain = learnt_optimizer("eb-gp", encoder, past(), None, guard=True).strategy
    assert plain.transfer.cost_prior is None


def test_late_proposals_of_mbo_know_past_durations():
    strategy = learnt_optimizer("eb-gp", Encoder(SPACE), past(), None, **PER_SECOND).strategy
    assert strategy.cost_prior is not None and strategy.alone.cost_prior is strategy.cost_prior


def test_several_objectives(asked):
    encoder = Encoder(SPACE)
    optimizer = joint_optimizer("eb-gp", encoder, past(True), None, 2, **PER_SECOND)
    [trial] = optimizer.restarted(seed=0).propose()
    assert asked and all(asked) and trial.configuration["x"] < 0.5


def test_the_sampler_with_and_without_constraints(asked):
    storage = optuna.storages.InMemoryStorage()
    for k in range(2):
        study = optuna.create_study(
            storage=storage,
            study_name=f"past-{k}",
            sampler=optuna.samplers.RandomSampler(seed=k),
        )
        for _ in range(12):
            trial = study.ask()
            x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
            trial.set_user_attr("rankwise:seconds", float(np.exp(4 * x)))
            study.tell(trial, (y - 0.5) ** 2)
    for limits in (None, lambda trial: [trial.params["y"] - 0.9]):
        asked.clear()
        sampler = RankwiseSampler(
            storage,
            like="past-*",
            seed=0,
            options=PER_SECOND,
            constraints_func=limits,
            strict=True,
        )
        study = optuna.create_study(study_name="new", sampler=sampler)
        study.optimize(
            lambda t: t.suggest_float("x", 0, 1) * 0 + t.suggest_float("y", 0, 1), n_trials=2
        )
        assert asked and all(asked)


def test_the_search(asked):
    RankwiseSearchCV(
        DecisionTreeClassifier(random_state=0),
        n_trials=2,
        cv=2,
        past="builtin",
        options=PER_SECOND,
        random_state=0,
    ).fit(*load_iris(return_X_y=True))
    assert asked and all(asked)
