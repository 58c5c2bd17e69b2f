"""Large pools: the exact surrogate predicts a short list only."""

from __future__ import annotations

import numpy as np

from rankwise import Encoder, Optimizer, Task, TaskSet
from rankwise.strategies import model_based
from rankwise.surrogates.empirical_bayes.surrogate import EmpiricalBayes

ENCODER = Encoder({"x": (0.0, 1.0), "y": (0.0, 1.0)})


def tasks() -> TaskSet:
    X = ENCODER.sample(60, np.random.default_rng(0))
    found = tuple(
        Task.of(X, ((X - 0.3 - 0.02 * k) ** 2).sum(axis=1), name=f"t{k}") for k in range(20)
    )
    return TaskSet(found, (), ENCODER.fingerprint)


def test_a_large_pool_is_predicted_by_the_cheap_surrogate(monkeypatch):
    optimizer = Optimizer(ENCODER, method="auto", tasks=tasks(), seed=0)
    strategy = optimizer.strategy
    pool = np.random.default_rng(1).random((6000, 2))
    history = Task.of(pool[:3], ((pool[:3] - 0.4) ** 2).sum(axis=1))
    monkeypatch.setattr(model_based, "_LARGE_POOL", len(pool))
    whole = strategy.choose(history, pool, np.random.default_rng(0))
    monkeypatch.setattr(model_based, "_LARGE_POOL", 4000)
    rows = []
    real = EmpiricalBayes.improvement

    def counted(self, X):
        if len(self.past.sources) == 20:  # the exact one; the other has sixteen
            rows.append(len(X))
        return real(self, X)

    monkeypatch.setattr(EmpiricalBayes, "improvement", counted)
    chosen = strategy.choose(history, pool, np.random.default_rng(0))
    assert rows and sum(rows) <= 500
    assert np.linalg.norm(pool[chosen] - pool[whole]) < 0.05
