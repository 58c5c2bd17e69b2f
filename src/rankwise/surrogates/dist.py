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

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from typing_extensions import Self

from rankwise.context.embedding import KINDS
from rankwise.errors import ModelFileError, OptionError, check_count, check_name, is_number
from rankwise.progress import training_bar
from rankwise.surrogates.base import Posterior, Surrogate
from rankwise.surrogates.dist_models import (
    JointBLR,
    ProductGP,
    Rows,
    descend,
    seeded,
)
from rankwise.surrogates.dist_past import DESCRIPTIONS, Past
from rankwise.surrogates.sources import task_digest, teaches
from rankwise.surrogates.threads import one_thread
from rankwise.surrogates.transfer import TransferSurrogate
from rankwise.task import Task, check_one_width
from rankwise.transforms import Standardize
from rankwise.types import Array

STEPS, RETRAIN = 400, 15  # by default

_PESSIMISM = 1.0  # standard deviations that are added to the mean before the first evaluation
_TINY = 1e-12


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
        self._past: Past | None = None

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
            past = Past.of(chosen, self)
            describe, fitted = past.modules(self)
            with training_bar(progress, self.steps) as bar:
                self.losses = descend(
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
                descend(fitted, describe, rows, self.retrain, self.rate, self.seed, None)
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
        self._past = Past.from_parts(arrays, record, self)
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
        with seeded(self.seed):
            self._model = JointBLR(task.X.shape[1], nothing)
        self._transform = Standardize.fit(task.losses) if len(task) else Standardize(0, 1, np.inf)
        rows = Rows(task.X, self._transform(task.losses), np.zeros(len(task)))
        with one_thread():
            if len(task) > 1:
                descend(self._model, lambda rng: nothing, rows, self.steps, self.rate, 0, None)
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
