"""What a user writes; `make dist` runs mypy on it, with the package installed from the wheel."""

from __future__ import annotations

import optuna
from sklearn.tree import DecisionTreeClassifier  # type: ignore[import-untyped, unused-ignore]

import rankwise
from rankwise import RankwiseSampler, RankwiseSearchCV


def objective(configuration: dict[str, float]) -> float:
    return configuration["x"] ** 2


result: rankwise.Result = rankwise.minimize(objective, {"x": (-5.0, 5.0)}, trials=5, seed=0)
best: float | None = result.best_value
names: list[str] = rankwise.methods.available()
sampler: optuna.samplers.BaseSampler = RankwiseSampler(archive="sqlite:///studies.db", seed=0)
search = RankwiseSearchCV(DecisionTreeClassifier(), n_trials=5)
optimizer = rankwise.Optimizer({"x": (-5.0, 5.0)}, method="mbo", seed=0)
for proposal in optimizer.ask(2):
    optimizer.tell(proposal, objective(proposal))
wrong: str = rankwise.make_space({"x": (0, 1)})  # type: ignore[assignment]
