"""distBO: one model of all tasks, whose inputs are configurations and what describes the data.

Law, Zhao, Chan, Huang, Sejdinovic: "Hyperparameter Learning via Distributional Transfer", NeurIPS
2019; "paper" below. A task is described by a vector psi: learnt from rows of its data set
(`context.embedding`), made of hand-made numbers, or, where nothing is known, a place of its own
that its evaluations teach. Two models use it (section 4.2):

- a Gaussian process with the covariance nu k(x, x') k([psi, s], [psi', s']), both Matérn-3/2 with
  a length-scale per column, s the size of the data set relative to the largest;
- a Bayesian linear regression on a network's features of [x, psi, s], linear in the evaluations.

Everything is learnt together by the evidence. Different from the paper: every proposal begins with
what was learnt from the past alone, so that it depends on the study's evaluations and not on how
they were reached.
"""

from __future__ import annotations

import copy
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import Self

from rankwise.context.data import Context, DataRows
from rankwise.context.embedding import KINDS, DataEmbedding
from rankwise.errors import (
    ModelFileError,
    OptionError,
    RunWarning,
    check_count,
    check_name,
    is_number,
)
from rankwise.progress import training_bar
from rankwise.surrogates.base import Posterior, Surrogate
from rankwise.surrogates.exact import spread_over
from rankwise.surrogates.sources import task_digest, teaches
from rankwise.surrogates.threads import one_thread
from rankwise.surrogates.transfer import TransferSurrogate
from rankwise.surrogates.tst import shared_features
from rankwise.task import Task, check_one_width
from rankwise.transforms import Standardize
from rankwise.types import Array

DESCRIPTIONS = ("data", "manual", "index")
"""How a task is described: by its data's rows, by hand-made numbers, not at all."""

STEPS, RETRAIN = 400, 15  # by default

_SQRT3 = math.sqrt(3.0)
_PLACES, _PLACES_RATE = 4, 10.0  # numbers of a task described by its index; they learn faster
_PESSIMISM = 1.0  # standard deviations that are added to the mean before the first evaluation
_PATIENCE, _SLACK = 50, 1e-3  # steps without a gain in evidence per row, and what counts as one
_STRETCH, _CLIFF, _SMALLEST = 10, 2.0, 1e-5  # steps, how far up is too far, smallest rate
_BLUR = 0.3  # of a description's size: differences smaller than that are not blown up
_LEAST = 5  # evaluations of a past task that a Gaussian process goes through
_FAR = 10.0  # times the distance from best to median, beyond which losses are as bad as that
_HAND = "hand_"
_FLOOR = 1e-4  # of the noise's variance, in units of the evaluations' variance
_JITTER, _TINY = 1e-8, 1e-12


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


class DistributionalTransfer(TransferSurrogate):
    """distGP, distBLR and the paper's baselines that share their form.

    Losses of all tasks are put on one scale, that of all past evaluations: an evaluation of the
    target says at once how good it is beside the past.

    Args:
        kind: "gp" or "blr".
        description: "data", "manual" or "index". Where the past's contexts have no rows, "data"
            becomes "manual", and without numbers that becomes "index", with a warning.
        embedding: how rows are embedded, one of `context.embedding.KINDS`, or "auto".
        steps: of learning the past, at most, by default 400; it ends when nothing is gained.
        retrain: steps from there with the study's evaluations, at every proposal; by default 15.
        rate: of Adam.
        batch: rows of a data set that a step looks at.
        rows: evaluations of all past tasks together that the Gaussian process goes through, at
            least five of each task: of more than a fifth as many tasks only some are used.
        own_noise: each task has a noise of its own ("gp").
        network: makes a network from rows (s, p) to features (s, a), instead of the paper's; a
            model file has its weights, so give it again to load one.
        scale: "common", or "task": each task's losses have mean 0 and variance 1, for losses that
            cannot be compared between tasks.
        seed: of the first weights and of what is drawn.
    """

    file_kind = "distributional transfer"

    def __init__(
        self,
        *,
        kind: str = "gp",
        description: str = "data",
        embedding: str = "auto",
        steps: int | None = None,
        retrain: int | None = None,
        rate: float = 0.01,
        batch: int = 1000,
        rows: int = 300,
        own_noise: bool = False,
        network: Callable[[], nn.Module] | None = None,
        scale: str = "common",
        seed: int = 0,
    ) -> None:
        self.network = network
        self.kind = check_name("kind", kind, ("gp", "blr"))
        self.description = check_name("description", description, DESCRIPTIONS)
        self.scale = check_name("scale", scale, ("common", "task"))
        steps = STEPS if steps is None else check_count("steps", steps)
        retrain = RETRAIN if retrain is None else retrain and check_count("retrain", retrain)
        for name, value in (("batch", batch), ("rows", rows)):
            check_count(name, value)
        if not (is_number(rate) and rate > 0):
            raise OptionError(f"rate must be a positive number, not {rate!r}")
        self.embedding = check_name("embedding", embedding, ("auto", *KINDS))
        self.steps, self.retrain, self.rate = steps, retrain, rate
        self.batch, self.rows, self.own_noise, self.seed = batch, rows, own_noise, seed
        self.best = np.empty((0, 0))
        self.names: tuple[str, ...] = ()
        self.losses: list[float] = []
        self._past: _Past | None = None

    @property
    def meta_learned(self) -> bool:
        return self._past is not None

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "network": None}  # a function is not written to files

    @property
    def described(self) -> str:
        """How past tasks turned out to be described; "" before `meta_fit`."""
        return "" if self._past is None else self._past.description

    # ------------------------------------------------------------------ learning the past

    def meta_fit(
        self,
        tasks: Sequence[Task],
        validation: Sequence[Task] = (),
        *,
        progress: bool | None = None,
    ) -> Self:
        """Learn from past tasks; without any that has an order, nothing happens.

        Args:
            tasks: to learn from.
            validation: more of them: there is nothing to stop early here.
            progress: show a bar; by default if standard error is a terminal.

        """
        together = [*tasks, *validation]
        check_one_width(together)
        useful = {task_digest(t): t for t in together if teaches(t) and t.X.shape[1]}
        chosen = [useful[digest] for digest in sorted(useful)]
        if not chosen:
            return self
        with one_thread():
            past = _Past.of(chosen, self)
            describe, fitted = past.modules(self)
            with training_bar(progress, self.steps) as bar:
                self.losses = _descend(
                    fitted, describe, past, self.steps, self.rate, self.seed, bar
                )
            past.keep(describe, fitted)
        self._past = past
        self.names, self.best = past.names, past.best
        return self

    # ------------------------------------------------------------------ the study

    def fit(self, task: Task) -> Self:
        if self._past is None:
            raise OptionError("nothing is known yet: call meta_fit with past tasks first")
        past = self._past
        if len(task) and task.X.shape[1] != past.X.shape[1]:
            raise OptionError(
                f"the past has configurations of {past.X.shape[1]} columns and the task has "
                f"{task.X.shape[1]}"
            )
        with one_thread():
            describe, fitted, rows = past.with_target(task, self)
            if len(task) and self.retrain:
                _descend(fitted, describe, rows, self.retrain, self.rate, self.seed, None)
            with torch.no_grad():
                psi = describe()
                fitted.condition(rows.X, rows.y, rows.task, psi)
                near = fitted.similarity(psi[:-1], psi[-1])
        self._fitted, self._psi, self._n, self._task = fitted, psi[-1], len(task), task
        self._centre, self._unit = past.scale_of(task.losses, self.scale)
        order = np.argsort(-near, kind="stable")
        self.similarities = {past.names[i]: float(near[i]) for i in order}
        total = max(float(near.sum()), _TINY)
        self.sources = {name: value / total for name, value in self.similarities.items()}
        return self

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        rows = torch.as_tensor(np.asarray(X, dtype=float))
        with torch.no_grad(), one_thread():
            mean, variance, covariance = self._fitted.predict(rows, self._psi, joint)
        unit = self._unit
        return Posterior(
            self._centre + unit * mean,
            unit * np.sqrt(variance),
            None if covariance is None else covariance * unit * unit,
        )

    def vector(self, context: Mapping[str, float]) -> Array:
        """The description (q + 1,) of a data set, in units of what was learnt to matter ("gp").

        `similarities` are those to it afterwards.
        """
        assert self._past is not None and self.kind == "gp"
        self.fit(Task.of(np.empty((0, self._past.X.shape[1])), [], context=context))
        assert isinstance(self._fitted, ProductGP)
        scaled: Array = (self._psi / self._fitted.log_task_scales.detach().exp()).numpy()
        return scaled

    def believing(self, X: Array) -> Self:
        if not len(X):
            return self
        assert self._past is not None
        twin = self.with_seed(self.seed)
        twin.retrain = 0
        task, mean = self._task, self.predict(X).mean
        rows = task.X if len(task) else np.empty((0, X.shape[1]))
        losses = np.concatenate([task.losses, mean])
        return twin.fit(Task.of(np.vstack([rows, X]), losses, context=task.context))

    def improvement(self, X: Array) -> Array | None:
        """Before the first evaluation, the pessimistic bound: minus mean plus deviation (n,)."""
        if self._n:
            return None
        belief = self.predict(X)
        bound: Array = -(belief.mean + _PESSIMISM * belief.std)
        return bound

    # ------------------------------------------------------------------ files

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Weights, evaluations and descriptions of the past; no row of any data set."""
        assert self._past is not None
        return self._past.parts()

    def restore(self, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        for name in ("kind", "description", "embedding", "scale", "own_noise"):
            learnt = record["settings"][name]
            if learnt != getattr(self, name):
                raise ModelFileError(
                    f"the file was learnt with {name}={learnt!r}, not {getattr(self, name)!r}: "
                    "learn the past again"
                )
        self._past = _Past.from_parts(arrays, record, self)
        self.names, self.best = self._past.names, self._past.best


class NetworkRegression(Surrogate):
    """`JointBLR` of a study alone, learnt anew from random weights at every proposal.

    Args:
        steps: of learning, at most; by default 400.
        rate: of Adam.
        seed: of the first weights.
    """

    def __init__(self, *, steps: int | None = None, rate: float = 0.01, seed: int = 0) -> None:
        self.steps = STEPS if steps is None else check_count("steps", steps)
        self.rate, self.seed = rate, seed

    def fit(self, task: Task) -> Self:
        nothing = torch.zeros((1, 0), dtype=torch.float64)
        with _seeded(self.seed):
            self._model = JointBLR(task.X.shape[1], nothing)
        self._transform = Standardize.fit(task.losses) if len(task) else Standardize(0, 1, np.inf)
        rows = _Rows(task.X, self._transform(task.losses), np.zeros(len(task)))
        with one_thread():
            if len(task) > 1:
                _descend(self._model, lambda rng: nothing, rows, self.steps, self.rate, 0, None)
            with torch.no_grad():
                self._model.condition(rows.X, rows.y, rows.task, nothing)
        return self

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        rows = torch.as_tensor(np.asarray(X, dtype=float))
        with torch.no_grad(), one_thread():
            mean, variance, covariance = self._model.predict(rows, torch.zeros(0).double(), joint)
        centre, std = self._transform.unscale(mean, np.sqrt(variance))
        unit = self._transform.scale
        return Posterior(centre, std, None if covariance is None else covariance * unit * unit)


class _Rows:
    """Evaluations as tensors: X (N, d), y (N,) and the number of each one's task (N,)."""

    def __init__(self, X: Array, y: Array, task: Array) -> None:
        self.X, self.y = torch.as_tensor(X), torch.as_tensor(y)
        self.task = torch.as_tensor(np.asarray(task, dtype=np.int64))


def _descend(
    model: DistModel,
    describe: Callable[[np.random.Generator], Tensor],
    rows: _Rows,
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


class _Past(_Rows):
    """What was learnt of past tasks, and what it takes to go on with a new one.

    Attributes:
        description: how they are described, one of `DESCRIPTIONS`.
        names: of the T tasks.
        best: their best configurations (T, d).
        data: rows of their data sets, None where they are not at hand.
        fixed: their descriptions (T, q).
        sizes: of their data sets (T,).
    """

    description: str
    names: tuple[str, ...]
    best: Array
    data: list[DataRows | None]
    fixed: Array
    sizes: Array

    @classmethod
    def of(cls, tasks: Sequence[Task], options: DistributionalTransfer) -> _Past:
        tasks = _some_tasks(tasks, options)
        together = np.concatenate([t.losses for t in tasks])
        limit = _limit(together)
        together = np.minimum(together, limit)
        centre, unit = float(together.mean()), float(together.std()) or 1.0
        X, y, numbers = [], [], []
        share = max(2, options.rows // len(tasks))
        for k, task in enumerate(tasks):
            kept = spread_over(task.losses, share if options.kind == "gp" else len(task))
            if options.scale == "task":
                tame = np.minimum(task.losses, _limit(task.losses))
                z = (tame[kept] - tame.mean()) / (float(tame.std()) or 1.0)
            else:
                z = (np.minimum(task.losses[kept], limit) - centre) / unit
            X.append(task.X[kept])
            y.append(z)
            numbers.append(np.full(len(kept), k))
        past = cls(np.concatenate(X), np.concatenate(y), np.concatenate(numbers))
        past.centre, past.unit, past.worst = centre, unit, float(past.y.max())
        past.names = _names(tasks)
        past.best = np.stack([t.X[int(np.argmin(t.losses))] for t in tasks])
        contexts = [t.context for t in tasks]
        past.data = [getattr(c, "rows", None) for c in contexts]
        past.sizes = np.array([_size(c) for c in contexts])
        past.description = _possible(options.description, contexts)
        past._describe(contexts, options)
        return past

    centre: float
    unit: float
    worst: float
    embedding: DataEmbedding | None = None
    features: tuple[str, ...] = ()
    moments: Array
    state: dict[str, dict[str, Tensor]]

    def _describe(
        self, contexts: Sequence[Mapping[str, float]], options: DistributionalTransfer
    ) -> None:
        count = len(contexts)
        self.moments = np.empty((2, 0))
        if self.description == "index":
            rng = np.random.default_rng([options.seed, 3])
            self.fixed = rng.normal(size=(count, _PLACES))
        elif self.description == "manual":
            names = _common_numbers(contexts)
            table = np.array([[c[n] for n in names] for c in contexts])
            spread = table.std(axis=0)
            self.features = tuple(names)
            self.moments = np.stack([table.mean(axis=0), np.where(spread > 1e-9, spread, 1.0)])
            self.fixed = (table - self.moments[0]) / self.moments[1]
        else:
            data = [d for d in self.data if d is not None]
            with _seeded(options.seed):
                network = options.network().double() if options.network else None
                self.embedding = DataEmbedding.fitting(options.embedding, data, network)
            with torch.no_grad():
                self.fixed = self.embedding(data).numpy()

    # ------------------------------------------------------------------ modules

    def modules(self, options: DistributionalTransfer) -> tuple[TaskDescriptions, DistModel]:
        """Fresh ones for the past alone."""
        describe = TaskDescriptions(
            self.description,
            self.data,
            self.fixed,
            self.embedding,
            self.sizes / self.sizes.max(),
            options.batch,
        )
        with torch.no_grad():
            psi = describe()
        with _seeded(options.seed):
            return describe, self._model(psi, options)

    def _model(self, psi: Tensor, options: DistributionalTransfer) -> DistModel:
        columns = self.X.shape[1]
        if options.kind == "blr":
            return JointBLR(columns, psi)
        return ProductGP(columns, psi, options.own_noise)

    def keep(self, describe: TaskDescriptions, model: DistModel) -> None:
        """Remember what was learnt."""
        self.state = {"model": copy.deepcopy(model.state_dict())}
        if self.embedding is not None:
            self.state["embedding"] = copy.deepcopy(self.embedding.state_dict())
        with torch.no_grad():
            self.fixed = describe().numpy()[:, :-1]

    def with_target(
        self, task: Task, options: DistributionalTransfer
    ) -> tuple[TaskDescriptions, DistModel, _Rows]:
        """Modules with what was learnt for past and target, and the rows of both."""
        context, count = task.context, len(self.names)
        data: list[DataRows | None] = [*self.data, None]
        embedding = copy.deepcopy(self.embedding)
        own = self.fixed.mean(axis=0)  # of a target of which nothing is known
        if self.description == "manual":
            if all(name in context for name in self.features):
                numbers = np.array([context[name] for name in self.features])
                own = (numbers - self.moments[0]) / self.moments[1]
            else:
                _warn_of_missing("numbers")
        elif self.description == "data":
            rows = getattr(context, "rows", None)
            assert embedding is not None
            if rows is not None and embedding.accepts(rows):
                data[-1] = rows
            else:
                _warn_of_missing("rows" if rows is None else "rows of the past's columns")
        told = isinstance(context, Context) or "rows" in context
        size = _size(context) if told else float(self.sizes.mean())
        sizes = np.append(self.sizes, size) / self.sizes.max()
        describe = TaskDescriptions(
            self.description,
            data,
            np.vstack([self.fixed, own]),
            embedding,
            np.minimum(sizes, 2.0),
            options.batch,
        )
        with torch.no_grad():
            psi = torch.as_tensor(np.column_stack([self.fixed, self.sizes / self.sizes.max()]))
        with _seeded(options.seed):  # the weights are replaced at once
            model = self._model(psi, options)
        model.load_state_dict(self.state["model"])
        centre, unit = self.scale_of(task.losses, options.scale)
        z = np.minimum((task.losses - centre) / unit, self.worst + _FAR)
        if options.scale == "common":  # a failure is as bad as the worst that is known
            z[~task.ok] = self.worst
        width = self.X.shape[1]
        together = _Rows(
            np.concatenate([self.X.numpy(), task.X.reshape(-1, width)]),
            np.concatenate([self.y.numpy(), z]),
            np.append(self.task.numpy(), np.full(len(task), count)),
        )
        return describe, model, together

    def scale_of(self, losses: Array, scale: str) -> tuple[float, float]:
        """Centre and unit of a target's losses."""
        if scale == "common":
            return self.centre, self.unit
        if not len(losses):
            return 0.0, 1.0
        return float(losses.mean()), float(losses.std()) or 1.0

    # ------------------------------------------------------------------ files

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        arrays: dict[str, Array] = {
            "X": self.X.numpy(),
            "y": self.y.numpy(),
            "task": self.task.numpy(),
            "best": self.best,
            "fixed": self.fixed,
            "sizes": self.sizes,
            "moments": self.moments,
            "scale": np.array([self.centre, self.unit]),
        }
        for module, state in self.state.items():
            arrays |= {f"{module}.{name}": value.numpy() for name, value in state.items()}
        record: dict[str, Any] = {
            "names": list(self.names),
            "features": list(self.features),
            "description": self.description,
        }
        if self.embedding is not None:
            record["embedding"] = [
                self.embedding.kind,
                self.embedding.columns,
                self.embedding.classes,
                self.embedding.labels,
            ]
        return arrays, record

    @classmethod
    def from_parts(
        cls, arrays: Mapping[str, Array], record: Mapping[str, Any], options: Any
    ) -> _Past:
        past = cls(arrays["X"], arrays["y"], arrays["task"])
        past.names, past.features = tuple(record["names"]), tuple(record["features"])
        past.description = record["description"]
        past.best, past.fixed, past.sizes = arrays["best"], arrays["fixed"], arrays["sizes"]
        past.moments = arrays["moments"]
        past.centre, past.unit = (float(value) for value in arrays["scale"])
        past.worst = float(past.y.max())
        past.data = [None] * len(past.names)
        past.state = {}
        for module in ("model", "embedding"):
            prefix = f"{module}."
            past.state[module] = {
                name.removeprefix(prefix): torch.as_tensor(value)
                for name, value in arrays.items()
                if name.startswith(prefix)
            }
        if "embedding" in record:
            kind, columns, classes, labels = record["embedding"]
            network = options.network().double() if options.network else None
            past.embedding = DataEmbedding(kind, columns, classes, network, labels)
            try:
                past.embedding.load_state_dict(past.state["embedding"])
            except RuntimeError as error:
                raise ModelFileError(
                    "the file was learnt with another network for rows: give the same one"
                ) from error
        return past


def _some_tasks(tasks: Sequence[Task], options: DistributionalTransfer) -> Sequence[Task]:
    """As many tasks as a Gaussian process of some rows can hold; a regression takes all."""
    most = max(options.rows // _LEAST, 1)
    if options.kind != "gp" or len(tasks) <= most:
        return tasks
    chosen = np.linspace(0, len(tasks) - 1, most).round().astype(int)
    return [tasks[k] for k in chosen]


def _limit(losses: Array) -> float:
    """What counts as the worst loss: a run that diverged must not set the scale."""
    low, middle = float(losses.min()), float(np.median(losses))
    spread = middle - low or float(np.median(np.abs(losses - middle))) or 1.0
    return middle + _FAR * spread


def _names(tasks: Sequence[Task]) -> tuple[str, ...]:
    """Of tasks, none twice."""
    found: dict[str, int] = {}
    names = []
    for task in tasks:
        name = task.name or "unnamed"
        found[name] = found.get(name, 0) + 1
        names.append(name if found[name] == 1 else f"{name} ({found[name]})")
    return tuple(names)


def _possible(wanted: str, contexts: Sequence[Mapping[str, float]]) -> str:
    """How tasks can be described: as wanted, or by what their contexts have."""
    possible = wanted
    if possible == "data" and any(getattr(c, "rows", None) is None for c in contexts):
        possible = "manual"
    if possible == "manual" and not _common_numbers(contexts):
        possible = "index"
    if possible != wanted:
        lacking = "rows" if wanted == "data" else "numbers"
        instead = "numbers about their data" if possible == "manual" else "their evaluations alone"
        warnings.warn(
            f"not all past tasks have {lacking} in their context: they are compared by {instead}; "
            "give each context=Context.of(X, y)",
            RunWarning,
            stacklevel=2,
        )
    return possible


def _common_numbers(contexts: Sequence[Mapping[str, float]]) -> list[str]:
    """Names of the numbers that all contexts have: the hand-made ones, else whatever there is."""
    shared = shared_features(contexts)
    return [name for name in shared if name.startswith(_HAND)] or shared


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Torch's random numbers from a seed; the caller's own go on as if nothing had been drawn."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def _size(context: Mapping[str, float]) -> float:
    """Of a task's data set; 1 if it is not known."""
    return float(getattr(context, "size", 0) or context.get("rows", 0.0) or 1.0)


def _warn_of_missing(what: str) -> None:
    warnings.warn(
        f"the study's context has no {what} that could be compared with the past: it counts as an "
        "average task; give context=Context.of(X, y)",
        RunWarning,
        stacklevel=4,
    )
