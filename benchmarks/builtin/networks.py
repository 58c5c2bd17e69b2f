"""Training of scikit-learn's networks with snapshots at intermediate epochs."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from benchmarks.builtin.scores import iterations_at


def fit_in_steps(model: Any, X: np.ndarray, y: np.ndarray) -> Any:
    """Fit an MLP epoch by epoch and keep copies of it in `snapshots_`.

    Training ends by the rule of `fit`: after more than `n_iter_no_change` epochs without an
    improvement of the training loss by `tol`. The result is that of `fit` up to the order of rows
    in mini-batches. Epochs after the end of the training repeat the last snapshot.
    """
    model.set_params(random_state=np.random.RandomState(model.random_state))
    classes = {"classes": np.unique(y)} if hasattr(model, "predict_proba") else {}
    wanted, snapshots = iterations_at(model.max_iter), []
    best, unimproved = np.inf, 0
    for epoch in range(1, model.max_iter + 1):
        model.partial_fit(X, y, **(classes if epoch == 1 else {}))
        snapshots += [_snapshot(model)] * wanted.count(epoch)
        unimproved = unimproved + 1 if model.loss_ > best - model.tol else 0
        best = min(best, model.loss_)
        if unimproved > model.n_iter_no_change:
            break
    last = _snapshot(model)
    model.snapshots_ = snapshots + [last] * (len(wanted) - len(snapshots))
    return model


def _snapshot(model: Any) -> Any:
    """A copy of a model that later epochs do not change; the optimizer's state is left out."""
    snapshot = copy.copy(model)
    snapshot.coefs_ = [weights.copy() for weights in model.coefs_]
    snapshot.intercepts_ = [weights.copy() for weights in model.intercepts_]
    return snapshot
