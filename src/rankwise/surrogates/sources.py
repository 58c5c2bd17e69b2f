"""Past studies as functions: what each of them says of any configuration.

A source is one past study. Its losses become scores in which order counts as much as distance, and
a Gaussian process of them gives F_t(x), lower is better, at any configuration. Many sources are
represented by some of them, each with the number of those it stands for.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata
from typing_extensions import Self

from rankwise.surrogates.exact import (
    ExactGP,
    fit_hyperparameters,
    rbf,
    spread_over,
    squared_distances,
)
from rankwise.surrogates.memory import Memory
from rankwise.task import Task
from rankwise.transforms import Standardize
from rankwise.types import Array

ROWS_TO_FIT = 100  # from which the hyperparameters of a source are found
ROWS_TO_KEEP = 1000  # which its function goes through
FEW_SOURCES, FEW_ROWS = 16, 64  # in a compact past

_CLIP = 3.0
_NOISE_FLOOR = 1e-3
_TEACHERS, _TAUGHT = 100, 200  # sources that predict a past study, and rows of it
_PROBES = 256  # configurations at which sources are compared


def scores(losses: Array) -> Array:
    """Half the normal scores of the ranks, half the clipped z-scores of losses (n,).

    Order, not scale, is what transfers; but ranks alone forget how much better the best are.
    """
    ranks = ndtri((rankdata(losses) - 0.5) / len(losses))
    z = np.clip(Standardize.fit(losses)(losses), -_CLIP, _CLIP)
    half: Array = 0.5 * ranks + 0.5 * z
    return half


@dataclass(frozen=True)
class Source:
    """One past study.

    Attributes:
        X: its configurations (n, d).
        scores: (n,), see `scores`.
        lengthscales: (d,) of its Gaussian process.
        noise: of its Gaussian process.
        digest: of the study's numbers: two sources with the same one are the same.
        name: of the study.
        gp: what follows from them; it predicts means only.
    """

    X: Array
    scores: Array
    lengthscales: Array
    noise: float
    digest: str
    name: str = ""
    gp: ExactGP = field(init=False, repr=False, compare=False)

    @classmethod
    def of(cls, task: Task) -> Source:
        """Fitted to a past task with at least two different losses."""
        z, digest = scores(task.losses), task_digest(task)
        order = np.random.default_rng(int(digest[:15], 16)).permutation(len(z))
        rows, kept = (np.sort(order[:count]) for count in (ROWS_TO_FIT, ROWS_TO_KEEP))
        lengthscales, noise = fit_hyperparameters(task.X[rows], z[rows], rbf, _NOISE_FLOOR)
        return cls(task.X[kept], z[kept], lengthscales, noise, digest, task.name)

    def __post_init__(self) -> None:
        gp = ExactGP.given(self.X, self.scores, rbf, self.lengthscales, self.noise)
        object.__setattr__(self, "gp", replace(gp, whitener=np.empty((0, 0))))  # means only

    def __call__(self, X: Array) -> Array:
        """F_t (n,) at X (n, d)."""
        return self.gp.mean(X)

    def slope(self, x: Array) -> Array:
        """The gradient (d,) of F_t at x (d,)."""
        k = rbf(squared_distances(x[None], self.X, self.lengthscales))[0][0] * self.gp.weights
        gradient: Array = (k @ self.X - k.sum() * x) / self.lengthscales**2
        return gradient

    def thinned(self, count: int) -> Source:
        """The same process, which goes through at most `count` of its rows."""
        rows = spread_over(self.scores, count)
        return (
            self
            if len(rows) == len(self.X)
            else replace(self, X=self.X[rows], scores=self.scores[rows])
        )


def task_digest(task: Task) -> str:
    """Of the numbers of a task."""
    return hashlib.sha256(task.X.tobytes() + task.losses.tobytes()).hexdigest()[:32]


def teaches(task: Task) -> bool:
    """Whether a task has three evaluations and two different losses: an order to learn."""
    return len(task) > 2 and np.unique(task.losses).size > 1


@dataclass(frozen=True)
class View:
    """What the past says of n configurations.

    Attributes:
        mean: of the sources' functions (n,).
        spread: (n, r): the covariance of the functions between two configurations is the
            product of their rows.
        votes: the functions themselves, or those of representatives (n, p).
        counts: how many sources each vote stands for (p,).
    """

    mean: Array
    spread: Array
    votes: Array
    counts: Array

    @classmethod
    def of(cls, votes: Array, counts: Array) -> View:
        """From functions (n, p), each of which stands for `counts` (p,) sources."""
        total = counts.sum()
        mean = votes @ (counts / total)
        spread = (votes - mean[:, None]) * np.sqrt(counts / max(total - 1.0, 1.0))
        return cls(mean, spread, votes, counts)

    def rows(self, which: slice | list[int]) -> View:
        """The view of some of the configurations."""
        return View(self.mean[which], self.spread[which], self.votes[which], self.counts)


@dataclass(frozen=True)
class Lesson:
    """One past study, and what the others say of its configurations.

    Attributes:
        X: configurations (n, d).
        scores: (n,).
        view: of the others.
    """

    X: Array
    scores: Array
    view: View


class Past(ABC):
    """The functions of all sources.

    Attributes:
        lengthscales: (d,), typical ones of the sources.
        voters: names of the p past studies whose functions are the votes of a view.
    """

    lengthscales: Array
    voters: tuple[str, ...]

    @abstractmethod
    def __len__(self) -> int:
        """The number of sources."""

    @abstractmethod
    def view(self, X: Array) -> View:
        """What the past says of X (n, d)."""

    @abstractmethod
    def slopes(self, x: Array) -> tuple[Array, Array, Array]:
        """Gradients at x (d,) of the mean (d,), the spread (r, d) and the votes (p, d)."""

    @abstractmethod
    def compact(self, n_sources: int = FEW_SOURCES, rows: int = FEW_ROWS) -> Past:
        """A past that is fast at configurations it was never asked about.

        Args:
            n_sources: at most so many, each of which stands for those most like it.
            rows: of each source.
        """

    @abstractmethod
    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Arrays and a JSON record from which `from_parts` makes it again."""

    @classmethod
    @abstractmethod
    def from_parts(cls, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> Self:
        """What `parts` was asked of."""


class Together:
    """All functions of a few sources at once, without a loop over them.

    exp(-|a - z|^2 / 2) = exp(a z - |a|^2 / 2 - |z|^2 / 2) is one product of longer rows.
    Sources of fewer rows than others get rows without weight.

    Args:
        sources: T of them.
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
        longer = np.concatenate([self._rows, -norm, -np.ones_like(norm)], axis=2)
        self._longer = np.ascontiguousarray(longer.transpose(0, 2, 1))
        self._constants = np.array([s.gp.constant for s in sources])
        self._last: tuple[bytes, Array] | None = (
            None  # a point's value and slope are both asked for
        )

    def __call__(self, X: Array) -> Array:
        """Values (n, T) at X (n, d)."""
        values: Array = (self._kernel(X) @ self._weights[:, :, None])[:, :, 0]
        values += self._constants[:, None]
        return values.T

    def slopes(self, x: Array) -> Array:
        """Gradients (T, d) at x (d,)."""
        k = self._kernel(x[None])[:, 0] * self._weights
        towards = np.einsum("tr,trd->td", k, self._rows)
        gradients: Array = self._scale * (towards - k.sum(axis=1)[:, None] * x * self._scale)
        return gradients

    def _kernel(self, X: Array) -> Array:
        """Of X (n, d) with the rows of each source (T, n, rows)."""
        key = X.tobytes() if len(X) == 1 else b""
        last = self._last
        if last is not None and key == last[0]:
            return last[1]
        Z = X * self._scale[:, None]
        norm = 0.5 * np.square(Z).sum(axis=2, keepdims=True)
        k: Array = np.concatenate([Z, np.ones_like(norm), norm], axis=2) @ self._longer
        np.minimum(k, 0.0, out=k)
        np.exp(k, out=k)
        if key:
            self._last = (key, k)
        return k


class SourcePast(Past):
    """A Gaussian process per source.

    Args:
        sources: one or more.
        counts: how many past studies each stands for (T,); by default one.
        remember: keep the values at configurations that were asked for, as the rows of a table
            are asked for again and again.
    """

    def __init__(
        self, sources: Sequence[Source], counts: Array | None = None, *, remember: bool = False
    ) -> None:
        self.sources = tuple(sources)
        self.voters = tuple(source.name for source in sources)
        self.counts = np.ones(len(sources)) if counts is None else counts
        self.lengthscales = np.median([s.lengthscales for s in sources], axis=0)
        self._memory = Memory(self._each) if remember else None
        self._together = None if remember else Together(self.sources)

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

    def _each(self, X: Array) -> Array:
        return np.stack([source(X) for source in self.sources], axis=1)

    def lessons(self, count: int) -> Iterable[Lesson]:
        """Some of the past studies, each predicted from the others; none of fewer than three."""
        if len(self.sources) < 3:
            return
        teachers = self if len(self.sources) <= _TEACHERS else self.compact(_TEACHERS, _TAUGHT)
        order = np.random.default_rng(0).permutation(len(self.sources))
        for source in (self.sources[k] for k in order[:count]):
            rows = spread_over(source.scores, _TAUGHT)
            others = [k for k, s in enumerate(teachers.sources) if s.digest != source.digest]
            if not others:  # it was given several times
                continue
            values = np.stack([teachers.sources[k](source.X[rows]) for k in others], axis=1)
            view = View.of(values, teachers.counts[others])
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
        names = [(s.digest, s.name) for s in self.sources]
        return arrays, {"sources": names}

    @classmethod
    def from_parts(cls, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> Self:
        ends = np.cumsum(arrays["rows"])
        X, scores = np.split(arrays["X"], ends[:-1]), np.split(arrays["scores"], ends[:-1])
        sources = [
            Source(X[k], scores[k], arrays["lengthscales"][k], float(noise), *record["sources"][k])
            for k, noise in enumerate(arrays["noise"])
        ]
        return cls(sources, arrays["counts"], remember=True)

    def compact(self, n_sources: int = FEW_SOURCES, rows: int = FEW_ROWS) -> Self:
        if len(self.sources) <= n_sources:
            return type(self)([s.thinned(rows) for s in self.sources], self.counts)
        probes = self._probes()
        values = np.stack([source(probes) for source in self.sources])
        chosen, counts = representatives(values, self.counts, n_sources)
        return type(self)([self.sources[k].thinned(rows) for k in chosen], counts)

    def _probes(self) -> Array:
        """Configurations (m, d) at which sources are compared: some of each of them."""
        rng = np.random.default_rng(0)
        share = max(1, _PROBES // len(self.sources))
        parts = [
            s.X[rng.choice(len(s.X), min(share, len(s.X)), replace=False)]
            for s in (self.sources[k] for k in rng.permutation(len(self.sources))[:_PROBES])
        ]
        return np.concatenate(parts)


def representatives(values: Array, counts: Array, k: int) -> tuple[list[int], Array]:
    """k of T functions, far from each other, and how many of all are nearest to each (k,).

    Args:
        values: of the functions at some configurations (T, m).
        counts: how many sources each function stands for already (T,).
        k: at most T.
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


def sources_of(
    tasks: Iterable[Task],
    known: Iterable[Source] = (),
    tick: Callable[[int], None] | None = None,
) -> list[Source]:
    """The sources of past tasks.

    Args:
        tasks: past ones, each of which teaches something.
        known: sources that were fitted before; they are not fitted again.
        tick: called after each task with its number, from 1.
    """
    by_digest = {source.digest: source for source in known}
    found = []
    for k, task in enumerate(tasks, 1):
        found.append(by_digest.get(task_digest(task)) or Source.of(task))
        if tick is not None:
            tick(k)
    return found
