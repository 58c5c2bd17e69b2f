"""Source tasks as functions: one Gaussian process per past study, and their mean and covariance.

The losses of source task t become scores that mix ranks and standardised values (`scores`). The
posterior mean of a Gaussian process fitted to the scores is the function F_t(x). Lower is better.
If there are many source tasks, a few representatives replace them. Each representative has a
count: the number of source tasks that it replaces.
"""

from __future__ import annotations

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import ndtri
from typing_extensions import Self

from rankwise._core.numerics import rankdata
from rankwise.history.task import BUILTIN, GROUP, Task
from rankwise.history.transforms import Standardize
from rankwise.surrogates.empirical_bayes.source_weights import (
    FEATURES,
    GUESSING,
    Similarity,
    different_tasks,
)
from rankwise.surrogates.numeric.exact_gp import (
    ExactGP,
    fit_hyperparameters,
    lengthscale_prior,
    rbf,
    spread_over,
    squared_distances,
)
from rankwise.surrogates.numeric.memoize import Memory
from rankwise.types import Array, Mask

ROWS_TO_FIT = 100  # at most so many rows of a source task fit the hyperparameters of its GP
ROWS_TO_KEEP = 1000  # at most so many rows of a source task condition its GP
FEW_SOURCES, FEW_ROWS = 16, 64  # limits of `Past.compact`: source tasks, rows per source task

FLAT = 1e6  # length-scale of a column that a source task does not vary
_CLIP = 3.0  # bound of the standardised losses in `scores`
_NOISE_FLOOR = 1e-3  # smallest noise variance of a source task's GP
_MAX_PREDICTORS = 100  # source tasks that predict a held-out source task
_MAX_HELD_OUT_ROWS = 200  # rows of a held-out source task
_MAX_PROBES = 256  # configurations at which source tasks are compared
_NEGLIGIBLE = 1e-3  # source tasks with a smaller share of the largest weight are left out


def scores(losses: Array) -> Array:
    """Scores (n,) of losses (n,): the mean of normal scores of ranks and clipped z-scores.

    The order of losses is comparable between studies and their scale is not, hence the ranks.
    Ranks alone do not show how much better the best configurations are, hence the z-scores.
    """
    ranks = ndtri((rankdata(losses) - 0.5) / len(losses))
    z = np.clip(Standardize.fit(losses)(losses), -_CLIP, _CLIP)
    half: Array = 0.5 * ranks + 0.5 * z
    return half


@dataclass(frozen=True)
class Source:
    """One source task as a function F_t: the posterior mean of a Gaussian process.

    Attributes:
        X: Configurations that the process is conditioned on (n, d).
        scores: Their scores (n,), see the function `scores`.
        lengthscales: Length-scales of the process (d,).
        noise: Noise variance of the process.
        digest: `task_digest` of the task. Equal digests mean equal tasks.
        name: Name of the past study.
        context: Numbers about the data set that `source_weights` uses.
        gp: The process, computed from the other attributes. It can predict means only, because
            the matrix for variances is dropped to save memory.
    """

    X: Array
    scores: Array
    lengthscales: Array
    noise: float
    digest: str
    name: str = ""
    context: Mapping[str, float] = field(default_factory=dict)
    gp: ExactGP = field(init=False, repr=False, compare=False)

    @classmethod
    def of(cls, task: Task) -> Source:
        """Fit a Gaussian process to a task with at least two different losses.

        The function is constant in columns that the task does not vary. A long task is
        represented by random rows. The digest is their seed, so equal tasks give equal sources.
        """
        z, digest = scores(task.losses), task_digest(task)
        order = np.random.default_rng(int(digest[:15], 16)).permutation(len(z))
        rows, kept = (np.sort(order[:count]) for count in (ROWS_TO_FIT, ROWS_TO_KEEP))
        varied = np.ptp(task.X[rows], axis=0) > 0
        lengthscales = np.full(len(varied), FLAT)
        if varied.any():
            lengthscales[varied], noise = _fit(task.X[rows][:, varied], z[rows])
        else:
            lengthscales, noise = _fit(task.X[rows], z[rows])
        facts = source_context(task.context)
        return cls(task.X[kept], z[kept], lengthscales, noise, digest, task.name, facts)

    def __post_init__(self) -> None:
        gp = ExactGP.given(self.X, self.scores, rbf, self.lengthscales, self.noise)
        object.__setattr__(self, "gp", replace(gp, whitener=np.empty((0, 0))))  # saves memory

    def __call__(self, X: Array) -> Array:
        """Values of F_t (n,) at X (n, d)."""
        return self.gp.mean(X)

    def slope(self, x: Array) -> Array:
        """Gradient (d,) of F_t at x (d,)."""
        k = rbf(squared_distances(x[None], self.X, self.lengthscales))[0][0] * self.gp.weights
        gradient: Array = (k @ self.X - k.sum() * x) / self.lengthscales**2
        return gradient

    def thinned(self, count: int) -> Source:
        """Return a copy with the same hyperparameters that is conditioned on `count` rows at most.

        The rows are spread evenly over the order of the scores.
        """
        rows = spread_over(self.scores, count)
        return (
            self
            if len(rows) == len(self.X)
            else replace(self, X=self.X[rows], scores=self.scores[rows])
        )


def _fit(X: Array, z: Array) -> tuple[Array, float]:
    """Fit length-scales (d,) and noise variance to scores z (n,) at X (n, d), or look them up.

    If a space gets a parameter that source tasks do not have, X and z stay the same.
    """
    key = hashlib.sha256(repr(X.shape).encode() + X.tobytes() + z.tobytes()).hexdigest()
    if key not in _FITTED:
        if len(_FITTED) >= _MAX_FITTED:
            _FITTED.pop(next(iter(_FITTED)))
        _FITTED[key] = fit_hyperparameters(X, z, rbf, _NOISE_FLOOR)
    lengthscales, noise = _FITTED[key]
    return lengthscales.copy(), noise


_FITTED: dict[str, tuple[Array, float]] = {}
_MAX_FITTED = 5000


def typical_lengthscales(each: Array) -> tuple[Array, Mask]:
    """Median length-scales (d,) of T source tasks, and a mask (d,) of those that none varies.

    Args:
        each: Length-scales (T, d); `FLAT` in columns that a source task does not vary.
    """
    flat = each >= FLAT
    new: Mask = np.asarray(flat.all(axis=0))
    default = lengthscale_prior(each.shape[1]).mode
    typical = np.nanmedian(np.where(flat & ~new, np.nan, each), axis=0)
    return np.where(new, default, typical), new


def source_context(context: Mapping[str, float]) -> dict[str, float]:
    """The numbers of a task's context that `source_weights` uses."""
    return {
        name: context[name] for name in (*FEATURES, GUESSING, BUILTIN, GROUP) if name in context
    }


def task_digest(task: Task) -> str:
    """SHA-256 of a task's X and losses, shortened to 32 hexadecimal digits."""
    return hashlib.sha256(task.X.tobytes() + task.losses.tobytes()).hexdigest()[:32]


def teaches(task: Task) -> bool:
    """True if a task has at least three trials and at least two different losses.

    Other tasks do not rank configurations, so transfer methods skip them.
    """
    return len(task) > 2 and np.unique(task.losses).size > 1


@dataclass(frozen=True)
class View:
    """Values, mean and covariance of the source tasks' functions at n configurations.

    Attributes:
        mean: Mean mu of the functions (n,).
        spread: Factor of their covariance (n, r): C = spread @ spread.T.
        votes: Values of p functions (n, p): those of all source tasks or of representatives.
        counts: Number of source tasks that each column of `votes` represents (p,).
    """

    mean: Array
    spread: Array
    votes: Array
    counts: Array

    @classmethod
    def of(cls, votes: Array, counts: Array) -> View:
        """Compute mean and covariance factor from function values (n, p) and counts (p,).

        The result is the same as if column j of `votes` were repeated counts[j] times.
        """
        total = counts.sum()
        mean = votes @ (counts / total)
        spread = (votes - mean[:, None]) * np.sqrt(counts / max(total - 1.0, 1.0))
        return cls(mean, spread, votes, counts)

    def rows(self, which: slice | list[int]) -> View:
        """Return the view of the configurations with the given indices."""
        return View(self.mean[which], self.spread[which], self.votes[which], self.counts)


@dataclass(frozen=True)
class Lesson:
    """A held-out source task together with the other source tasks' predictions for it.

    Attributes:
        X: Configurations of the held-out task (n, d).
        scores: Their scores (n,).
        view: The other source tasks' functions at X.
    """

    X: Array
    scores: Array
    view: View


class Past(ABC):
    """The functions of all source tasks.

    Attributes:
        lengthscales: Typical length-scales of the source tasks (d,).
        new: Mask (d,) of columns that no source task varies. The functions are constant there.
        voters: Names of the p past studies that give the columns of `View.votes`.
    """

    lengthscales: Array
    new: Mask
    voters: tuple[str, ...]

    @abstractmethod
    def __len__(self) -> int:
        """Number of source tasks, including those that are only represented by another one."""

    @abstractmethod
    def view(self, X: Array) -> View:
        """Evaluate the functions, their mean and their covariance at X (n, d)."""

    def near(self, context: Mapping[str, float]) -> Past:
        """Return these functions with more weight on data sets like the one of a context."""
        return self

    @abstractmethod
    def slopes(self, x: Array) -> tuple[Array, Array, Array]:
        """Gradients at x (d,) of a view's mean (d,), spread (r, d) and votes (p, d)."""

    @abstractmethod
    def compact(self, n_sources: int = FEW_SOURCES, rows: int = FEW_ROWS) -> Past:
        """Return an approximation that is fast at configurations that are not cached.

        Args:
            n_sources: Maximum number of source tasks that are kept. Each represents the source
                tasks that are most similar to it.
            rows: Maximum number of rows per source task.
        """

    @abstractmethod
    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return arrays and a JSON-serialisable record from which `from_parts` rebuilds this."""

    @classmethod
    @abstractmethod
    def from_parts(cls, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> Self:
        """Rebuild the object from what `parts` returned."""


class Together:
    """Evaluates the functions of T source tasks at once, without a loop over them.

    The kernel is exp(-|a - z|^2 / 2) = exp(a'z - |a|^2 / 2 - |z|^2 / 2). Its exponent is the
    product of the extended vectors (z, 1, |z|^2 / 2) and (a, -|a|^2 / 2, -1), so one batched
    matrix product gives all exponents. Source tasks with fewer rows than the longest one are
    padded with rows of weight zero.

    Args:
        sources: The T source tasks.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        rows, d = max(len(s.X) for s in sources), sources[0].X.shape[1]
        self._scale = np.stack([1.0 / s.lengthscales for s in sources])
        self._rows = np.zeros((len(sources), rows, d))
        self._weights = np.zeros((len(sources), rows))
        for t, source in enumerate(sources):
            self._rows[t, : len(source.X)] = source.X * self._scale[t]
            self._weights[t, : len(source.X)] = source.gp.weights
        norm = 0.5 * np.square(self._rows).sum(axis=2, keepdims=True)
        extended = np.concatenate([self._rows, -norm, -np.ones_like(norm)], axis=2)
        self._extended = np.ascontiguousarray(extended.transpose(0, 2, 1))
        self._constants = np.array([s.gp.constant for s in sources])
        # Cache of one point: a gradient search needs both its value and its gradient.
        self._last: tuple[bytes, Array] | None = None

    def __call__(self, X: Array) -> Array:
        """Values of the functions (n, T) at X (n, d)."""
        values: Array = (self._kernel(X) @ self._weights[:, :, None])[:, :, 0]
        values += self._constants[:, None]
        return values.T

    def slopes(self, x: Array) -> Array:
        """Gradients of the functions (T, d) at x (d,)."""
        k = self._kernel(x[None])[:, 0] * self._weights
        towards = np.einsum("tr,trd->td", k, self._rows)
        gradients: Array = self._scale * (towards - k.sum(axis=1)[:, None] * x * self._scale)
        return gradients

    def _kernel(self, X: Array) -> Array:
        """Kernel (T, n, rows) between X (n, d) and the rows of each source task."""
        key = X.tobytes() if len(X) == 1 else b""
        last = self._last
        if last is not None and key == last[0]:
            return last[1]
        Z = X * self._scale[:, None]
        norm = 0.5 * np.square(Z).sum(axis=2, keepdims=True)
        k: Array = np.concatenate([Z, np.ones_like(norm), norm], axis=2) @ self._extended
        np.minimum(k, 0.0, out=k)
        np.exp(k, out=k)
        if key:
            self._last = (key, k)
        return k


class SourcePast(Past):
    """One Gaussian process per source task (`eb-gp`).

    Args:
        sources: One or more source tasks.
        counts: Number of past studies that each source task represents (T,); by default ones.
        remember: Cache the function values. This pays off if the same configurations are
            predicted repeatedly, as the rows of a table are.
        similarity: Similarity of the source tasks' data sets; None if all count the same.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        counts: Array | None = None,
        *,
        remember: bool = False,
        similarity: Similarity | None = None,
    ) -> None:
        self.sources = tuple(sources)
        self.voters = tuple(source.name for source in sources)
        self.counts = np.ones(len(sources)) if counts is None else counts
        each = np.stack([s.lengthscales for s in sources])
        self.lengthscales, self.new = typical_lengthscales(each)
        self._memory = Memory(self._values) if remember else None
        self._together = None if remember else Together(self.sources)
        self.similarity = similarity
        self._whole: tuple[SourcePast, int, int] | None = None  # before `compact`, and its limits
        self._nearest: tuple[bytes, SourcePast] | None = None  # last result of `near`

    def near(self, context: Mapping[str, float]) -> SourcePast:
        whole = self if self._whole is None else self._whole[0]
        weights = None if whole.similarity is None else whole.similarity.weights(context)
        if weights is None:
            return self
        key = weights.tobytes()
        if self._nearest is None or self._nearest[0] != key:
            self._nearest = (key, self._weighted(whole, whole.counts * weights))
        return self._nearest[1]

    def _weighted(self, whole: SourcePast, counts: Array) -> SourcePast:
        """The source tasks with other counts (T,), compact if this one is."""
        if self._whole is None:
            twin = copy.copy(self)
            twin.counts, twin._nearest = counts, None
            return twin
        kept = np.flatnonzero(counts > _NEGLIGIBLE * counts.max())
        some = [whole.sources[k] for k in kept]
        return SourcePast(some, counts[kept], remember=True).compact(*self._whole[1:])

    def __len__(self) -> int:
        return int(self.counts.sum())

    def view(self, X: Array) -> View:
        values = self._together or self._memory
        assert values is not None
        return View.of(values(X), self.counts)

    def slopes(self, x: Array) -> tuple[Array, Array, Array]:
        if self._together is None:
            votes = np.stack([source.slope(x) for source in self.sources])
        else:
            votes = self._together.slopes(x)
        view = View.of(votes.T, self.counts)
        return view.mean, view.spread.T, votes

    def _values(self, X: Array) -> Array:
        """Values of the functions (n, T) at X (n, d)."""
        return np.stack([source(X) for source in self.sources], axis=1)

    def lessons(self, count: int) -> Iterable[Lesson]:
        """Hold out up to `count` source tasks, one at a time, and predict each from the others.

        Yields nothing for fewer than three source tasks. A copy of the held-out task is never
        used to predict it.

        Args:
            count: Maximum number of held-out tasks.
        """
        if len(self.sources) < 3:
            return
        predictors = self
        if len(self.sources) > _MAX_PREDICTORS:
            predictors = self.compact(_MAX_PREDICTORS, _MAX_HELD_OUT_ROWS)
        order = np.random.default_rng(0).permutation(len(self.sources))
        for source in (self.sources[k] for k in order[:count]):
            rows = spread_over(source.scores, _MAX_HELD_OUT_ROWS)
            different = different_tasks([source, *predictors.sources])[0, 1:]
            others = np.flatnonzero(different).tolist()
            if not others:  # all source tasks are copies of this one
                continue
            values = np.stack([predictors.sources[k](source.X[rows]) for k in others], axis=1)
            counts = predictors.counts
            if self.similarity is not None and predictors is self:
                near = self.similarity.weights(source.context)
                counts = counts if near is None else counts * near
            view = View.of(values, counts[others])
            yield Lesson(source.X[rows], source.scores[rows], view)

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        arrays = {
            "X": np.concatenate([s.X for s in self.sources]),
            "scores": np.concatenate([s.scores for s in self.sources]),
            "rows": np.array([len(s.X) for s in self.sources]),
            "lengthscales": np.stack([s.lengthscales for s in self.sources]),
            "noise": np.array([s.noise for s in self.sources]),
            "counts": self.counts,
        }
        names = [(s.digest, s.name, dict(s.context)) for s in self.sources]
        similar = self.similarity
        if similar is None:
            return arrays, {"sources": names}
        # Its table is in the contexts of the sources; arrays of models have no gaps.
        facts = {"names": list(similar.names), "bandwidth": similar.bandwidth}
        return arrays, {"sources": names, "similarity": facts}

    @classmethod
    def from_parts(cls, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> Self:
        ends = np.cumsum(arrays["rows"])
        X, scores = np.split(arrays["X"], ends[:-1]), np.split(arrays["scores"], ends[:-1])
        sources = [
            Source(X[k], scores[k], arrays["lengthscales"][k], float(noise), *record["sources"][k])
            for k, noise in enumerate(arrays["noise"])
        ]
        facts, similar = record.get("similarity"), None
        if facts is not None:
            similar = Similarity.of(facts["names"], sources, facts["bandwidth"])
        return cls(sources, arrays["counts"], remember=True, similarity=similar)

    def compact(self, n_sources: int = FEW_SOURCES, rows: int = FEW_ROWS) -> Self:
        chosen, counts = list(range(len(self.sources))), self.counts
        if len(self.sources) > n_sources:
            chosen, counts = representatives(self.probed, self.counts, n_sources)
        small = type(self)([self.sources[k].thinned(rows) for k in chosen], counts)
        small._whole = (self, n_sources, rows)
        return small

    @property
    def probed(self) -> Array:
        """Values of the functions (T, m) at `_probes`."""
        probes = self._probes()
        return np.stack([source(probes) for source in self.sources])

    def _probes(self) -> Array:
        """Configurations (m, d) at which source tasks are compared: random rows of the tasks."""
        rng = np.random.default_rng(0)
        share = max(1, _MAX_PROBES // len(self.sources))
        parts = [
            s.X[rng.choice(len(s.X), min(share, len(s.X)), replace=False)]
            for s in (self.sources[k] for k in rng.permutation(len(self.sources))[:_MAX_PROBES])
        ]
        return np.concatenate(parts)


def representatives(values: Array, counts: Array, k: int) -> tuple[list[int], Array]:
    """Choose k of T functions that represent all of them (farthest-point sampling).

    The first is the function nearest to the mean. Each next one is the farthest from those
    already chosen. Functions are compared after subtracting their mean over the configurations.

    Args:
        values: Values of the functions at m configurations (T, m).
        counts: Number of source tasks that each function already represents (T,).
        k: Number of functions to choose, at most T.

    Returns:
        Indices of the chosen functions, and the number of source tasks that each represents (k,).
        There are fewer than k if some functions are equal.
    """
    centre = values - values.mean(axis=1, keepdims=True)
    first = int(np.argmin(np.square(centre - np.average(centre, 0, counts)).sum(axis=1)))
    chosen = [first]
    distance = np.square(centre - centre[first]).sum(axis=1)
    nearest = np.zeros(len(values), dtype=int)
    while len(chosen) < k:
        far = int(np.argmax(distance))
        d = np.square(centre - centre[far]).sum(axis=1)
        nearest[d < distance] = len(chosen)
        distance = np.minimum(distance, d)
        chosen.append(far)
    totals: Array = np.bincount(nearest, counts, minlength=len(chosen)).astype(float)
    kept = totals > 0
    return [c for c, keep in zip(chosen, kept, strict=True) if keep], totals[kept]


def effective_counts(tasks: Sequence[Task]) -> Array | None:
    """Counts (T,) of weighted source tasks; None if all weights are one.

    They are proportional to the weights w and sum to the effective number of tasks,
    (sum w)^2 / sum w^2.
    """
    weights = np.array([task.weight for task in tasks])
    if (weights == 1.0).all():
        return None
    counts: Array = weights * weights.sum() / np.square(weights).sum()
    return counts


def sources_of(
    tasks: Iterable[Task],
    known: Iterable[Source] = (),
    tick: Callable[[int], None] | None = None,
) -> list[Source]:
    """Fit one `Source` to each task, in the order of the tasks.

    Args:
        tasks: Source tasks for which `teaches` is true.
        known: Sources that were fitted earlier. They are reused for tasks with the same digest.
        tick: Progress callback, called after each task with the number of tasks done.
    """
    by_digest = {source.digest: source for source in known}
    found = []
    for k, task in enumerate(tasks, 1):
        source, facts = by_digest.get(task_digest(task)), source_context(task.context)
        if source is None:
            source = Source.of(task)
        elif dict(source.context) != facts:
            source = replace(source, context=facts)
        found.append(source)
        if tick is not None:
            tick(k)
    return found
