"""Gaussian processes of past tasks, many at once, and what surrogates of them have in common.

Of hundreds of processes only the observations of the target are asked for; at candidates, a few
with the largest weights. That is what keeps a proposal as fast with 500 past tasks as with 20.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from typing_extensions import Self

from rankwise.errors import ModelFileError, OptionError, check_count
from rankwise.progress import training_bar
from rankwise.surrogates.base import Posterior
from rankwise.surrogates.exact import ExactGP, fit_hyperparameters, matern52, spread_over
from rankwise.surrogates.gp import GaussianProcess
from rankwise.surrogates.sources import task_digest, teaches
from rankwise.surrogates.threads import one_thread
from rankwise.surrogates.transfer import TransferSurrogate
from rankwise.task import Task, check_one_width
from rankwise.transforms import Standardize
from rankwise.types import Array

ENOUGH = 100  # observations of the target by which sources are compared

_ROWS_TO_FIT = 100  # from which the hyperparameters of a source are found
_CACHE = 100_000  # numbers that are worked on together


@dataclass(frozen=True)
class Stack:
    """Exact Matérn-5/2 processes as arrays: T of them, of R rows at most.

    Processes of fewer rows than others have rows without weight.

    Attributes:
        rows: observed points divided by the length-scales (T, R, d).
        lengthscales: (T, d).
        constants: their means (T,).
        weights: see `ExactGP` (T, R).
        whiteners: see `ExactGP` (T, R, R).
    """

    rows: Array
    lengthscales: Array
    constants: Array
    weights: Array
    whiteners: Array

    @classmethod
    def of(cls, processes: Sequence[ExactGP]) -> Stack:
        """All of some processes."""
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
        """Some of the processes."""
        return Stack(*(getattr(self, name)[which] for name in self.__dataclass_fields__))

    def chunks(self, m: int, width: int = 0) -> Iterator[Stack]:
        """The processes, as many at a time as fit a cache.

        Args:
            m: points that they predict.
            width: numbers for each of the points, if they are more than the rows.
        """
        size = max(1, _CACHE // max(1, m * max(width, self.rows.shape[1])))
        for start in range(0, len(self), size):
            yield self.some(slice(start, start + size))

    def mean(self, Z: Array) -> Array:
        """Posterior means (T, m) at Z (m, d)."""
        if not len(self):
            return np.empty((0, len(Z)))
        return np.concatenate([part._mean(part._cross(Z)) for part in self.chunks(len(Z))])

    def posterior(self, Z: Array) -> tuple[Array, Array]:
        """Posterior means and variances (T, m) at Z (m, d), without the noise."""
        found = [np.empty((2, 0, len(Z)))]
        for part in self.chunks(len(Z)):
            cross = part._cross(Z)
            half = cross @ part.whiteners.transpose(0, 2, 1)
            variance = np.maximum(1.0 - np.einsum("tmr,tmr->tm", half, half), 0.0)
            found.append(np.stack([part._mean(cross), variance]))
        mean, variance = np.concatenate(found, axis=1)
        return mean, variance

    def joint(self, Z: Array) -> tuple[Array, Array]:
        """Posterior means (T, m) and covariances (T, m, m) at Z (m, d), without the noise.

        All T at once: ask for `chunks` where that is too much.
        """
        cross = self._cross(Z)
        half = cross @ self.whiteners.transpose(0, 2, 1)
        scaled = Z / self.lengthscales[:, None]
        prior = _matern(scaled, scaled)
        prior[:, np.arange(len(Z)), np.arange(len(Z))] = 1.0
        return self._mean(cross), prior - half @ half.transpose(0, 2, 1)

    def _mean(self, cross: Array) -> Array:
        mean: Array = (cross @ self.weights[:, :, None])[:, :, 0] + self.constants[:, None]
        return mean

    def _cross(self, Z: Array) -> Array:
        """Covariances (T, m, R) of Z (m, d) with the rows."""
        return _matern(Z / self.lengthscales[:, None], self.rows)


def _matern(A: Array, B: Array) -> Array:
    """Kernels (T, n, m) of scaled rows (T, n, d) and (T, m, d)."""
    r2 = A @ (-2.0 * B.transpose(0, 2, 1))
    r2 += np.square(A).sum(axis=2)[:, :, None]
    r2 += np.square(B).sum(axis=2)[:, None]
    np.maximum(r2, 0.0, out=r2)
    return matern52(r2)[0]


@dataclass(frozen=True)
class SourceGPs:
    """A Gaussian process of the standardised losses of each of T past tasks.

    Attributes:
        X: configurations it is conditioned on (T, R, d), zero after the first `counts`.
        y: their standardised losses (T, R).
        counts: rows of each (T,).
        lengthscales: (T, d).
        noise: (T,).
        digests: of the numbers of the tasks.
        names: of the tasks.
        contexts: of the tasks.
        stack: what follows from them.
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
        """Fitted to past tasks.

        Args:
            tasks: one or more; each teaches something.
            rows: of a task that its process is conditioned on, at most.
            known: processes with as many rows; their tasks are not fitted again.
            tick: called after each task with its number, from 1.
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
        """Arrays and a JSON record from which `from_parts` makes it again."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        labels = zip(self.digests, self.names, self.contexts, strict=True)
        return arrays, {"sources": [list(label) for label in labels]}

    @classmethod
    def from_parts(cls, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> SourceGPs:
        """What `parts` was asked of."""
        digests, names, contexts = (tuple(part) for part in zip(*record["sources"], strict=True))
        numbers = {name: arrays[name] for name in _ARRAYS}
        return cls(**numbers, digests=digests, names=names, contexts=contexts)


_ARRAYS = ("X", "y", "counts", "lengthscales", "noise")


def some_rows(y: Array, count: int, digest: str) -> np.ndarray:
    """At most `count` rows of y (n,), sorted: half evenly over its order, half at random."""
    if len(y) <= count:
        return np.arange(len(y))
    even = spread_over(y, count - count // 2)
    others = np.setdiff1d(np.arange(len(y)), even)
    rng = np.random.default_rng(int(digest[:15], 16))
    return np.sort(np.concatenate([even, rng.choice(others, count // 2, replace=False)]))


def leading(weights: Array, count: int, rng: np.random.Generator) -> tuple[np.ndarray, Array]:
    """The `count` largest of weights (T,) at most, and these, with the sum of all of them.

    Which of several equal ones are taken is drawn.
    """
    order = np.lexsort((rng.random(len(weights)), -weights))[:count]
    lead = order[weights[order] > 0]
    kept = weights[lead]
    return lead, kept * (weights.sum() / kept.sum()) if len(kept) else kept


class SourceGPSurrogate(TransferSurrogate):
    """A weighted combination of Gaussian processes: those of past tasks, and the target's own.

    Losses are standardised task by task, so that all processes speak of the same thing.

    Attributes:
        rows: of a past task that its process is conditioned on, at most.
        active: past tasks that predictions are made of, at most: those of the largest weights.
            They keep the weight of all past tasks together.
        seed: of what is drawn in a study.
        past: the processes of past tasks, if any were learnt.
    """

    def __init__(self, rows: int, active: int, seed: int) -> None:
        self.rows, self.active = check_count("rows", rows), check_count("active", active)
        self.seed = seed
        self.past: SourceGPs | None = None

    @property
    def meta_learned(self) -> bool:
        return self.past is not None

    def meta_fit(
        self,
        tasks: Sequence[Task],
        validation: Sequence[Task] = (),
        *,
        progress: bool | None = None,
    ) -> Self:
        """Learn from past tasks; without any that has an order, nothing happens.

        Tasks that were learnt before are not fitted again.

        Args:
            tasks: to learn from.
            validation: more of them: there is nothing to stop early here.
            progress: show a bar; by default if standard error is a terminal.
        """
        everything = [*tasks, *validation]
        check_one_width(everything)
        useful = [task for task in everything if teaches(task) and task.X.shape[1]]
        useful.sort(key=task_digest)  # the order in which tasks are given changes nothing
        if useful:
            with one_thread(), training_bar(progress, len(useful)) as bar:
                tick = None if bar is None else lambda k: bar(k, math.nan, math.nan)
                past = SourceGPs.of(useful, self.rows, self.past, tick)
            self.check_past(past)
            self.past = past
        return self

    def check_past(self, past: SourceGPs) -> None:
        """That past tasks have all that is needed of them."""

    def fit(self, task: Task) -> Self:
        with one_thread():
            self._target = GaussianProcess().fit(task)
            if self.past is not None:
                self._observe(task, self.past)
        return self

    def _observe(self, task: Task, past: SourceGPs) -> None:
        columns, losses = past.X.shape[2], task.losses
        if len(task) and task.X.shape[1] != columns:
            raise OptionError(
                f"the past has configurations of {columns} columns and the task has "
                f"{task.X.shape[1]}"
            )
        X = task.X if len(task) else np.empty((0, columns))
        self._transform = Standardize.fit(losses) if len(task) else Standardize(0.0, 1.0, np.inf)
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
        """Weights of the past tasks (T,) and of the target's own process; their sum is one.

        Args:
            past: the processes of T tasks.
            X: configurations of the target (n, d), `ENOUGH` at most, maybe none.
            y: their standardised losses (n,).
            context: of the target.
            rng: source of randomness.
        """

    def improvement(self, X: Array) -> Array | None:
        """Before there is an observation, the negative mean of the past alone (n,) at X (n, d)."""
        if self.past is None or self._target.model is not None:
            return None
        return -(self._share @ self._lead.mean(np.asarray(X, dtype=float)))

    def unscaled(self, mean: Array, variance: Array, covariance: Array | None) -> Posterior:
        """A posterior (n,) of standardised losses in units of the target's losses."""
        posterior = self._transform.unscale(mean, np.sqrt(variance))
        if covariance is not None:
            covariance = covariance * self._transform.scale * self._transform.scale
        return Posterior(*posterior, covariance)

    @property
    def sources(self) -> dict[str, float] | None:  # type: ignore[override]
        """The weight of each past task, by name, the largest first."""
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
                f"the file was learnt with rows={rows}, not {self.rows}: learn the past again"
            )
        past = SourceGPs.from_parts(arrays, record)
        self.check_past(past)
        self.past = past
