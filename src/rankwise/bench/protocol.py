"""One run of a method on a problem, with the protocol of HPO-B."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.bench.base import INITIAL, OpenProblem, Problem, TableProblem
from rankwise.history.task import Task
from rankwise.run.optimizer import Optimizer
from rankwise.strategies.base import FALLBACK, Strategy
from rankwise.types import Array


@dataclass(frozen=True)
class Trace:
    """Evaluations of a run.

    Attributes:
        points: row numbers or encoded configurations in the order of evaluation, including the
            initial points.
        losses: loss of each point.
        regrets: normalized regret of the best loss so far (trials + 1,), after the initial points
            and after each trial. A run ends when the optimum is found; then the last value is
            repeated.
        fallbacks: number of random proposals made because the surrogate failed.
        seconds: seconds of each proposal.
    """

    points: list[Any]
    losses: list[float]
    regrets: list[float]
    fallbacks: int
    seconds: list[float]


class Chooser:
    """Calls a strategy with a random generator made from the seed and the number of trials.

    A strategy with an initial design starts with random rows until there are five evaluations.

    Args:
        strategy: strategy of a method.
        seed: seed of all randomness.
    """

    def __init__(self, strategy: Strategy, seed: int) -> None:
        self._strategy, self._seed = strategy, seed

    def choose(self, history: Task, pool: Array) -> int:
        """Choose a row of a pool (m, d); return its index."""
        rng = np.random.default_rng([self._seed, len(history)])
        if self._strategy.design is not None and len(history) < INITIAL:
            return int(rng.integers(len(pool)))
        return self._strategy.choose(history, pool, rng)

    def propose(self, history: Task) -> Array:
        """Propose a configuration (d,) of the space."""
        rng = np.random.default_rng([self._seed, len(history)])
        return self._strategy.propose(history, np.empty((0, history.X.shape[1])), rng)


def run(problem: Problem, optimizer: Optimizer, *, seed: int, initial: int, trials: int) -> Trace:
    """Evaluate the initial points of a problem and seed, then the proposals of a method.

    Args:
        problem: problem to optimize.
        optimizer: optimizer of the method, which has learnt from the source tasks; not modified.
        seed: seed of the run.
        initial: number of given initial points, at most `INITIAL`.
        trials: maximum number of proposals after the initial points.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if isinstance(problem, TableProblem):
            evaluated = _run_table(problem, optimizer, seed, initial, trials)
        else:
            assert isinstance(problem, OpenProblem)
            evaluated = _run_open(problem, optimizer, seed, initial, trials)
    points, losses, seconds = evaluated
    fallbacks = sum(str(warning.message).startswith(FALLBACK) for warning in caught)
    curve = problem.regrets(np.array(losses)).tolist()
    regrets = [
        *(curve[:initial][-1:] or [1.0]),  # without initial points, the regret starts at 1
        *curve[initial:],
    ]
    regrets += regrets[-1:] * (trials + 1 - len(regrets))
    return Trace(points, losses, regrets, fallbacks, seconds)


def _run_table(
    problem: TableProblem, optimizer: Optimizer, seed: int, initial: int, trials: int
) -> tuple[list[Any], list[float], list[float]]:
    chooser = Chooser(optimizer.strategy, seed)
    X, losses = problem.X, problem.losses
    rows: list[int] = problem.initial(seed)[:initial].tolist()
    free = np.ones(len(losses), dtype=bool)
    free[rows] = False
    seconds: list[float] = []
    while len(seconds) < trials and free.any() and not _found(problem, losses[rows]):
        history, pool = Task.of(X[rows], losses[rows], name=problem.name), np.flatnonzero(free)
        start = time.perf_counter()
        row = int(pool[chooser.choose(history, X[pool])])
        seconds.append(time.perf_counter() - start)
        rows.append(row)
        free[row] = False
    return rows, losses[rows].tolist(), seconds


def _run_open(
    problem: OpenProblem, optimizer: Optimizer, seed: int, initial: int, trials: int
) -> tuple[list[Any], list[float], list[float]]:
    given = problem.encoder.decode(problem.initial(seed)[:initial])
    optimizer = optimizer.restarted(seed=seed, design=given or None)
    losses: list[float] = []
    seconds: list[float] = []
    while len(losses) < initial + trials and not _found(problem, losses):
        start = time.perf_counter()
        [configuration] = optimizer.ask()
        if len(losses) >= initial:
            seconds.append(time.perf_counter() - start)
        losses.append(problem.evaluate(configuration))
        optimizer.tell(configuration, losses[-1])
    return optimizer.history.X.tolist(), losses, seconds


def _found(problem: Problem, losses: Sequence[float] | Array) -> bool:
    return len(losses) > 0 and float(np.min(losses)) <= problem.best
