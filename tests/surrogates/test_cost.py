"""The model of evaluation cost."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rankwise import Encoder, Optimizer
from rankwise.history.task import Task, TaskSet
from rankwise.run.model_cache import learnt_optimizer
from rankwise.surrogates.cost import CostModel, CostPrior
from rankwise.surrogates.single_study.forest import RandomForest
from rankwise.surrogates.single_study.gp import GaussianProcess

X = np.random.default_rng(0).random((40, 2))
SECONDS = np.exp(2 + 3 * X[:, 0])


@pytest.mark.parametrize("surrogate", [GaussianProcess, RandomForest])
def test_predicts_log_seconds(surrogate):
    task = Task.of(X, np.zeros(40), SECONDS)
    predicted = CostModel(surrogate).fit(task).predict(np.array([[0.1, 0.5], [0.9, 0.5]]))
    assert predicted == pytest.approx([2.3, 4.7], abs=0.5)


@pytest.mark.parametrize("method", ["hebo", "gp"])
@pytest.mark.parametrize("transform", ["power", "copula", "standardize"])
def test_seconds_are_predicted_as_such_however_losses_are_transformed(method, transform):
    options = {"transform": transform, "acquisition": "ei-per-second"}
    strategy = Optimizer({"x": (0.0, 1.0), "y": (0.0, 1.0)}, method=method, **options).strategy
    make = strategy.make_cost_surrogate or strategy.make_surrogate
    model = CostModel(lambda: make(0)).fit(Task.of(X, np.zeros(40), SECONDS))
    assert model.predict(X) == pytest.approx(np.log(SECONDS), abs=0.1)


def test_failed_evaluations_count_and_unknown_seconds_do_not():
    y, seconds = np.zeros(40), SECONDS.copy()
    y[:20] = np.nan
    seconds[30:] = np.nan
    model = CostModel(GaussianProcess).fit(Task.of(X, y, seconds))
    assert model.predict(X[:3]) == pytest.approx(np.log(SECONDS[:3]), abs=0.3)


@pytest.mark.parametrize("seconds", [None, [math.nan, 1.0]])
def test_too_little_knowledge_makes_all_costs_equal(seconds):
    model = CostModel(GaussianProcess).fit(Task.of(X[:2], [1.0, 2.0], seconds))
    assert model.predict(X).tolist() == [0.0] * 40


def test_ei_per_second_prefers_the_cheap_half_where_values_are_alike():
    """Two equal valleys, one of them a hundred times as expensive."""

    def share_of_cheap(acquisition):
        cheap = 0
        for seed in range(3):
            optimizer = Optimizer(
                {"x": (0.0, 1.0)}, method="gp", design=6, seed=seed, acquisition=acquisition
            )
            for k in range(16):
                [c] = optimizer.ask()
                value = min((c["x"] - 0.25) ** 2, (c["x"] - 0.75) ** 2)
                optimizer.tell(c, value, cost=1.0 if c["x"] < 0.5 else 100.0)
                cheap += k >= 6 and c["x"] < 0.5
        return cheap / 30

    assert share_of_cheap("ei-per-second") > max(0.6, share_of_cheap("ei"))


def past_tasks(factors=(1.0, 30.0)):
    """Tasks of machines of different speed; the same configurations take long on all of them."""
    return [Task.of(X, (X[:, 1] - 0.5) ** 2, f * SECONDS, name=str(f)) for f in factors]


def test_source_tasks_order_configurations_by_seconds_before_the_first_trial():
    prior = CostPrior.of(past_tasks(), GaussianProcess)
    empty = Task.of(np.empty((0, 2)), [])
    predicted = CostModel(GaussianProcess, prior).fit(empty).predict(X)
    assert np.corrcoef(predicted, np.log(SECONDS))[0, 1] > 0.99


def test_one_trial_of_this_study_says_how_fast_the_machine_is():
    prior = CostPrior.of(past_tasks(), GaussianProcess)
    one = Task.of(X[:1], [1.0], 500 * SECONDS[:1])
    predicted = CostModel(GaussianProcess, prior).fit(one).predict(X)
    assert predicted == pytest.approx(np.log(500 * SECONDS), abs=0.4)


def test_this_study_corrects_source_tasks_that_are_wrong():
    prior = CostPrior.of(past_tasks(), GaussianProcess)
    other = np.exp(2 - 3 * X[:, 0])  # the opposite order
    model = CostModel(GaussianProcess, prior).fit(Task.of(X[:30], np.zeros(30), other[:30]))
    assert np.corrcoef(model.predict(X[30:]), np.log(other[30:]))[0, 1] > 0.9


def test_without_seconds_there_is_no_prior():
    assert CostPrior.of([Task.of(X, X[:, 0])], GaussianProcess) is None


def test_the_first_trial_is_cheap_if_past_trials_say_so():
    """Two equal valleys, one of them thirty times as expensive, in all past studies."""
    rng, space = np.random.default_rng(0), {"x": (0.0, 1.0)}
    tasks = []
    for k in range(4):
        x = rng.random((25, 1))
        y = np.minimum((x[:, 0] - 0.2) ** 2, (x[:, 0] - 0.8) ** 2) + 1e-3 * rng.random(25)
        tasks.append(Task.of(x, y, np.where(x[:, 0] < 0.5, 30.0, 1.0), name=str(k)))
    optimizer = learnt_optimizer(
        "eb-gp", Encoder(space), TaskSet(tuple(tasks)), None, acquisition="ei-per-second"
    )
    [first] = optimizer.restarted(seed=0).ask()
    assert abs(first["x"] - 0.8) < 0.15
