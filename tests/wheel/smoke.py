"""The installed package at work, with nothing but what it depends on: three doors and the shell.

    python tests/wheel/smoke.py [--neural]

`make dist` runs it in a fresh environment, once with the wheel alone and, with `--neural`, once
with the extra. It needs no test runner, and it writes into a temporary folder only.
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import optuna
from sklearn.datasets import load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier

import rankwise
from rankwise import RankwiseSampler, RankwiseSearchCV, errors, methods

URL = "sqlite:///studies.db"
SPACE = {"x": (-5.0, 5.0), "y": (-5.0, 5.0)}


def objective(trial: optuna.Trial) -> float:
    return trial.suggest_float("x", -5, 5) ** 2 + trial.suggest_float("y", -5, 5) ** 2


def bowl(configuration: dict[str, float]) -> float:
    return configuration["x"] ** 2 + configuration["y"] ** 2


def shell(*words: str, code: int = 0) -> str:
    """Standard output and error of a `rankwise` command."""
    command = [str(Path(sys.executable).with_name("rankwise")), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == code, f"{' '.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def tune_a_function() -> None:
    result = rankwise.minimize(bowl, SPACE, trials=12, seed=0)
    assert result.best_value < 10 and len(result.history) == 12


def tune_a_study_with_an_archive() -> None:
    for k in range(3):
        study = optuna.create_study(storage=URL, study_name=f"old-{k}")
        study.optimize(objective, n_trials=15)
    study = optuna.create_study(
        storage=URL, study_name="new", sampler=RankwiseSampler(archive=URL, like="old-*", seed=0)
    )
    study.optimize(objective, n_trials=8)
    assert study.best_value < 10


def tune_an_estimator() -> None:
    X, y = load_wine(return_X_y=True)
    search = RankwiseSearchCV(
        RandomForestClassifier(n_estimators=10), n_trials=5, cv=3, archive=URL, random_state=0
    )
    assert search.fit(X, y).best_score_ > 0.8


def tune_a_table_from_the_shell() -> None:
    data = load_iris()
    with open("iris.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["a", "b", "c", "d", "kind"])
        names = data.target_names[data.target]
        rows.writerows([*row, name] for row, name in zip(data.data, names, strict=True))
    archive = ("--archive", "sqlite:///tables.db")
    shell("tune", "iris.csv", "--target", "kind", "--estimator", "random-forest", "--trials", "5",
          *archive, "--report", "report.html")  # fmt: skip
    page = Path("report.html").read_text(encoding="utf-8")
    assert "Plotly" in page and len(page) > 1e6  # it contains plotly.js
    assert "has 1 study" in shell("doctor", *archive)
    assert "eb-gp" in shell("methods")


def neural_methods(installed: bool) -> None:
    """Each works, or is refused with one sentence before the first trial, in every door."""
    names = [name for name in methods.available() if methods.get(name).needs == "neural"]
    listed = {row["name"]: row for row in json.loads(shell("methods", "--json"))}
    assert all(listed[name]["installed"] is installed for name in names)
    calls: list[dict[str, float]] = []
    for name in names:
        said = ""
        try:
            rankwise.minimize(lambda c: calls.append(c) or bowl(c), SPACE, trials=1, method=name)
        except errors.MissingPackageError as error:
            said = str(error)
        assert ('pip install "rankwise[neural]"' in said) is not installed, f"{name}: {said}"
    assert len(calls) == (len(names) if installed else 0)
    if not installed:
        said = shell("tune", "iris.csv", "--target", "kind", "--method", "dre", code=2)
        assert 'pip install "rankwise[neural]"' in said and "Traceback" not in said
        assert "torch" not in sys.modules


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--neural", action="store_true", help="the extra neural is installed")
    neural = parser.parse_args().neural
    place = Path(rankwise.__file__).resolve()
    assert "site-packages" in place.parts, f"this is not the installed package: {place}"
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        tune_a_function()
        tune_a_study_with_an_archive()
        tune_an_estimator()
        tune_a_table_from_the_shell()
        neural_methods(installed=neural)
        os.chdir(os.sep)
    packages = len(list(importlib.metadata.distributions()))
    python = ".".join(map(str, sys.version_info[:3]))
    print(f"rankwise {rankwise.__version__} works on Python {python} with {packages} packages")


if __name__ == "__main__":
    main()
