"""Training of a network with skorch: batches, threads and random numbers.

This module needs skorch. Other modules import it inside the functions that train.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from skorch import NeuralNet
from torch import Tensor, nn
from torch.utils.data import Dataset

from rankwise.errors import NetworkTooLarge, TrainingDiverged
from rankwise.networks.callbacks import ADVICE, Stop, Watcher
from rankwise.networks.modules import probabilities

__all__ = ["Net", "Rows", "device_of", "make_net", "probabilities", "reproducible", "threads"]

_NO_MEMORY = ("out of memory", "allocate memory")  # in torch's errors on a GPU and on a CPU


class Rows(Dataset[tuple[Tensor, Tensor]]):
    """Data set of tensors.

    Args:
        X: images (n, c, h, w) or rows (n, d).
        y: indices of classes (n,); None for prediction, where they are zeros.
    """

    def __init__(self, X: Tensor, y: Tensor | None = None) -> None:
        self.X = X
        self.y = torch.zeros(len(X), dtype=torch.int64) if y is None else y

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, index: Any) -> tuple[Tensor, Tensor]:
        return self.X[index], self.y[index]


class Batches:
    """Iterator over batches of a data set.

    It slices tensors. torch's own loader reads and stacks single rows, which takes three to four
    times as long. If a single row would be left for the last batch, it joins the batch before,
    because batch normalization needs two rows.

    Args:
        dataset: rows of the data set.
        batch_size: number of rows per batch.
        shuffle: use a new random order in every iteration.
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
    """skorch net for a given module, with data that are already split."""

    def initialize_module(self) -> Net:
        self.module_ = self.module
        return self

    def get_split_datasets(self, X: Any, y: Any = None, **_: Any) -> Any:
        return X

    def run(self, train: Rows, validation: Rows | None, epochs: int, watcher: Watcher) -> None:
        """Train the module. A KeyboardInterrupt is raised, which skorch would catch.

        Args:
            train: training rows.
            validation: validation rows, or None.
            epochs: number of epochs.
            watcher: callback that can end the training early.

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
            raise TrainingDiverged(f"the weights are not finite; {ADVICE}")


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Context manager that sets torch's number of threads and restores it; None has no effect."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Randomness:
    """State of torch's random generators on the CPU and on the given device."""

    def __init__(self, device: str) -> None:
        self.cuda = [torch.device(device)] if device.startswith("cuda") else []

    def state(self) -> list[Tensor]:
        """Return the states of the random generators."""
        return [torch.get_rng_state(), *(torch.cuda.get_rng_state(d) for d in self.cuda)]

    def restore(self, start: int | list[Tensor]) -> None:
        """Set the random generators to a seed, or to states that `state` returned."""
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
    """Context manager for reproducible training.

    It sets torch's random generators and number of threads, and restores both at the end.

    Args:
        device: torch device.
        count: number of threads; None keeps the current number.
        start: seed, or states that `Randomness.state` returned.

    Raises:
        NetworkTooLarge: there is not enough memory.
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
    """Return the torch device of a name; "auto" is a GPU if there is one, else the CPU."""
    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() else "cpu"


def make_net(
    module: nn.Module,
    optimizer: Any,
    settings: dict[str, Any],
    *,
    learning_rate: float,
    batch_size: int,
    device: str,
    criterion: type[nn.Module] = nn.CrossEntropyLoss,
) -> Net:
    """Make a net that is ready to train.

    Args:
        module: module to train, changed in place.
        optimizer: class of torch.optim.
        settings: keyword arguments of the optimizer.
        learning_rate: learning rate of the optimizer.
        batch_size: rows per step.
        device: torch device.
        criterion: class of the loss to minimize.
    """
    net = Net(
        module,
        criterion=criterion,
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
