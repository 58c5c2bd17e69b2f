"""minimize: limits, failures, interruption, callbacks, parallel runs."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from support import TESTS
from support.objectives import bowl, moody

from rankwise import minimize
from rankwise.errors import OptionError, RunWarning, SpaceError, UnknownNameError
from rankwise.run import loop

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}


def configurations(result):
    return [t.configuration for t in result.trials]


def test_finds_the_minimum_and_says_how():
    result = minimize(bowl, SPACE, trials=20, seed=0)
    assert result.best_value < 1e-3
    assert result.best_configuration["x"] == pytest.approx(0.3, abs=0.05)
    assert result.stopped == "trials"
    assert len(result.trials) == len(result.history) == 20
    assert "best value" in str(result)


def test_thirty_trials_by_default():
    assert len(minimize(bowl, SPACE, method="random", seed=0).trials) == 30


def test_maximize_turns_the_direction_once():
    result = minimize(
        lambda c: 5 - bowl(c), SPACE, trials=15, direction="maximize", seed=1, method="gp"
    )
    mirrored = minimize(lambda c: bowl(c) - 5, SPACE, trials=15, seed=1, method="gp")
    assert configurations(result) == configurations(mirrored)
    assert result.best_value == pytest.approx(5.0, abs=0.01)
    assert result.study.best_value == result.best_value
    assert result.history["best_value"].is_monotonic_increasing


def test_stops_at_a_target():
    result = minimize(bowl, SPACE, trials=500, target=0.05, method="random", seed=0)
    assert result.stopped == "target"
    assert result.trials[-1].value <= 0.05
    assert all(t.value > 0.05 for t in result.trials[:-1])


def test_a_target_is_turned_with_the_direction():
    result = minimize(
        lambda c: c["x"],
        SPACE,
        trials=500,
        target=0.9,
        direction="maximize",
        method="random",
        seed=0,
    )
    assert result.stopped == "target"
    assert result.best_value >= 0.9


def test_stops_after_seconds(monkeypatch):
    """The clock is simulated: an evaluation takes 0.1 seconds and a proposal none."""
    now = [0.0]
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def objective(configuration):
        now[0] += 0.1
        return 1.0

    result = minimize(objective, SPACE, seconds=0.35, method="random", seed=0)
    assert result.stopped == "seconds"
    assert len(result.trials) == 4  # the last one begins at 0.3
    assert result.seconds == pytest.approx(0.4)


def test_stops_when_a_finite_space_is_used_up():
    result = minimize(lambda c: c["a"], {"a": (1, 4)}, trials=99, seed=0)
    assert result.stopped == "exhausted"
    assert sorted(c["a"] for c in configurations(result)) == [1, 2, 3, 4]


def test_failures_are_recorded_and_the_run_goes_on():
    with pytest.warns(RunWarning, match="too far right"):
        result = minimize(moody, SPACE, trials=30, method="random", seed=0)
    counts = result.history["status"].value_counts()
    assert len(result.trials) == 30
    assert counts["failed"] > 0
    assert counts["invalid"] > 0
    failed = next(t for t in result.trials if t.status == "failed")
    assert failed.error.startswith("ValueError: too far right")
    assert math.isnan(failed.value)
    assert math.isfinite(failed.cost)


def test_models_learn_to_avoid_failures():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        result = minimize(moody, SPACE, trials=24, seed=0)
    assert (result.history["status"][14:] == "ok").mean() >= 0.8
    assert result.best_value < 1e-2


class Unprintable:
    def __float__(self):
        raise RuntimeError("no")

    def __repr__(self):
        raise RuntimeError("no")


NO_NUMBERS = {
    "none": None,
    "text": "0.5x",
    "list": [1, 2],
    "object": object(),
    "too-large": 10**400,
    "unprintable": Unprintable(),
}


@pytest.mark.parametrize("returned", NO_NUMBERS.values(), ids=NO_NUMBERS)
def test_a_value_that_is_no_number_is_invalid(returned):
    with pytest.warns(RunWarning, match="not a number"):
        result = minimize(lambda c: returned, SPACE, trials=2, method="random", seed=0)
    assert set(result.history["status"]) == {"invalid"}
    assert result.best_configuration is None
    assert math.isnan(result.best_value)
    assert "no trial succeeded" in str(result)


def test_an_objective_may_say_that_it_timed_out():
    def late(configuration):
        raise TimeoutError("gave up after 3 s")

    with pytest.warns(RunWarning, match="gave up"):
        result = minimize(late, SPACE, trials=1, method="random", seed=0)
    assert result.trials[0].status == "timeout"


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_objective_that_exits_does_not_end_the_run(n_jobs):
    with pytest.warns(RunWarning, match="SystemExit"):
        result = minimize(
            lambda c: sys.exit(2), SPACE, trials=2, method="random", seed=0, n_jobs=n_jobs
        )
    assert [t.status for t in result.trials] == ["failed", "failed"]


def test_each_kind_of_failure_warns_once_where_the_user_called():
    def broken(configuration):
        raise KeyError(f"typo {configuration}")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        minimize(broken, SPACE, trials=6, method="random", seed=0)
    [warning] = [w for w in caught if issubclass(w.category, RunWarning)]
    assert warning.filename == __file__


def test_the_objective_cannot_spoil_the_record():
    def meddling(configuration):
        configuration["x"] = "gone"
        return 1.0

    result = minimize(meddling, SPACE, trials=2, method="random", seed=0)
    assert all(isinstance(c["x"], float) for c in configurations(result))


def test_ctrl_c_returns_what_was_found():
    calls = []

    def interrupted(configuration):
        calls.append(configuration)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return bowl(configuration)

    result = minimize(interrupted, SPACE, trials=30, method="random", seed=0)
    assert result.stopped == "interrupted"
    assert configurations(result) == calls[:4]


INTERRUPTED = """
import signal, sys
sys.path.insert(0, sys.argv[1])
from support.objectives import which_process
from rankwise import minimize

signal.signal(signal.SIGINT, signal.default_int_handler)

def ready(trial, result):
    print("ready", flush=True)

result = minimize(which_process, {"x": (0.0, 1.0)}, trials=500, n_jobs=2, method="random", seed=0,
                  timeout=float(sys.argv[2]) or None, callbacks=ready)
print(result.stopped, len(result.trials))
"""


@pytest.mark.parametrize("timeout", ["0", "600"])
def test_ctrl_c_ends_a_run_with_workers(timeout):
    """As a terminal does it: the signal goes to the workers too."""
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(TESTS), timeout],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=600)
    stopped, trials = out.splitlines()[-1].split()
    assert process.returncode == 0
    assert stopped == "interrupted"
    assert 1 <= int(trials) < 500


def test_callbacks_see_each_trial_and_may_stop_the_run():
    seen = []

    def watch(trial, result):
        seen.append((trial.number, len(result.trials), result.best_value))
        return np.bool_(trial.number == 6)

    result = minimize(bowl, SPACE, trials=30, method="random", seed=0, callbacks=[watch])
    assert result.stopped == "callback"
    assert [s[:2] for s in seen] == [(i, i + 1) for i in range(7)]
    assert seen[-1][2] == result.best_value


def test_callbacks_see_values_in_the_users_direction():
    seen = []
    minimize(
        lambda c: 7.0, SPACE, trials=1, direction="maximize", method="random", seed=0,
        callbacks=lambda trial, result: seen.append((trial.value, result.best_value)),
    )  # fmt: skip
    assert seen == [(7.0, 7.0)]


def test_a_failing_callback_loses_nothing():
    def clumsy(trial, result):
        raise RuntimeError("oops")

    with pytest.warns(RunWarning, match=r"clumsy.*oops"):
        result = minimize(bowl, SPACE, trials=3, method="random", seed=0, callbacks=[clumsy])
    assert len(result.trials) == 3


def test_batches_repeat_exactly_with_worker_processes():
    a, b = (minimize(bowl, SPACE, trials=12, n_jobs=2, seed=5, method="gp") for _ in range(2))
    assert configurations(a) == configurations(b)
    assert len({tuple(c.values()) for c in configurations(a)}) == 12


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"method": "mob"}, UnknownNameError, "unknown method 'mob'; valid: .*mbo"),
        ({"direction": "up"}, UnknownNameError, "valid: maximize, minimize"),
        ({"trees": 3}, UnknownNameError, "option of method 'auto' 'trees'; valid: acquisition"),
        ({"trails": 3}, UnknownNameError, "Did you mean 'trials'"),
        ({"method": "forest", "trees": 0}, OptionError, "trees must be a positive integer"),
        ({"method": "forest", "min_leaf": "2"}, OptionError, "min_leaf"),
        ({"method": "gp", "noise_floor": 0.0}, OptionError, "noise_floor"),
        ({"target": "0.5"}, OptionError, "target must be a number"),
        ({"trials": float("inf")}, OptionError, "trials"),
        ({"n_jobs": "2"}, OptionError, "n_jobs"),
        ({"design": {"x": 0.3, "y": 0.1}}, OptionError, "list of configurations, not a dict"),
        ({"design": "lsh"}, UnknownNameError, "Did you mean 'lhs'"),
        ({"design": "lhs-x"}, OptionError, "size"),
        ({"design": 0}, OptionError, "at least one"),
        ({"trials": 0}, OptionError, "trials must be a positive integer, not 0"),
        ({"trials": 2.5}, OptionError, "trials"),
        ({"seconds": -1}, OptionError, "seconds"),
        ({"n_jobs": 0}, OptionError, "n_jobs"),
        ({"timeout": 0}, OptionError, "timeout"),
        ({"seed": -3}, OptionError, "seed"),
        ({"acquisition": "ucb"}, UnknownNameError, "valid: ei, ei-per-second, lcb"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_evaluated(arguments, error, message):
    called = []
    with pytest.raises(error, match=message):
        minimize(called.append, SPACE, **arguments)
    assert not called


def test_a_bad_space_or_objective_is_refused():
    with pytest.raises(SpaceError, match="empty"):
        minimize(bowl, {"x": (1.0, 0.0)})
    with pytest.raises(OptionError, match="callable"):
        minimize(3, SPACE)
