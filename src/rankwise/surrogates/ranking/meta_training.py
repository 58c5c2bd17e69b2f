"""Meta-training of an ensemble of scorers on source tasks."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rankwise.errors import ModelFileError, OptionError, RunWarning, check_count
from rankwise.history.task import Task
from rankwise.surrogates.model_files import damaged_if_it_raises, read_model, write_model
from rankwise.surrogates.numeric.batched_networks import (
    Adam,
    Architecture,
    Buffers,
    Scorers,
    cosine,
)
from rankwise.surrogates.ranking.losses import RankingLoss
from rankwise.surrogates.ranking.training_lists import Batch, Corpus

_KIND = "checkpoint of meta-learning"  # kind of file, stored in every checkpoint
_CHUNK = 1600  # items per pass, so that all activations fit in the cache of a CPU core
_SAVE_SECONDS = 30.0  # shortest time between two checkpoints


@dataclass(frozen=True)
class MetaTraining:
    """Settings of meta-training.

    Attributes:
        steps: Largest number of steps of Adam.
        lists: Number of lists per step and scorer.
        list_size: Largest number of trials in a list.
        support: Largest number of trials in a support set.
        rate: Initial learning rate, annealed to zero along half a cosine.
        every: Number of steps between two validations.
        patience: Stop after this many validations without a better validation loss.
        validation_lists: Number of lists per validation task.
    """

    steps: int = 2000
    lists: int = 16
    list_size: int = 100
    support: int = 50
    rate: float = 1e-3
    every: int = 100
    patience: int = 8
    validation_lists: int = 20

    def __post_init__(self) -> None:
        for name in ("steps", "lists", "list_size", "every", "patience", "validation_lists"):
            check_count(name, getattr(self, name))
        if self.support < 0:
            raise OptionError(f"support must not be negative, not {self.support!r}")
        if not self.rate > 0:
            raise OptionError(f"rate must be positive, not {self.rate!r}")


@dataclass
class Record:
    """Record of a meta-training.

    Attributes:
        tasks: Names of the source tasks that the model was trained on.
        validation: Names of the validation tasks.
        steps: Number of steps so far.
        best_step: Step whose weights were kept.
        losses: (step, training loss, validation loss) at every validation. The validation loss is
            NaN without validation tasks.
        stopped: Why the training ended: "steps", "patience" or "interrupted"; "" before its end.
    """

    tasks: list[str] = field(default_factory=list)
    validation: list[str] = field(default_factory=list)
    steps: int = 0
    best_step: int = 0
    losses: list[tuple[int, float, float]] = field(default_factory=list)
    stopped: str = ""


Watch = Callable[[int, float, float], None]
"""Callback for every validation; receives the step, the training loss and the validation loss."""


class MetaLearner:
    """Trains the weights of an ensemble on source tasks.

    All random numbers depend only on the seed and the step number. So an interrupted training that
    resumes from a checkpoint gives the same weights as one without interruption.

    Args:
        architecture: Layer sizes of the ensemble.
        loss: Ranking loss to minimize.
        tasks: Source tasks to train on.
        validation: Tasks whose loss selects the best weights; without any, the last weights are
            kept.
        training: Settings of the training.
        seed: Seed of all random numbers.

    Attributes:
        corpus: Source tasks that lists can be drawn from.
        checks: Validation tasks that lists can be drawn from.
        record: Record of the training.
    """

    def __init__(
        self,
        architecture: Architecture,
        loss: RankingLoss,
        tasks: Sequence[Task],
        validation: Sequence[Task],
        training: MetaTraining,
        seed: int,
    ) -> None:
        self._architecture, self._loss, self._training = architecture, loss, training
        self._seed = seed
        sizes: dict[str, Any] = {"list_size": training.list_size, "support": training.support}
        self.corpus = Corpus(tasks, loss, seed=seed, **sizes)
        self.checks = Corpus(validation, loss, seed=seed, **sizes)
        self.record = Record(
            [t.name for t in self.corpus.tasks], [t.name for t in self.checks.tasks]
        )
        generator = torch.Generator().manual_seed(seed)
        self._weights = architecture.initial(generator)
        self._best, self._best_loss = self._weights.clone(), np.inf
        self._gradient = torch.zeros_like(self._weights)
        self._adam = Adam(self._weights, self._gradient)
        self._checkpoint: Path | None = None
        self._snapshot: tuple[dict[str, Tensor], dict[str, Any]] | None = None

    def run(self, checkpoint: str | Path | None = None, watch: Watch | None = None) -> Tensor:
        """Train and return the best weights (size,).

        Ctrl-C ends the training early with a warning; the best weights so far are returned.

        Args:
            checkpoint: File that is written about every 30 seconds and after Ctrl-C, and removed
                at the end. If it exists, training resumes from it.
            watch: Called at every validation.
        """
        if checkpoint is not None:
            self._checkpoint = Path(checkpoint)
            if self._checkpoint.exists():
                self._restore(self._checkpoint)
        try:
            with torch.inference_mode():
                self._train(watch)
        except KeyboardInterrupt:
            self.record.stopped = "interrupted"
            warnings.warn(
                f"meta-training was interrupted at step {self.record.steps} of "
                f"{self._training.steps}; the best weights so far are kept",
                RunWarning,
                stacklevel=2,
            )
        if self._checkpoint is not None:
            if self.record.stopped == "interrupted":
                self._save(self._checkpoint)
            else:
                self._checkpoint.unlink(missing_ok=True)
        return (self._best if len(self.record.losses) else self._weights).clone()

    # ------------------------------------------------------------------ training

    def _train(self, watch: Watch | None) -> None:
        """Train until the last step, or until the validation loss stops improving."""
        training, record = self._training, self.record
        checks = self.checks.draw_evenly(training.validation_lists) if len(self.checks) else None
        saved, mean, count = time.monotonic(), 0.0, 0
        pass_ = _Pass(self._architecture, self._loss, self._weights, self._gradient)
        while record.steps < training.steps and not self._out_of_patience():
            batch = self.corpus.draw(self._architecture.members * training.lists, record.steps)
            self._gradient.zero_()
            mean, count = mean + pass_.learn(batch), count + 1
            self._adam.step(cosine(training.rate, record.steps, training.steps))
            record.steps += 1
            if record.steps % training.every and record.steps < training.steps:
                continue
            validation = np.nan if checks is None else pass_.measure(checks)
            record.losses.append((record.steps, mean / count, validation))
            mean, count = 0.0, 0
            if checks is None or validation < self._best_loss:
                self._best.copy_(self._weights)
                self._best_loss, record.best_step = validation, record.steps
            if watch is not None:
                watch(*record.losses[-1])
            self._take_snapshot()
            if self._checkpoint is not None and time.monotonic() - saved > _SAVE_SECONDS:
                self._save(self._checkpoint)
                saved = time.monotonic()
        record.stopped = "steps" if record.steps >= training.steps else "patience"

    def _out_of_patience(self) -> bool:
        """True if the last `patience` validations did not improve the validation loss."""
        waited = self.record.steps - self.record.best_step
        return bool(len(self.checks)) and waited >= self._training.patience * self._training.every

    # ------------------------------------------------------------------ checkpoints

    @cached_property
    def _digest(self) -> str:
        """SHA-256 of everything that determines the result: settings, seed, loss and tasks."""
        digest = hashlib.sha256()
        settings = [asdict(self._architecture), asdict(self._training), self._seed]
        digest.update(json.dumps([*settings, self._loss.description]).encode())
        for corpus in (self.corpus, self.checks):
            digest.update(len(corpus).to_bytes(8, "big"))
            for task in corpus.tasks:
                digest.update(len(task).to_bytes(8, "big"))
                digest.update(task.X.tobytes() + task.losses.tobytes())
        return digest.hexdigest()

    def _take_snapshot(self) -> None:
        """Copy the state after a validation, because Ctrl-C may interrupt the middle of a step."""
        first, second = self._adam.moments
        tensors = {"weights": self._weights, "best": self._best, "first": first, "second": second}
        state = {"digest": self._digest, "best_loss": self._best_loss, **asdict(self.record)}
        self._snapshot = {name: t.clone() for name, t in tensors.items()}, state

    def _save(self, path: Path) -> None:
        """Write the last snapshot, if there is one, to a checkpoint file."""
        if self._snapshot is not None:
            tensors, state = self._snapshot
            write_model(path, _KIND, {name: t.numpy() for name, t in tensors.items()}, state)

    def _restore(self, path: Path) -> None:
        """Resume from a checkpoint file.

        Raises:
            ModelFileError: The checkpoint belongs to a training with other tasks or settings.
        """
        arrays, state = read_model(path, _KIND)
        with damaged_if_it_raises(path):
            if state.pop("digest") != self._digest:
                raise ModelFileError(
                    f"the checkpoint {path} belongs to a training with other tasks or settings; "
                    "delete it to start anew, or give another file"
                )
            tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
            own = (self._weights, self._best, *self._adam.moments)
            for mine, name in zip(own, ("weights", "best", "first", "second"), strict=True):
                if tensors[name].shape != mine.shape:
                    raise ModelFileError(f"{path} is damaged: {name!r} has another shape")
                mine.copy_(tensors[name])
            self._best_loss = state.pop("best_loss")
            state["losses"] = [tuple(row) for row in state["losses"]]
            self.record = Record(**state)
            self._adam.steps = self.record.steps


class _Pass:
    """Computes losses of batches of lists and their gradients, in pieces that fit in the cache.

    It processes one member and a few lists at a time. With all members at once, the activations
    of ten networks would not fit in the cache.

    Args:
        architecture: Layer sizes of the ensemble.
        loss: Ranking loss.
        weights: Weights (size,).
        gradient: Gradient (size,); `learn` adds to it.
    """

    def __init__(
        self, architecture: Architecture, loss: RankingLoss, weights: Tensor, gradient: Tensor
    ) -> None:
        self._architecture, self._loss = architecture, loss
        self._views = architecture.views(weights), architecture.views(gradient)
        self._buffers: dict[tuple[int, int], Buffers] = {}
        self._scorers: dict[tuple[int, int, int], Scorers] = {}
        self._contexts = architecture.context_network(*self._views)

    def learn(self, batch: Batch) -> float:
        """Return the mean loss and add its gradient; the lists are divided among the scorers."""
        each = len(batch.X) // self._architecture.members
        return self._run(batch, [slice(m * each, (m + 1) * each) for m in self._members], True)

    def measure(self, batch: Batch) -> float:
        """Return the mean loss when every scorer ranks all lists of the batch."""
        return self._run(batch, [slice(0, len(batch.X)) for _ in self._members], False)

    @property
    def _members(self) -> range:
        return range(self._architecture.members)

    def _run(self, batch: Batch, rows: Sequence[slice], backward: bool) -> float:
        """Return the mean loss of a batch.

        Args:
            batch: B lists.
            rows: For each member, the lists that it ranks.
            backward: Add the gradient of the mean loss.
        """
        n = batch.X.shape[1]
        chunk = max(1, _CHUNK // n)
        total = 0.0
        lists: int = sum(part.stop - part.start for part in rows)
        for member, part in enumerate(rows):
            for start in range(part.start, part.stop, chunk):
                piece = batch.part(slice(start, min(start + chunk, part.stop)))
                total += self._piece(member, piece, lists if backward else 0)
        return total / lists

    def _piece(self, member: int, batch: Batch, divisor: int) -> float:
        """Return the sum over lists of each list's mean loss.

        Args:
            member: Index of the scorer.
            batch: A few lists.
            divisor: Add the gradient of the sum, divided by this number; 0: add no gradient.
        """
        size, n, d = batch.X.shape
        scorers, contexts = self._scorer(member, size, n), self._contexts
        z = None if contexts is None else contexts.forward(batch.items, batch.pool)[None]
        scores = scorers.forward(batch.X.view(1, size * n, d), z)[0]
        if divisor:
            slope = self._loss.gradient(scores, batch.lists)
            dz = scorers.backward(slope.div_(batch.lists.total.unsqueeze(-1) * divisor))
            if contexts is not None and dz is not None:
                contexts.backward(dz[0])
        losses = self._loss.value(scores, batch.lists) / batch.lists.total
        return float(losses.sum())

    def _scorer(self, member: int, size: int, n: int) -> Scorers:
        """Return the `Scorers` of one member for `size` lists of n items; created once and cached.

        All members use the same buffers for lists of this shape.
        """
        key = (member, size, n)
        if key not in self._scorers:
            shape = (size, n)
            if shape not in self._buffers:
                self._buffers[shape] = Buffers(self._architecture, 1, size, n)
            part = slice(member, member + 1)
            self._scorers[key] = Scorers(*self._views, part, self._buffers[shape])
        return self._scorers[key]
