"""RankwiseSampler beside a warm start by hand: the best of each past study, then TPE.

    python benchmarks/enqueue.py --data ../shared/data --out runs/enqueue

The family is a support vector machine on tabular data sets: three hyperparameters, error of
3-fold cross-validation on at most 300 rows. For each seed 8 data sets have a past study of 30
random trials, and 12 others are new. On each new one both ways have 20 trials. The regret of a
data set is relative to the best and the worst error that any run found there. The program
continues an interrupted run; `--write` writes `benchmarks/results/enqueue.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections import defaultdict
from datetime import date
from pathlib import Path
from typing import Any

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")})

import numpy as np
import optuna
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from rankwise import RankwiseSampler

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "enqueue.json"
PASTS, NEW, PAST_TRIALS, TRIALS, ROWS = 8, 12, 30, 20, 300
SHOWN = (1, 2, 3, 4, 5, 8, 10, 15, 20)
SAMPLERS = ("RankwiseSampler", "best of each, then TPE", "TPE")


def data_sets(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Rows and classes of data sets with at most 40 columns and at least 20 rows of each class."""
    found = {}
    for path in sorted(folder.glob("*.npz")):
        with np.load(path, allow_pickle=False) as file:
            X, y = file["X"].astype(float), file["y"]
        rows = np.random.default_rng(0).permutation(len(y))[:ROWS]
        X, y = np.nan_to_num(X[rows]), y[rows]
        if X.shape[1] <= 40 and np.bincount(y)[np.unique(y)].min() >= 20:
            found[path.stem] = X, y
    return found


def error(trial: optuna.Trial, X: np.ndarray, y: np.ndarray) -> float:
    kernel = trial.suggest_categorical("kernel", ["rbf", "poly", "sigmoid"])
    C = trial.suggest_float("C", 2.0**-7, 2.0**10, log=True)
    gamma = trial.suggest_float("gamma", 2.0**-12, 2.0**3, log=True)
    model = make_pipeline(StandardScaler(), SVC(C=C, kernel=kernel, gamma=gamma, max_iter=20_000))
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return 1.0 - float(cross_val_score(model, X, y, cv=folds).mean())


def optimize(name: str, storage: Any, X: np.ndarray, y: np.ndarray, seed: int) -> list[float]:
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
        study.optimize(lambda trial: error(trial, X, y), n_trials=TRIALS)
    return [trial.value for trial in study.trials if trial.value is not None]


def run(data: Path, out: Path, seeds: int) -> list[dict[str, Any]]:
    out.mkdir(parents=True, exist_ok=True)
    path, tables = out / "runs.jsonl", data_sets(data / "tabular")
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(row["seed"], row["data set"], row["sampler"]) for row in rows}
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(sorted(tables)).tolist()
        past, new = order[:PASTS], order[PASTS : PASTS + NEW]
        todo = [(n, s) for n in new for s in SAMPLERS if (seed, n, s) not in done]
        if not todo:
            continue
        storage = optuna.storages.InMemoryStorage()
        for k, name in enumerate(past):
            study = optuna.create_study(
                storage=storage, study_name=name, sampler=RandomSampler(seed=100 * seed + k)
            )
            study.optimize(lambda trial, n=name: error(trial, *tables[n]), n_trials=PAST_TRIALS)
        for name, sampler in todo:
            errors = optimize(sampler, storage, *tables[name], seed)
            row = {"seed": seed, "data set": name, "sampler": sampler, "errors": errors}
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


def result(rows: list[dict[str, Any]], seeds: int) -> dict[str, Any]:
    curves = regrets(rows)
    base = curves[SAMPLERS[1]]
    table = []
    for name in SAMPLERS:
        table.append([name, *curves[name].mean(axis=0)[[k - 1 for k in SHOWN]].round(4).tolist()])
    difference = curves[SAMPLERS[0]] - base
    spread = difference.std(axis=0) / np.sqrt(len(base))
    for label, values in (("difference", difference.mean(axis=0)), ("its standard error", spread)):
        table.append([label, *values[[k - 1 for k in SHOWN]].round(4).tolist()])
    digits = [{"name": str(k), "digits": 3} for k in SHOWN]
    return {
        "title": "RankwiseSampler beside the best of each past study and then TPE",
        "date": str(date.today()),
        "machine": "2 cores, one thread",
        "command": [f"python benchmarks/enqueue.py --data ../shared/data --seeds {seeds} --write"],
        "protocol": f"Support vector machines; {PASTS} past data sets with {PAST_TRIALS} random "
        f"trials, {NEW} new ones, {seeds} seeds with other data sets each. Regret is 0 for the "
        "best and 1 for the worst error that any run found on a data set. The difference is that "
        "of the first two rows.",
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
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("runs/enqueue"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write the file of results")
    arguments = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    found = result(run(arguments.data, arguments.out, arguments.seeds), arguments.seeds)
    for row in found["tables"]["regret"]["rows"]:
        print(f"{row[0]:24s}", *(f"{x:8.4f}" for x in row[1:]))
    if arguments.write:
        RESULT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
