"""One run of a method on a problem, in HPO-B's protocol."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.bench.base import INITIAL, OpenProblem, Problem, TableProblem
from rankwise.optimizer import Optimizer
from rankwise.strategy import FALLBACK, Strategy
from rankwise.task import Task
from rankwise.types import Array


@dataclass(frozen=True)
class Trace:
    """What a run evaluated.

    Attributes:
        points: row numbers, or encoded configurations, in their order, initial ones included.
        losses: of the points.
        regrets: normalised regret of the best so far (trials + 1,), after the initial points and
            after each trial. A run ends where the optimum is found; the rest is filled up.
        fallbacks: proposals that were random because the surrogate failed.
        seconds: of each proposal.
    """

    points: list[Any]
    losses: list[float]
    regrets: list[float]
    fallbacks: int
    seconds: list[float]


class Chooser:
    """Lets a strategy choose among rows; the n-th choice depends on n, the seed and the history.

    A strategy that would begin with a design begins with random rows, up to five evaluations.

    Args:
        strategy: of a method.
        seed: of all randomness.
    """

    def __init__(self, strategy: Strategy, seed: int) -> None:
        self._strategy, self._seed = strategy, seed

    def choose(self, history: Task, pool: Array) -> int:
        """The number of a row of the pool (m, d)."""
        rng = np.random.default_rng([self._seed, len(history)])
        if self._strategy.design is not None and len(history) < INITIAL:
            return int(rng.integers(len(pool)))
        return self._strategy.choose(history, pool, rng)

    def propose(self, history: Task) -> Array:
        """Any configuration (d,) of the space."""
        rng = np.random.default_rng([self._seed, len(history)])
        return self._strategy.propose(history, np.empty((0, history.X.shape[1])), rng)


def run(problem: Problem, optimizer: Optimizer, *, seed: int, initial: int, trials: int) -> Trace:
    """Begin with the initial points of the problem and seed, then let the method go on.

    Args:
        problem: to be optimised.
        optimizer: of the method, with what it has learnt; it is left as it is.
        seed: of the run.
        initial: how many given points come first, at most `INITIAL`; with 0 the method begins.
        trials: evaluations after them.
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
        *(curve[:initial][-1:] or [1.0]),
        *curve[initial:],
    ]  # nothing is as bad as the worst
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
