"""Base class of surrogates that combine one Gaussian process per source task.

All processes are evaluated at the observations of the target task to compute their weights. At
candidates only the few processes with the largest weights are evaluated. So a proposal takes
about the same time with 500 source tasks as with 20.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from typing_extensions import Self

from rankwise._core.progress_bar import steps_only, training_bar
from rankwise._core.threads import one_thread
from rankwise.errors import ModelFileError, OptionError, check_count
from rankwise.history.task import Task, check_columns
from rankwise.history.transforms import Standardize
from rankwise.surrogates.empirical_bayes.past_functions import task_digest
from rankwise.surrogates.numeric.exact_gp import (
    ExactGP,
    fit_hyperparameters,
    matern52,
    spread_over,
)
from rankwise.surrogates.single_study.gp import GaussianProcess
from rankwise.surrogates.transfer_base import TransferSurrogate
from rankwise.types import Array

ENOUGH = 100  # maximum number of target observations that are used to weight the source tasks

_ROWS_TO_FIT = 100  # maximum number of rows that fit the hyperparameters of a source task's GP
_CHUNK = 100_000  # numbers per array that are processed at once, so that they fit the CPU cache


@dataclass(frozen=True)
class Stack:
    """T exact Gaussian processes with Matérn-5/2 kernels, stored in common arrays.

    R is the largest number of rows of a process. Shorter ones are padded with rows whose weights
    and whiteners are zero.

    Attributes:
        rows: Observed points divided by the length-scales (T, R, d).
        lengthscales: Length-scales (T, d).
        constants: Constant prior means (T,).
        weights: `ExactGP.weights` of each process (T, R).
        whiteners: `ExactGP.whitener` of each process (T, R, R).
    """

    rows: Array
    lengthscales: Array
    constants: Array
    weights: Array
    whiteners: Array

    @classmethod
    def of(cls, processes: Sequence[ExactGP]) -> Stack:
        """Copy T processes into common arrays."""
        T, R = len(processes), max(len(gp.X) for gp in processes)
        rows, weights = np.zeros((T, R, processes[0].X.shape[1])), np.zeros((T, R))
        whiteners = np.zeros((T, R, R))
        for t, gp in enumerate(processes):
            n = len(gp.X)
            rows[t, :n], weights[t, :n] = gp.X / gp.lengthscales, gp.weights
            whiteners[t, :n, :n] = gp.whitener
        lengthscales = np.stack([gp.lengthscales for gp in processes])
        constants = np.array([gp.constant for gp in processes])
        return cls(rows, lengthscales, constants, weights, whiteners)

    def __len__(self) -> int:
        return len(self.constants)

    def some(self, which: slice | np.ndarray) -> Stack:
        """Return the processes with the given indices."""
        return Stack(*(getattr(self, name)[which] for name in self.__dataclass_fields__))

    def chunks(self, m: int, width: int = 0) -> Iterator[Stack]:
        """Split the processes into groups whose predictions fit the CPU cache.

        Args:
            m: Number of points to predict.
            width: Numbers per process and point, if there are more than R of them.
        """
        size = max(1, _CHUNK // max(1, m * max(width, self.rows.shape[1])))
        for start in range(0, len(self), size):
            yield self.some(slice(start, start + size))

    def mean(self, Z: Array) -> Array:
        """Posterior means (T, m) at Z (m, d)."""
        if not len(self):
            return np.empty((0, len(Z)))
        return np.concatenate([part._mean(part._cross(Z)) for part in self.chunks(len(Z))])

    def posterior(self, Z: Array) -> tuple[Array, Array]:
        """Posterior means (T, m) and noise-free variances (T, m) at Z (m, d)."""
        found = [np.empty((2, 0, len(Z)))]
        for part in self.chunks(len(Z)):
            cross = part._cross(Z)
            half = cross @ part.whiteners.transpose(0, 2, 1)
            variance = np.maximum(1.0 - np.einsum("tmr,tmr->tm", half, half), 0.0)
            found.append(np.stack([part._mean(cross), variance]))
        mean, variance = np.concatenate(found, axis=1)
        return mean, variance

    def joint(self, Z: Array) -> tuple[Array, Array]:
        """Posterior means (T, m) and noise-free covariances (T, m, m) at Z (m, d).

        All T processes are computed at once. To limit memory, call this on `chunks`.
        """
        cross = self._cross(Z)
        half = cross @ self.whiteners.transpose(0, 2, 1)
        scaled = Z / self.lengthscales[:, None]
        prior = _matern(scaled, scaled)
        prior[:, np.arange(len(Z)), np.arange(len(Z))] = 1.0
        return self._mean(cross), prior - half @ half.transpose(0, 2, 1)

    def _mean(self, cross: Array) -> Array:
        """Posterior means (T, m) from the covariances (T, m, R) of `_cross`."""
        mean: Array = (cross @ self.weights[:, :, None])[:, :, 0] + self.constants[:, None]
        return mean

    def _cross(self, Z: Array) -> Array:
        """Prior covariances (T, m, R) between Z (m, d) and the observed rows."""
        return _matern(Z / self.lengthscales[:, None], self.rows)


def _matern(A: Array, B: Array) -> Array:
    """Matérn-5/2 kernels (T, n, m) between scaled points A (T, n, d) and B (T, m, d)."""
    r2 = A @ (-2.0 * B.transpose(0, 2, 1))
    r2 += np.square(A).sum(axis=2)[:, :, None]
    r2 += np.square(B).sum(axis=2)[:, None]
    np.maximum(r2, 0.0, out=r2)
    return matern52(r2)[0]


@dataclass(frozen=True)
class SourceGPs:
    """Gaussian processes of the standardised losses of T source tasks, one per task.

    Attributes:
        X: Configurations that the processes are conditioned on (T, R, d). Rows of task t from
            index counts[t] on are zero padding.
        y: Their standardised losses (T, R), padded in the same way.
        counts: Number of rows of each task (T,).
        lengthscales: Length-scales (T, d).
        noise: Noise variances (T,).
        digests: `task_digest` of each task.
        names: Name of each task.
        contexts: Context of each task.
        stack: The processes, computed from the other attributes.
    """

    X: Array
    y: Array
    counts: np.ndarray
    lengthscales: Array
    noise: Array
    digests: tuple[str, ...]
    names: tuple[str, ...]
    contexts: tuple[Mapping[str, float], ...]
    stack: Stack = field(init=False, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        tasks: Sequence[Task],
        rows: int,
        known: SourceGPs | None = None,
        tick: Callable[[int], None] | None = None,
    ) -> SourceGPs:
        """Fit one Gaussian process to each source task.

        Args:
            tasks: One or more source tasks for which `teaches` is true.
            rows: Maximum number of rows of a task that its process is conditioned on.
            known: Processes that were fitted earlier with the same `rows`, or None. They are
                reused for tasks with the same digest.
            tick: Progress callback, called after each task with the number of tasks done.
        """
        digests = tuple(task_digest(task) for task in tasks)
        numbers = {} if known is None else {d: t for t, d in enumerate(known.digests)}
        T, R, d = len(tasks), min(rows, max(map(len, tasks))), tasks[0].X.shape[1]
        X, y, counts = np.zeros((T, R, d)), np.zeros((T, R)), np.zeros(T, dtype=int)
        lengthscales, noise = np.empty((T, d)), np.empty(T)
        for t, (task, digest) in enumerate(zip(tasks, digests, strict=True)):
            n = counts[t] = min(len(task), rows)
            if known is not None and digest in numbers:
                k = numbers[digest]
                X[t, :n], y[t, :n] = known.X[k, :n], known.y[k, :n]
                lengthscales[t], noise[t] = known.lengthscales[k], known.noise[k]
            else:
                z = Standardize.fit(task.losses)(task.losses)
                few, kept = (some_rows(z, count, digest) for count in (_ROWS_TO_FIT, rows))
                lengthscales[t], noise[t] = fit_hyperparameters(task.X[few], z[few], matern52)
                X[t, :n], y[t, :n] = task.X[kept], z[kept]
            if tick is not None:
                tick(t + 1)
        names = tuple(task.name for task in tasks)
        contexts = tuple(dict(task.context) for task in tasks)
        return cls(X, y, counts, lengthscales, noise, digests, names, contexts)

    def __post_init__(self) -> None:
        fields = zip(self.X, self.y, self.counts, self.lengthscales, self.noise, strict=True)
        processes = [
            ExactGP.given(X[:n], y[:n], matern52, lengthscales, float(noise))
            for X, y, n, lengthscales, noise in fields
        ]
        object.__setattr__(self, "stack", Stack.of(processes))

    def __len__(self) -> int:
        return len(self.names)

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return arrays and a JSON-serialisable record from which `from_parts` rebuilds this."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        labels = zip(self.digests, self.names, self.contexts, strict=True)
        return arrays, {"sources": [list(label) for label in labels]}

    @classmethod
    def from_parts(cls, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> SourceGPs:
        """Rebuild the object from what `parts` returned."""
        digests, names, contexts = (tuple(part) for part in zip(*record["sources"], strict=True))
        numbers = {name: arrays[name] for name in _ARRAYS}
        return cls(**numbers, digests=digests, names=names, contexts=contexts)


_ARRAYS = ("X", "y", "counts", "lengthscales", "noise")


def some_rows(y: Array, count: int, digest: str) -> np.ndarray:
    """Choose at most `count` rows that represent losses y (n,).

    Half of them are spread evenly over the order of the losses and half are random. The digest of
    the task is the seed, so equal tasks give equal rows.

    Returns:
        Row indices in ascending order.
    """
    if len(y) <= count:
        return np.arange(len(y))
    even = spread_over(y, count - count // 2)
    others = np.setdiff1d(np.arange(len(y)), even)
    rng = np.random.default_rng(int(digest[:15], 16))
    return np.sort(np.concatenate([even, rng.choice(others, count // 2, replace=False)]))


def leading(weights: Array, count: int, rng: np.random.Generator) -> tuple[np.ndarray, Array]:
    """Choose the at most `count` largest positive weights of weights (T,).

    Ties are broken at random.

    Returns:
        Indices of the chosen weights, and these weights rescaled to the sum of all T weights.
    """
    order = np.lexsort((rng.random(len(weights)), -weights))[:count]
    lead = order[weights[order] > 0]
    kept = weights[lead]
    return lead, kept * (weights.sum() / kept.sum()) if len(kept) else kept


class SourceGPSurrogate(TransferSurrogate):
    """A weighted combination of the Gaussian processes of the source tasks and the target task.

    The losses of each task are standardised separately, so that all processes have the same units.
    Subclasses define the weights (`weigh`) and the combination (`predict`).

    Attributes:
        rows: Maximum number of rows of a source task that its process is conditioned on.
        active: Maximum number of source tasks that predictions use: those with the largest
            weights, rescaled to the total weight of all source tasks.
        seed: Seed of the random numbers in `fit`.
        past: Processes of the source tasks; None before `meta_fit`.
    """

    def __init__(self, rows: int, active: int, seed: int) -> None:
        self.rows, self.active = check_count("rows", rows), check_count("active", active)
        self.seed = seed
        self.past: SourceGPs | None = None

    @property
    def meta_learned(self) -> bool:
        return self.past is not None

    def _learn(
        self, tasks: Sequence[Task], validation: Sequence[Task], progress: bool | None
    ) -> None:
        """Fit one Gaussian process to each source task; those of an earlier call are reused."""
        with training_bar(progress, len(tasks)) as bar:
            past = SourceGPs.of(tasks, self.rows, self.past, steps_only(bar))
        self.check_past(past)
        self.past = past

    def check_past(self, past: SourceGPs) -> None:
        """Raise OptionError if the source tasks lack data that this surrogate needs.

        By default all source tasks are accepted.
        """

    def fit(self, task: Task) -> Self:
        with one_thread():
            self._target = GaussianProcess().fit(task)
            if self.past is not None:
                self._observe(task, self.past)
        return self

    def _observe(self, task: Task, past: SourceGPs) -> None:
        """Compute the weights of all processes and choose the source tasks for predictions.

        Sets `_transform` (standardisation of the target's losses), `_weights` (T,), `_own` (weight
        of the target's process), `_lead` (the chosen source processes) and `_share` (their
        weights).
        """
        columns, losses = past.X.shape[2], task.losses
        check_columns(task, columns)
        X = task.X if len(task) else np.empty((0, columns))
        self._transform = (
            Standardize.fit(losses, task.fence) if len(task) else Standardize(0.0, 1.0, np.inf)
        )
        rows = spread_over(losses, ENOUGH)
        y, rng = self._transform(losses[rows]), np.random.default_rng(self.seed)
        self._weights, self._own = self.weigh(past, X[rows], y, task.context, rng)
        lead, self._share = leading(self._weights, self.active, rng)
        self._lead = past.stack.some(lead)

    @abstractmethod
    def weigh(
        self,
        past: SourceGPs,
        X: Array,
        y: Array,
        context: Mapping[str, float],
        rng: np.random.Generator,
    ) -> tuple[Array, float]:
        """Compute weights of the source tasks (T,) and of the target's process; they sum to one.

        Args:
            past: Processes of the T source tasks.
            X: Configurations of the target task (n, d), with 0 <= n <= `ENOUGH`.
            y: Their standardised losses (n,).
            context: Context of the target task.
            rng: Random number generator.
        """

    def improvement(self, X: Array) -> Array | None:
        """Utility (n,) at X (n, d) without observations; None once there is an observation.

        It is the negative weighted mean of the source tasks' posterior means. With observations
        the improvement follows from `predict`.
        """
        if self.past is None or self._target.model is not None:
            return None
        return -(self._share @ self._lead.mean(np.asarray(X, dtype=float)))

    @property
    def sources(self) -> dict[str, float] | None:  # type: ignore[override]
        """Weight of each source task by name, largest first; None without source tasks."""
        if self.past is None:
            return None
        found = dict.fromkeys(self.past.names, 0.0)
        for name, weight in zip(self.past.names, self._weights.tolist(), strict=True):
            found[name] += weight
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        assert self.past is not None
        return self.past.parts()

    def restore(self, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        rows = record["settings"]["rows"]
        if self.rows != rows:
            raise ModelFileError(
                f"the model was learnt with rows={rows}, not {self.rows}: learn it again"
            )
        past = SourceGPs.from_parts(arrays, record)
        try:
            self.check_past(past)
        except OptionError as error:
            raise ModelFileError(f"the model does not fit the options: {error}") from error
        self.past = past
