"""Studies whose losses grow with the distance from an optimum."""

from __future__ import annotations

import numpy as np

from rankwise.history.task import Task


def bowl(centre, n: int = 30, seed: int = 0, scale: float = 1.0) -> Task:
    """Losses that grow with the distance from a centre."""
    X = np.random.default_rng(seed).random((n, 2))
    return Task.of(X, scale * np.square(X - centre).sum(axis=1), name=f"study {seed}")


def bowls(count: int, at: float = 0.3) -> list[Task]:
    """Past studies with a common optimum, each with another scale of losses."""
    return [bowl(at, seed=k, scale=10.0**k) for k in range(count)]


def points(n: int = 6, seed: int = 70):
    """Configurations (n, 2)."""
    return np.random.default_rng(seed).random((n, 2))
