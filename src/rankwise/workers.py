"""Evaluating batches of trials, here or in worker processes."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Iterator, Sequence

import joblib
from joblib.externals.loky.process_executor import BrokenProcessPool

from rankwise.errors import OptionError
from rankwise.evaluation import Evaluation, Objective, evaluate, evaluate_numbered, wake
from rankwise.optimizer import Trial
from rankwise.task import FAILED, TIMEOUT


class Evaluator:
    """Evaluates batches of trials, here or in worker processes.

    Args:
        objective: maps a configuration to a number.
        n_jobs: evaluations at the same time; -1 for one per core. More than one run in joblib's
            workers, or wherever `joblib.parallel_config` says (Dask, Ray, ...).
        timeout: seconds after which an evaluation is stopped; needs worker processes, also for
            n_jobs=1.
    """

    def __init__(
        self, objective: Objective, n_jobs: int = 1, timeout: float | None = None
    ) -> None:
        if not callable(objective):
            raise OptionError(f"the objective must be callable, not {type(objective).__name__}")
        if n_jobs == 0:
            raise OptionError("n_jobs must be positive, or -1 for one per core, not 0")
        if timeout is not None and timeout <= 0:
            raise OptionError(f"timeout must be positive, not {timeout}")
        self._objective = objective
        self.n_jobs: int = joblib.effective_n_jobs(n_jobs)
        self._timeout = timeout
        self._awake = False

    def run(self, trials: Sequence[Trial]) -> Iterator[tuple[Trial, Evaluation]]:
        """Evaluate a batch; yields each trial as it ends."""
        if self.n_jobs == 1 and self._timeout is None:
            for trial in trials:
                yield trial, evaluate(self._objective, trial.configuration)
        else:
            yield from self._run_in_workers(list(trials))

    def _run_in_workers(self, trials: list[Trial]) -> Iterator[tuple[Trial, Evaluation]]:
        waiting = dict(enumerate(trials))
        try:
            for index, evaluation in self._parallel(trials):
                yield waiting.pop(index), evaluation
            return
        except (
            multiprocessing.TimeoutError
        ):  # joblib has stopped the workers: all that are left took too long
            assert self._timeout is not None
            self._awake = False
            message = f"stopped after {self._timeout:g} s"
            for trial in waiting.values():
                yield trial, Evaluation(TIMEOUT, cost=self._timeout, error=message)
            return
        except (pickle.PicklingError, AttributeError) as error:
            if len(waiting) < len(trials):
                raise
            raise OptionError(
                f"the objective cannot be sent to worker processes ({error}); "
                "define it at the top of a module, or use n_jobs=1 and no timeout"
            ) from error
        except BrokenProcessPool as error:
            self._awake = False
            died = f"the worker process died: {str(error).splitlines()[0]}"
        # Which of several killed its worker is not known: each gets a process of its own.
        for trial in waiting.values():
            if len(trials) == 1:
                yield trial, Evaluation(FAILED, error=died)
            else:
                yield from self._run_in_workers([trial])

    def _parallel(self, trials: list[Trial]) -> Iterator[tuple[int, Evaluation]]:
        # One job alone would run in this process, where it can neither be stopped nor survived.
        n_jobs = max(self.n_jobs, 2)
        if self._timeout is not None and not self._awake:
            # Starting workers and importing modules must not count as evaluation.
            joblib.Parallel(n_jobs)(joblib.delayed(wake)(self._objective) for _ in range(n_jobs))
            self._awake = True
        parallel = joblib.Parallel(
            n_jobs, timeout=self._timeout, return_as="generator_unordered", batch_size=1
        )
        jobs = (
            joblib.delayed(evaluate_numbered)(index, self._objective, trial.configuration)
            for index, trial in enumerate(trials)
        )
        results: Iterator[tuple[int, Evaluation]] = parallel(jobs)
        return results
