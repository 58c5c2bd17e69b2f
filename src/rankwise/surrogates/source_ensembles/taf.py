"""TAF: the weights of TST, applied to acquisition functions instead of posterior means.

Wistuba, Schilling, Schmidt-Thieme: "Scalable Gaussian Process-Based Transfer Surrogates for
Hyperparameter Optimization", Machine Learning 107, 2018.
"""

from __future__ import annotations

import math

import numpy as np

from rankwise._core.numerics import log_h
from rankwise.history.task import Task
from rankwise.surrogates.source_ensembles.base import SourceGPs
from rankwise.surrogates.source_ensembles.tst import TwoStageTransfer
from rankwise.types import Array

_TINY = 1e-12  # smallest variance


class TransferAcquisition(TwoStageTransfer):
    """TAF: expected improvement on the target task plus improvements that source tasks predict.

    The utility is

        (w_0 EI(x) + sum_i w_i max(min_j mu_i(x_j) - mu_i(x), 0)) / (w_0 + sum_i w_i)

    EI is the expected improvement of the target's Gaussian process, mu_i is the posterior mean of
    source task i, and x_j are the observed configurations of the target task. The weights, the
    arguments and `predict` are those of `TwoStageTransfer`. Acquisition functions other than
    expected improvement use only `predict`.
    """

    file_kind = "transfer acquisition"

    def _observe(self, task: Task, past: SourceGPs) -> None:
        """Also compute the incumbent of each process: its lowest mean at an observation."""
        super()._observe(task, past)
        if self._target.model is not None:
            self._incumbent = float(self._target.model.mean(task.X).min())
            self._source_incumbents = self._lead.mean(task.X).min(axis=1)

    def improvement(self, X: Array) -> Array | None:
        """Log utility (n,) at X (n, d), for standardised losses.

        Without observations it is the utility of the base class.
        """
        model = self._target.model
        if self.past is None or model is None:
            return super().improvement(X)
        X = np.asarray(X, dtype=float)
        mean, variance = model.posterior(X)
        std = np.sqrt(np.maximum(variance, _TINY))
        own = math.log(self._own) + np.log(std) + log_h((self._incumbent - mean) / std)
        gains = np.maximum(self._source_incumbents[:, None] - self._lead.mean(X), 0.0)
        with np.errstate(divide="ignore"):  # log(0) = -inf is correct if there is no gain
            utility: Array = np.logaddexp(own, np.log(self._share @ gains))
        return utility
