"""Deep Ranking Ensembles: an ensemble of scorers that learns to rank.

Khazi, Pineda Arango, Grabocka: "Deep Ranking Ensembles for Hyperparameter Optimization", ICLR
2023; "paper" below.
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

from rankwise.errors import ModelFileError, OptionError, check_count, check_name, is_number
from rankwise.losses import make_loss
from rankwise.progress import training_bar
from rankwise.surrogates.base import Posterior
from rankwise.surrogates.meta import MetaLearner, MetaTraining, Record
from rankwise.surrogates.nets import Architecture, outputs_of
from rankwise.surrogates.threads import one_thread
from rankwise.surrogates.transfer import TransferSurrogate
from rankwise.surrogates.tuning import Observations, Tuning, fine_tune
from rankwise.task import Task, check_one_width
from rankwise.types import Array


class DeepRankingEnsemble(TransferSurrogate):
    """M neural scorers, trained to put configurations in the right order.

    Each scorer gives a configuration a score; what is predicted is the mean and the spread, over
    the scorers, of its rank among the configurations that are asked about together. A Deep Set
    tells the scorers what the evaluations so far look like. Past tasks teach the ensemble what to
    expect (`meta_fit`); the evaluations of the task itself are learnt, from these weights anew
    each time, by `fit`. Without past tasks the weights to start from are random: DRE-RI.

    Args:
        members: M, the number of scorers.
        layers: hidden layers of a scorer.
        width: of each hidden layer.
        deep_set: numbers by which the Deep Set describes the evaluations; 0: no Deep Set.
        loss: a name of `rankwise.losses.LOSSES`.
        weighting: of the positions in a list, for "listmle".
        limit: of the range of the scores within the loss; None: no limit.
        epochs: of fine-tuning, at most; the paper's number is 1000.
        pace: epochs of fine-tuning per observation, when past tasks were learnt: a few
            observations must not undo what many tasks have taught. 0: always `epochs`.
        rate: learning rate of fine-tuning.
        random_rate: that of training from random weights.
        patience: fine-tuning ends when the best observations are in order for so many epochs;
            0: never before `epochs`.
        support: the part of the observations that the Deep Set sees in each epoch of
            fine-tuning; 0: it sees all of them.
        fine_tune: whether the weights learn the observations at all; without, they
            reach the scorers through the Deep Set alone.
        training: how past tasks are learnt: a `MetaTraining` or its arguments as a dict.
        seed: of all randomness.
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
        self._start: torch.Tensor | None = None  # meta-learned weights
        self._architecture: Architecture | None = None
        self._weights: torch.Tensor | None = None  # after fine-tuning

    @property
    def meta_learned(self) -> bool:
        return self._start is not None

    def reused(self) -> Self:
        """A copy that starts from the weights of the last `fit` instead of the meta-learned ones.

        Fine-tuning this way, step after step, counts early observations many times: see
        docs/ranking.md. It is here to be compared with.
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
        """Learn from past tasks; without any that has an order, nothing happens.

        Args:
            tasks: to learn from.
            validation: other tasks, which say when to stop.
            checkpoint: a file for going on after an interruption; removed at the end.
            progress: show a bar; by default if standard error is a terminal.
        """
        check_one_width([*tasks, *validation])
        if not tasks:
            return self
        architecture = self._shape(tasks[0].X.shape[1])
        learner = MetaLearner(
            architecture, self._loss, tasks, validation, self.training, self.seed
        )
        if not len(learner.corpus):
            return self
        self._architecture = architecture
        with one_thread(), training_bar(progress, self.training.steps) as bar:
            self._start = learner.run(checkpoint, bar)
        self.record = learner.record
        return self

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
            if self.fine_tune and len(task) > 1 and np.unique(task.losses).size > 1:
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
        """Mean and standard deviation (n,) of the rank of each of X (n, d) among them all.

        Ranks start from 1, the best. They depend on the set: ask about candidates and
        observations together to compare them.
        """
        ranks = self.ranks(X)
        mean, deviation = ranks.mean(axis=0), ranks - ranks.mean(axis=0)
        covariance = deviation.T @ deviation / len(ranks) if joint else None
        return Posterior(mean, ranks.std(axis=0), covariance)

    def ranks(self, X: Array) -> Array:
        """Ranks (M, n) of X (n, d) among each other, by each scorer; equal scores share theirs."""
        ranks: Array = rankdata(-self.scores(X), axis=1)
        return ranks

    def scores(self, X: Array) -> Array:
        """Scores (M, n) of X (n, d) by each scorer; higher is better."""
        architecture = self._check_fitted()
        columns = torch.as_tensor(np.asarray(X, dtype=np.float32))
        with one_thread(), torch.inference_mode():
            outputs = outputs_of(architecture, self._views, columns, self._context)
            together: Array = outputs[:, 0].double().numpy()
        return together

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
        if self._architecture != saved:
            raise ModelFileError(
                "the networks in the file have another shape than the options say: "
                f"{self._start.numel()} weights, not {self._architecture.size}"
            )
        known = record["record"]
        self.record = Record(**{**known, "losses": [tuple(row) for row in known["losses"]]})

    # ------------------------------------------------------------------ helpers

    def _tuning(self, n: int) -> Tuning:
        """How n observations are learnt."""
        if self._start is None:
            return Tuning(self.epochs, self.random_rate, self.support, self.patience)
        epochs = min(self.epochs, math.ceil(self.pace * n)) if self.pace else self.epochs
        return Tuning(epochs, self.rate, self.support, self.patience)

    def _check_fitted(self) -> Architecture:
        if self._architecture is None or self._weights is None:
            raise OptionError(
                "the ensemble was not fitted yet: call fit, with an empty task if need be"
            )
        return self._architecture

    def _shape(self, columns: int) -> Architecture:
        return Architecture(columns, self.members, self.layers, self.width, self.deep_set)

    def _describe(self, architecture: Architecture, seen: Observations) -> torch.Tensor | None:
        """The context (M, 1, c) of all observations, the same for every scorer."""
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
    if isinstance(given, MetaTraining):
        return given
    for name in given or {}:
        check_name("option of meta-training", name, (f.name for f in fields(MetaTraining)))
    return MetaTraining(**(given or {}))
