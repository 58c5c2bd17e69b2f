"""Tune on a new data set, starting from the Optuna studies of earlier ones.

Run: python examples/optuna_transfer.py
"""

import optuna
from sklearn import datasets
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

from rankwise import RankwiseSampler

STORAGE = "sqlite:///studies.db"


def tune(name: str, trials: int, sampler=None) -> optuna.Study:
    """An ordinary Optuna study."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)

    def accuracy(trial: optuna.Trial) -> float:
        C = trial.suggest_float("C", 1e-3, 1e3, log=True)
        gamma = trial.suggest_float("gamma", 1e-6, 10.0, log=True)
        return cross_val_score(SVC(C=C, gamma=gamma), X[:600], y[:600], cv=3).mean()

    facts = {"storage": STORAGE, "study_name": f"svm-{name}", "load_if_exists": True}
    study = optuna.create_study(direction="maximize", sampler=sampler, **facts)
    study.optimize(accuracy, n_trials=trials)
    return study


for past in ("iris", "wine", "breast_cancer"):  # yours are there already
    tune(past, trials=25)

sampler = RankwiseSampler(archive=STORAGE, like="svm-*", seed=0)  # this is all that is new
study = tune("digits", trials=10, sampler=sampler)
print(f"first trial {study.trials[0].value:.4f}, best {study.best_value:.4f}")
