"""`Benchmark` and `Problem`: the interface of all benchmarks."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from rankwise.errors import OptionError, check_name
from rankwise.history.task import Task, TaskSet
from rankwise.space.encoder import Encoder
from rankwise.types import Array, Configuration

INITIAL = 5  # maximum number of given initial points of a run, as in HPO-B


@dataclass(frozen=True)
class Problem(ABC):
    """A task to optimize; smaller losses are better.

    Attributes:
        name: name of the task.
        best: loss with regret 0.
        worst: loss with regret 1.
    """

    name: str
    best: float
    worst: float

    @abstractmethod
    def initial(self, seed: int) -> np.ndarray:
        """Return the initial points of a run, the same for all methods.

        They are at most `INITIAL` row numbers or encoded configurations.
        """

    def regrets(self, losses: Array) -> Array:
        """Return the normalized regret (n,) of the best loss so far, after each of losses (n,).

        It is clipped to [0, 1]. It is 0 if the best and the worst loss of the task are equal. A
        loss that is not finite counts as the worst loss.
        """
        finite = np.where(np.isfinite(losses), losses, self.worst)
        if self.worst <= self.best:
            return np.zeros(len(finite))
        curve: Array = (np.minimum.accumulate(finite) - self.best) / (self.worst - self.best)
        return np.clip(curve, 0.0, 1.0)


@dataclass(frozen=True)
class TableProblem(Problem):
    """A task with a table of evaluated configurations, from which a method chooses rows.

    Attributes:
        X: encoded configurations (n, d).
        losses: losses (n,), all finite.
        rows: row numbers of the initial points by seed; for other seeds they are random.
    """

    X: Array
    losses: Array
    rows: Mapping[int, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(
        cls, name: str, X: Array, losses: Array, rows: Mapping[int, np.ndarray] | None = None
    ) -> TableProblem:
        """Make a problem with regrets relative to the best and the worst row.

        Args:
            name: name of the task.
            X: encoded configurations (n, d).
            losses: losses (n,).
            rows: row numbers of the initial points by seed.
        """
        return cls(name, float(losses.min()), float(losses.max()), X, losses, rows or {})

    def initial(self, seed: int) -> np.ndarray:
        if seed in self.rows:
            return self.rows[seed]
        n = len(self.losses)
        return _rng(self.name, seed).choice(n, min(INITIAL, n), replace=False)


@dataclass(frozen=True)
class OpenProblem(Problem):
    """A task in which every configuration of a space can be evaluated.

    Attributes:
        encoder: encoder of the space.
        evaluate: function that returns the loss of a configuration.
    """

    encoder: Encoder
    evaluate: Callable[[Configuration], float]

    def initial(self, seed: int) -> np.ndarray:
        return self.encoder.sample(INITIAL, _rng(self.name, seed))


def _rng(name: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


@dataclass(frozen=True)
class Benchmark:
    """Tasks of one space, divided into source tasks, validation tasks and target tasks.

    Attributes:
        name: name of the benchmark, with modifiers.
        encoder: encoder of the space.
        train: names of the source tasks.
        validation: names of the source tasks for early stopping.
        test: names of the target tasks.
        problem: function that returns a target task by name.
        history: function that returns a source task by name.
        leave_one_out: True if the source tasks of a target task are all other target tasks; then
            `train` and `validation` are empty.
        past_kind: how the losses of source tasks are changed; one of `PASTS`.
    """

    name: str
    encoder: Encoder
    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]
    problem: Callable[[str], Problem]
    history: Callable[[str], Task]
    leave_one_out: bool = False
    past_kind: str = "as it is"

    def past(self, target: str) -> TaskSet:
        """Return the source tasks and validation tasks of a target task."""
        train = self.train
        if self.leave_one_out:
            train = tuple(name for name in self.test if name != target)
        change = PASTS[self.past_kind]
        tasks, validation = (
            tuple(change(self.history(name)) for name in part) for part in (train, self.validation)
        )
        return TaskSet(tasks, validation, self.encoder.fingerprint)

    def past_key(self, target: str) -> str:
        """Return a key that is equal for target tasks with the same source tasks."""
        return target if self.leave_one_out else ""

    def modified(self, modifier: str) -> Benchmark:
        """Return a copy of the benchmark, changed by a modifier of `MODIFIERS`."""
        check_name(f"modifier of benchmark {self.name!r}", modifier, MODIFIERS)
        return replace(MODIFIERS[modifier](self), name=f"{self.name}:{modifier}")


def _inverted(task: Task) -> Task:
    return replace(task, y=-task.y)


def _shuffled(task: Task) -> Task:
    return replace(task, y=_rng(task.name, 0).permutation(task.y))


PASTS: dict[str, Callable[[Task], Task]] = {
    "as it is": lambda task: task,
    "inverted": _inverted,  # the best configuration becomes the worst
    "shuffled": _shuffled,  # losses do not depend on configurations
}
"""Changes of the source tasks' losses, by name."""


def _choosing(benchmark: Benchmark) -> Benchmark:
    """Make the validation tasks the target tasks; there is no early stopping then."""
    if not benchmark.validation:
        raise OptionError(f"benchmark {benchmark.name!r} has no validation tasks")
    return replace(benchmark, test=benchmark.validation, validation=())


def _fold(benchmark: Benchmark) -> Benchmark:
    """Make every third source task a target task, to have more tasks than `validation` has."""
    if len(benchmark.train) < 3:
        raise OptionError(f"benchmark {benchmark.name!r} has too few train tasks for a fold")
    held = benchmark.train[::3]
    rest = tuple(name for name in benchmark.train if name not in held)
    return replace(benchmark, train=rest, test=held)


MODIFIERS: dict[str, Callable[[Benchmark], Benchmark]] = {
    "validation": _choosing,
    "fold": _fold,
    "inverted": lambda benchmark: replace(benchmark, past_kind="inverted"),
    "shuffled": lambda benchmark: replace(benchmark, past_kind="shuffled"),
}
"""Modifiers after the name of a benchmark: other target tasks, or misleading source tasks."""
