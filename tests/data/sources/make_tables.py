"""Write the tables of other tools that the tests of table dialects read.

Run in an environment with optuna, pandas and scikit-learn: python make_tables.py
"""

from __future__ import annotations

from pathlib import Path

import optuna
import pandas as pd
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

HERE = Path(__file__).parent


def objective(trial: optuna.Trial) -> float:
    lr = trial.suggest_float("lr", 1e-5, 1e-1, log=True)
    depth = trial.suggest_int("depth", 1, 8)
    booster = trial.suggest_categorical("booster", ["gbtree", "dart"])
    if booster == "dart":
        trial.suggest_float("rate_drop", 0.0, 0.5)
    trial.set_user_attr("rows", 1200)
    if trial.number == 3:
        raise ValueError("failed")
    if trial.number == 4:
        trial.report(0.9, step=1)
        raise optuna.TrialPruned
    return abs(depth - 4) + lr + trial.suggest_categorical("warm", [True, False])


def optuna_tables() -> None:
    frames = []
    for k in range(2):
        study = optuna.create_study(
            study_name=f"xgb-{k}", sampler=optuna.samplers.RandomSampler(seed=k)
        )
        study.optimize(objective, n_trials=10, catch=(ValueError,))
        frames.append(study.trials_dataframe().assign(study=study.study_name))
    pd.concat(frames).to_csv(HERE / "optuna.csv", index=False)


def sklearn_table() -> None:
    grid = {"max_depth": [None, 1, 3], "criterion": ["gini", "entropy"], "ccp_alpha": [0.0, 0.01]}
    search = GridSearchCV(DecisionTreeClassifier(random_state=0), grid, cv=3)
    search.fit(*load_iris(return_X_y=True))
    pd.DataFrame(search.cv_results_).to_csv(HERE / "cv_results.csv", index=False)
    pd.DataFrame(search.cv_results_).drop(columns="params").to_json(
        HERE / "cv_results.jsonl", orient="records", lines=True
    )


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    optuna_tables()
    sklearn_table()
