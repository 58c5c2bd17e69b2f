"""Write studies and models with the installed version of Rankwise.

The files beside this script were written at commit 1b75aa0, before modules moved into folders.
`tests/test_compatibility.py` reads them with the current version.

Run: python tests/data/before_move/make_files.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import optuna
from sklearn.datasets import load_iris
from sklearn.svm import SVC

import rankwise
from rankwise import Encoder, Optimizer, RankwiseSampler, RankwiseSearchCV, Task, TaskSet

SPACE = {"x": (-5.0, 5.0), "kind": ["a", "b"], "n": (1, 9)}
MODEL_SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
NETWORKS = ("fsbo", "ablr", "gcp")
METHODS = ("gp", "mbo", "forest", "eb-gp", "random")
OPTIONS = {
    "dre": {"members": 2, "width": 4, "layers": 1, "epochs": 3},
    **{key: {} for key in ("eb-gp", "rgpe", "tst", "icm", "scot", "multi-gp")},
    **{key: {"width": 4} for key in ("fsbo", "ablr", "gcp")},
}
LEARNING = {
    "dre": {"training": {"steps": 5}},
    **{key: {"steps": 3} for key in ("fsbo", "ablr", "gcp")},
}
"""Options of the training, which do not matter once a model is saved."""


def objective(configuration: dict) -> float:
    """A loss with its minimum at x = 1, kind = "a", n = 4."""
    kind = 0.5 if configuration["kind"] == "b" else 0.0
    return (configuration["x"] - 1) ** 2 + kind + 0.1 * abs(configuration["n"] - 4)


def past_tasks(method: str) -> TaskSet | tuple[()]:
    """Four source tasks for `eb-gp`, none for other methods."""
    if method != "eb-gp":
        return ()
    encoder, rng, tasks = Encoder(SPACE), np.random.default_rng(0), []
    for k in range(4):
        X = encoder.sample(15, rng)
        losses = [objective({**c, "x": c["x"] + 0.1 * k}) for c in encoder.decode(X)]
        tasks.append(Task.of(X, losses, name=f"t{k}"))
    return TaskSet(tuple(tasks), (), encoder.fingerprint)


def model_tasks() -> TaskSet:
    """Three source tasks for the saved models."""
    encoder = Encoder(MODEL_SPACE)
    X = encoder.sample(20, np.random.default_rng(0))
    losses = [((X - 0.3 * k) ** 2).sum(axis=1) for k in range(3)]
    tasks = tuple(Task.of(X, y, name=f"t{k}") for k, y in enumerate(losses))
    return TaskSet(tasks, (), encoder.fingerprint)


def proposals(method: str, path: Path) -> list[dict]:
    """Three proposals of a saved model."""
    optimizer = Optimizer(MODEL_SPACE, method=method, model=path, seed=0, **OPTIONS[method])
    found = []
    for _ in range(3):
        [c] = optimizer.ask()
        optimizer.tell(c, (c["x"] - 0.4) ** 2 + (c["y"] - 0.4) ** 2)
        found.append(c)
    return found


def sampled(trial: optuna.Trial) -> float:
    """The objective of the study by the sampler."""
    return (trial.suggest_float("x", -5, 5) - 1) ** 2 + trial.suggest_int("n", 1, 9)


def search(archive: object, n_trials: int) -> RankwiseSearchCV:
    """A search of iris with a support vector machine."""
    made = RankwiseSearchCV(
        SVC(), n_trials=n_trials, archive=archive, name="iris", cv=3, random_state=0
    )
    return made.fit(*load_iris(return_X_y=True))


def journal(path: Path) -> optuna.storages.JournalStorage:
    """The storage in a journal file."""
    backend = optuna.storages.journal.JournalFileBackend(str(path))
    return optuna.storages.JournalStorage(backend)


def main(out: Path) -> None:
    """Write all files."""
    out.mkdir(parents=True, exist_ok=True)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    expected: dict = {"version": rankwise.__version__, "minimize": {}, "models": {}}
    for method in METHODS:
        settings = {"method": method, "seed": 3, "tasks": past_tasks(method)}
        full = rankwise.minimize(objective, SPACE, trials=10, **settings)
        storage = journal(out / "studies.log")
        rankwise.minimize(
            objective, SPACE, trials=6, storage=storage, name=f"half-{method}", **settings
        )
        expected["minimize"][method] = [[t.configuration, t.value] for t in full.trials]
    for method in OPTIONS:
        learning = LEARNING.get(method, {})
        optimizer = Optimizer(
            MODEL_SPACE, method=method, tasks=model_tasks(), seed=0, **OPTIONS[method], **learning
        )
        path = out / f"{method}.safetensors"
        optimizer.strategy.learner.save(path, fingerprint=Encoder(MODEL_SPACE).fingerprint)
        expected["models"][method] = {"proposals": proposals(method, path)}
    study = optuna.create_study(
        study_name="sampled", storage=journal(out / "studies.log"), sampler=RankwiseSampler(seed=0)
    )
    study.optimize(sampled, n_trials=8)
    found = search(journal(out / "searches.log"), 5)
    expected["search"] = {
        "scores": [float(s) for s in found.cv_results_["mean_test_score"]],
    }
    (out / "expected.json").write_text(json.dumps(expected, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
