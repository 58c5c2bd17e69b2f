"""The contract of a benchmark: tasks to optimise, the past of each, and where a run begins."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from rankwise.errors import OptionError, check_name
from rankwise.space import Encoder
from rankwise.task import Task, TaskSet
from rankwise.types import Array, Configuration

INITIAL = 5  # given points that a run begins with, at most: HPO-B's number


@dataclass(frozen=True)
class Problem(ABC):
    """A task to be optimised; smaller losses are better.

    Attributes:
        name: of the task.
        best: the loss that counts as regret 0.
        worst: the loss that counts as regret 1.
    """

    name: str
    best: float
    worst: float

    @abstractmethod
    def initial(self, seed: int) -> np.ndarray:
        """What every method starts with: `INITIAL` row numbers, or encoded configurations."""

    def regrets(self, losses: Array) -> Array:
        """Normalised regret (n,) of the best so far, after each of n losses (n,).

        It is clipped to [0, 1], and 0 where nothing can be better or worse. A loss that is not
        finite is as bad as the worst.
        """
        finite = np.where(np.isfinite(losses), losses, self.worst)
        if self.worst <= self.best:
            return np.zeros(len(finite))
        curve: Array = (np.minimum.accumulate(finite) - self.best) / (self.worst - self.best)
        return np.clip(curve, 0.0, 1.0)


@dataclass(frozen=True)
class TableProblem(Problem):
    """A task whose configurations have all been evaluated; one of them is chosen at a time.

    Attributes:
        X: configurations (n, d), encoded.
        losses: (n,), all finite.
        rows: for some seeds, the numbers of the rows to begin with; they are drawn for others.
    """

    X: Array
    losses: Array
    rows: Mapping[int, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(
        cls, name: str, X: Array, losses: Array, rows: Mapping[int, np.ndarray] | None = None
    ) -> TableProblem:
        """A problem whose regrets are relative to the best and the worst row."""
        return cls(name, float(losses.min()), float(losses.max()), X, losses, rows or {})

    def initial(self, seed: int) -> np.ndarray:
        if seed in self.rows:
            return self.rows[seed]
        n = len(self.losses)
        return _rng(self.name, seed).choice(n, min(INITIAL, n), replace=False)


@dataclass(frozen=True)
class OpenProblem(Problem):
    """A task of which any configuration of a space can be evaluated.

    Attributes:
        encoder: of the space.
        evaluate: from a configuration to its loss.
    """

    encoder: Encoder
    evaluate: Callable[[Configuration], float]

    def initial(self, seed: int) -> np.ndarray:
        return self.encoder.sample(INITIAL, _rng(self.name, seed))


def _rng(name: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


@dataclass(frozen=True)
class Benchmark:
    """Tasks of one space, divided into those to learn from, to choose on and to report.

    Attributes:
        name: as users write it, modifiers included.
        encoder: of the space.
        train: names of the tasks to learn from.
        validation: names of tasks that say when to stop learning.
        test: names of the tasks to be optimised.
        problem: from a name to the task to be optimised.
        history: from a name to the task as past evaluations.
        leave_one_out: the past of a task to be optimised is all the others; `train` and
            `validation` are empty then.
        past_kind: one of `PASTS`.
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
        """What may be learnt from before the task of that name is optimised."""
        train = self.train
        if self.leave_one_out:
            train = tuple(name for name in self.test if name != target)
        change = PASTS[self.past_kind]
        tasks, validation = (
            tuple(change(self.history(name)) for name in part) for part in (train, self.validation)
        )
        return TaskSet(tasks, validation, self.encoder.fingerprint)

    def past_key(self, target: str) -> str:
        """Equal for tasks that have the same past."""
        return target if self.leave_one_out else ""

    def modified(self, modifier: str) -> Benchmark:
        """This benchmark with a modifier of `MODIFIERS`."""
        check_name(f"modifier of benchmark {self.name!r}", modifier, MODIFIERS)
        return replace(MODIFIERS[modifier](self), name=f"{self.name}:{modifier}")


def _inverted(task: Task) -> Task:
    return replace(task, y=-task.y)


def _shuffled(task: Task) -> Task:
    return replace(task, y=_rng(task.name, 0).permutation(task.y))


PASTS: dict[str, Callable[[Task], Task]] = {
    "as it is": lambda task: task,
    "inverted": _inverted,  # the best becomes the worst
    "shuffled": _shuffled,  # nothing can be learnt
}


def _choosing(benchmark: Benchmark) -> Benchmark:
    """The validation tasks are optimised, so they cannot say when to stop learning."""
    if not benchmark.validation:
        raise OptionError(f"benchmark {benchmark.name!r} has no validation tasks")
    return replace(benchmark, test=benchmark.validation, validation=())


def _fold(benchmark: Benchmark) -> Benchmark:
    """Every third train task is optimised: many more tasks to choose on than validation has."""
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
"""What may follow the name of a benchmark: other tasks to be optimised, or a misleading past."""
