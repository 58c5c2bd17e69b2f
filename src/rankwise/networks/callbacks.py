"""Training callbacks: score every epoch, keep the best weights, stop early.

This module needs skorch. Other modules import it inside the functions that train.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from skorch.callbacks import Callback
from torch import Tensor, nn

from rankwise.errors import TrainingDiverged

State = dict[str, Tensor]
Score = Callable[[Tensor], float]
"""Function that maps logits (n, k) of the validation rows to a score; larger is better."""
OnEpoch = Callable[[int, float | None], Any]
OnBatch = Callable[[int, int, float], Any]

ADVICE = "a smaller learning rate or momentum may help"


class Stop(Exception):
    """Raised by a callback to end the training before the last epoch."""


@dataclass
class Progress:
    """State of a training: its history and the weights of the best epoch.

    Attributes:
        history: one dict per epoch: epoch, train_loss, validation_loss, validation_score, seconds.
        best_epoch: number of the epoch with the best score; the last one without validation rows.
        best_score: score of the best epoch; None without validation rows.
        best_state: weights of the best epoch.
    """

    history: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = 0
    best_score: float | None = None
    best_state: State | None = None

    @property
    def epochs(self) -> int:
        """Number of epochs trained so far."""
        return len(self.history)


class Watcher(Callback):  # type: ignore[misc]
    """Callback that scores every epoch, keeps the best weights and stops the training early.

    It raises `TrainingDiverged` if the loss or the outputs are not finite.

    Args:
        progress: record of the training, filled in here.
        score: score of the validation rows; None without validation rows.
        patience: number of epochs without a new best score after which training ends, or None.
        on_epoch: called with the number of the epoch and its score; returning True ends training.
        on_batch: called with the numbers of the epoch and the batch, and the loss; returning True
            ends training.
        factor: factor of the learning rate in an epoch; None keeps the rate constant.
    """

    def __init__(
        self,
        progress: Progress,
        score: Score | None,
        patience: int | None,
        on_epoch: OnEpoch,
        on_batch: OnBatch | None,
        factor: Callable[[int], float] | None = None,
    ) -> None:
        self.progress, self.score, self.patience = progress, score, patience
        self.on_epoch, self.on_batch, self.factor = on_epoch, on_batch, factor
        self._logits: list[Tensor] = []
        self._batch = 0

    def on_epoch_begin(self, net: Any, **_: Any) -> None:
        self._logits, self._batch = [], 0
        if self.factor is not None:
            rate = net.lr * self.factor(self.progress.epochs + 1)
            for group in net.optimizer_.param_groups:
                group["lr"] = rate

    def on_batch_end(self, net: Any, *, training: bool, loss: Any, y_pred: Any, **_: Any) -> None:
        if not training:
            self._logits.append(y_pred.detach())
            return
        self._batch += 1
        value = net.history[-1]["batches"][-1]["train_loss"]
        epoch = self.progress.epochs + 1
        if not math.isfinite(value):
            raise TrainingDiverged(
                f"the loss is {value} at batch {self._batch} of epoch {epoch}; {ADVICE}"
            )
        if self.on_batch is not None and _is_true(self.on_batch(epoch, self._batch, value)):
            raise Stop

    def on_epoch_end(self, net: Any, **_: Any) -> None:
        progress, row = self.progress, net.history[-1]
        score = self._scored()
        epoch = progress.epochs + 1
        progress.history.append(
            {
                "epoch": epoch,
                "train_loss": float(row["train_loss"]),
                "validation_loss": float(row["valid_loss"]) if score is not None else None,
                "validation_score": score,
                "seconds": row["dur"],
            }
        )
        if score is None:
            progress.best_epoch = epoch
        elif _better(score, progress.best_score):
            progress.best_epoch, progress.best_score = epoch, score
            progress.best_state = copied(net.module_)
        if _is_true(self.on_epoch(epoch, score)):
            raise Stop
        if self.patience is not None and epoch - progress.best_epoch >= self.patience:
            raise Stop

    def _scored(self) -> float | None:
        if self.score is None:
            return None
        logits = torch.cat(self._logits)
        if not torch.isfinite(logits).all():
            raise TrainingDiverged(
                f"the outputs are not finite after epoch {self.progress.epochs + 1}; {ADVICE}"
            )
        return float(self.score(logits))


def copied(module: nn.Module) -> State:
    """Return a copy of a module's weights."""
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def _better(score: float, best: float | None) -> bool:
    """Return True if a score is better than the best so far; every number is better than NaN."""
    return best is None or math.isnan(best) or score > best


def _is_true(answer: Any) -> bool:
    return isinstance(answer, bool | np.bool_) and bool(answer)
