"""Base of the surrogates with networks that learn from source tasks by gradient descent."""

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

from rankwise._core.progress_bar import training_bar
from rankwise._core.threads import one_thread
from rankwise.errors import ModelFileError, OptionError, check_count, is_number
from rankwise.history.task import Task, check_columns
from rankwise.surrogates.numeric.batched_networks import Adam, cosine
from rankwise.surrogates.numeric.mlp import Perceptron, count
from rankwise.surrogates.ranking.meta_training import Record, Watch
from rankwise.surrogates.shared_features.minibatches import Rows, Table
from rankwise.surrogates.transfer_base import TransferSurrogate, useful_tasks
from rankwise.types import Array

_EVERY = 50  # steps between two validations
_PATIENCE = 10  # validations without improvement after which learning stops
_CHECKS = 40  # draws of rows of validation tasks


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
    """Minimize a loss with Adam, cosine annealing and early stopping.

    Args:
        weights: initial weights (size,), changed in place.
        gradient: gradient (size,), set to zero before each step.
        learn: function that adds the gradient of a step to `gradient` and returns the loss. Its
            argument is the number of the step.
        measure: function that returns the loss of the validation tasks; None without validation.
        steps: maximum number of steps.
        rate: initial learning rate.
        record: record of the training, filled in here.
        watch: callback after every validation, or None.

    Returns:
        The weights (size,) with the best validation loss; without validation, the last weights.
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
    """Loss of rows of tasks as a function of weights.

    Attributes:
        weights: weights (size,).
        gradient: gradient of the loss (size,); each call adds to it.
    """

    weights: Tensor
    gradient: Tensor

    def __call__(self, rows: Rows, *, backward: bool = True) -> float:
        """Compute the loss of rows of B tasks, and add its gradient if `backward`."""


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
    """Call `descend` with new random rows of random tasks at each step.

    Args:
        loss: loss of rows.
        table: source tasks to learn from.
        checks: validation tasks, or None. Their rows are drawn once.
        batch: number of tasks per step, drawn with replacement.
        seed: seed of the draws.
        vary: function that changes the drawn rows.
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
    """Check that counts are positive integers and that learning rates are positive numbers.

    Args:
        counts: counts by option name.
        rates: learning rates by option name.

    Raises:
        OptionError: a value is not valid.
    """
    for name, value in counts.items():
        check_count(name, value)
    for name, number in rates.items():
        if not (is_number(number) and number > 0):
            raise OptionError(f"{name} must be a positive number, not {number!r}")


class NeuralSurrogate(TransferSurrogate):
    """Base of surrogates with a vector of weights that is learnt from source tasks.

    Before the first evaluation, they propose the configuration with the lowest mean over the
    source tasks.
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

    def _select(
        self, tasks: Sequence[Task], validation: Sequence[Task]
    ) -> tuple[list[Task], list[Task]]:
        training, held_out = useful_tasks(tasks), useful_tasks(validation)
        return (training, held_out) if training else (held_out, [])

    def _learn(
        self, tasks: Sequence[Task], validation: Sequence[Task], progress: bool | None
    ) -> None:
        self.columns = tasks[0].X.shape[1]
        self.record = Record([t.name for t in tasks], [t.name for t in validation])
        with training_bar(progress, self.steps) as bar:
            self._weights, self._memory = self._train(tasks, validation, self.record, bar)
            self._settle(self._weights, self._memory)

    @abstractmethod
    def _train(
        self,
        tasks: Sequence[Task],
        validation: Sequence[Task],
        record: Record,
        watch: Watch | None,
    ) -> tuple[Tensor, dict[str, Array]]:
        """Learn from source tasks.

        Args:
            tasks: source tasks.
            validation: source tasks for early stopping; can be empty.
            record: record of the training, filled in here.
            watch: callback after every validation, or None.

        Returns:
            The weights (size,), and other arrays to keep, by name.
        """

    @abstractmethod
    def _settle(self, weights: Tensor, memory: Mapping[str, Array]) -> None:
        """Precompute values from the results of `_train`."""

    def fit(self, task: Task) -> Self:
        if self._weights is None:
            raise OptionError(
                f"{type(self).__name__} has not learnt from past studies: call meta_fit first"
            )
        check_columns(task, self.columns)
        self._task = task
        if len(task):
            with one_thread():
                self._observe(task, self._weights)
        return self

    @abstractmethod
    def _observe(self, task: Task, weights: Tensor) -> None:
        """Fit the model to the target task.

        Args:
            task: target task with at least one evaluation.
            weights: weights that were learnt from the source tasks; not changed.
        """

    # ------------------------------------------------------------------ predicting

    @property
    def _seen(self) -> int:
        """Number of evaluations of the target task."""
        if self._task is None:
            raise OptionError(
                f"{type(self).__name__} was not fitted: call fit, which also takes an empty task"
            )
        return len(self._task)

    def improvement(self, X: Array) -> Array | None:
        """Negative mean (n,) over the source tasks before the first evaluation; None afterwards.

        Expected improvement is not defined then, because there is no incumbent.
        """
        return None if self._seen else -self._past_mean(np.asarray(X, dtype=float))

    @abstractmethod
    def _past_mean(self, X: Array) -> Array:
        """Mean prediction (n,) of the source tasks at X (n, d)."""

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
                f"the network in the file has {len(arrays['weights'])} weights, but the options "
                f"give a network of {self._size()} weights"
            )
        self._weights = torch.as_tensor(arrays["weights"])
        self._memory = {name: array for name, array in arrays.items() if name != "weights"}
        with one_thread():
            self._settle(self._weights, self._memory)

    @abstractmethod
    def _size(self) -> int:
        """Number of weights that the options give."""


class NetworkSurrogate(NeuralSurrogate):
    """Base of surrogates with one fully connected network.

    Args:
        layers: number of hidden layers.
        width: number of units per layer.
        steps: maximum number of training steps on source tasks.
        batch: number of tasks per step.
        rows: maximum number of evaluations of each task per step.
        meta_rate: initial learning rate of the training on source tasks.
        seed: seed of the training.
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
        """Shape of the network, from the options and the number of columns."""

    def _size(self) -> int:
        return count(self._network.shapes)
