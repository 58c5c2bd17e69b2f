"""Deep Ranking Ensembles: an ensemble of scorers that learns to rank configurations.

Khazi, Pineda Arango, Grabocka: "Deep Ranking Ensembles for Hyperparameter Optimization", ICLR
2023; called "paper" below.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata
from typing_extensions import Self

from rankwise._core.progress_bar import training_bar
from rankwise._core.threads import one_thread
from rankwise.errors import ModelFileError, OptionError, check_count, check_name, is_number
from rankwise.history.task import Task
from rankwise.surrogates.base import Posterior
from rankwise.surrogates.numeric.batched_networks import Architecture, outputs_of
from rankwise.surrogates.ranking.fine_tuning import Observations, Tuning, fine_tune
from rankwise.surrogates.ranking.losses import make_loss
from rankwise.surrogates.ranking.meta_training import MetaLearner, MetaTraining, Record
from rankwise.surrogates.transfer_base import TransferSurrogate
from rankwise.types import Array


class DeepRankingEnsemble(TransferSurrogate):
    """M neural scorers that are trained to sort configurations from best to worst.

    Each scorer assigns a score to a configuration. The prediction is the mean and the standard
    deviation, over the scorers, of the configuration's rank among all configurations of the same
    call. A Deep Set encodes the trials so far into a context vector, which is a further input of
    the scorers. `meta_fit` trains the weights on source tasks. `fit` fine-tunes them on the
    target task, and starts from the meta-trained weights every time. Without source tasks, `fit`
    starts from random weights (DRE-RI in the paper). `fit` skips fine-tuning while all losses of
    the target task are equal, because there is no order to learn.

    Args:
        members: M, the number of scorers.
        layers: Number of hidden layers of each scorer.
        width: Number of units per hidden layer.
        deep_set: Size of the Deep Set's context vector; 0: no Deep Set.
        loss: Ranking loss, a key of `rankwise.surrogates.ranking.losses.LOSSES`.
        weighting: Weighting of the positions in a list, for the loss "listmle".
        limit: Scores are limited to [-limit, limit] inside the loss; None: no limit.
        epochs: Largest number of epochs of fine-tuning; the paper uses 1000.
        pace: Epochs of fine-tuning per trial if source tasks were learned, so that a few trials
            do not overwrite what was learned from many tasks. 0: always `epochs`.
        rate: Learning rate of fine-tuning after `meta_fit`.
        random_rate: Learning rate of training from random weights.
        patience: Stop fine-tuning when every scorer has ranked the best trials correctly for this
            many epochs in a row; 0: no early stopping.
        support: Share of the trials that the Deep Set encodes in each epoch of fine-tuning; the
            scorers rank the others. 0: the Deep Set encodes all trials and the scorers rank all.
        fine_tune: Fine-tune the weights in `fit`. If False, the trials influence the scores only
            through the Deep Set.
        training: Settings of `meta_fit`: a `MetaTraining` or a dict of its arguments.
        seed: Seed of all random numbers.

    Attributes:
        record: Record of the meta-training; None before `meta_fit`.
        epochs_: Number of epochs of fine-tuning in the last `fit`; 0 if it was skipped.
    """

    relative = True
    file_kind = "deep ranking ensemble"

    def __init__(
        self,
        *,
        members: int = 10,
        layers: int = 4,
        width: int = 32,
        deep_set: int = 16,
        loss: str = "listmle",
        weighting: str = "inverse-log",
        limit: float | None = 3.0,
        epochs: int = 300,
        pace: float = 8.0,
        rate: float = 1e-3,
        random_rate: float = 0.02,
        patience: int = 0,
        support: float = 0.2,
        fine_tune: bool = True,
        training: MetaTraining | Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        counts = {"members": members, "layers": layers, "width": width, "epochs": epochs}
        for name, value in counts.items():
            check_count(name, value)
        for name, value in {"deep_set": deep_set, "patience": patience}.items():
            if not is_number(value, Integral) or value < 0:
                raise OptionError(f"{name} must be an integer of at least 0, not {value!r}")
        if not (is_number(pace) and pace >= 0):
            raise OptionError(f"pace must be a number of at least 0, not {pace!r}")
        for name, number in {"rate": rate, "random_rate": random_rate}.items():
            if not (is_number(number) and number > 0):
                raise OptionError(f"{name} must be a positive number, not {number!r}")
        if not 0 <= support < 1:
            raise OptionError(f"support must be at least 0 and below 1, not {support!r}")
        self.members, self.layers, self.width, self.deep_set = members, layers, width, deep_set
        self.loss, self.weighting, self.limit = loss, weighting, limit
        self._loss = make_loss(loss, weighting=weighting, limit=limit)
        self.epochs, self.pace, self.rate, self.random_rate = epochs, pace, rate, random_rate
        self.patience, self.support, self.fine_tune = patience, support, fine_tune
        self.training = _training(training)
        self.seed = seed
        self.record: Record | None = None
        self.epochs_ = 0
        self._start: torch.Tensor | None = None  # meta-trained weights (size,)
        self._checkpoint: str | Path | None = None  # see `meta_fit`
        self._architecture: Architecture | None = None
        self._weights: torch.Tensor | None = None  # weights (size,) after the last `fit`

    @property
    def meta_learned(self) -> bool:
        return self._start is not None

    def reused(self) -> Self:
        """Return a copy whose `fit` starts from the weights of this surrogate's last `fit`.

        Repeated fine-tuning of the same weights trains on early trials many times; see
        docs/ranking.md. This method exists for comparisons.
        """
        self._check_fitted()
        twin = copy.copy(self)
        twin._start = self._weights
        return twin

    # ------------------------------------------------------------------ learning

    def meta_fit(
        self,
        tasks: Sequence[Task],
        validation: Sequence[Task] = (),
        *,
        checkpoint: str | Path | None = None,
        progress: bool | None = None,
    ) -> Self:
        """Train the weights on source tasks.

        No-op if no task has at least three trials with different losses.

        Args:
            tasks: Source tasks to train on.
            validation: Other source tasks, used for early stopping.
            checkpoint: File from which an interrupted training resumes; removed at the end.
            progress: Show a progress bar; by default only if standard error is a terminal.
        """
        self._checkpoint = checkpoint
        return super().meta_fit(tasks, validation, progress=progress)

    def _select(
        self, tasks: Sequence[Task], validation: Sequence[Task]
    ) -> tuple[list[Task], list[Task]]:
        return list(tasks), list(validation)  # `MetaLearner` skips tasks without a ranking

    def _learn(
        self, tasks: Sequence[Task], validation: Sequence[Task], progress: bool | None
    ) -> None:
        architecture = self._shape(tasks[0].X.shape[1])
        learner = MetaLearner(
            architecture, self._loss, tasks, validation, self.training, self.seed
        )
        if not len(learner.corpus):
            return
        self._architecture = architecture
        with training_bar(progress, self.training.steps) as bar:
            self._start = learner.run(self._checkpoint, bar)
        self.record = learner.record

    def fit(self, task: Task) -> Self:
        if task.X.shape[1] == 0:
            raise OptionError("there is nothing to rank in a space without columns")
        architecture = self._architecture if self.meta_learned else None
        architecture = architecture or self._shape(task.X.shape[1])
        if architecture.columns != task.X.shape[1]:
            raise OptionError(
                f"the ensemble was meta-learned on configurations of {architecture.columns} "
                f"columns and the task has {task.X.shape[1]}"
            )
        generator = torch.Generator().manual_seed(self.seed)
        start = architecture.initial(generator) if self._start is None else self._start
        self._weights, self.epochs_ = start, 0
        with one_thread():
            observations = Observations.of(task.X, task.losses, self._loss, start.dtype)
            if self.fine_tune and self._has_order(task):
                tuning = self._tuning(len(task))
                self._weights, self.epochs_ = fine_tune(
                    architecture, start, observations, self._loss, tuning, generator
                )
            self._views = architecture.views(self._weights)
            self._context = self._describe(architecture, observations)
        self._architecture = architecture
        return self

    # ------------------------------------------------------------------ predicting

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        """Predict the mean and standard deviation (n,) of the ranks of X (n, d) within X.

        Rank 1 is the best. Ranks depend on all rows of X, so only rows of the same call can be
        compared.
        """
        ranks = self.ranks(X)
        mean, deviation = ranks.mean(axis=0), ranks - ranks.mean(axis=0)
        covariance = deviation.T @ deviation / len(ranks) if joint else None
        return Posterior(mean, ranks.std(axis=0), covariance)

    def ranks(self, X: Array) -> Array:
        """Return the ranks (M, n) of X (n, d) within X by each scorer.

        Equal scores get the mean of their ranks.
        """
        ranks: Array = rankdata(-self.scores(X), axis=1)
        return ranks

    def scores(self, X: Array) -> Array:
        """Return the scores (M, n) of X (n, d) by each scorer; higher is better."""
        architecture = self._check_fitted()
        columns = torch.as_tensor(np.asarray(X, dtype=np.float32))
        with one_thread(), torch.inference_mode():
            outputs = outputs_of(architecture, self._views, columns, self._context)
            scores: Array = outputs[:, 0].double().numpy()
        return scores

    def context_of(self, task: Task) -> Array:
        """Return the context (c,) that the Deep Set computes from the trials of a task."""
        twin = copy.copy(self)
        twin.fine_tune = False
        context = twin.fit(task)._context
        if context is None:
            raise OptionError("there is no context without a Deep Set: deep_set must not be 0")
        found: Array = context[0, 0].numpy()
        return found

    @property
    def scorer_weights(self) -> dict[str, Array]:
        """Meta-trained weights of the scorers by name, without those of the Deep Set."""
        assert self._start is not None and self._architecture
        views = self._architecture.views(self._start)
        return {name: w.numpy() for name, w in views.items() if not name.startswith("set")}

    # ------------------------------------------------------------------ files

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "training": asdict(self.training)}

    @classmethod
    def saved_settings(cls, record: Mapping[str, Any]) -> dict[str, Any]:
        saved = super().saved_settings(record)
        training, known = saved.get("training", {}), {f.name for f in fields(MetaTraining)}
        return {**saved, "training": {k: v for k, v in training.items() if k in known}}

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        assert self._start is not None and self._architecture and self.record
        record = {"columns": self._architecture.columns, "record": asdict(self.record)}
        return {"weights": self._start.numpy()}, record

    def restore(self, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        self._architecture = self._shape(record["columns"])
        self._start = torch.as_tensor(arrays["weights"])
        saved = type(self)(**self.saved_settings(record))._shape(record["columns"])
        if self._architecture != saved or self._start.shape != (saved.size,):
            raise ModelFileError(
                "the networks in the file have another shape than the options say: "
                f"{self._start.numel()} weights, not {self._architecture.size}"
            )
        known = record["record"]
        self.record = Record(**{**known, "losses": [tuple(row) for row in known["losses"]]})

    # ------------------------------------------------------------------ helpers

    def _has_order(self, task: Task) -> bool:
        """True if a task has different losses: docs/decisions/022-ties.md."""
        return len(task) > 1 and np.unique(task.losses).size > 1

    def _tuning(self, n: int) -> Tuning:
        """Return the settings of fine-tuning on n trials."""
        if self._start is None:
            return Tuning(self.epochs, self.random_rate, self.support, self.patience)
        epochs = min(self.epochs, math.ceil(self.pace * n)) if self.pace else self.epochs
        return Tuning(epochs, self.rate, self.support, self.patience)

    def _check_fitted(self) -> Architecture:
        """Return the layer sizes, or raise an `OptionError` if `fit` was not called."""
        if self._architecture is None or self._weights is None:
            raise OptionError(
                "the ensemble was not fitted yet: call fit, with an empty task if need be"
            )
        return self._architecture

    def _shape(self, columns: int) -> Architecture:
        """Return the layer sizes for configurations with that many columns."""
        return Architecture(columns, self.members, self.layers, self.width, self.deep_set)

    def _describe(self, architecture: Architecture, seen: Observations) -> torch.Tensor | None:
        """Return the context (M, 1, c) of all trials, the same for every scorer.

        None without a Deep Set.
        """
        network = architecture.context_network(self._views, self._views)
        if network is None:
            return None
        n = len(seen)
        items = seen.items[None] if n else torch.zeros(1, 1, architecture.columns + 1)
        pool = torch.full((1, 1, max(n, 1)), 1.0 / n if n else 0.0)
        with torch.inference_mode():
            z = network.forward(items, pool)
            return z.expand(architecture.members, 1, -1)


def _training(given: MetaTraining | Mapping[str, Any] | None) -> MetaTraining:
    """Convert the argument `training` to a `MetaTraining`; check the names of its options."""
    if isinstance(given, MetaTraining):
        return given
    for name in given or {}:
        check_name("option of meta-training", name, (f.name for f in fields(MetaTraining)))
    return MetaTraining(**(given or {}))
