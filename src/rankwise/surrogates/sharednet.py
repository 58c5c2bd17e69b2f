"""Past studies as functions of one shared network: for many studies, or studies of few trials.

A trunk of three layers maps a configuration to features; each study is a linear function of
them, and so is their mean. Given the trunk, a study's function is a ridge regression, so that a
new study costs next to nothing, and mean, covariance and functions together cost as much at a
configuration as one pass through the trunk, however many studies there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from typing_extensions import Self

from rankwise.surrogates.exact import spread_over
from rankwise.surrogates.memory import Memory
from rankwise.surrogates.sources import (
    FEW_ROWS,
    FEW_SOURCES,
    Lesson,
    Past,
    Source,
    View,
    representatives,
    scores,
    task_digest,
)
from rankwise.surrogates.threads import one_thread
from rankwise.task import Task
from rankwise.types import Array

LAYERS = (96, 96, 32)
STEPS = 2000
VOTES = 64  # functions that are looked at one by one; each stands for those most like it

_BATCH = 1024  # rows of a step, or as many as there are
_RATE = 3e-3
_RIDGE = 0.3  # of a study's deviation from the mean, in units of squared scores
_TYPICAL = 20  # studies from which length-scales are taken
_ENOUGH_KNOWN = 0.8  # share of known studies for which the trunk is good enough
_TAUGHT = 200  # rows of a study that others predict
_ROWS = 2000  # of a study that are learnt from


@dataclass(frozen=True)
class Trunk:
    """The features of a configuration.

    Attributes:
        weights: of each layer (inputs, outputs).
        biases: of each layer (outputs,).
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]

    def __call__(self, X: Array) -> Array:
        """Features (n, f + 1) of X (n, d): the last layer's, and a one."""
        h = 2.0 * X - 1.0
        for w, b in zip(self.weights, self.biases, strict=True):
            h = np.tanh(h @ w + b)
        return np.concatenate([h, np.ones((len(h), 1))], axis=1)

    def slope(self, x: Array) -> Array:
        """The derivative (f + 1, d) of the features at x (d,)."""
        h, slope = 2.0 * x - 1.0, 2.0 * np.eye(len(x))
        for w, b in zip(self.weights, self.biases, strict=True):
            h = np.tanh(h @ w + b)
            slope = (1.0 - h * h)[:, None] * (w.T @ slope)
        return np.concatenate([slope, np.zeros((1, len(x)))])


@dataclass(frozen=True)
class Study:
    """What is learnt from: configurations (n, d), scores (n,), digest and name of a past study."""

    X: Array
    scores: Array
    digest: str
    name: str

    @classmethod
    def of(cls, task: Task) -> Study:
        z, digest = scores(task.losses), task_digest(task)
        order = np.random.default_rng(int(digest[:15], 16)).permutation(len(z))[:_ROWS]
        return cls(task.X[order], z[order], digest, task.name)


class NetPast(Past):
    """A shared network, and a linear function of its features per past study.

    Args:
        trunk: of the network.
        heads: weights (T, f + 1) of the studies' functions.
        lengthscales: (d,).
        names: digest and name of each study.
        remember: keep the features of configurations that were asked for.
    """

    def __init__(
        self,
        trunk: Trunk,
        heads: Array,
        lengthscales: Array,
        names: Sequence[tuple[str, str]],
        *,
        remember: bool = False,
    ) -> None:
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
    ) -> NetPast:
        """From past studies.

        Args:
            studies: one or more.
            seed: of the first weights and the batches.
            known: what was learnt before; if it has most of the studies its trunk is kept.
            tick: called after each step of training with its number.
        """
        if known is not None:
            by_digest = {digest: known.heads[k] for k, (digest, _) in enumerate(known.names)}
            new = [s for s in studies if s.digest not in by_digest]
            if len(new) <= (1 - _ENOUGH_KNOWN) * len(studies):
                fitted = _ridge(known.trunk, new, known._mean)
                by_digest.update({s.digest: head for s, head in zip(new, fitted, strict=True)})
                together = np.stack([by_digest[s.digest] for s in studies])
                names = [(s.digest, s.name) for s in studies]
                return cls(known.trunk, together, known.lengthscales, names, remember=True)
        trunk, mean = _train(studies, seed, tick)
        typical = [
            Source.of(Task.of(s.X, s.scores)).lengthscales
            for s in studies[:: max(1, len(studies) // _TYPICAL)][:_TYPICAL]
        ]
        names = [(s.digest, s.name) for s in studies]
        heads = _ridge(trunk, studies, mean)
        return cls(trunk, heads, np.median(typical, axis=0), names, remember=True)

    def __len__(self) -> int:
        return len(self.heads)

    def view(self, X: Array) -> View:
        phi = self._features(X)
        return View(phi @ self._mean, phi @ self._spread, phi @ self._votes.T, self._counts)

    def slopes(self, x: Array) -> tuple[Array, Array, Array]:
        slope = self.trunk.slope(x)
        return self._mean @ slope, self._spread.T @ slope, self._votes @ slope

    def compact(self, n_sources: int = FEW_SOURCES, rows: int = FEW_ROWS) -> Past:
        return NetPast(self.trunk, self.heads, self.lengthscales, self.names)

    def lessons_of(self, studies: Sequence[Study], seed: int, count: int) -> Iterable[Lesson]:
        """Every third study, predicted by a network that learnt the others.

        A trunk that has seen a study would say nothing of how well it predicts new ones.
        """
        if len(studies) < 3:
            return
        others = [s for k, s in enumerate(studies) if k % 3]
        rest = NetPast.learn(others, seed)
        for study in studies[::3][:count]:
            rows = spread_over(study.scores, _TAUGHT)
            yield Lesson(study.X[rows], study.scores[rows], rest.view(study.X[rows]))

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        arrays = {"heads": self.heads, "lengthscales": self.lengthscales}
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
        return cls(trunk, arrays["heads"], arrays["lengthscales"], names, remember=True)


def _train(
    studies: Sequence[Study], seed: int, tick: Callable[[int], None] | None
) -> tuple[Trunk, Array]:
    """The trunk, and the weights (f + 1,) of the mean function.

    Every study weighs the same, whatever its number of trials.
    """
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
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    with one_thread():
        for step in range(1, STEPS + 1):
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
    """Weights (T, f + 1) of the studies' functions, drawn towards the mean's (f + 1,)."""
    heads = []
    for study in studies:
        phi = trunk(study.X)
        gram = phi.T @ phi + _RIDGE * np.eye(phi.shape[1])
        heads.append(mean + np.linalg.solve(gram, phi.T @ (study.scores - phi @ mean)))
    return np.stack(heads) if heads else np.empty((0, len(mean)))
