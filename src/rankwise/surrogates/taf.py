"""TAF: the weights of TST on acquisitions instead of means.

Wistuba, Schilling, Schmidt-Thieme: "Scalable Gaussian Process-Based Transfer Surrogates for
Hyperparameter Optimization", Machine Learning 107, 2018.
"""

from __future__ import annotations

import math

import numpy as np

from rankwise.acquisition import log_h
from rankwise.surrogates.source_gps import SourceGPs
from rankwise.surrogates.tst import TwoStageTransfer
from rankwise.task import Task
from rankwise.types import Array

_TINY = 1e-12  # the smallest variance


class TransferAcquisition(TwoStageTransfer):
    """Expected improvement of the target's Gaussian process, and what past tasks would improve.

    The utility is (w_0 EI(x) + sum_i w_i max(min_j mu_i(x_j) - mu_i(x), 0)) / sum_i w_i, with the
    expected improvement of the target's process alone, the mean mu_i of a past task's process
    and the target's observations x_j. The weights are those of `TwoStageTransfer`, whose arguments
    it has, and so is the posterior, which other acquisitions than expected improvement use.
    """

    file_kind = "transfer acquisition"

    def _observe(self, task: Task, past: SourceGPs) -> None:
        super()._observe(task, past)
        if self._target.model is not None:
            self._best = float(self._target.model.mean(task.X).min())
            self._bar = self._lead.mean(task.X).min(axis=1)

    def improvement(self, X: Array) -> Array | None:
        """Logarithm of the utility (n,) at X (n, d), in units of the standardised losses."""
        model = self._target.model
        if self.past is None or model is None:
            return super().improvement(X)
        X = np.asarray(X, dtype=float)
        mean, variance = model.posterior(X)
        std = np.sqrt(np.maximum(variance, _TINY))
        own = math.log(self._own) + np.log(std) + log_h((self._best - mean) / std)
        promise = self._share @ np.maximum(self._bar[:, None] - self._lead.mean(X), 0.0)
        with np.errstate(divide="ignore"):  # no promise is the logarithm of zero
            utility: Array = np.logaddexp(own, np.log(promise))
        return utility
