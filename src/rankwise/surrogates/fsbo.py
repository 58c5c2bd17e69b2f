"""Few-shot Bayesian optimization: a Gaussian process with a deep kernel that past tasks teach.

Wistuba, Grabocka: "Few-Shot Bayesian Optimization with Deep Kernel Surrogates", ICLR 2021; with
landmarks: Jomaa, Pineda Arango, Schmidt-Thieme, Grabocka: "Transfer Learning for Bayesian HPO with
End-to-End Landmark Meta-Features", 2021.

The authors' code for HPO-B has 4 layers of 32, makes 50,000 passes over all past tasks, a batch of
64 evaluations of one task per step at a rate of 1e-4, and up to 10,000 epochs of fine-tuning at
1e-3 per proposal: ten hours and ten seconds on one core. Defaults here take seconds and tenths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch import Tensor

from rankwise.errors import ModelFileError, OptionError, check_name, is_number
from rankwise.surrogates.base import Posterior, moments_of_mixture
from rankwise.surrogates.deep_kernel import (
    KERNELS,
    DeepKernel,
    DeepProcess,
    Evidence,
    fine_tune,
)
from rankwise.surrogates.evolution import evolved_set
from rankwise.surrogates.exact import spread_over
from rankwise.surrogates.meta import Record, Watch
from rankwise.surrogates.neural import NeuralSurrogate, check_learning, descend_on_rows
from rankwise.surrogates.rows import Rows, Table
from rankwise.task import Task
from rankwise.transforms import Standardize
from rankwise.types import Array

_SUPPORT = 30  # evaluations that the Deep Set sees at most while it learns
_NARROWEST = 0.05  # part of the labels' range that is stretched to one
_SOURCES, _ROWS = 20, 40  # past tasks, and rows of each, whose mean is the first proposal's


class DeepKernelGP(NeuralSurrogate):
    """A Gaussian process on the features of a network, both taught by past tasks.

    Past tasks are learnt in batches by the marginal likelihood; the evaluations of a study are
    learnt from the stored weights anew each time. With a context (DKLM), what a Deep Set makes of
    the evaluations is a further input of the network.

    Args:
        kernel: "rbf" or "matern52".
        layers: of the network; 0: the kernel is that of the configurations themselves.
        width: of each layer.
        deep_set: numbers by which the Deep Set describes the evaluations; 0: no Deep Set.
        steps: of learning past tasks, at most.
        batch: tasks per step.
        rows: evaluations of each of them.
        meta_rate: the first learning rate then.
        stretch: whether labels are stretched at random while learning, as in the paper, so that
            the range of a study's losses, which is not known before its end, means nothing. The
            authors' code does without: the process is to explain labels of all scales at once,
            expects the largest, and explores too much.
        epochs: of fine-tuning; 0: none.
        rate: the first learning rate then.
        warm_start: number of configurations, good together on past tasks, that expected
            improvement is put aside for at first; 0: none.
        seed: of what is drawn while learning.
    """

    file_kind = "deep kernel"

    def __init__(
        self,
        *,
        kernel: str = "matern52",
        layers: int = 4,
        width: int = 32,
        deep_set: int = 0,
        steps: int = 2000,
        batch: int = 8,
        rows: int = 50,
        meta_rate: float = 2e-3,
        stretch: bool = False,
        epochs: int = 100,
        rate: float = 1e-3,
        warm_start: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.kernel = check_name("kernel", kernel, KERNELS)
        counts = {"width": width, "steps": steps, "batch": batch, "rows": rows}
        check_learning(counts, {"meta_rate": meta_rate, "rate": rate})
        free = {"layers": layers, "deep_set": deep_set, "epochs": epochs, "warm_start": warm_start}
        for name, value in free.items():
            if not is_number(value, Integral) or value < 0:
                raise OptionError(f"{name} must be an integer of at least 0, not {value!r}")
        self.layers, self.width, self.deep_set = layers, width, deep_set
        self.steps, self.batch, self.rows, self.meta_rate = steps, batch, rows, meta_rate
        self.stretch, self.epochs, self.rate = stretch, epochs, rate
        self.warm_start, self.seed = warm_start, seed

    @property
    def _kernel(self) -> DeepKernel:
        return DeepKernel(self.columns, self.layers, self.width, self.deep_set, self.kernel)

    def _size(self) -> int:
        return self._kernel.size

    def restore(self, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        learnt = record["settings"]["kernel"]
        if self.kernel != learnt:
            raise ModelFileError(
                f"the file was learnt with kernel {learnt!r}, not {self.kernel!r}"
            )
        super().restore(arrays, record)

    # ------------------------------------------------------------------ learning

    def _learn(
        self,
        tasks: Sequence[Task],
        validation: Sequence[Task],
        record: Record,
        watch: Watch | None,
    ) -> tuple[Tensor, dict[str, Array]]:
        weights = self._kernel.initial(torch.Generator().manual_seed(self.seed))
        best = descend_on_rows(
            Evidence(self._kernel, weights, torch.zeros_like(weights)),
            self._table(tasks),
            self._table(validation) if validation else None,
            batch=self.batch,
            seed=self.seed,
            vary=self._scaled,
            steps=self.steps,
            rate=self.meta_rate,
            record=record,
            watch=watch,
        )
        return best, _some(tasks, np.random.default_rng([self.seed, 2]))

    def _table(self, tasks: Sequence[Task]) -> Table:
        return Table(tasks, _labels, self.rows, _SUPPORT if self.deep_set else 0)

    def _scaled(self, rows: Rows, rng: np.random.Generator) -> Rows:
        return replace(rows, y=stretched(rows.y, rng)) if self.stretch else rows

    def _settle(self, weights: Tensor, memory: Mapping[str, Array]) -> None:
        ends = np.cumsum(memory["rows"])[:-1]
        parts = zip(np.split(memory["X"], ends), np.split(memory["y"], ends), strict=True)
        self._past = [DeepProcess.given(self._kernel, weights, Rows.of(X, y, y)) for X, y in parts]
        self._initial = np.empty((0, self.columns))
        if self.warm_start:
            rows = np.unique(memory["X"], axis=0)
            rng = np.random.default_rng([self.seed, 3])
            self._initial = rows[evolved_set(self._past_means(rows).T, self.warm_start, rng)]

    def _observe(self, task: Task, weights: Tensor) -> None:
        self._transform = unit_range(task.losses)
        rows = Rows.of(task.X, self._transform(task.losses), task.losses)
        if self.epochs and np.unique(task.losses).size > 1:
            weights = fine_tune(self._kernel, weights, rows, epochs=self.epochs, rate=self.rate)
        self._process = DeepProcess.given(self._kernel, weights, rows)

    # ------------------------------------------------------------------ predicting

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        """The posterior (n,) at X (n, d); without evaluations, the mixture of the past's."""
        X = np.asarray(X, dtype=float)
        if not self._seen:
            return self._mixture(X, joint)
        mean, variance = self._process.posterior(X)
        mean, std = self._transform.unscale(mean, np.sqrt(variance))
        if not joint:
            return Posterior(mean, std)
        scale = self._transform.scale
        return Posterior(mean, std, self._process.covariance(X) * scale * scale)

    def improvement(self, X: Array) -> Array | None:
        """Where the past says to begin; None once it follows from the posterior."""
        if self._seen < len(self._initial):
            near: Array = cdist(np.asarray(X, dtype=float), self._unused()).min(axis=1)
            return -near
        return super().improvement(X)

    def _unused(self) -> Array:
        """What is left of the initial configurations: an evaluation takes away the nearest."""
        assert self._task is not None
        left = self._initial
        for x in self._task.X:
            left = np.delete(left, np.argmin(np.square(left - x).sum(axis=1)), axis=0)
        return left

    def _past_mean(self, X: Array) -> Array:
        mean: Array = self._past_means(X).mean(axis=0)
        return mean

    def _past_means(self, X: Array) -> Array:
        """What each past task (T, n) says of X (n, d)."""
        if self.deep_set:
            return np.stack([process.mean(X) for process in self._past])
        phi = self._past[0].features(X)  # the same for all of them
        return np.stack([process.mean_of(phi) for process in self._past])

    def _mixture(self, X: Array, joint: bool) -> Posterior:
        parts = [process.posterior(X) for process in self._past]
        covariances = [process.covariance(X) for process in self._past] if joint else None
        mean, variance, covariance = moments_of_mixture(parts, covariances)
        return Posterior(mean, np.sqrt(variance), covariance)


# ---------------------------------------------------------------------- labels


def unit_range(losses: Array) -> Standardize:
    """The transform of losses (n,) to [0, 1], those far above the bulk being pulled in first."""
    bulk = Standardize.fit(losses)
    z = bulk(losses)
    low, width = float(z.min()), float(np.ptp(z)) or 1.0
    return replace(bulk, center=bulk.center + low * bulk.scale, scale=bulk.scale * width)


def _labels(losses: Array) -> Array:
    return unit_range(losses)(losses)


def stretched(y: Tensor, rng: np.random.Generator) -> Tensor:
    """Labels (B, n) within [0, 1], those of each task stretched from a random [l, u] to [0, 1].

    l and u are drawn uniformly (paper); a target's labels have such a scale, as the
    best and the worst of its losses are not known.
    """
    low, high = np.sort(rng.random((2, len(y))), axis=0)
    width = torch.from_numpy(np.maximum(high - low, _NARROWEST))
    return (y - torch.from_numpy(low)[:, None]) / width[:, None]


def _some(tasks: Sequence[Task], rng: np.random.Generator) -> dict[str, Array]:
    """Some rows of some tasks, as arrays: X (N, d), labels y (N,) and the rows of each task."""
    chosen = np.sort(rng.permutation(len(tasks))[:_SOURCES]).tolist()
    kept = [(tasks[k], spread_over(tasks[k].losses, _ROWS)) for k in chosen]
    return {
        "X": np.concatenate([task.X[rows] for task, rows in kept]),
        "y": np.concatenate([_labels(task.losses)[rows] for task, rows in kept]),
        "rows": np.array([len(rows) for _, rows in kept]),
    }
