"""The sampler and `Optimizer` propose the same for the same seed and the same history."""

from __future__ import annotations

import pickle

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from rankwise import Encoder, RankwiseSampler, minimize
from rankwise.archive import Archive, PastStudy
from rankwise.history.task import OK
from rankwise.integrations.optuna import sub_space
from rankwise.run.next_row import trial_rng

DISTRIBUTIONS = {
    "x": FloatDistribution(-5.0, 5.0),
    "n": IntDistribution(1, 9),
    "lr": FloatDistribution(1e-4, 1.0, log=True),
}
SPACE = {"x": (-5.0, 5.0), "n": (1, 9), "lr": (1e-4, 1.0, "log")}


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def loss(params, shift=0.0) -> float:
    off = np.log10(params["lr"]) + 2
    return (params["x"] - 1 - shift) ** 2 + 0.1 * abs(params["n"] - 4) + off**2


def objective(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", -5.0, 5.0)
    n = trial.suggest_int("n", 1, 9)
    return loss({"x": x, "n": n, "lr": trial.suggest_float("lr", 1e-4, 1.0, log=True)})


def sampled(n_trials: int, **arguments) -> list[dict]:
    sampler = RankwiseSampler(search_space=DISTRIBUTIONS, **arguments)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=n_trials)
    return [trial.params for trial in study.trials]


def past() -> Archive:
    """Three studies of random trials."""
    studies = []
    for k in range(3):
        params = Encoder(SPACE).decode(Encoder(SPACE).sample(20, np.random.default_rng(k)))
        values = np.array([loss(p, shift=0.1 * k) for p in params])
        never = np.zeros(len(params), dtype=bool)
        seconds = np.ones(len(params))
        studies.append(
            PastStudy(
                f"past-{k}", "minimize", params, DISTRIBUTIONS, values, (OK,) * 20, never, seconds
            )
        )
    return Archive(studies)


@pytest.mark.parametrize("method", ["gp", "mbo", "random", "forest"])
def test_alone_the_sampler_proposes_what_minimize_does(method):
    result = minimize(loss, SPACE, method=method, trials=14, seed=3)
    expected = [trial.configuration for trial in result.trials]
    assert sampled(14, alone=method, seed=3) == expected


def test_with_a_past_the_sampler_proposes_what_minimize_does():
    archive = past()
    encoder = archive.space.encoder
    result = minimize(loss, encoder, method="eb-gp", tasks=archive.tasks, trials=6, seed=3)
    expected = [trial.configuration for trial in result.trials]
    assert sampled(6, archive=archive, method="eb-gp", seed=3) == expected


def test_a_rejected_proposal_has_random_numbers_of_its_own():
    first = np.random.default_rng([7, 3]).random()
    assert trial_rng(7, 3).random() == first  # that of `Optimizer`
    assert len({trial_rng(7, 3, attempt).random() for attempt in range(3)}) == 3


def test_the_strategy_is_made_once_while_the_space_stays_the_same(monkeypatch):
    made = []
    make = sub_space.methods.make
    monkeypatch.setattr(
        sub_space.methods, "make", lambda *args, **kw: made.append(1) or make(*args, **kw)
    )
    sampler = RankwiseSampler(alone="random", seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=6)
    assert len(made) == 1
    study.optimize(lambda trial: trial.suggest_float("x", 0, 2), n_trials=6)  # another range
    assert len(made) == 2
    study.optimize(
        lambda trial: trial.suggest_float("x", 0, 2) + len(trial.suggest_categorical("k", "ab")),
        n_trials=6,
    )
    assert len(made) > 2
    assert sampler._own.names == {"x", "k"}


def test_choices_that_are_equal_and_not_the_same_make_another_space():
    first = {"k": CategoricalDistribution([True, False])}
    second = {"k": CategoricalDistribution([1, 0])}
    nothing = PastStudy("s", "minimize", [], {}, np.empty(0), (), np.empty(0, bool), np.empty(0))
    part = sub_space.Part.alone(nothing, first, "random")
    assert sub_space.Part.alone(nothing, dict(first), "random", part) is part
    assert sub_space.Part.alone(nothing, second, "random", part) is not part
    again = pickle.loads(pickle.dumps(part))
    assert sub_space.Part.alone(nothing, first, "random", again) is again
