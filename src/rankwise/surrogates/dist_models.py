"""The models of distBO and how they are learnt: a process or a regression of all tasks at once."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rankwise.context.data import DataRows
from rankwise.context.embedding import DataEmbedding
from rankwise.types import Array

_SQRT3 = math.sqrt(3.0)
_PLACES_RATE = 10.0  # places of tasks described by their index learn so much faster
_PATIENCE, _SLACK = 50, 1e-3  # steps without a gain in evidence per row, and what counts as one
_STRETCH, _CLIFF, _SMALLEST = 10, 2.0, 1e-5  # steps, how far up is too far, smallest rate
_BLUR = 0.3  # of a description's size: differences smaller than that are not blown up
_FLOOR = 1e-4  # of the noise's variance, in units of the evaluations' variance
_JITTER = 1e-8


class TaskDescriptions(nn.Module):
    """The vectors psi (T, q) of tasks, the last of which is the target.

    Args:
        kind: one of `DESCRIPTIONS`.
        data: rows of the tasks; None where there are none.
        fixed: vectors (T, q) of tasks whose rows are not at hand, or hand-made ones.
        embedding: of rows.
        sizes: of the data sets (T,), relative to the largest.
        batch: rows of a data set that are looked at in a step.
    """

    def __init__(
        self,
        kind: str,
        data: Sequence[DataRows | None],
        fixed: Array,
        embedding: DataEmbedding | None,
        sizes: Array,
        batch: int,
    ) -> None:
        super().__init__()
        self.kind, self.data, self.batch = kind, list(data), batch
        self.embedding = embedding
        self.fixed = torch.as_tensor(fixed)
        self.sizes = torch.as_tensor(sizes)[:, None]
        if kind == "index":
            self.places = nn.Parameter(self.fixed.clone())

    def forward(self, rng: np.random.Generator | None = None) -> Tensor:
        """[psi, s] (T, q + 1); with random numbers, from some rows of each data set."""
        if self.kind == "index":
            psi: Tensor = self.places
        elif self.kind == "manual" or self.embedding is None:
            psi = self.fixed
        else:
            psi = self.fixed.clone()
            at_hand = [t for t, rows in enumerate(self.data) if rows is not None]
            if at_hand:
                data = [rows for rows in self.data if rows is not None]
                psi[at_hand] = self.embedding(data, self.batch, rng)
        return torch.cat([psi, self.sizes], 1)


class DistModel(nn.Module, ABC):
    """A model of evaluations y (N,) at configurations X (N, d) of described tasks."""

    @abstractmethod
    def unlikeliness(self, X: Tensor, y: Tensor, task: Tensor, psi: Tensor) -> Tensor:
        """Minus the log evidence per evaluation.

        Args:
            X: configurations (N, d).
            y: evaluations (N,).
            task: the number of each one's task (N,).
            psi: descriptions of the tasks (T, q).
        """

    @abstractmethod
    def condition(self, X: Tensor, y: Tensor, task: Tensor, psi: Tensor) -> None:
        """Remember evaluations, for `predict`."""

    @abstractmethod
    def predict(self, X: Tensor, psi: Tensor, joint: bool) -> tuple[Array, Array, Array | None]:
        """Mean and variance (m,) at X (m, d) of a task (q,), and the covariance (m, m)."""

    @abstractmethod
    def similarity(self, psi: Tensor, target: Tensor) -> Array:
        """Of tasks (T, q) to a target (q,), from 0 to 1."""


def matern32(A: Tensor, B: Tensor, log_scales: Tensor) -> Tensor:
    """Matérn-3/2 kernel (n, m) of rows A (n, d) and B (m, d), a length-scale per column (d,)."""
    A, B = A / log_scales.exp(), B / log_scales.exp()
    r2 = (A * A).sum(1)[:, None] + (B * B).sum(1) - 2.0 * A @ B.mT
    r = _SQRT3 * r2.clamp_min(1e-12).sqrt()
    return (1.0 + r) * torch.exp(-r)


def _spread(psi: Tensor) -> Tensor:
    """The scale (q,) of each number of descriptions (T, q)."""
    size = psi.square().mean().sqrt()
    spread = psi.std(0) if len(psi) > 1 else torch.zeros_like(psi[0])
    return spread.clamp_min(float(_BLUR * size) if size > 0 else 1.0)


class ProductGP(DistModel):
    """nu k(x, x') k(psi, psi') + noise, with a constant mean (paper, section 4.2).

    Args:
        columns: d, of the configurations.
        psi: descriptions (T, q) that length-scales begin with: tasks are at distance one or so.
        own_noise: each task has a noise of its own.
    """

    def __init__(self, columns: int, psi: Tensor, own_noise: bool) -> None:
        super().__init__()
        count, q = psi.shape
        first = _spread(psi) * math.sqrt(q)
        start = torch.full((columns,), math.log(0.3 * math.sqrt(max(columns, 1)))).double()
        self.log_scales = nn.Parameter(start)
        self.log_task_scales = nn.Parameter(first.log())
        self.log_nu = nn.Parameter(torch.tensor(0.0, dtype=torch.float64))
        self.mean = nn.Parameter(torch.tensor(0.0, dtype=torch.float64))
        noises = count + 1 if own_noise else 1
        self.log_noise = nn.Parameter(torch.full((noises,), -4.0, dtype=torch.float64))

    def _noise(self, task: Tensor) -> Tensor:
        noise = self.log_noise.exp() + _FLOOR
        return noise.expand(len(task)) if len(noise) == 1 else noise[task]

    def covariance(self, X: Tensor, task: Tensor, psi: Tensor) -> Tensor:
        """Of the evaluations (N, N), noise included."""
        between = matern32(psi, psi, self.log_task_scales)
        member = nn.functional.one_hot(task, len(psi)).to(psi.dtype)  # faster than picking rows
        K = self.log_nu.exp() * matern32(X, X, self.log_scales) * (member @ between @ member.mT)
        return K + torch.diag(self._noise(task) + _JITTER)

    def unlikeliness(self, X: Tensor, y: Tensor, task: Tensor, psi: Tensor) -> Tensor:
        K = self.covariance(X, task, psi)
        with torch.no_grad():  # the gradient by K is known: no need to go through the factor
            L = torch.linalg.cholesky(K)
            inverse = torch.cholesky_inverse(L)
            alpha = inverse @ (y - self.mean)
            slope = 0.5 * (inverse - torch.outer(alpha, alpha))
            value = 0.5 * (y - self.mean) @ alpha + L.diagonal().log().sum()
            value = value + 0.5 * len(y) * math.log(2.0 * math.pi)
        surrogate = (slope * K).sum() - alpha.sum() * self.mean
        loss: Tensor = (value + surrogate - surrogate.detach()) / len(y)
        return loss

    def condition(self, X: Tensor, y: Tensor, task: Tensor, psi: Tensor) -> None:
        self._X, self._task, self._psi = X, task, psi
        self._L = torch.linalg.cholesky(self.covariance(X, task, psi))
        self._alpha = torch.cholesky_solve((y - self.mean)[:, None], self._L)[:, 0]

    def predict(self, X: Tensor, psi: Tensor, joint: bool) -> tuple[Array, Array, Array | None]:
        nu = self.log_nu.exp()
        near = matern32(psi[None], self._psi, self.log_task_scales)[0]
        cross = nu * matern32(X, self._X, self.log_scales) * near[self._task]
        half = torch.linalg.solve_triangular(self._L, cross.mT, upper=False)
        mean = self.mean + cross @ self._alpha
        variance = (nu - (half * half).sum(0)).clamp_min(0.0)
        covariance = None
        if joint:
            covariance = (nu * matern32(X, X, self.log_scales) - half.mT @ half).numpy()
        return mean.numpy(), variance.numpy(), covariance

    def similarity(self, psi: Tensor, target: Tensor) -> Array:
        near: Array = matern32(psi, target[None], self.log_task_scales)[:, 0].numpy()
        return near


class JointBLR(DistModel):
    """Bayesian linear regression on a network's features of [x, psi, s], for all tasks at once.

    Args:
        columns: d, of the configurations.
        psi: descriptions (T, q) whose scale its inputs are divided by.
        width: of each of three tanh layers; the last are the features.
    """

    centre: Tensor
    spread: Tensor

    def __init__(self, columns: int, psi: Tensor, width: int = 50) -> None:
        super().__init__()
        self.register_buffer("centre", psi.mean(0))
        self.register_buffer("spread", _spread(psi))
        layers: list[nn.Module] = []
        widths = [columns + psi.shape[1], width, width, width]
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.Tanh()]
        self.network = nn.Sequential(*layers).double()
        self.log_alpha = nn.Parameter(torch.tensor(0.0, dtype=torch.float64))
        self.log_beta = nn.Parameter(torch.tensor(3.0, dtype=torch.float64))

    def features(self, X: Tensor, psi: Tensor) -> Tensor:
        """(N, f) of configurations (N, d) of tasks described by (N, q); the last is one."""
        inputs = torch.cat([2.0 * X - 1.0, (psi - self.centre) / self.spread], 1)
        phi = self.network(inputs)
        return torch.cat([phi, torch.ones(len(phi), 1, dtype=phi.dtype)], 1)

    def _precision(self, phi: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """alpha, beta and the Cholesky factor of alpha I + beta Phi^T Phi."""
        alpha, beta = self.log_alpha.exp(), self.log_beta.clamp_max(-math.log(_FLOOR)).exp()
        A = beta * phi.mT @ phi + alpha * torch.eye(phi.shape[1], dtype=phi.dtype)
        return alpha, beta, torch.linalg.cholesky(A)

    def unlikeliness(self, X: Tensor, y: Tensor, task: Tensor, psi: Tensor) -> Tensor:
        phi = self.features(X, psi[task])
        alpha, beta, L = self._precision(phi)
        n, f = phi.shape
        m = beta * torch.cholesky_solve((phi.mT @ y)[:, None], L)[:, 0]
        fit = beta * (y - phi @ m).square().sum() + alpha * m.square().sum()
        size = 2.0 * L.diagonal().log().sum() - f * alpha.log() - n * beta.log()
        return 0.5 * (fit + size + n * math.log(2.0 * math.pi)) / n

    def condition(self, X: Tensor, y: Tensor, task: Tensor, psi: Tensor) -> None:
        phi = self.features(X, psi[task])
        _, beta, self._L = self._precision(phi)
        self._mean = beta * torch.cholesky_solve((phi.mT @ y)[:, None], self._L)[:, 0]

    def predict(self, X: Tensor, psi: Tensor, joint: bool) -> tuple[Array, Array, Array | None]:
        phi = self.features(X, psi.expand(len(X), -1))
        half = torch.linalg.solve_triangular(self._L, phi.mT, upper=False)
        covariance = (half.mT @ half).numpy() if joint else None
        return (phi @ self._mean).numpy(), (half * half).sum(0).numpy(), covariance

    def similarity(self, psi: Tensor, target: Tensor) -> Array:
        """exp(-|psi - psi'|^2 / 2q) of standardised descriptions: the model has no kernel."""
        apart = ((psi - target) / self.spread).square().mean(1)
        near: Array = torch.exp(-0.5 * apart).numpy()
        return near


class Rows:
    """Evaluations as tensors: X (N, d), y (N,) and the number of each one's task (N,)."""

    def __init__(self, X: Array, y: Array, task: Array) -> None:
        self.X, self.y = torch.as_tensor(X), torch.as_tensor(y)
        self.task = torch.as_tensor(np.asarray(task, dtype=np.int64))


def descend(
    model: DistModel,
    describe: Callable[[np.random.Generator], Tensor],
    rows: Rows,
    steps: int,
    rate: float,
    seed: int,
    bar: Any,
) -> list[float]:
    """Adam on minus the evidence, until nothing is gained; the losses.

    What is left are the weights of the best stretch of steps. After a step that leads far up it
    goes on from there, more slowly: the evidence of a regression with little noise is steep.
    """
    told = list(describe.parameters()) if isinstance(describe, TaskDescriptions) else []
    parameters, haste = [*model.parameters(), *told], _haste(describe)
    adam = _adam(model, told, rate, haste)
    rng = np.random.default_rng([seed, 7])
    losses: list[float] = []
    stretch: list[float] = []
    least, good = math.inf, [p.detach().clone() for p in parameters]
    for step in range(steps):
        adam.zero_grad()
        loss = model.unlikeliness(rows.X, rows.y, rows.task, describe(rng))
        value = float(loss.detach())
        if not value < (np.mean(stretch[-_STRETCH:]) if stretch else math.inf) + _CLIFF:
            rate /= 2.0
            _restore(parameters, good)
            if rate < _SMALLEST:
                break
            adam, stretch = _adam(model, told, rate, haste), []
            continue
        losses.append(value)
        stretch.append(value)
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        if bar is not None:
            bar(step + 1, value, math.nan)
        recent = float(np.mean(stretch[-_STRETCH:]))
        if len(stretch) >= min(_STRETCH, steps) and recent < least:
            least, good = recent, [p.detach().clone() for p in parameters]
        if len(losses) > 2 * _PATIENCE:
            before, now = np.mean(np.reshape(losses[-2 * _PATIENCE :], (2, -1)), axis=1)
            if before - now < _SLACK:
                break
    _restore(parameters, good)
    return losses


def _haste(describe: Any) -> float:
    """How much faster descriptions are learnt: a new task's place has a long way to go."""
    return _PLACES_RATE if getattr(describe, "kind", "") == "index" else 1.0


def _adam(model: nn.Module, told: Sequence[Tensor], rate: float, haste: float) -> torch.optim.Adam:
    groups: list[dict[str, Any]] = [{"params": list(model.parameters())}]
    if told:
        groups.append({"params": list(told), "lr": haste * rate})
    return torch.optim.Adam(groups, lr=rate)


def _restore(parameters: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    with torch.no_grad():
        for parameter, value in zip(parameters, values, strict=True):
            parameter.copy_(value)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's random numbers from a seed; the caller's own go on as if nothing had been drawn."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
