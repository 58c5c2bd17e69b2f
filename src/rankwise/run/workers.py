"""Evaluator: evaluates batches of trials in this process or in worker processes."""

from __future__ import annotations

import concurrent.futures
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from numbers import Integral

import joblib
from joblib.externals.loky.process_executor import BrokenProcessPool, ProcessPoolExecutor

from rankwise.errors import OptionError, is_number
from rankwise.history.task import FAILED, TIMEOUT
from rankwise.history.trial import Trial
from rankwise.run.evaluation import (
    Evaluation,
    Objective,
    evaluate,
    evaluate_numbered,
    reports,
    wake,
)


class Evaluator:
    """Evaluates batches of trials in this process or in worker processes.

    Args:
        objective: maps a configuration to a number.
        n_jobs: number of simultaneous evaluations; -1 for one per core. With more than one they
            run in joblib's workers, or in the backend of `joblib.parallel_config` (Dask, Ray).
        timeout: seconds after which an evaluation is stopped. With a timeout, evaluations always
            run in worker processes on this machine.
        objectives: number of values that the objective returns.

    Attributes:
        watch: told number, value and step of each reported value; True stops the trial. Worker
            processes do not use it.
        in_process: True if evaluations run in this process.
        reports: True if the objective reports intermediate values.
    """

    def __init__(
        self,
        objective: Objective,
        n_jobs: int = 1,
        timeout: float | None = None,
        objectives: int = 1,
    ) -> None:
        if not callable(objective):
            raise OptionError(f"the objective must be callable, not {type(objective).__name__}")
        if not is_number(n_jobs, Integral) or n_jobs == 0:
            raise OptionError(f"n_jobs must be a positive integer, or -1, not {n_jobs!r}")
        if timeout is not None and not (is_number(timeout) and timeout > 0):
            raise OptionError(f"timeout must be a positive number of seconds, not {timeout!r}")
        self._objective, self._objectives = objective, objectives
        self.n_jobs: int = joblib.effective_n_jobs(int(n_jobs))
        self._timeout = timeout
        self.watch: Callable[[int, float, int], bool] | None = None
        self._pool: ProcessPoolExecutor | None = None  # for evaluations with a timeout

    @property
    def in_process(self) -> bool:
        """See above."""
        return self.n_jobs == 1 and self._timeout is None

    @property
    def reports(self) -> bool:
        """See above."""
        return self._objectives == 1 and reports(self._objective)

    def run(self, trials: Sequence[Trial]) -> Iterator[tuple[Trial, Evaluation]]:
        """Evaluate a batch of at most n_jobs trials; yields each result when it is ready."""
        if self.in_process:
            for trial in trials:
                watch = None if self.watch is None else partial(self.watch, trial.number)
                yield (
                    trial,
                    evaluate(self._objective, trial.configuration, self._objectives, watch),
                )
        else:
            yield from self._run_in_workers(list(trials))

    def _run_in_workers(self, trials: list[Trial]) -> Iterator[tuple[Trial, Evaluation]]:
        waiting = dict(enumerate(trials))
        results = self._parallel(trials) if self._timeout is None else self._timed(trials)
        try:
            for index, evaluation in results:
                yield waiting.pop(index), evaluation
            return
        except concurrent.futures.TimeoutError:
            late = Evaluation(
                TIMEOUT,
                cost=self._timeout or 0.0,
                error=f"stopped after {self._timeout:g} s",
                kind=TIMEOUT,
            )
            yield from ((trial, late) for trial in waiting.values())
            return
        except (pickle.PicklingError, AttributeError) as error:
            raise OptionError(
                f"the objective cannot be sent to worker processes ({error}); "
                "define it at the top of a module, or use n_jobs=1 and no timeout"
            ) from error
        except BrokenProcessPool as error:
            self._pool = None
            died = f"the worker process died: {str(error).splitlines()[0]}"
        # It is unknown which trial killed the worker, so each gets its own process.
        for trial in waiting.values():
            if len(trials) == 1:
                yield trial, Evaluation(FAILED, error=died, kind="died")
            else:
                yield from self._run_in_workers([trial])

    def _parallel(self, trials: list[Trial]) -> Iterator[tuple[int, Evaluation]]:
        """Evaluate trials through joblib with its configured backend."""
        # joblib runs a single job in this process, which might not survive it.
        parallel = joblib.Parallel(
            max(self.n_jobs, 2), return_as="generator_unordered", batch_size=1
        )
        jobs = (
            joblib.delayed(evaluate_numbered)(
                index, self._objective, trial.configuration, self._objectives
            )
            for index, trial in enumerate(trials)
        )
        results: Iterator[tuple[int, Evaluation]] = parallel(jobs)
        return results

    def _timed(self, trials: list[Trial]) -> Iterator[tuple[int, Evaluation]]:
        """Evaluate trials in our own processes on this machine, which can be stopped.

        joblib restarts its timeout whenever a job of the batch ends; ours is per evaluation.
        joblib's own processes must not be killed, because joblib reuses them.
        """
        if self._pool is None:
            self._pool = ProcessPoolExecutor(max_workers=self.n_jobs)
            # The time to start workers and to import modules does not count.
            concurrent.futures.wait(
                [self._pool.submit(wake, self._objective) for _ in range(self.n_jobs)]
            )
        futures = [
            self._pool.submit(
                evaluate_numbered, index, self._objective, trial.configuration, self._objectives
            )
            for index, trial in enumerate(trials)
        ]
        try:
            for future in concurrent.futures.as_completed(futures, timeout=self._timeout):
                yield future.result()
        except concurrent.futures.TimeoutError:
            self._pool.shutdown(wait=True, kill_workers=True)
            self._pool = None
            raise
