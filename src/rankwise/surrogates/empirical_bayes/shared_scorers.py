"""Source tasks as contexts of one Deep Ranking Ensemble (`dre-gp`).

The ensemble (`ranking.dre`) is meta-trained to rank the configurations of every source task. Its
Deep Set turns some trials of source task t into a context z_t. The function of the source task is
the mean of the scorers s_m, given this context, with the sign of a loss:

    F_t(x) = c - sum_m g_m s_m(x, z_t)

The gains g_m give every scorer the same influence. The target task is not used to fine-tune the
weights; it conditions a Gaussian process with the mean and the covariance of these functions.
PyTorch is needed for the meta-training only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import Self

from rankwise._core.extras import require
from rankwise.errors import ModelFileError
from rankwise.history.task import Task
from rankwise.surrogates.empirical_bayes.past_functions import (
    FEW_ROWS,
    FEW_SOURCES,
    Lesson,
    Past,
    Source,
    View,
    effective_counts,
    representatives,
    scores,
    typical_lengthscales,
)
from rankwise.surrogates.numeric.memoize import Memory
from rankwise.types import Array

MOST_CONTEXTS = 256  # maximum number of source tasks; each represents similar ones

_HELD_OUT = 6  # one in so many source tasks is held out
_ROWS_TO_DESCRIBE = 50  # trials of a source task in its Deep Set, as in the meta-training
_ROWS_OF_STUDY = 200  # trials of a source task that scale the functions, or of a lesson
_MAX_PROBES = 512  # configurations at which source tasks are compared
_MAX_LENGTHSCALE_STUDIES = 20  # source tasks whose length-scales are fitted
_CHUNK = 2000  # pairs of configuration and context per pass, so that layers fit in the CPU cache


@dataclass(frozen=True)
class FrozenScorers:
    """The scorers of a Deep Ranking Ensemble as NumPy arrays, without their Deep Set.

    Attributes:
        weights: Weights of the M scorers by the names of `Architecture.shapes`.
        gain: Gains g_m (M,).
        centre: The constant c.
    """

    weights: Mapping[str, Array]
    gain: Array
    centre: float = 0.0

    def __call__(self, X: Array, contexts: Array) -> Array:
        """Values (n, T) of the functions with contexts (T, c) at X (n, d)."""
        values = np.empty((len(X), len(contexts)))
        for rows, out in self._passes(X, contexts):
            values[rows] = self.centre - np.tensordot(self.gain, out, 1)
        return values

    def outputs(self, X: Array, contexts: Array) -> Array:
        """Scores (M, n, T) of X (n, d) with contexts (T, c)."""
        found = np.empty((len(self.gain), len(X), len(contexts)))
        for rows, out in self._passes(X, contexts):
            found[:, rows] = out
        return found

    def _passes(self, X: Array, contexts: Array) -> Iterator[tuple[slice, Array]]:
        """Yield slices of r rows of X (n, d) and their scores (M, r, T)."""
        step, w = max(1, _CHUNK // len(contexts)), self.weights
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            out = self._layers(X[rows], contexts)[-1] @ w["out"].transpose(0, 2, 1) + w["b_out"]
            yield rows, out.reshape(len(out), -1, len(contexts))

    def slopes(self, x: Array, contexts: Array) -> Array:
        """Gradients (T, d) of the functions with contexts (T, c) at x (d,)."""
        layers, w = self._layers(x[None], contexts), self.weights
        down = np.broadcast_to(self.gain[:, None, None] * w["out"], layers[-1].shape)
        for k in range(len(layers) - 1, 0, -1):
            down = (down * (layers[k] > 0)) @ w[f"w{k}"].transpose(0, 2, 1)
        down = (down * (layers[0] > 0)) @ w["x"].transpose(0, 2, 1)
        gradients: Array = -down.sum(axis=0).astype(float)
        return gradients

    def _layers(self, X: Array, contexts: Array) -> list[Array]:
        """Hidden layers (M, n * T, h) for X (n, d) and contexts (T, c)."""
        w = self.weights
        first = X.astype(w["x"].dtype) @ w["x"]
        shift = contexts.astype(w["x"].dtype) @ w["z"] + w["b0"]
        a = first[:, :, None] + shift[:, None]
        layers = [np.maximum(a, 0.0, out=a).reshape(len(first), -1, first.shape[2])]
        while f"w{len(layers)}" in w:
            a = layers[-1] @ w[f"w{len(layers)}"]
            a += w[f"b{len(layers)}"]
            layers.append(np.maximum(a, 0.0, out=a))
        return layers


class ScorerPast(Past):
    """Scorers that all source tasks share, and one context per source task.

    Args:
        scorers: The scorers.
        contexts: Contexts of the source tasks (T, c).
        lengthscales: Length-scales of the residual kernel (d,).
        names: Names of the source tasks.
        counts: Number of past studies that each source task represents (T,).
        probes: Configurations (m, d) at which source tasks are compared.
        constant: Values (d,) of the columns that no source task varies, NaN in the others.
        remember: Cache the function values.
    """

    def __init__(
        self,
        scorers: FrozenScorers,
        contexts: Array,
        lengthscales: Array,
        names: Sequence[str],
        counts: Array,
        probes: Array,
        constant: Array,
        *,
        remember: bool = True,
    ) -> None:
        self.scorers, self.contexts, self.lengthscales = scorers, contexts, lengthscales
        self.voters, self.counts, self.probes = tuple(names), counts, probes
        self.constant, self.new = constant, ~np.isnan(constant)
        self._values: Callable[[Array], Array] = Memory(self._at) if remember else self._at

    @classmethod
    def learn(
        cls,
        tasks: Sequence[Task],
        seed: int,
        progress: bool | None = None,
        *,
        steps: int,
    ) -> tuple[Self, list[Lesson]]:
        """Meta-train an ensemble; return the functions, and predictions of held-out tasks.

        Every sixth source task is held out: it is not trained on, but decides when the
        meta-training ends. With fewer than three source tasks none is held out.

        Args:
            tasks: Source tasks for which `teaches` is true.
            seed: Seed of the meta-training.
            progress: Show a progress bar; by default if standard error is a terminal.
            steps: Largest number of steps of meta-training.

        Raises:
            MissingPackageError: PyTorch is not installed.
        """
        require("an ensemble of scorers of past studies (dre-gp)", "neural")
        from rankwise.surrogates.ranking.dre import DeepRankingEnsemble

        held = list(tasks[::_HELD_OUT]) if len(tasks) > 2 else []
        rest = [task for k, task in enumerate(tasks) if k % _HELD_OUT] if held else list(tasks)
        ensemble = DeepRankingEnsemble(training={"steps": steps}, seed=seed, fine_tune=False)
        ensemble.meta_fit(rest, held, progress=progress)
        some = [_some_rows(task, _ROWS_OF_STUDY) for task in (*rest, *held)]
        contexts = np.stack([ensemble.context_of(_some_rows(t, _ROWS_TO_DESCRIBE)) for t in some])
        low = np.min([task.X.min(axis=0) for task in some], axis=0)
        high = np.max([task.X.max(axis=0) for task in some], axis=0)
        constant = np.where(low == high, low, np.nan)
        fitted = some[:: max(1, len(some) // _MAX_LENGTHSCALE_STUDIES)][:_MAX_LENGTHSCALE_STUDIES]
        lengthscales, _ = typical_lengthscales(
            np.stack([Source.of(task).lengthscales for task in fitted])
        )
        counts = effective_counts((*rest, *held))
        counts = np.ones(len(some)) if counts is None else counts
        share = max(1, _MAX_PROBES // len(some))
        probes = np.concatenate([task.X[:share] for task in some])[:_MAX_PROBES]
        scorers = _scaled(ensemble.scorer_weights, contexts, some, probes)
        names = [task.name for task in some]
        whole = cls(scorers, contexts, lengthscales, names, counts, probes, constant)
        past = whole.reduced(MOST_CONTEXTS)
        if not held:
            return past, []
        n = len(rest)
        others = cls(
            scorers, contexts[:n], lengthscales, names[:n], counts[:n], probes, constant
        ).reduced(MOST_CONTEXTS)
        return past, [
            Lesson(task.X, scores(task.losses), others.view(task.X)) for task in some[n:]
        ]

    def __len__(self) -> int:
        return int(self.counts.sum())

    def view(self, X: Array) -> View:
        if self.new.any():
            X = np.where(self.new, self.constant, X)
        return View.of(self._values(X), self.counts)

    def slopes(self, x: Array) -> tuple[Array, Array, Array]:
        x = np.where(self.new, self.constant, x)
        votes = self.scorers.slopes(x, self.contexts) * ~self.new
        view = View.of(votes.T, self.counts)
        return view.mean, view.spread.T, votes

    def _at(self, X: Array) -> Array:
        """Values of the functions (n, T) at X (n, d)."""
        return self.scorers(X, self.contexts)

    def compact(self, n_sources: int = FEW_SOURCES, rows: int = FEW_ROWS) -> Self:
        """Return an approximation with few contexts and no cache; `rows` is ignored."""
        return self.reduced(n_sources, remember=False)

    def reduced(self, n_sources: int, *, remember: bool = True) -> Self:
        """Return an approximation with `n_sources` contexts at most; others are represented."""
        chosen, counts = list(range(len(self.contexts))), self.counts
        if len(chosen) > n_sources:
            values = self.scorers(self.probes, self.contexts).T
            chosen, counts = representatives(values, counts, n_sources)
        return type(self)(
            self.scorers,
            self.contexts[chosen],
            self.lengthscales,
            [self.voters[k] for k in chosen],
            counts,
            self.probes,
            self.constant,
            remember=remember,
        )

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        arrays = {
            name: getattr(self, name)
            for name in ("contexts", "lengthscales", "counts", "probes", "constant")
        }
        arrays["gain"] = self.scorers.gain
        arrays |= {f"scorers.{name}": w for name, w in self.scorers.weights.items()}
        return arrays, {"names": list(self.voters), "centre": self.scorers.centre}

    @classmethod
    def from_parts(cls, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> Self:
        start = "scorers."
        weights = {n.removeprefix(start): w for n, w in arrays.items() if n.startswith(start)}
        if len(record["names"]) != len(arrays["contexts"]):
            raise ModelFileError(
                f"the model has {len(arrays['contexts'])} past studies, but "
                f"{len(record['names'])} names"
            )
        return cls(
            FrozenScorers(weights, arrays["gain"], float(record["centre"])),
            arrays["contexts"],
            arrays["lengthscales"],
            record["names"],
            arrays["counts"],
            arrays["probes"],
            arrays["constant"],
        )


def _scaled(
    weights: Mapping[str, Array], contexts: Array, tasks: Sequence[Task], probes: Array
) -> FrozenScorers:
    """Scorers with gains that make their functions comparable to the scores of source tasks.

    Each scorer has the same standard deviation over the probes and contexts. One factor for all of
    them minimizes the squared error of the functions, each less its mean.

    Args:
        weights: Weights of the M scorers.
        contexts: Contexts of the source tasks (T, c).
        tasks: The source tasks.
        probes: Configurations (m, d).
    """
    members = len(weights["x"])
    outputs = FrozenScorers(weights, np.ones(members)).outputs(probes, contexts)
    spread = outputs.std(axis=(1, 2))
    gain = 1.0 / (members * np.where(spread > 0, spread, 1.0))
    scorers, fit, size = FrozenScorers(weights, gain), 0.0, 0.0
    for task, context in zip(tasks, contexts, strict=True):
        values = scorers(task.X, context[None])[:, 0]
        values -= values.mean()
        fit += float(values @ scores(task.losses)) / len(task)
        size += float(values @ values) / len(task)
    gain = gain * (max(fit, 0.0) / size if size > 0 else 0.0)
    centre = float(gain @ outputs.mean(axis=(1, 2)))
    return FrozenScorers(weights, gain, centre)


def _some_rows(task: Task, count: int) -> Task:
    """Return at most `count` random trials of a task, always the same ones."""
    rows = np.random.default_rng(0).permutation(len(task))[:count]
    return Task.of(task.X[rows], task.losses[rows], context=task.context, name=task.name)
