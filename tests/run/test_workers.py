"""Evaluation in worker processes: time limits, dying workers, what cannot be sent there."""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import sys
import threading
import time
from itertools import islice

import pytest
from support.objectives import bowl, deadly_right, slow_right

from rankwise.errors import OptionError
from rankwise.history.trial import Trial
from rankwise.run.workers import Evaluator


def trials(*xs):
    return [Trial(i, {"x": x, "y": 0.5}) for i, x in enumerate(xs)]


def statuses(evaluator, batch):
    return {trial.number: evaluation.status for trial, evaluation in evaluator.run(batch)}


def test_in_this_process_results_come_in_order():
    results = list(Evaluator(bowl).run(trials(0.3, 0.4)))
    assert [t.number for t, _ in results] == [0, 1]
    assert results[0][1].value == pytest.approx(0.01)


def test_workers_are_other_processes_working_at_the_same_time(tmp_path):
    """Each evaluation waits for the other one to begin."""

    def meet(configuration):
        (tmp_path / str(os.getpid())).touch()
        end = time.monotonic() + 600
        while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        return float(os.getpid())

    results = Evaluator(meet, n_jobs=2).run(trials(0.1, 0.2))
    processes = {evaluation.value for _, evaluation in results}
    assert len(processes) == 2 and os.getpid() not in processes


def test_evaluations_that_take_too_long_are_stopped_and_others_are_not(monkeypatch):
    """An evaluation that is not stopped takes an hour.

    The limit passes when the quick evaluations of a batch have ended, however busy the machine is.
    It is asked for once per batch: one that ends early must not buy time for another one.
    """
    limits, as_completed = [], concurrent.futures.as_completed

    def as_events(futures, timeout):
        limits.append(timeout)
        yield from islice(as_completed(futures), quick)
        if quick < len(futures):
            raise concurrent.futures.TimeoutError

    monkeypatch.setattr(concurrent.futures, "as_completed", as_events)
    evaluator, quick = Evaluator(slow_right, n_jobs=2, timeout=1.5), 1
    assert statuses(evaluator, trials(0.1, 0.9)) == {0: "ok", 1: "timeout"}
    assert statuses(evaluator, trials(0.9, 0.2)) == {0: "timeout", 1: "ok"}
    quick = 2
    assert statuses(evaluator, trials(0.1, 0.2)) == {0: "ok", 1: "ok"}
    assert limits == [1.5] * 3


def test_a_time_limit_works_for_one_job_too():
    [(_, evaluation)] = Evaluator(slow_right, timeout=1.0).run(trials(0.9))
    assert evaluation.status == "timeout"
    assert evaluation.cost == 1.0


def test_a_worker_that_dies_takes_only_its_own_trial_with_it():
    batch = trials(0.1, 0.9, 0.3)
    results = {t.number: e for t, e in Evaluator(deadly_right, n_jobs=2).run(batch)}
    assert {k: e.status for k, e in results.items()} == {0: "ok", 1: "failed", 2: "ok"}
    assert "died" in results[1].error


def test_functions_defined_anywhere_can_be_sent():
    factor = 3.0
    [(_, evaluation)] = Evaluator(lambda c: factor * c["x"], n_jobs=2).run(trials(1.0))
    assert evaluation.value == 3.0


def test_an_objective_that_cannot_be_sent_is_refused_with_advice():
    lock = threading.Lock()
    with pytest.raises(OptionError, match="n_jobs=1"):
        list(Evaluator(lambda c: lock.locked() + c["x"], n_jobs=2).run(trials(0.1, 0.2)))


def test_a_time_limit_does_not_disturb_joblibs_own_processes():
    """In a process of its own: what was run before must not matter."""
    words = """
from rankwise.run.workers import Evaluator
from rankwise.history.trial import Trial
batch = [Trial(k, {"x": 0.1 * k}) for k in range(2)]
for limit in (600.0, None, 600.0):
    found = [e.value for _, e in Evaluator(abs_x, n_jobs=2, timeout=limit).run(batch)]
    assert sorted(found) == [0.0, 0.1], found
"""
    code = "def abs_x(c):\n    return abs(c['x'])\n" + words
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
