"""Training a network through skorch: batches as slices of tensors, and who watches the epochs.

This module needs skorch; others import it where they train.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from skorch import NeuralNet
from skorch.callbacks import Callback
from torch import Tensor, nn
from torch.utils.data import Dataset

from rankwise.errors import NetworkTooLarge, TrainingDiverged
from rankwise.types import Array

State = dict[str, Tensor]
Score = Callable[[Array], float]
"""From probabilities (n, k) of the validation rows to a number; larger is better."""
OnEpoch = Callable[[int, float | None], Any]
OnBatch = Callable[[int, int, float], Any]

_ADVICE = "a smaller learning rate or momentum may help"
_NO_MEMORY = ("out of memory", "allocate memory")  # what torch says on a GPU, and without one


class Rows(Dataset[tuple[Tensor, Tensor]]):
    """Data that were made tensors once.

    Args:
        X: images (n, c, h, w) or rows (n, d).
        y: indices of classes (n,); zeros where they are not known.
    """

    def __init__(self, X: Tensor, y: Tensor | None = None) -> None:
        self.X = X
        self.y = torch.zeros(len(X), dtype=torch.int64) if y is None else y

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, index: Any) -> tuple[Tensor, Tensor]:
        return self.X[index], self.y[index]


class Batches:
    """Slices of tensors, each epoch in a new order; a single row left over joins the last batch.

    Reading row by row and stacking, as torch's own loader does, takes three to four times as long,
    which small networks notice; and one row alone cannot be normalised.
    """

    def __init__(self, dataset: Rows, batch_size: int, shuffle: bool = False) -> None:
        self.dataset, self.batch_size, self.shuffle = dataset, batch_size, shuffle

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        n = len(self.dataset)
        order = torch.randperm(n) if self.shuffle else None
        starts = list(range(0, n, self.batch_size))
        if len(starts) > 1 and n - starts[-1] == 1:
            starts.pop()
        for start, end in zip(starts, [*starts[1:], n], strict=True):
            yield self.dataset[slice(start, end) if order is None else order[start:end]]


class Net(NeuralNet):  # type: ignore[misc]
    """skorch's net over a module that exists, with data that are split already."""

    def initialize_module(self) -> Net:
        self.module_ = self.module
        return self

    def get_split_datasets(self, X: Any, y: Any = None, **_: Any) -> Any:
        return X

    def run(self, train: Rows, validation: Rows | None, epochs: int, watcher: Watcher) -> None:
        """Train for some epochs, or until the watcher says stop; Ctrl-C is not swallowed.

        Raises:
            TrainingDiverged: the loss, the outputs or the weights are not finite.
        """
        self.callbacks_.append(("watcher", watcher))
        try:
            self.notify("on_train_begin")
            self.fit_loop((train, validation), epochs=epochs)
            self.notify("on_train_end")
        except Stop:
            pass
        finally:
            self.callbacks_.pop()
        if not all(torch.isfinite(p).all() for p in self.module_.parameters()):
            raise TrainingDiverged(f"the weights are not finite; {_ADVICE}")


class Stop(Exception):
    """Training has ended before the last epoch."""


@dataclass
class Progress:
    """How far a training has come, and the weights of its best epoch.

    Attributes:
        history: per epoch its number, train_loss, validation_loss, validation_score, seconds.
        best_epoch: with the best score; the last one without validation rows.
        best_score: of it; None without validation rows.
        best_state: its weights.
    """

    history: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = 0
    best_score: float | None = None
    best_state: State | None = None

    @property
    def epochs(self) -> int:
        """Those trained so far."""
        return len(self.history)


class Watcher(Callback):  # type: ignore[misc]
    """Scores every epoch, keeps the best one, ends what diverges or does not improve.

    Args:
        progress: where it is written down.
        score: of probabilities of the validation rows.
        patience: epochs without a new best score after which training ends.
        on_epoch: called with the number of epochs and the score; True ends training.
        on_batch: called with the epoch, the batch and its loss; True ends training.
    """

    def __init__(
        self,
        progress: Progress,
        score: Score | None,
        patience: int | None,
        on_epoch: OnEpoch,
        on_batch: OnBatch | None,
    ) -> None:
        self.progress, self.score, self.patience = progress, score, patience
        self.on_epoch, self.on_batch = on_epoch, on_batch
        self._logits: list[Tensor] = []
        self._batch = 0

    def on_epoch_begin(self, net: Net, **_: Any) -> None:
        self._logits, self._batch = [], 0

    def on_batch_end(self, net: Net, *, training: bool, loss: Any, y_pred: Any, **_: Any) -> None:
        if not training:
            self._logits.append(y_pred.detach())
            return
        self._batch += 1
        value = net.history[-1]["batches"][-1]["train_loss"]
        epoch = self.progress.epochs + 1
        if not math.isfinite(value):
            raise TrainingDiverged(
                f"the loss is {value} at batch {self._batch} of epoch {epoch}; {_ADVICE}"
            )
        if self.on_batch is not None and _is_true(self.on_batch(epoch, self._batch, value)):
            raise Stop

    def on_epoch_end(self, net: Net, **_: Any) -> None:
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
        probabilities = torch.cat(self._logits).softmax(1).double().cpu().numpy()
        if not np.isfinite(probabilities).all():
            raise TrainingDiverged(
                f"the outputs are not finite after epoch {self.progress.epochs + 1}; {_ADVICE}"
            )
        return float(self.score(probabilities))


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Run torch on so many threads, and leave it as it was; None changes nothing."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Randomness:
    """torch's random numbers on the CPU and on one other device."""

    def __init__(self, device: str) -> None:
        self.cuda = [torch.device(device)] if device.startswith("cuda") else []

    def state(self) -> list[Tensor]:
        """Where the sequences are."""
        return [torch.get_rng_state(), *(torch.cuda.get_rng_state(d) for d in self.cuda)]

    def restore(self, start: int | list[Tensor]) -> None:
        """Begin at a seed, or go on from a state."""
        if isinstance(start, int):
            torch.manual_seed(start)
            return
        torch.set_rng_state(start[0])
        for device, state in zip(self.cuda, start[1:], strict=True):
            torch.cuda.set_rng_state(state, device)


@contextmanager
def reproducible(
    device: str, count: int | None, start: int | list[Tensor]
) -> Iterator[Randomness]:
    """Random numbers from a seed or a state, on `count` threads; both are left as they were.

    Raises:
        NetworkTooLarge: torch says that there is not enough memory.
    """
    randomness = Randomness(device_of(device))
    with threads(count), torch.random.fork_rng(randomness.cuda):
        randomness.restore(start)
        try:
            yield randomness
        except RuntimeError as error:
            if not any(text in str(error).lower() for text in _NO_MEMORY):
                raise
            raise NetworkTooLarge(f"the network does not fit into memory: {error}") from error


def device_of(name: str) -> str:
    """The device of torch that a name means; "auto" is a GPU if there is one."""
    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() else "cpu"


def copied(module: nn.Module) -> State:
    """The weights of a module, as they are now."""
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def make_net(
    module: nn.Module,
    optimizer: Any,
    settings: dict[str, Any],
    *,
    learning_rate: float,
    batch_size: int,
    device: str,
) -> Net:
    """A net that is ready to train.

    Args:
        module: to train, as it is.
        optimizer: a class of torch.optim.
        settings: of the optimizer.
        learning_rate: of it.
        batch_size: rows per step.
        device: of torch.
    """
    net = Net(
        module,
        criterion=nn.CrossEntropyLoss,
        optimizer=optimizer,
        lr=learning_rate,
        batch_size=batch_size,
        iterator_train=Batches,
        iterator_train__shuffle=True,
        iterator_valid=Batches,
        iterator_valid__batch_size=max(256, min(batch_size, 1024)),
        callbacks__print_log=None,
        verbose=0,
        device=device,
        **{f"optimizer__{name}": value for name, value in settings.items()},
    )
    net.initialize()
    return net


def _better(score: float, best: float | None) -> bool:
    """Whether a score is the new best one; anything is better than NaN."""
    return best is None or math.isnan(best) or score > best


def _is_true(answer: Any) -> bool:
    return isinstance(answer, bool | np.bool_) and bool(answer)
