"""The networks of Deep Ranking Ensembles as one would write them first: for one list, autograd."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rankwise._core.extras import LazyModule
from rankwise.history.task import Task

if TYPE_CHECKING:
    from torch import Tensor

    from rankwise.surrogates.numeric.batched_networks import Architecture

torch = LazyModule("torch", "this test", "neural")


def leaves(shape: Architecture, flat: Tensor) -> dict[str, Tensor]:
    """The weights by name in double precision, to be differentiated by."""
    return {n: v.detach().double().clone().requires_grad_() for n, v in shape.views(flat).items()}


def flat(weights: dict[str, Tensor]) -> Tensor:
    """The weights as one vector again."""
    return torch.cat([w.detach().reshape(-1) for w in weights.values()])


def context(w: dict[str, Tensor], items: Tensor) -> Tensor | None:
    """The context (c,) of a set of evaluations (u, d + 1), which may be empty."""
    if "set0" not in w:
        return None
    a = torch.relu(items @ w["set0"] + w["set_b0"])
    a = torch.relu(a @ w["set1"] + w["set_b1"])
    pooled = a.mean(0) if len(items) else torch.zeros(a.shape[1], dtype=a.dtype)
    a = torch.relu(pooled @ w["set2"] + w["set_b2"])
    a = torch.relu(a @ w["set3"] + w["set_b3"])
    return a @ w["set4"] + w["set_b4"]


def scores(w: dict[str, Tensor], member: int, X: Tensor, z: Tensor | None) -> Tensor:
    """Scores (n,) of X (n, d) by one member."""
    a = X @ w["x"][member] + w["b0"][member]
    if z is not None:
        a = a + z @ w["z"][member]
    a, k = torch.relu(a), 1
    while f"w{k}" in w:
        a = torch.relu(a @ w[f"w{k}"][member] + w[f"b{k}"][member])
        k += 1
    return a @ w["out"][member, 0] + w["b_out"][member, 0, 0]


def parabola(centre: object, n: int, seed: int, name: str = "") -> Task:
    """n random points of the unit cube and their squared distances to a centre (d,)."""
    centre = np.asarray(centre, dtype=float)
    X = np.random.default_rng(seed).random((n, len(centre)))
    return Task.of(X, ((X - centre) ** 2).sum(axis=1), name=name or f"parabola {seed}")
