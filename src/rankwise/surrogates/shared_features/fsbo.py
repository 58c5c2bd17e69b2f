"""Few-shot Bayesian optimization (FSBO): a Gaussian process with a meta-learnt deep kernel.

Wistuba, Grabocka: "Few-Shot Bayesian Optimization with Deep Kernel Surrogates", ICLR 2021. The
option `deep_set` (DKLM) is from Jomaa, Pineda Arango, Schmidt-Thieme, Grabocka: "Transfer Learning
for Bayesian HPO with End-to-End Landmark Meta-Features", 2021.

The authors' code for HPO-B has 4 layers of 32 units. It makes 50,000 passes over all source tasks,
with a batch of 64 evaluations of one task per step and a learning rate of 1e-4. Fine-tuning takes
up to 10,000 epochs per proposal at a rate of 1e-3. On one core, that is ten hours of training and
ten seconds per proposal. The defaults of this module need seconds and tenths of a second.
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
from rankwise.history.task import Task
from rankwise.history.transforms import Standardize
from rankwise.surrogates.base import Posterior, moments_of_mixture
from rankwise.surrogates.numeric.exact_gp import spread_over
from rankwise.surrogates.ranking.meta_training import Record, Watch
from rankwise.surrogates.shared_features.base import (
    NeuralSurrogate,
    check_learning,
    descend_on_rows,
)
from rankwise.surrogates.shared_features.deep_kernel import (
    KERNELS,
    DeepKernel,
    DeepProcess,
    Evidence,
    fine_tune,
)
from rankwise.surrogates.shared_features.minibatches import Rows, Table
from rankwise.surrogates.shared_features.warm_start_sets import evolved_set
from rankwise.types import Array

_SUPPORT = 30  # maximum size of the Deep Set's input during training
_NARROWEST = 0.05  # smallest part of the labels' range that is stretched to one
_SOURCES, _ROWS = 20, 40  # maximum number of source tasks, and of rows of each, that are kept


class DeepKernelGP(NeuralSurrogate):
    """Gaussian process with a deep kernel that is learnt from source tasks (FSBO, DKLM).

    `meta_fit` maximizes the marginal likelihood of minibatches of source tasks. `fit` fine-tunes
    a copy of these weights on the target task. While all losses of the target task are equal, it
    conditions the process on the evaluations only. With `deep_set` (DKLM), the output of a Deep
    Set of the evaluations is an additional input of the network.

    Args:
        kernel: "rbf" or "matern52".
        layers: number of layers of the network; with 0 the kernel acts on the configurations.
        width: number of units per layer.
        deep_set: number of outputs of the Deep Set; 0 for no Deep Set.
        steps: maximum number of training steps on source tasks.
        batch: number of tasks per step.
        rows: maximum number of evaluations of each task per step.
        meta_rate: initial learning rate of the training on source tasks.
        stretch: rescale the losses of each task at random during training, as in the paper, so
            that the model does not depend on the range of the losses. That range is unknown until
            the end of a study. The authors' code does not rescale. A model that is trained with
            all scales expects the largest one and explores too much.
        epochs: number of fine-tuning steps on the target task; 0 for no fine-tuning.
        rate: initial learning rate of the fine-tuning.
        warm_start: number of configurations that are proposed first, instead of maximizing
            expected improvement. They are chosen so that at least one is good on each source
            task. 0 for none.
        seed: seed of the training.
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
                f"the model was learnt with kernel {learnt!r}, not {self.kernel!r}"
            )
        super().restore(arrays, record)

    # ------------------------------------------------------------------ learning

    def _train(
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
        """Predict the posterior at X (n, d).

        Without evaluations it is the mixture of the source tasks' posteriors.
        """
        X = np.asarray(X, dtype=float)
        if not self._seen:
            return self._mixture(X, joint)
        mean, variance = self._process.posterior(X)
        covariance = self._process.covariance(X) if joint else None
        return Posterior.unscaled(self._transform, mean, variance, covariance)

    def improvement(self, X: Array) -> Array | None:
        """Utility (n,) at X (n, d) in the first trials; None if it follows from the posterior.

        During the warm start, it is the negative distance to the nearest configuration of the
        warm start that is not evaluated. Without a warm start, see `NeuralSurrogate`.
        """
        if self._seen < len(self._initial):
            near: Array = cdist(np.asarray(X, dtype=float), self._unused()).min(axis=1)
            return -near
        return super().improvement(X)

    def _unused(self) -> Array:
        """Configurations of the warm start that remain: each evaluation removes the nearest."""
        assert self._task is not None
        left = self._initial
        for x in self._task.X:
            left = np.delete(left, np.argmin(np.square(left - x).sum(axis=1)), axis=0)
        return left

    def _past_mean(self, X: Array) -> Array:
        mean: Array = self._past_means(X).mean(axis=0)
        return mean

    def _past_means(self, X: Array) -> Array:
        """Posterior mean (T, n) of each source task at X (n, d)."""
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
    """Return the transform that clips outliers of losses (n,) and scales to [0, 1]."""
    bulk = Standardize.fit(losses)
    z = bulk(losses)
    low, width = float(z.min()), float(np.ptp(z)) or 1.0
    return replace(bulk, center=bulk.center + low * bulk.scale, scale=bulk.scale * width)


def _labels(losses: Array) -> Array:
    return unit_range(losses)(losses)


def stretched(y: Tensor, rng: np.random.Generator) -> Tensor:
    """Rescale the labels (B, n) of each task, which maps a random interval [l, u] to [0, 1].

    l and u are drawn uniformly, as in the paper. It imitates a target task, for which the best
    and the worst loss are unknown.

    Args:
        y: labels (B, n) within [0, 1].
        rng: source of random numbers.
    """
    low, high = np.sort(rng.random((2, len(y))), axis=0)
    width = torch.from_numpy(np.maximum(high - low, _NARROWEST))
    return (y - torch.from_numpy(low)[:, None]) / width[:, None]


def _some(tasks: Sequence[Task], rng: np.random.Generator) -> dict[str, Array]:
    """Select rows of random tasks: X (N, d), labels y (N,) and the number of rows of each task."""
    chosen = np.sort(rng.permutation(len(tasks))[:_SOURCES]).tolist()
    kept = [(tasks[k], spread_over(tasks[k].losses, _ROWS)) for k in chosen]
    return {
        "X": np.concatenate([task.X[rows] for task, rows in kept]),
        "y": np.concatenate([_labels(task.losses)[rows] for task, rows in kept]),
        "rows": np.array([len(rows) for _, rows in kept]),
    }
