"""RankwiseSampler beside a warm start by hand: the best of each past study, then TPE.

    python benchmarks/enqueue.py --learner svm --data ../shared/data
    python benchmarks/enqueue.py --learner boosting --data ../shared/data

The learner is a support vector machine with three hyperparameters, or histogram gradient boosting
with six, on tabular data sets: error of 3-fold cross-validation on at most 300 or 500 rows. For
each seed 8 data sets have a past study of 30 random trials, and 12 others are new. On each new one
both ways have 20 trials. The regret of a data set is relative to the best and the worst error that
any run found there. The program continues an interrupted run and keeps every error that it
computed; `--only` runs some of the samplers; `--write` writes `benchmarks/results/enqueue.json` or
`enqueue-boosting.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")})

import numpy as np
import optuna
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from sklearn.base import ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from rankwise import RankwiseSampler

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PASTS, NEW, PAST_TRIALS, TRIALS = 8, 12, 30, 20
SHOWN = (1, 2, 3, 4, 5, 8, 10, 15, 20)
SAMPLERS = ("RankwiseSampler", "best of each, then TPE", "TPE")


@dataclass(frozen=True)
class Learner:
    """A family of models.

    Attributes:
        title: name in the tables.
        file: name of the file of results.
        rows: largest number of rows of a data set.
        model: function that returns the model of a trial.
    """

    title: str
    file: str
    rows: int
    model: Callable[[optuna.Trial], ClassifierMixin]


def svm(trial: optuna.Trial) -> ClassifierMixin:
    kernel = trial.suggest_categorical("kernel", ["rbf", "poly", "sigmoid"])
    C = trial.suggest_float("C", 2.0**-7, 2.0**10, log=True)
    gamma = trial.suggest_float("gamma", 2.0**-12, 2.0**3, log=True)
    return make_pipeline(StandardScaler(), SVC(C=C, kernel=kernel, gamma=gamma, max_iter=20_000))


def boosting(trial: optuna.Trial) -> ClassifierMixin:
    return HistGradientBoostingClassifier(
        learning_rate=trial.suggest_float("learning_rate", 0.01, 1.0, log=True),
        max_iter=trial.suggest_int("max_iter", 5, 50, log=True),
        max_leaf_nodes=trial.suggest_int("max_leaf_nodes", 2, 32, log=True),
        min_samples_leaf=trial.suggest_int("min_samples_leaf", 1, 60, log=True),
        l2_regularization=trial.suggest_float("l2_regularization", 1e-3, 1e3, log=True),
        max_features=trial.suggest_float("max_features", 0.1, 1.0),
        early_stopping=False,
        random_state=0,
    )


LEARNERS = {
    "svm": Learner("Support vector machines", "enqueue", 300, svm),
    "boosting": Learner("Histogram gradient boosting", "enqueue-boosting", 500, boosting),
}


def data_sets(folder: Path, most: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Rows and classes of data sets with at most 40 columns and at least 20 rows of each class."""
    found = {}
    for path in sorted(folder.glob("*.npz")):
        with np.load(path, allow_pickle=False) as file:
            X, y = file["X"].astype(float), file["y"]
        rows = np.random.default_rng(0).permutation(len(y))[:most]
        X, y = np.nan_to_num(X[rows]), y[rows]
        if X.shape[1] <= 40 and np.bincount(y)[np.unique(y)].min() >= 20:
            found[path.stem] = X, y
    return found


class Errors:
    """Errors of a learner by data set and configuration, kept in a file."""

    def __init__(self, learner: Learner, data: Path, out: Path) -> None:
        self.learner, self.tables = learner, data_sets(data / "tabular", learner.rows)
        self._path, self._known = out / "errors.jsonl", {}
        if self._path.exists():
            for line in self._path.read_text().splitlines():
                key, error = json.loads(line)
                self._known[key] = error

    def of(self, name: str) -> Callable[[optuna.Trial], float]:
        """Objective of a data set."""
        X, y = self.tables[name]

        def objective(trial: optuna.Trial) -> float:
            model = self.learner.model(trial)
            key = json.dumps([name, trial.params], sort_keys=True)
            if key not in self._known:
                self._known[key] = cross_validation(model, X, y)
                with self._path.open("a") as file:
                    file.write(json.dumps([key, self._known[key]]) + "\n")
            return self._known[key]

        return objective


def cross_validation(model: ClassifierMixin, X: np.ndarray, y: np.ndarray) -> float:
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return 1.0 - float(cross_val_score(model, X, y, cv=folds).mean())


def optimize(
    name: str, storage: Any, objective: Callable[[optuna.Trial], float], seed: int
) -> list[float]:
    sampler: BaseSampler = TPESampler(seed=seed)
    if name == "RankwiseSampler":
        sampler = RankwiseSampler(archive=storage, seed=seed)
    study = optuna.create_study(sampler=sampler)
    if name == "best of each, then TPE":
        for summary in optuna.get_all_study_summaries(storage):
            assert summary.best_trial is not None
            study.enqueue_trial(summary.best_trial.params, skip_if_exists=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study.optimize(objective, n_trials=TRIALS)
    return [trial.value for trial in study.trials if trial.value is not None]


def run(
    learner: Learner, data: Path, out: Path, seeds: int, samplers: Sequence[str]
) -> list[dict[str, Any]]:
    out.mkdir(parents=True, exist_ok=True)
    path, errors = out / "runs.jsonl", Errors(learner, data, out)
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(row["seed"], row["data set"], row["sampler"]) for row in rows}
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(sorted(errors.tables)).tolist()
        past, new = order[:PASTS], order[PASTS : PASTS + NEW]
        todo = [(n, s) for n in new for s in samplers if (seed, n, s) not in done]
        if not todo:
            continue
        storage = optuna.storages.InMemoryStorage()
        for k, name in enumerate(past):
            study = optuna.create_study(
                storage=storage, study_name=name, sampler=RandomSampler(seed=100 * seed + k)
            )
            study.optimize(errors.of(name), n_trials=PAST_TRIALS)
        for name, sampler in todo:
            found = optimize(sampler, storage, errors.of(name), seed)
            row = {"seed": seed, "data set": name, "sampler": sampler, "errors": found}
            rows.append(row)
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
    return rows


def regrets(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Regrets of each sampler (runs, trials), in the same order of data sets and seeds."""
    errors = defaultdict(list)
    for row in rows:
        errors[row["data set"]] += row["errors"]
    found = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["seed"], row["data set"])):
        best, worst = min(errors[row["data set"]]), max(errors[row["data set"]])
        curve = np.minimum.accumulate(row["errors"])
        found[row["sampler"]].append((curve - best) / max(worst - best, 1e-12))
    return {name: np.array(curves) for name, curves in found.items()}


def result(name: str, rows: list[dict[str, Any]], seeds: int) -> dict[str, Any]:
    curves, learner = regrets(rows), LEARNERS[name]
    means = {sampler: curves[sampler].mean(axis=0) for sampler in SAMPLERS}
    difference = curves[SAMPLERS[0]] - curves[SAMPLERS[1]]
    means["difference"] = difference.mean(axis=0)
    means["its standard error"] = difference.std(axis=0) / np.sqrt(len(difference))
    shown = [k - 1 for k in SHOWN]
    table = [[label, *values[shown].round(4).tolist()] for label, values in means.items()]
    ahead = int(np.sum(means["difference"] <= 0))
    command = f"python benchmarks/enqueue.py --learner {name} --data ../shared/data"
    digits = [{"name": str(k), "digits": 3} for k in SHOWN]
    return {
        "title": "RankwiseSampler beside the best of each past study and then TPE",
        "date": str(date.today()),
        "machine": "2 cores, one thread",
        "command": [f"{command} --seeds {seeds} --write"],
        "protocol": f"{learner.title}; {PASTS} past data sets with {PAST_TRIALS} random "
        f"trials, {NEW} new ones, {seeds} seeds with other data sets each. Regret is 0 for the "
        "best and 1 for the worst error that any run found on a data set. The difference is that "
        f"of the first two rows; in the mean RankwiseSampler is not behind at {ahead} of the "
        f"{TRIALS} trials.",
        "tables": {
            "regret": {
                "about": "Mean regret of the best configuration so far, by trial.",
                "columns": [{"name": "sampler"}, *digits],
                "rows": table,
            }
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--learner", choices=LEARNERS, default="svm")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, help="default: runs/enqueue-LEARNER")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=SAMPLERS, help="run these, without tables")
    parser.add_argument("--write", action="store_true", help="write the file of results")
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    learner = LEARNERS[arguments.learner]
    out = arguments.out or Path("runs") / f"enqueue-{arguments.learner}"
    rows = run(learner, arguments.data, out, arguments.seeds, arguments.only or SAMPLERS)
    if arguments.only:
        return
    found = result(arguments.learner, rows, arguments.seeds)
    for row in found["tables"]["regret"]["rows"]:
        print(f"{row[0]:24s}", *(f"{x:8.4f}" for x in row[1:]))
    print(found["protocol"])
    if arguments.write:
        path = RESULTS / f"{learner.file}.json"
        path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
