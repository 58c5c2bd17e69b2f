"""The yardstick for the speed of Deep Ranking Ensembles: a plain loop over their members.

What one would write first: a module for each scorer and one for the Deep Set, autograd and
`torch.optim.Adam`. `check` sees to it that it does the same as the library.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from rankwise import Task
from rankwise.surrogates.numeric.batched_networks import Architecture
from rankwise.surrogates.ranking.dre import DeepRankingEnsemble
from rankwise.surrogates.ranking.fine_tuning import Observations, Tuning, _subsets, fine_tune
from rankwise.surrogates.ranking.losses import ListMLE, Lists, RankingLoss
from rankwise.surrogates.ranking.meta_training import MetaLearner, MetaTraining, _Pass
from rankwise.surrogates.ranking.training_lists import Batch, Corpus

EPOCHS, RATE = 1000, 1e-3  # of fine-tuning; the learning rate is that of meta-training, too
SUPPORT = 0.2  # the part of the observations that the Deep Set sees
LISTS = 100  # per step of meta-training and scorer
TASKS, CHECKS, EVALUATIONS, COLUMNS = 30, 5, 300, 8  # of the past tasks to learn from

Draw = list[tuple[Tensor, Tensor]]
"""For every member the rows of its support set and of its list."""


def linears(module: nn.Module) -> list[nn.Linear]:
    return [layer for layer in module.modules() if isinstance(layer, nn.Linear)]


def perceptron(*sizes: int) -> list[nn.Module]:
    """Linear layers with a ReLU behind each."""
    return [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]


class PlainDeepSet(nn.Module):
    """rho(mean of phi(x, y))."""

    def __init__(self, columns: int, width: int, context: int) -> None:
        super().__init__()
        self.phi = nn.Sequential(*perceptron(columns + 1, width, width))
        self.rho = nn.Sequential(*perceptron(width, width, width), nn.Linear(width, context))

    def forward(self, items: Tensor, pool: Tensor | None = None) -> Tensor:
        """Contexts (..., c) of sets (..., u, d + 1), or of those that the weights pool."""
        each = self.phi(items)
        return self.rho(each.mean(-2) if pool is None else (pool @ each).squeeze(-2))


class Plain:
    """M scorers and a Deep Set, a module each, that start from given weights (size,)."""

    def __init__(self, shape: Architecture, flat: Tensor, loss: RankingLoss) -> None:
        self.shape, self.loss, h = shape, loss, shape.width
        first, hidden = shape.columns + shape.context, [h] * shape.layers
        self.scorers = [
            nn.Sequential(*perceptron(first, *hidden), nn.Linear(h, 1)).to(flat.dtype)
            for _ in range(shape.members)
        ]
        self.deep_set = PlainDeepSet(shape.columns, h, shape.context).to(flat.dtype)
        modules = [*self.scorers, self.deep_set]
        self.optimizer = torch.optim.Adam([p for m in modules for p in m.parameters()], lr=RATE)
        for mine, given in self._pairs(flat, lambda p: p.data):
            mine.copy_(given)

    def flat(self, of: Callable[[nn.Parameter], Tensor] = lambda p: p.data) -> Tensor:
        """Weights, or what is asked for of each, in the order of the library (size,)."""
        flat = torch.zeros(self.shape.size, dtype=self.scorers[0][0].weight.dtype)
        for mine, wanted in self._pairs(flat, of):
            wanted.copy_(mine)
        return flat

    def _pairs(
        self, flat: Tensor, of: Callable[[nn.Parameter], Tensor]
    ) -> Iterator[tuple[Tensor, Tensor]]:
        views, d = self.shape.views(flat), self.shape.columns
        for m, scorer in enumerate(self.scorers):
            first, *hidden, last = linears(scorer)
            yield of(first.weight).T[:d], views["x"][m]
            yield of(first.weight).T[d:], views["z"][m]
            yield of(first.bias), views["b0"][m, 0]
            for k, layer in enumerate(hidden, 1):
                yield of(layer.weight).T, views[f"w{k}"][m]
                yield of(layer.bias), views[f"b{k}"][m, 0]
            yield of(last.weight), views["out"][m]
            yield of(last.bias), views["b_out"][m, 0]
        for k, layer in enumerate(linears(self.deep_set)):
            yield of(layer.weight).T, views[f"set{k}"]
            yield of(layer.bias), views[f"set_b{k}"]

    def tune(
        self, seen: Observations, draws: Iterable[Draw], epochs: int = EPOCHS
    ) -> list[list[float]]:
        """Fine-tuning: one of the epochs per draw; returns the losses of the members in each."""
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, epochs)
        n = len(seen) - support_size(seen)
        total = self.loss.prepare(torch.arange(n, dtype=seen.y.dtype)).total
        history = []
        for draw in draws:
            self.optimizer.zero_grad()
            losses = []
            for scorer, (support, query) in zip(self.scorers, draw, strict=True):
                context = self.deep_set(seen.items[support])
                inputs = torch.cat([seen.X[query], context.expand(len(query), -1)], dim=1)
                value = self.loss(scorer(inputs).squeeze(-1), seen.y[query]) / total
                value.backward()
                losses.append(value.item())
            self.optimizer.step()
            schedule.step()
            history.append(losses)
        return history

    def learn(self, batch: Batch) -> None:
        """Gradients of the mean loss of lists, as many for each scorer."""
        each = len(batch.X) // len(self.scorers)
        for m, scorer in enumerate(self.scorers):
            part = batch.part(slice(m * each, (m + 1) * each))
            context = self.deep_set(part.items, part.pool).unsqueeze(1)
            inputs = torch.cat([part.X, context.expand(-1, part.X.shape[1], -1)], dim=-1)
            losses = self.loss.value(scorer(inputs).squeeze(-1), part.lists) / part.lists.total
            (losses.mean() / len(self.scorers)).backward()

    def step(self, corpus: Corpus, step: int, lists: int) -> None:
        """A step of meta-training with so many lists for each scorer."""
        self.optimizer.zero_grad()
        self.learn(corpus.draw(lists * len(self.scorers), step))
        self.optimizer.step()

    @torch.no_grad()
    def scores(self, X: Tensor, items: Tensor) -> Tensor:
        inputs = torch.cat([X, self.deep_set(items).expand(len(X), -1)], dim=1)
        return torch.stack([scorer(inputs).squeeze(-1) for scorer in self.scorers])


def support_size(seen: Observations) -> int:
    return int(SUPPORT * len(seen))


def random_draws(seen: Observations, members: int, epochs: int) -> Iterator[Draw]:
    size = support_size(seen)
    for _ in range(epochs):
        orders = [torch.randperm(len(seen)) for _ in range(members)]
        yield [(order[:size], order[size:]) for order in orders]


# ---------------------------------------------------------------------- the problem


def past_task(seed: int, columns: int = COLUMNS, evaluations: int = EVALUATIONS) -> Task:
    """A quadratic function with interactions: each task has its optimum and its weights."""
    rng = np.random.default_rng(seed)
    X, optimum = rng.random((evaluations, columns)), 0.2 + 0.6 * rng.random(columns)
    gap, scale = X - optimum, rng.uniform(0.3, 1.0, columns)
    y = (scale * gap**2).sum(axis=1) + 0.5 * (gap[:, :-1] * gap[:, 1:]).sum(axis=1)
    return Task.of(X, y, name=f"task {seed}")


@dataclass(frozen=True)
class Case:
    """Observations of a task and an ensemble with the default settings."""

    task: Task
    shape: Architecture
    loss: ListMLE
    seen: Observations
    start: Tensor

    @classmethod
    def of(cls, n: int, columns: int, dtype: torch.dtype = torch.float32) -> Case:
        ensemble, task = DeepRankingEnsemble(), past_task(1000, columns, n)
        loss = ListMLE(ensemble.weighting, limit=ensemble.limit)
        shape = Architecture(columns)
        start = shape.initial(generator(), dtype)
        return cls(task, shape, loss, Observations.of(task.X, task.losses, loss, dtype), start)

    def plain(self, epochs: int) -> float:
        """Seconds that the plain loop would take for all epochs, going by so many."""
        model = Plain(self.shape, self.start, self.loss)
        first, more = (random_draws(self.seen, self.shape.members, n) for n in (2, epochs))
        model.tune(self.seen, first)  # Adam makes its moments
        return seconds(partial(model.tune, self.seen, more)) * EPOCHS / epochs

    def ours(self, epochs: int = EPOCHS) -> None:
        tuning = Tuning(epochs, RATE, SUPPORT)
        fine_tune(self.shape, self.start, self.seen, self.loss, tuning, generator())


def learner(training: MetaTraining | None = None) -> MetaLearner:
    loss = Case.of(10, COLUMNS).loss
    tasks = [past_task(seed) for seed in range(TASKS + CHECKS)]
    past, checks, training = tasks[:TASKS], tasks[TASKS:], training or MetaTraining()
    return MetaLearner(Architecture(COLUMNS), loss, past, checks, training, seed=0)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def since(start: float) -> float:
    return time.perf_counter() - start


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return since(start)


# ---------------------------------------------------------------------- both do the same


class Recording(ListMLE):
    """Keeps the mean losses (M,) of the lists whose gradients were asked for."""

    def __init__(self, weighting: str, limit: float | None) -> None:
        super().__init__(weighting, limit=limit)
        self.seen: list[Tensor] = []

    def gradient(self, scores: Tensor, lists: Lists) -> Tensor:
        self.seen.append(self.value(scores, lists) / lists.total)
        return super().gradient(scores, lists)


def check(epochs: int = 20) -> str:
    """Compare fine-tuning in double precision, and gradients of meta-training in single."""
    case = Case.of(40, COLUMNS, torch.float64)
    shape, loss = case.shape, Recording(case.loss.weighting, limit=case.loss.limit)
    setting = (loss, Tuning(epochs, RATE, SUPPORT))
    draws = [
        [(row.nonzero()[:, 0], (~row).nonzero()[:, 0]) for row in pool[0] > 0]
        for _, pool in _subsets(shape, case.seen, *setting, generator())
    ]
    weights, _ = fine_tune(shape, case.start, case.seen, *setting, generator())
    plain = Plain(shape, case.start, case.loss)
    losses = torch.tensor(plain.tune(case.seen, draws, epochs), dtype=torch.float64)
    ours = torch.stack(loss.seen).view_as(losses)
    gaps = [(ours - losses).abs().max().item(), (weights - plain.flat()).abs().max().item()]
    start, gradient = shape.initial(generator()), torch.zeros(shape.size)
    batch = learner().corpus.draw(4 * shape.members, 0)
    _Pass(shape, case.loss, start, gradient).learn(batch)
    plain = Plain(shape, start, case.loss)
    plain.learn(batch)
    gaps.append((plain.flat(lambda p: p.grad) - gradient).abs().max().item())
    for gap, limit in zip(gaps, (1e-8, 1e-6, 1e-6), strict=True):
        if not gap <= limit:
            raise AssertionError(f"the two do not do the same: they differ by {gaps}")
    return (
        f"Checked: from the same weights and with the same subsets, {epochs} epochs of "
        f"fine-tuning in double precision give losses that differ by at most {gaps[0]:.0e} and "
        f"weights that differ by {gaps[1]:.0e}; gradients of meta-training, in single precision, "
        f"differ by {gaps[2]:.0e}."
    )
