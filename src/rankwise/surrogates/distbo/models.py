"""The two models of distBO and their training: a Gaussian process and a Bayesian regression.

Both model the losses of all tasks jointly. Their inputs are the configuration x and the
description psi of its task. T is the number of tasks, N the total number of trials.
"""

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
_INDEX_RATE = 10.0  # factor of the learning rate for descriptions of the kind "index"
_PATIENCE, _MIN_GAIN = 50, 1e-3  # stop if the mean loss of 50 steps decreased by less than this
_WINDOW = 10  # steps over which losses are averaged to compare weights
_MAX_INCREASE, _MIN_RATE = 2.0, 1e-5  # larger increases are undone; smallest learning rate
_MIN_SPREAD = 0.3  # smallest scale of a description's column, relative to the root mean square
_FLOOR = 1e-4  # smallest noise variance; the losses have variance 1
_JITTER = 1e-8  # added to the diagonal of the covariance


class TaskDescriptions(nn.Module):
    """Computes the descriptions psi (T, q) of T tasks.

    In `fit` the last task is the target task; in `meta_fit` all tasks are source tasks.

    Args:
        kind: How tasks are described; one of `contexts.DESCRIPTIONS`.
        data: Rows of each task's data set; None where they are not available.
        fixed: Descriptions (T, q). They are the result for the kind "manual" and for tasks
            without rows, and the initial values of the parameters for the kind "index". For the
            kind "data", columns beyond the embedding's are hand-made meta-features and stay.
        embedding: Embedding of rows, for the kind "data".
        sizes: Numbers of rows of the data sets (T,), relative to the largest.
        batch: Number of rows per data set and training step.
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
        """Return [psi, s] (T, q + 1): descriptions and relative sizes of the data sets.

        Args:
            rng: Random numbers that choose at most `batch` rows of each data set; None uses the
                same rows in every call.
        """
        if self.kind == "index":
            psi: Tensor = self.places
        elif self.kind == "manual" or self.embedding is None:
            psi = self.fixed
        else:
            psi = self.fixed.clone()
            available = [t for t, rows in enumerate(self.data) if rows is not None]
            if available:
                data = [rows for rows in self.data if rows is not None]
                learnt = self.embedding(data, self.batch, rng)
                psi[available, : learnt.shape[1]] = learnt
        return torch.cat([psi, self.sizes], 1)


class DistModel(nn.Module, ABC):
    """Model of scaled losses y (N,) at configurations X (N, d) of T described tasks.

    Here q counts all numbers of a description, including the relative size of the data set.
    """

    @abstractmethod
    def unlikeliness(self, X: Tensor, y: Tensor, task: Tensor, psi: Tensor) -> Tensor:
        """Compute the negative log evidence per trial, a scalar; differentiable by autograd.

        Args:
            X: Configurations (N, d).
            y: Scaled losses (N,).
            task: Index of each trial's task (N,).
            psi: Descriptions of the tasks (T, q).
        """

    @abstractmethod
    def condition(self, X: Tensor, y: Tensor, task: Tensor, psi: Tensor) -> None:
        """Condition the model on trials, for `predict`; arguments as in `unlikeliness`."""

    @abstractmethod
    def predict(self, X: Tensor, psi: Tensor, joint: bool) -> tuple[Array, Array, Array | None]:
        """Predict scaled losses of one task, without noise.

        Args:
            X: Configurations (m, d).
            psi: Description of the task (q,).
            joint: Also compute the covariance.

        Returns:
            Mean (m,), variance (m,) and the covariance (m, m), or None if `joint` is False.
        """

    @abstractmethod
    def similarity(self, psi: Tensor, target: Tensor) -> Array:
        """Return the similarity (T,) in [0, 1] of tasks psi (T, q) to a target task (q,)."""


def matern32(A: Tensor, B: Tensor, log_scales: Tensor) -> Tensor:
    """Compute the Matérn-3/2 kernel (n, m) between the rows of A (n, d) and of B (m, d).

    Args:
        A: Points (n, d).
        B: Points (m, d).
        log_scales: Log length-scale of each column (d,).
    """
    A, B = A / log_scales.exp(), B / log_scales.exp()
    r2 = (A * A).sum(1)[:, None] + (B * B).sum(1) - 2.0 * A @ B.mT
    r = _SQRT3 * r2.clamp_min(1e-12).sqrt()
    return (1.0 + r) * torch.exp(-r)


def _spread(psi: Tensor) -> Tensor:
    """Return the scale (q,) of each column of descriptions psi (T, q).

    It is the standard deviation, with a lower bound so that small differences are not amplified.
    """
    size = psi.square().mean().sqrt()
    spread = psi.std(0) if len(psi) > 1 else torch.zeros_like(psi[0])
    return spread.clamp_min(float(_MIN_SPREAD * size) if size > 0 else 1.0)


class ProductGP(DistModel):
    """Gaussian process with covariance nu k(x, x') k(psi, psi') + noise and a constant mean.

    Law et al., "Hyperparameter Learning via Distributional Transfer" (NeurIPS 2019), section 4.2.

    Args:
        columns: d, the number of columns of a configuration.
        psi: Descriptions (T, q) that set the initial length-scales of the second kernel, so that
            typical distances between tasks are about 1.
        own_noise: Use one noise variance per task instead of one for all tasks.
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
        """Return the noise variance (N,) of trials with task indices (N,)."""
        noise = self.log_noise.exp() + _FLOOR
        return noise.expand(len(task)) if len(noise) == 1 else noise[task]

    def covariance(self, X: Tensor, task: Tensor, psi: Tensor) -> Tensor:
        """Return the covariance (N, N) of the trials, including noise.

        Args:
            X: Configurations (N, d).
            task: Index of each trial's task (N,).
            psi: Descriptions of the tasks (T, q).
        """
        between = matern32(psi, psi, self.log_task_scales)
        # member @ between @ member.mT equals between[task][:, task] and is faster than indexing.
        member = nn.functional.one_hot(task, len(psi)).to(psi.dtype)
        K = self.log_nu.exp() * matern32(X, X, self.log_scales) * (member @ between @ member.mT)
        return K + torch.diag(self._noise(task) + _JITTER)

    def unlikeliness(self, X: Tensor, y: Tensor, task: Tensor, psi: Tensor) -> Tensor:
        K = self.covariance(X, task, psi)
        # The derivative by K has a closed form, so autograd need not differentiate the Cholesky
        # factorization: `surrogate` has the right gradient, and its value is subtracted again.
        with torch.no_grad():
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
    """Bayesian linear regression of all tasks on the features of a network of [x, psi, s].

    The model is y = Phi w + noise with w ~ N(0, I / alpha) and noise ~ N(0, I / beta).

    Args:
        columns: d, the number of columns of a configuration.
        psi: Descriptions (T, q) whose mean and scale standardize the network's inputs.
        width: Number of units in each of the three tanh layers; those of the last layer are the
            features.
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
        """Return the features (N, f); the last column is all ones.

        Args:
            X: Configurations (N, d).
            psi: Description of each configuration's task (N, q).
        """
        inputs = torch.cat([2.0 * X - 1.0, (psi - self.centre) / self.spread], 1)
        phi = self.network(inputs)
        return torch.cat([phi, torch.ones(len(phi), 1, dtype=phi.dtype)], 1)

    def _precision(self, phi: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return alpha, beta and the Cholesky factor (f, f) of alpha I + beta Phi^T Phi.

        Args:
            phi: Features Phi (N, f).
        """
        alpha, beta = self.log_alpha.exp(), self.log_beta.clamp_max(-math.log(_FLOOR)).exp()
        A = beta * phi.mT @ phi + alpha * torch.eye(phi.shape[1], dtype=phi.dtype)
        return alpha, beta, torch.linalg.cholesky(A)

    def unlikeliness(self, X: Tensor, y: Tensor, task: Tensor, psi: Tensor) -> Tensor:
        phi = self.features(X, psi[task])
        alpha, beta, L = self._precision(phi)
        n, f = phi.shape
        m = beta * torch.cholesky_solve((phi.mT @ y)[:, None], L)[:, 0]
        quadratic = beta * (y - phi @ m).square().sum() + alpha * m.square().sum()
        log_determinant = 2.0 * L.diagonal().log().sum() - f * alpha.log() - n * beta.log()
        return 0.5 * (quadratic + log_determinant + n * math.log(2.0 * math.pi)) / n

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
        """Return exp(-|psi - target|^2 / (2 q)) of standardized descriptions, shape (T,).

        The regression has no kernel between tasks that could be used instead.
        """
        apart = ((psi - target) / self.spread).square().mean(1)
        near: Array = torch.exp(-0.5 * apart).numpy()
        return near


class Rows:
    """Trials of several tasks as tensors.

    Args:
        X: Configurations (N, d).
        y: Scaled losses (N,).
        task: Index of each trial's task (N,).
    """

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
    """Maximize the evidence with Adam until it stops improving.

    The best parameters are those for which the mean loss of the preceding 10 steps was smallest;
    the model has them at the end. The evidence of a regression with little noise is steep.
    Therefore, after a large increase of the loss, the best parameters so far are restored and the
    learning rate is halved.

    Args:
        model: Model to train, changed in place.
        describe: Computes the descriptions (T, q) for a step from random numbers. If it is a
            `TaskDescriptions`, its parameters are trained, too.
        rows: Trials of all tasks.
        steps: Largest number of steps.
        rate: Learning rate.
        seed: Seed of the random numbers for `describe`.
        bar: Progress callback (step, loss, NaN), or None.

    Returns:
        Negative log evidence per trial at every step, without those that were undone.
    """
    described = list(describe.parameters()) if isinstance(describe, TaskDescriptions) else []
    parameters, factor = [*model.parameters(), *described], _rate_factor(describe)
    adam = _adam(model, described, rate, factor)
    rng = np.random.default_rng([seed, 7])
    losses: list[float] = []
    recent: list[float] = []  # losses since the best parameters were last restored
    least, best = math.inf, [p.detach().clone() for p in parameters]
    for step in range(steps):
        adam.zero_grad()
        loss = model.unlikeliness(rows.X, rows.y, rows.task, describe(rng))
        value = float(loss.detach())
        if not value < (np.mean(recent[-_WINDOW:]) if recent else math.inf) + _MAX_INCREASE:
            rate /= 2.0
            _restore(parameters, best)
            if rate < _MIN_RATE:
                break
            adam, recent = _adam(model, described, rate, factor), []
            continue
        losses.append(value)
        recent.append(value)
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        if bar is not None:
            bar(step + 1, value, math.nan)
        mean = float(np.mean(recent[-_WINDOW:]))
        if len(recent) >= min(_WINDOW, steps) and mean < least:
            least, best = mean, [p.detach().clone() for p in parameters]
        if len(losses) > 2 * _PATIENCE:
            before, now = np.mean(np.reshape(losses[-2 * _PATIENCE :], (2, -1)), axis=1)
            if before - now < _MIN_GAIN:
                break
    _restore(parameters, best)
    return losses


def _rate_factor(describe: Any) -> float:
    """Return the factor of the learning rate for the parameters of the descriptions.

    It is larger for the kind "index": the description of a new task starts at the mean of the
    others and has to change a lot in a few steps.
    """
    return _INDEX_RATE if getattr(describe, "kind", "") == "index" else 1.0


def _adam(
    model: nn.Module, described: Sequence[Tensor], rate: float, factor: float
) -> torch.optim.Adam:
    """Create the optimizer, with learning rate factor * rate for the descriptions' parameters."""
    groups: list[dict[str, Any]] = [{"params": list(model.parameters())}]
    if described:
        groups.append({"params": list(described), "lr": factor * rate})
    return torch.optim.Adam(groups, lr=rate)


def _restore(parameters: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Copy values into parameters of the same shapes."""
    with torch.no_grad():
        for parameter, value in zip(parameters, values, strict=True):
            parameter.copy_(value)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Context manager that seeds PyTorch's global generator and restores its state afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
