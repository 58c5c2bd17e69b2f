"""A run that is killed: its objective writes a line before and after every evaluation.

    python work.py minimize STORAGE LOG
    python work.py worker STORAGE LOG

STORAGE is the URL of a database or the path of a journal file.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import optuna
from optuna.storages import BaseStorage
from optuna.trial import TrialState

from rankwise import RankwiseSampler, Result, minimize

TRIALS = 12
SPACE = {"kind": list("uvwxyz"), "level": (0, 9), "rate": (1e-3, 1.0, "log")}


def open_storage(address: str) -> BaseStorage:
    if "://" in address:
        # The hearts of workers beat, so that others notice when one died.
        return optuna.storages.RDBStorage(address, heartbeat_interval=1, grace_period=3)
    from optuna.storages.journal import JournalFileBackend

    return optuna.storages.JournalStorage(JournalFileBackend(address))


def loss(configuration: dict[str, Any]) -> float:
    return "uvwxyz".index(configuration["kind"]) + abs(configuration["level"] - 4) / 4


def logged(log: str) -> Callable[[dict[str, Any]], float]:
    """The loss, with a line in a file before and after each evaluation."""

    def say(word: str, configuration: dict[str, Any]) -> None:
        with open(log, "a") as file:
            file.write(json.dumps([word, dict(sorted(configuration.items()))]) + "\n")

    def objective(configuration: dict[str, Any]) -> float:
        say("begin", configuration)
        time.sleep(0.05)  # so that kills also come in the middle
        value = loss(configuration)
        say("end", configuration)
        return value

    return objective


def run(objective: Callable[[dict[str, Any]], float], storage: BaseStorage | None) -> Result:
    return minimize(
        objective, SPACE, trials=TRIALS, method="forest", trees=10, design=4, seed=3,
        storage=storage, name=None if storage is None else "killed", progress=False,
    )  # fmt: skip


def work(storage: BaseStorage, log: str) -> None:
    """A worker of a shared study: works until it has enough complete trials."""
    evaluate = logged(log)

    def objective(trial: optuna.Trial) -> float:
        kind = trial.suggest_categorical("kind", list("uvwxyz"))
        return evaluate({"kind": kind, "level": trial.suggest_int("level", 0, 9)})

    sampler = RankwiseSampler(seed=0)
    study = optuna.load_study(study_name="shared", storage=storage, sampler=sampler)
    while len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))) < TRIALS:
        study.optimize(objective, n_trials=1)


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    what, address, log = sys.argv[1:]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if what == "minimize":
        run(logged(log), open_storage(address))
    else:
        work(open_storage(address), log)
