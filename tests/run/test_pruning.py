"""Early stopping in `minimize`: reported values, pruners, and what models learn from them."""

from __future__ import annotations

import math

import optuna
import pytest

import rankwise
from rankwise import RankwisePruner, TaskSet, minimize
from rankwise.archive import open_archive
from rankwise.errors import OptionError
from rankwise.history.trial import PRUNED
from rankwise.run.evaluation import evaluate

SPACE = {"x": (0.0, 1.0)}
STEPS = 6


class After(optuna.pruners.BasePruner):
    """Stops trials whose value is above a limit, from a step on."""

    def __init__(self, step, limit):
        self.step, self.limit = step, limit

    def prune(self, study, trial):
        return trial.last_step >= self.step and trial.intermediate_values[self.step] > self.limit


def curve(configuration, report, sign=1.0):
    for step in range(1, STEPS + 1):
        loss = configuration["x"] + 1 / step
        report(sign * loss, step)
    return sign * loss


def run(objective=curve, trials=10, **more):
    options = {"method": "random", "seed": 0, "pruner": After(2, 1.0), "progress": False}
    return minimize(objective, SPACE, trials=trials, **{**options, **more})


def test_a_pruner_stops_trials_and_the_study_has_the_curves():
    result = run()
    for trial, stored in zip(result.trials, result.study.trials, strict=True):
        x = trial.configuration["x"]
        stopped = x + 0.5 > 1.0
        assert (trial.status == PRUNED) == stopped == (stored.state.name == "PRUNED")
        assert len(trial.curve) == (2 if stopped else STEPS)
        assert dict(trial.curve) == stored.intermediate_values
        assert math.isnan(trial.value) == stopped
        assert stored.value == pytest.approx(trial.last)
    assert 0 < sum(t.status == PRUNED for t in result.trials) < 10
    assert result.best_trial.status == "ok" and "stopped early" in str(result)


def test_a_stopped_trial_is_at_least_as_bad_as_the_best_of_the_others():
    optimizer = rankwise.Optimizer(SPACE, method="random", seed=0)
    for value in (0.5, 0.7):
        [trial] = optimizer.propose()
        optimizer.finish(trial.number, value)
    for last in (0.1, 0.9, math.nan):
        [trial] = optimizer.propose()
        optimizer.finish(trial.number, status=PRUNED, curve={1: 0.0, 2: last})
    task = optimizer.history
    assert task.y[:4].tolist() == [0.5, 0.7, 0.5, 0.9] and math.isnan(task.y[4])
    assert optimizer.best.value == 0.5


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_every_door_has_the_same_losses(direction):
    sign = 1.0 if direction == "minimize" else -1.0

    def objective(configuration, report):
        return curve(configuration, report, sign)

    class Worse(After):
        def prune(self, study, trial):
            return trial.last_step == 2 and sign * trial.intermediate_values[2] > 1.0

    storage = optuna.storages.InMemoryStorage()
    result = run(objective, direction=direction, storage=storage, name="a", pruner=Worse(2, 1))
    [ours] = TaskSet.of(SPACE, {"a": result}).tasks
    [archived] = open_archive(storage).tasks.tasks
    assert ours.y.tolist() == pytest.approx(archived.y.tolist())
    assert 0 < sum(t.status == PRUNED for t in result.trials) < 10
    assert result.best_trial.value == min(sign * t.last for t in result.trials) * sign


def test_an_interrupted_run_goes_on_as_if_it_had_not_stopped(tmp_path):
    whole = run(trials=8, method="mbo")
    storage, calls = f"sqlite:///{tmp_path}/runs.db", []

    def breaks(configuration, report):
        calls.append(configuration)
        if len(calls) == 5:
            report(configuration["x"] + 1.0, 1)
            raise KeyboardInterrupt
        return curve(configuration, report)

    more = {"storage": storage, "name": "a", "method": "mbo"}
    assert run(breaks, trials=8, **more).stopped == "interrupted"
    again = run(trials=8, **more)
    assert [t.configuration for t in again.trials] == [t.configuration for t in whole.trials]
    assert [t.status for t in again.trials] == [t.status for t in whole.trials]
    assert [dict(t.curve) for t in again.trials] == [dict(t.curve) for t in whole.trials]


def test_past_curves_stop_trials_from_the_second_on():
    storage = optuna.storages.InMemoryStorage()
    for k in range(2):
        run(trials=15, pruner=None, storage=storage, name=f"past-{k}", seed=k)
    pruner = RankwisePruner(storage, like="past-*", longest=STEPS)
    result = run(trials=15, pruner=pruner, storage=storage, name="new", seed=9)
    assert set(pruner.past_) == {"past-0", "past-1"}
    steps = sum(len(t.curve) for t in result.trials)
    assert steps < 0.7 * 15 * STEPS
    xs = [t.configuration["x"] for t in result.trials]
    assert result.best_configuration["x"] == min(xs)


def test_without_a_pruner_curves_are_kept_also_from_workers():
    for more in ({}, {"n_jobs": 2}):
        result = run(trials=2, pruner=None, **more)
        assert [len(t.intermediate_values) for t in result.study.trials] == [STEPS, STEPS]


def test_objectives_without_report_are_called_as_before():
    result = run(lambda configuration: configuration["x"], trials=2, pruner=None)
    assert [t.status for t in result.trials] == ["ok", "ok"] and not result.trials[0].curve


@pytest.mark.parametrize("args", [(0.5, -1), (0.5, 1.5), (0.5, True), ("low", 1), (None, 1)])
def test_a_bad_report_is_a_failed_trial(args):
    def objective(configuration, report):
        report(*args)

    found = evaluate(objective, {"x": 0.5})
    assert found.status == "failed" and "report(value, step)" in found.error


def test_a_value_that_is_not_a_number_may_be_reported():
    def objective(configuration, report):
        report(math.nan, 1)
        return 1.0

    result = run(objective, trials=2, pruner=RankwisePruner())
    assert [t.status for t in result.trials] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("objective", "options", "message"),
    [
        (lambda c: 0.0, {}, "parameter `report`"),
        (curve, {"n_jobs": 2}, "n_jobs=1"),
        (curve, {"timeout": 5}, "no timeout"),
        (curve, {"direction": ["minimize"] * 2}, "one objective"),
        (curve, {"pruner": "median"}, "Optuna pruner"),
    ],
)
def test_mistakes(objective, options, message):
    with pytest.raises(OptionError, match=message):
        run(objective, **options)
