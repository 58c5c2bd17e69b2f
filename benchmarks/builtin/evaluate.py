"""Evaluation of one configuration of a learner on one data set, with a limit of CPU seconds."""

from __future__ import annotations

import multiprocessing as mp
import os
import time
import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from benchmarks.builtin.datasets import DataSet
from benchmarks.builtin.library import Learner, significant
from benchmarks.builtin.networks import fit_in_steps
from benchmarks.builtin.scores import METRICS, curve, scores, stages_of

OK, FAILED, TIMEOUT = "ok", "failed", "timeout"
_POLL = 0.5  # seconds between two looks at the CPU time of the worker
_HANGS = 600.0  # seconds without a result after which a worker is replaced
_TICK = os.sysconf("SC_CLK_TCK")


class Problem:
    """The prepared folds of a data set for one learner."""

    def __init__(self, learner: Learner, data: DataSet, folds: int) -> None:
        self.learner = learner
        self.kind = data.kind
        self.folds = []
        for train, test in data.splits(folds):
            preparation = learner.preparation()
            self.folds.append(
                (
                    np.asarray(preparation.fit_transform(data.X.iloc[train], data.y[train])),
                    data.y[train],
                    np.asarray(preparation.transform(data.X.iloc[test])),
                    data.y[test],
                )
            )

    def evaluate(self, configuration: dict[str, Any]) -> dict[str, Any]:
        """Mean and standard deviation over folds of every metric, CPU seconds and a curve."""
        rows, curves, seconds = [], [], []
        for X, y, X_test, y_test in self.folds:
            model = clone(self.learner.estimator)
            model.set_params(**self.learner.params(configuration))
            start = time.process_time()
            model = fit_in_steps(model, X, y) if self.learner.name == "mlp" else model.fit(X, y)
            seconds.append(time.process_time() - start)
            rows.append(scores(model, X_test, y_test, self.kind))
            stages = stages_of(self.learner.name, model, X_test, self.kind)
            if stages is not None:
                curves.append(curve(stages, y_test, self.kind))
        found: dict[str, Any] = {"status": OK, "seconds": significant(float(np.mean(seconds)))}
        for name in METRICS[self.kind]:
            values = [row[name] for row in rows]
            known = all(v is not None and np.isfinite(v) for v in values)
            found[name] = significant(float(np.mean(values))) if known else None
            found[f"{name}_std"] = significant(float(np.std(values))) if known else None
        if curves:
            found["curve"] = {
                name: [
                    significant(float(v), 4) for v in np.mean([c[name] for c in curves], axis=0)
                ]
                for name in curves[0]
            }
        return found


def _serve(problem: Problem, connection: Any) -> None:
    """Evaluate configurations that come through a pipe, until None comes."""
    warnings.simplefilter("ignore")
    while (configuration := connection.recv()) is not None:
        try:
            with np.errstate(all="ignore"):
                connection.send(problem.evaluate(configuration))
        except Exception as error:  # a failed evaluation is a result
            connection.send({"status": FAILED, "error": f"{type(error).__name__}: {error}"[:120]})


class Evaluator:
    """Evaluates configurations in a child process that is replaced when it exceeds the limit.

    Args:
        problem: data and learner.
        limit: CPU seconds per evaluation.
    """

    def __init__(self, problem: Problem, limit: float) -> None:
        self.problem, self.limit = problem, limit
        self._start()

    def _start(self) -> None:
        context = mp.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(self.problem, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def __call__(self, configuration: dict[str, Any]) -> dict[str, Any]:
        """The result of one evaluation; its status is "ok", "failed" or "timeout"."""
        before, start = _cpu_seconds(self._process.pid), time.monotonic()
        self._pipe.send(configuration)
        try:
            while not self._pipe.poll(_POLL):
                spent = _cpu_seconds(self._process.pid) - before
                if spent > self.limit or time.monotonic() - start > _HANGS:
                    self._replace()
                    return {"status": TIMEOUT}
            return self._pipe.recv()
        except EOFError:  # the child died, for instance from a lack of memory
            self._replace()
            return {"status": FAILED, "error": "the process ended"}

    def _replace(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()
        self._start()

    def close(self) -> None:
        """End the child process."""
        self._pipe.send(None)
        self._process.join(5)
        self._process.kill()


def _cpu_seconds(pid: int | None) -> float:
    """User and system seconds that a process has used; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICK
