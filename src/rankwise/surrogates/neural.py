"""What surrogates share whose networks learn past tasks by gradient descent."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Self

from rankwise.errors import ModelFileError, OptionError, check_count, is_number
from rankwise.progress import training_bar
from rankwise.surrogates.meta import Record, Watch
from rankwise.surrogates.mlp import Perceptron, count
from rankwise.surrogates.nets import Adam, cosine
from rankwise.surrogates.rows import Rows, Table
from rankwise.surrogates.sources import task_digest, teaches
from rankwise.surrogates.threads import one_thread
from rankwise.surrogates.transfer import TransferSurrogate
from rankwise.task import Task, check_one_width
from rankwise.types import Array

_EVERY, _PATIENCE = 50, 10  # steps between validations, and validations without a better one
_CHECKS = 40  # draws of validation tasks


def descend(
    weights: Tensor,
    gradient: Tensor,
    learn: Callable[[int], float],
    measure: Callable[[], float] | None,
    *,
    steps: int,
    rate: float,
    record: Record,
    watch: Watch | None = None,
) -> Tensor:
    """Adam with cosine annealing; the best weights (size,) by validation, else the last.

    Args:
        weights: (size,), changed in place.
        gradient: (size,), set to zero before each step.
        learn: adds the gradient of a step of that number, and returns the loss.
        measure: loss of validation tasks; None without any.
        steps: at most.
        rate: the first learning rate.
        record: is filled in.
        watch: sees every validation.
    """
    adam, best, least = Adam(weights, gradient), weights, math.inf
    total, finite = 0.0, 0
    with torch.inference_mode():
        while record.steps < steps and record.stopped != "patience":
            gradient.zero_()
            loss = learn(record.steps)
            if math.isfinite(loss):
                adam.step(cosine(rate, record.steps, steps))
                total, finite = total + loss, finite + 1
            record.steps += 1
            if record.steps % _EVERY and record.steps < steps:
                continue
            found = math.nan if measure is None else measure()
            record.losses.append((record.steps, total / max(finite, 1), found))
            total, finite = 0.0, 0
            if measure is None or found < least:
                best, least, record.best_step = weights.clone(), found, record.steps
            if watch is not None:
                watch(*record.losses[-1])
            if measure is not None and record.steps - record.best_step >= _PATIENCE * _EVERY:
                record.stopped = "patience"
    record.stopped = record.stopped or "steps"
    return best.clone()


class RowLoss(Protocol):
    """The loss of rows of tasks as a function of weights.

    Attributes:
        weights: (size,).
        gradient: (size,), added to by calls.
    """

    weights: Tensor
    gradient: Tensor

    def __call__(self, rows: Rows, *, backward: bool = True) -> float:
        """Of rows of B tasks; adds the gradient unless `backward` is false."""


def descend_on_rows(
    loss: RowLoss,
    table: Table,
    checks: Table | None,
    *,
    batch: int,
    seed: int,
    vary: Callable[[Rows, np.random.Generator], Rows] = lambda rows, rng: rows,
    **learning: Any,
) -> Tensor:
    """`descend` on rows of tasks that are drawn for each step; those of validation are drawn once.

    Args:
        loss: of rows.
        table: of the tasks to learn from.
        checks: of validation tasks, if there are any.
        batch: tasks per step; the same may be among them twice.
        seed: of what is drawn.
        vary: changes rows that were drawn.
        **learning: the other arguments of `descend`.
    """

    def learn(step: int) -> float:
        rng = np.random.default_rng([seed, 0, step])
        which = rng.integers(len(table), size=batch).tolist()
        return loss(vary(table.draw(which, rng), rng))

    measure = None
    if checks is not None:
        rng = np.random.default_rng([seed, 1])
        fixed = vary(checks.draw_evenly(_CHECKS, rng), rng)
        measure = lambda: loss(fixed, backward=False)  # noqa: E731
    return descend(loss.weights, loss.gradient, learn, measure, **learning)


def check_learning(counts: Mapping[str, int], rates: Mapping[str, float]) -> None:
    """That counts are positive integers and learning rates positive numbers, by name."""
    for name, value in counts.items():
        check_count(name, value)
    for name, number in rates.items():
        if not (is_number(number) and number > 0):
            raise OptionError(f"{name} must be a positive number, not {number!r}")


class NeuralSurrogate(TransferSurrogate):
    """A surrogate with weights that past tasks teach, and what it knows beside them.

    Before the first evaluation it proposes what the past tasks found good on average.
    """

    steps: int

    def __init__(self) -> None:
        self.record: Record | None = None
        self.columns = 0
        self._weights: Tensor | None = None
        self._memory: dict[str, Array] = {}
        self._task: Task | None = None

    @property
    def meta_learned(self) -> bool:
        return self._weights is not None

    # ------------------------------------------------------------------ learning

    def meta_fit(
        self,
        tasks: Sequence[Task],
        validation: Sequence[Task] = (),
        *,
        progress: bool | None = None,
    ) -> Self:
        """Learn from past tasks; without any that has an order, nothing happens.

        Args:
            tasks: to learn from.
            validation: other tasks, which say when to stop.
            progress: show a bar; by default if standard error is a terminal.
        """
        check_one_width([*tasks, *validation])
        useful, checks = _useful(tasks), _useful(validation)
        if not useful:
            useful, checks = checks, []
        if useful:
            self.columns = useful[0].X.shape[1]
            self.record = Record([t.name for t in useful], [t.name for t in checks])
            with one_thread(), training_bar(progress, self.steps) as bar:
                self._weights, self._memory = self._learn(useful, checks, self.record, bar)
                self._settle(self._weights, self._memory)
        return self

    @abstractmethod
    def _learn(
        self,
        tasks: Sequence[Task],
        validation: Sequence[Task],
        record: Record,
        watch: Watch | None,
    ) -> tuple[Tensor, dict[str, Array]]:
        """The weights that tasks teach, and what else of the tasks is kept, by name."""

    @abstractmethod
    def _settle(self, weights: Tensor, memory: Mapping[str, Array]) -> None:
        """Compute once what follows from what was learnt."""

    def fit(self, task: Task) -> Self:
        if self._weights is None:
            raise OptionError(
                f"{type(self).__name__} knows nothing yet: call meta_fit with past tasks first"
            )
        if len(task) and task.X.shape[1] != self.columns:
            raise OptionError(
                f"the past has configurations of {self.columns} columns and the task has "
                f"{task.X.shape[1]}"
            )
        self._task = task
        if len(task):
            with one_thread():
                self._observe(task, self._weights)
        return self

    @abstractmethod
    def _observe(self, task: Task, weights: Tensor) -> None:
        """Learn the evaluations of the target, one or more, starting from learnt weights."""

    # ------------------------------------------------------------------ predicting

    @property
    def _seen(self) -> int:
        """The number of the target's evaluations."""
        if self._task is None:
            raise OptionError(
                f"{type(self).__name__} was not fitted: call fit, with an empty task if need be"
            )
        return len(self._task)

    def improvement(self, X: Array) -> Array | None:
        """Without an evaluation, what the past found good on average: there is no incumbent."""
        return None if self._seen else -self._past_mean(np.asarray(X, dtype=float))

    @abstractmethod
    def _past_mean(self, X: Array) -> Array:
        """The mean (n,) over past tasks at X (n, d)."""

    # ------------------------------------------------------------------ files

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        assert self._weights is not None and self.record is not None
        record = {"columns": self.columns, "record": asdict(self.record)}
        return {"weights": self._weights.numpy(), **self._memory}, record

    def restore(self, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        self.columns = record["columns"]
        known = record["record"]
        self.record = Record(**{**known, "losses": [tuple(row) for row in known["losses"]]})
        if len(arrays["weights"]) != self._size():
            raise ModelFileError(
                "the network in the file has another shape than the options say: "
                f"{len(arrays['weights'])} weights, not {self._size()}"
            )
        self._weights = torch.as_tensor(arrays["weights"])
        self._memory = {name: array for name, array in arrays.items() if name != "weights"}
        with one_thread():
            self._settle(self._weights, self._memory)

    @abstractmethod
    def _size(self) -> int:
        """The number of weights, by the options."""


class NetworkSurrogate(NeuralSurrogate):
    """A surrogate whose weights are those of one network.

    Args:
        layers: of the network.
        width: of each layer.
        steps: of learning past tasks, at most.
        batch: tasks per step.
        rows: evaluations of each of them.
        meta_rate: the first learning rate then.
        seed: of what is drawn while learning.
    """

    def __init__(
        self,
        *,
        layers: int = 3,
        width: int = 50,
        steps: int = 2000,
        batch: int = 8,
        rows: int = 50,
        meta_rate: float = 2e-3,
        seed: int = 0,
    ) -> None:
        super().__init__()
        counts = {"layers": layers, "width": width, "steps": steps, "batch": batch, "rows": rows}
        check_learning(counts, {"meta_rate": meta_rate})
        self.layers, self.width = layers, width
        self.steps, self.batch, self.rows, self.meta_rate = steps, batch, rows, meta_rate
        self.seed = seed

    @property
    @abstractmethod
    def _network(self) -> Perceptron:
        """Its shape, by the options and the number of columns."""

    def _size(self) -> int:
        return count(self._network.shapes)


def _useful(tasks: Sequence[Task]) -> list[Task]:
    """Those with an order to learn; in which order they are given changes nothing."""
    return sorted((t for t in tasks if teaches(t) and t.X.shape[1]), key=task_digest)
