"""distBO: a joint model of all tasks whose inputs are configurations and data descriptions.

Law, Zhao, Chan, Huang, Sejdinovic: "Hyperparameter Learning via Distributional Transfer", NeurIPS
2019; called "paper" below. Each task is described by a vector psi. It is an embedding of rows of
the data set (`context.embedding`), a vector of meta-features, or, if there is no context, a free
vector that is fitted to the task's trials. There are two models (section 4.2):

- a Gaussian process with the covariance nu k(x, x') k([psi, s], [psi', s']), where both kernels
  are Matérn-3/2 with one length-scale per column, and s is the size of the data set relative to
  the largest;
- a Bayesian linear regression on the features of a network of [x, psi, s]. Its cost is linear in
  the number of trials.

All parameters are trained together by maximizing the evidence. In contrast to the paper, training
starts at every proposal from the parameters learned from the source tasks alone. So a proposal
depends on the trials of the target study, but not on the parameters of earlier proposals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from typing_extensions import Self

from rankwise._core.progress_bar import training_bar
from rankwise._core.threads import one_thread
from rankwise.context.embedding import KINDS
from rankwise.errors import ModelFileError, OptionError, check_count, check_name, is_number
from rankwise.history.task import Task, check_columns
from rankwise.history.transforms import Standardize
from rankwise.surrogates.base import Posterior, Surrogate
from rankwise.surrogates.distbo.contexts import DESCRIPTIONS
from rankwise.surrogates.distbo.models import JointBLR, ProductGP, Rows, descend, seeded
from rankwise.surrogates.distbo.past_tasks import Past
from rankwise.surrogates.empirical_bayes.past_functions import task_digest
from rankwise.surrogates.transfer_base import TransferSurrogate
from rankwise.types import Array

_STEPS, _RETRAIN = 400, 15  # default numbers of training steps in `meta_fit` and in `fit`
_PESSIMISM = 1.0  # factor of the standard deviation in the bound used before the first trial
_TINY = 1e-12  # prevents a division by zero


class DistributionalTransfer(TransferSurrogate):
    """distGP, distBLR and the paper's baselines of the same form.

    By default the losses of all tasks are scaled by the mean and standard deviation over all
    source tasks. So a single trial of the target task already shows how its losses compare with
    those of the source tasks.

    Args:
        kind: "gp" (Gaussian process) or "blr" (Bayesian linear regression).
        description: How tasks are described: "data" (embedding of the rows of the data set),
            "manual" (meta-features) or "index" (a free vector per task). If a source task has no
            rows, "manual" replaces "data"; if the source tasks have no common meta-feature,
            "index" replaces "manual". Both cause a warning.
        handmade: Append the meta-features to the embedding of the rows (only "data"), so that
            learned and hand-made features describe a task together.
        embedding: How rows are embedded: one of `context.embedding.KINDS`, or "auto".
        steps: Largest number of training steps in `meta_fit`; training stops early when the
            evidence stops improving.
        retrain: Number of training steps in `fit`, on the trials of source and target tasks;
            0: the learned parameters are used unchanged.
        rate: Learning rate of Adam.
        batch: Number of rows per data set and training step.
        rows: Largest number of trials of all source tasks together in the Gaussian process. At
            most rows / 5 tasks are used, so that each can contribute five trials.
        own_noise: Use one noise variance per task instead of one for all tasks (only "gp").
        network: Creates a network that maps rows (s, p) to features (s, a), instead of the
            paper's network. A model file contains only its weights, so pass the same function
            when loading the file.
        scale: "common" (see above), or "task" if losses cannot be compared between tasks: the
            losses of each task are scaled to mean 0 and variance 1.
        seed: Seed of the initial weights and of the random rows.

    Attributes:
        names: Names of the source tasks that are used.
        best: Best configuration of each source task (T, d).
        losses: Training loss of `meta_fit` at every step.
    """

    file_kind = "distributional transfer"

    def __init__(
        self,
        *,
        kind: str = "gp",
        description: str = "data",
        handmade: bool = False,
        embedding: str = "auto",
        steps: int = _STEPS,
        retrain: int = _RETRAIN,
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
        self.handmade = handmade
        self.scale = check_name("scale", scale, ("common", "task"))
        for name, value in (("steps", steps), ("batch", batch), ("rows", rows)):
            check_count(name, value)
        if retrain != 0:
            check_count("retrain", retrain)
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
        return {**super().settings, "network": None}  # a function cannot be stored in a file

    @property
    def described(self) -> str:
        """How source tasks are described: "data", "manual" or "index"; "" before `meta_fit`."""
        return "" if self._past is None else self._past.description

    # ------------------------------------------------------------------ source tasks

    def _learn(
        self, tasks: Sequence[Task], validation: Sequence[Task], progress: bool | None
    ) -> None:
        different = {task_digest(task): task for task in tasks}  # equal tasks count once
        past = Past.of(list(different.values()), self)
        describe, fitted = past.modules(self)
        with training_bar(progress, self.steps) as bar:
            self.losses = descend(fitted, describe, past, self.steps, self.rate, self.seed, bar)
        past.keep(describe, fitted)
        self._past = past
        self.names, self.best = past.names, past.best

    # ------------------------------------------------------------------ target task

    def fit(self, task: Task) -> Self:
        if self._past is None:
            raise OptionError(
                f"{type(self).__name__} has not learnt from past studies: call meta_fit first"
            )
        past = self._past
        check_columns(task, past.X.shape[1])
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
        """Return the description (q + 1,) of a data set, divided by the learned length-scales.

        Only for the kind "gp". As a side effect, the surrogate is fitted to an empty task with
        this context, so that `similarities` are those of the source tasks to this data set.

        Args:
            context: Context of the data set.
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
        """Return -(mean + standard deviation) (n,) at X (n, d) before the first trial.

        It is a pessimistic estimate of how good a configuration is. After the first trial the
        result is None: the acquisition function then uses the posterior.
        """
        if self._n:
            return None
        belief = self.predict(X)
        bound: Array = -(belief.mean + _PESSIMISM * belief.std)
        return bound

    # ------------------------------------------------------------------ files

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return parameters, trials and descriptions of the source tasks; no rows of data sets."""
        assert self._past is not None
        return self._past.parts()

    def restore(self, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        for name in ("kind", "description", "handmade", "embedding", "scale", "own_noise"):
            learnt = record["settings"].get(name, False)  # old files do not have "handmade"
            if learnt != getattr(self, name):
                raise ModelFileError(
                    f"the model was learnt with {name}={learnt!r}, not {getattr(self, name)!r}: "
                    "learn it again"
                )
        self._past = Past.from_parts(arrays, record, self)
        self.names, self.best = self._past.names, self._past.best


class NetworkRegression(Surrogate):
    """`JointBLR` without source tasks, trained from random weights at every proposal.

    Args:
        steps: Largest number of training steps at every proposal.
        rate: Learning rate of Adam.
        seed: Seed of the initial weights.
    """

    def __init__(self, *, steps: int = _STEPS, rate: float = 0.01, seed: int = 0) -> None:
        self.steps = check_count("steps", steps)
        self.rate, self.seed = rate, seed

    def fit(self, task: Task) -> Self:
        nothing = torch.zeros((1, 0), dtype=torch.float64)
        with seeded(self.seed):
            self._model = JointBLR(task.X.shape[1], nothing)
        self._transform = (
            Standardize.fit(task.losses, task.fence) if len(task) else Standardize(0, 1, np.inf)
        )
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
        return Posterior.unscaled(self._transform, mean, variance, covariance)
