"""Source tasks as linear functions of one shared network (`eb-net`).

This suits archives of many studies, or of studies with few trials. A trunk of three layers maps a
configuration to features. The function of each source task, and their mean, is linear in the
features. For a fixed trunk the function of a source task is a ridge regression, so adding a past
study is cheap. Evaluating mean, covariance and functions at a configuration takes one pass
through the trunk, for any number of source tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from typing_extensions import Self

from rankwise._core.extras import require
from rankwise._core.threads import one_thread
from rankwise.history.task import Task
from rankwise.surrogates.empirical_bayes.past_functions import (
    FEW_ROWS,
    FEW_SOURCES,
    Lesson,
    Past,
    Source,
    View,
    representatives,
    scores,
    task_digest,
    typical_lengthscales,
)
from rankwise.surrogates.numeric.exact_gp import spread_over
from rankwise.surrogates.numeric.memoize import Memory
from rankwise.types import Array

LAYERS = (96, 96, 32)  # widths of the trunk's layers
STEPS = 2000  # default number of training steps of the trunk
VOTES = 64  # maximum number of functions in `View.votes`; each represents similar ones

_BATCH = 1024  # maximum number of rows per training step
_RATE = 3e-3  # initial learning rate
_RIDGE = 0.3  # ridge penalty on a head's deviation from the mean head, in squared scores
_MAX_LENGTHSCALE_STUDIES = 20  # source tasks whose length-scales are fitted
_MIN_KNOWN_SHARE = 0.8  # share of known source tasks from which on the old trunk is kept
_MAX_HELD_OUT_ROWS = 200  # rows of a held-out source task that are predicted
_MAX_ROWS = 2000  # rows of a source task that are used for training


@dataclass(frozen=True)
class Trunk:
    """A tanh network that maps a configuration to features.

    Attributes:
        weights: Weight matrix of each layer (inputs, outputs).
        biases: Bias of each layer (outputs,).
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]

    def __call__(self, X: Array) -> Array:
        """Features (n, f + 1) of X (n, d): the f outputs of the last layer, and a constant 1."""
        h = 2.0 * X - 1.0
        for w, b in zip(self.weights, self.biases, strict=True):
            h = np.tanh(h @ w + b)
        return np.concatenate([h, np.ones((len(h), 1))], axis=1)

    def slope(self, x: Array) -> Array:
        """Jacobian (f + 1, d) of the features at x (d,)."""
        h, slope = 2.0 * x - 1.0, 2.0 * np.eye(len(x))
        for w, b in zip(self.weights, self.biases, strict=True):
            h = np.tanh(h @ w + b)
            slope = (1.0 - h * h)[:, None] * (w.T @ slope)
        return np.concatenate([slope, np.zeros((1, len(x)))])


@dataclass(frozen=True)
class Study:
    """Training data of one source task.

    Attributes:
        X: Configurations (n, d).
        scores: Their scores (n,), see the function `scores`.
        digest: `task_digest` of the task.
        name: Name of the past study.
    """

    X: Array
    scores: Array
    digest: str
    name: str

    @classmethod
    def of(cls, task: Task) -> Study:
        """Compute scores and take at most `_MAX_ROWS` random rows of a task."""
        z, digest = scores(task.losses), task_digest(task)
        order = np.random.default_rng(int(digest[:15], 16)).permutation(len(z))[:_MAX_ROWS]
        return cls(task.X[order], z[order], digest, task.name)


class NetPast(Past):
    """A shared trunk and one linear head per source task.

    Args:
        trunk: The network that computes features.
        heads: Weights of the source tasks' functions in the features (T, f + 1).
        lengthscales: Length-scales of the residual kernel (d,).
        names: Digest and name of each source task.
        constant: Values (d,) of the columns that no source task varies, NaN in the others.
        remember: Cache the features of configurations.
    """

    def __init__(
        self,
        trunk: Trunk,
        heads: Array,
        lengthscales: Array,
        names: Sequence[tuple[str, str]],
        constant: Array | None = None,
        *,
        remember: bool = False,
    ) -> None:
        self.constant = np.full(len(lengthscales), np.nan) if constant is None else constant
        self.new = ~np.isnan(self.constant)
        self.trunk, self.heads, self.lengthscales = trunk, heads, lengthscales
        self.names = [(digest, name) for digest, name in names]
        self._features: Callable[[Array], Array] = Memory(trunk) if remember else trunk
        self._mean = heads.mean(axis=0)
        deviation = (heads - self._mean) / np.sqrt(max(len(heads) - 1, 1))
        values, vectors = np.linalg.eigh(deviation.T @ deviation)
        self._spread = vectors * np.sqrt(np.maximum(values, 0.0))
        chosen, self._counts = list(range(len(heads))), np.ones(len(heads))
        if len(heads) > VOTES:
            chosen, self._counts = representatives(heads, self._counts, VOTES)
        self._votes, self.voters = heads[chosen], tuple(self.names[k][1] for k in chosen)

    @classmethod
    def learn(
        cls,
        studies: Sequence[Study],
        seed: int,
        known: NetPast | None = None,
        tick: Callable[[int], None] | None = None,
        *,
        steps: int = STEPS,
    ) -> NetPast:
        """Train the trunk and fit one head per source task.

        Args:
            studies: One or more source tasks.
            seed: Seed of the initial weights and of the batches.
            known: An earlier result. If it contains at least 80 % of `studies`, its trunk and
                heads are reused and only the heads of new source tasks are fitted.
            tick: Progress callback, called every 50 training steps with the number of steps.
            steps: Number of training steps of the trunk.
        """
        if known is not None:
            by_digest = {digest: known.heads[k] for k, (digest, _) in enumerate(known.names)}
            new = [s for s in studies if s.digest not in by_digest]
            if len(new) <= (1 - _MIN_KNOWN_SHARE) * len(studies):
                fitted = _ridge(known.trunk, new, known._mean)
                by_digest.update({s.digest: head for s, head in zip(new, fitted, strict=True)})
                together = np.stack([by_digest[s.digest] for s in studies])
                names = [(s.digest, s.name) for s in studies]
                return cls(
                    known.trunk,
                    together,
                    known.lengthscales,
                    names,
                    known.constant,
                    remember=True,
                )
        trunk, mean = _train(studies, seed, tick, steps)
        typical = [
            Source.of(Task.of(s.X, s.scores)).lengthscales
            for s in studies[:: max(1, len(studies) // _MAX_LENGTHSCALE_STUDIES)][
                :_MAX_LENGTHSCALE_STUDIES
            ]
        ]
        names = [(s.digest, s.name) for s in studies]
        heads = _ridge(trunk, studies, mean)
        lengthscales, _ = typical_lengthscales(np.stack(typical))
        low = np.min([s.X.min(axis=0) for s in studies], axis=0)
        high = np.max([s.X.max(axis=0) for s in studies], axis=0)
        constant = np.where(low == high, low, np.nan)
        return cls(trunk, heads, lengthscales, names, constant, remember=True)

    def __len__(self) -> int:
        return len(self.heads)

    def view(self, X: Array) -> View:
        if self.new.any():
            X = np.where(self.new, self.constant, X)
        phi = self._features(X)
        return View(phi @ self._mean, phi @ self._spread, phi @ self._votes.T, self._counts)

    def slopes(self, x: Array) -> tuple[Array, Array, Array]:
        slope = self.trunk.slope(np.where(self.new, self.constant, x)) * ~self.new
        return self._mean @ slope, self._spread.T @ slope, self._votes @ slope

    def compact(self, n_sources: int = FEW_SOURCES, rows: int = FEW_ROWS) -> Past:
        """Return the same functions without a cache; both arguments are ignored.

        The cost does not depend on the number of source tasks, so none is left out.
        """
        return NetPast(self.trunk, self.heads, self.lengthscales, self.names, self.constant)

    def lessons_of(
        self, studies: Sequence[Study], seed: int, count: int, *, steps: int = STEPS
    ) -> Iterable[Lesson]:
        """Hold out every third source task and predict it with a network trained on the rest.

        A second trunk is trained for this: one that was trained on a source task would
        overestimate how well it predicts new tasks. Yields nothing for fewer than three source
        tasks.

        Args:
            studies: All source tasks.
            seed: Seed of the training.
            count: Maximum number of held-out source tasks.
            steps: Number of training steps of the second trunk.
        """
        if len(studies) < 3:
            return
        others = [s for k, s in enumerate(studies) if k % 3]
        rest = NetPast.learn(others, seed, steps=steps)
        for study in studies[::3][:count]:
            rows = spread_over(study.scores, _MAX_HELD_OUT_ROWS)
            yield Lesson(study.X[rows], study.scores[rows], rest.view(study.X[rows]))

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        arrays = {"heads": self.heads, "lengthscales": self.lengthscales}
        arrays["constant"] = self.constant
        for k, (w, b) in enumerate(zip(self.trunk.weights, self.trunk.biases, strict=True)):
            arrays.update({f"trunk.{k}.weight": w, f"trunk.{k}.bias": b})
        return arrays, {"sources": self.names}

    @classmethod
    def from_parts(cls, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> Self:
        layers = range(len(LAYERS))
        trunk = Trunk(
            tuple(arrays[f"trunk.{k}.weight"] for k in layers),
            tuple(arrays[f"trunk.{k}.bias"] for k in layers),
        )
        names = [(digest, name) for digest, name in record["sources"]]
        return cls(
            trunk,
            arrays["heads"],
            arrays["lengthscales"],
            names,
            arrays.get("constant"),
            remember=True,
        )


def _train(
    studies: Sequence[Study], seed: int, tick: Callable[[int], None] | None, steps: int
) -> tuple[Trunk, Array]:
    """Train the trunk and the weights (f + 1,) of the mean function with Adam.

    Each row of a batch comes from a source task that is drawn uniformly, so every source task has
    the same weight, whatever its number of trials.

    Raises:
        MissingPackageError: PyTorch, which only the training needs, is not installed.
    """
    require("a network of past studies (eb-net)", "neural")
    import torch

    generator = torch.Generator().manual_seed(seed)
    X = torch.as_tensor(np.concatenate([s.X for s in studies]), dtype=torch.float32) * 2 - 1
    z = torch.as_tensor(np.concatenate([s.scores for s in studies]), dtype=torch.float32)
    sizes, batch = torch.tensor([len(s.X) for s in studies]), min(_BATCH, len(z))
    first = torch.cumsum(sizes, 0) - sizes
    widths = (X.shape[1], *LAYERS)
    layers = [
        (torch.randn(a, b, generator=generator) / a**0.5, torch.zeros(b))
        for a, b in pairwise(widths)
    ]
    heads = torch.zeros(len(studies), LAYERS[-1] + 1)
    mean = torch.zeros(LAYERS[-1] + 1)
    parameters = [t.requires_grad_() for layer in layers for t in layer]
    parameters += [heads.requires_grad_(), mean.requires_grad_()]
    optimizer = torch.optim.Adam(parameters, lr=_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    with one_thread():
        for step in range(1, steps + 1):
            which = torch.randint(len(studies), (batch,), generator=generator)
            within = torch.rand(batch, generator=generator) * sizes[which]
            rows = first[which] + within.long().clamp_max(sizes[which] - 1)
            h = X[rows]
            for w, b in layers:
                h = torch.tanh(h @ w + b)
            weights = mean + heads[which]
            predicted = (h * weights[:, :-1]).sum(1) + weights[:, -1]
            penalty = _RIDGE * heads.square().sum() / sizes.sum()
            loss = (predicted - z[rows]).square().mean() + penalty
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            if tick is not None and step % 50 == 0:
                tick(step)
    arrays = [t.detach().double().numpy() for t in parameters]
    count = len(LAYERS)
    trunk = Trunk(tuple(arrays[0 : 2 * count : 2]), tuple(arrays[1 : 2 * count : 2]))
    return trunk, arrays[-1]


def _ridge(trunk: Trunk, studies: Sequence[Study], mean: Array) -> Array:
    """Heads (T, f + 1) of the source tasks by ridge regression, shrunk towards mean (f + 1,)."""
    heads = []
    for study in studies:
        phi = trunk(study.X)
        gram = phi.T @ phi + _RIDGE * np.eye(phi.shape[1])
        heads.append(mean + np.linalg.solve(gram, phi.T @ (study.scores - phi @ mean)))
    return np.stack(heads) if heads else np.empty((0, len(mean)))
