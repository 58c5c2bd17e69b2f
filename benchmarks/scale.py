"""What grows with trials, tables and storages: CPU seconds and statements, counted in one process.

    python benchmarks/scale.py search --trials 200
    python benchmarks/scale.py pool --rows 30000
    python benchmarks/scale.py import
    python benchmarks/scale.py statements --url postgresql+psycopg://user@host/database
    python benchmarks/scale.py workers --trials 500
    python benchmarks/scale.py restore --url postgresql+psycopg://user@host/database

`search`: CPU seconds of a `RankwiseSearchCV` with successive halving and random proposals, nearly
all of which is fitting and bookkeeping. `pool`: CPU seconds of one choice of `auto` from a table,
with 12 past tables of 3,000 rows. `import`: CPU seconds of a fresh interpreter that imports the
sampler. `statements`: SQL statements per trial of an objective with six parameters, beside
Optuna's samplers. `workers`: CPU milliseconds of a proposal and statements per trial as a study of
four worker processes on SQLite grows, beside Optuna's GP sampler. `restore`: CPU seconds of
`rankwise archive import` with 60 studies of 100 trials. Another version is measured by setting
PYTHONPATH to its `src`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np


def search(trials: int) -> None:
    from sklearn.datasets import make_classification
    from sklearn.linear_model import LogisticRegression

    from rankwise import RankwiseSearchCV

    X, y = make_classification(600, random_state=0)
    space = {"C": (1e-3, 1e3, "log"), "tol": (1e-5, 1e-1, "log")}
    start = time.process_time()
    RankwiseSearchCV(
        LogisticRegression(max_iter=5),
        space,
        n_trials=trials,
        method="random",
        successive=True,
        random_state=0,
    ).fit(X, y)
    print(f"{trials} trials: {time.process_time() - start:.2f} CPU s")


def pool(rows: int) -> None:
    from rankwise import Encoder, Optimizer, Task, TaskSet

    encoder = Encoder({f"x{k}": (0.0, 1.0) for k in range(5)})
    rng = np.random.default_rng(0)

    def task(n: int, shift: float) -> Task:
        X = rng.random((n, 5))
        return Task.of(X, ((X - 0.3 - shift) ** 2).sum(1) + 0.05 * rng.normal(size=n))

    past = TaskSet(tuple(task(3000, 0.02 * k) for k in range(12)), (), encoder.fingerprint)
    strategy = Optimizer(encoder, method="auto", tasks=past, seed=0).strategy
    table, history = rng.random((rows, 5)), task(20, 0.06)
    for n in (0, 5, 20):
        start = time.process_time()
        strategy.choose(history.rows(range(n)), table, np.random.default_rng(1))
        print(f"{n} trials, {rows} rows: {time.process_time() - start:.2f} CPU s", flush=True)


def import_time(repetitions: int = 5) -> None:
    for statement in ("import optuna", "from rankwise import RankwiseSampler"):
        code = f"import time; {statement}; print(time.process_time())"
        found = [
            float(subprocess.run([sys.executable, "-c", code], capture_output=True).stdout)
            for _ in range(repetitions)
        ]
        print(f"{statement}: {np.median(found):.2f} CPU s")


def statements(url: str) -> None:
    import optuna
    import sqlalchemy

    from rankwise import RankwiseSampler

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    count = [0]

    def tick(*_: object) -> None:
        count[0] += 1

    def objective(trial: optuna.Trial) -> float:
        kind = trial.suggest_categorical("kind", ["a", "b"])
        return sum(trial.suggest_float(f"x{k}", 0, 1) ** 2 for k in range(5)) + (kind == "b")

    sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", tick)
    samplers = {
        "TPESampler": optuna.samplers.TPESampler(seed=0),
        "GPSampler": optuna.samplers.GPSampler(seed=0),
        "RankwiseSampler": RankwiseSampler(seed=0),
    }
    for name, sampler in samplers.items():
        study = optuna.create_study(storage=url, sampler=sampler)
        study.optimize(objective, n_trials=12)
        before = count[0]
        study.optimize(objective, n_trials=8)
        print(f"{name}: {(count[0] - before) / 8:.0f} statements per trial", flush=True)


def work(url: str, name: str, trials: int, results: Any) -> None:
    """A worker process: puts trial number, CPU seconds of the proposal and statements."""
    import optuna
    import sqlalchemy

    from rankwise import RankwiseSampler

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    count = [0]

    def tick(*_: object) -> None:
        count[0] += 1

    sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", tick)
    sampler = RankwiseSampler() if name == "RankwiseSampler" else optuna.samplers.GPSampler()
    study = optuna.load_study(study_name=name, storage=url, sampler=sampler)
    while True:
        before, start = count[0], time.process_time()
        trial = study.ask()
        if trial.number >= trials:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            return
        kind = trial.suggest_categorical("kind", ["a", "b"])
        value = sum(trial.suggest_float(f"x{k}", 0, 1) ** 2 for k in range(5)) + (kind == "b")
        seconds = time.process_time() - start
        study.tell(trial, value)
        results.put((trial.number, seconds, count[0] - before))


def workers(trials: int, processes: int = 4) -> None:
    import optuna

    spawn = multiprocessing.get_context("spawn")
    for name in ("RankwiseSampler", "GPSampler"):
        with tempfile.TemporaryDirectory() as folder:
            url, results = f"sqlite:///{folder}/studies.db", spawn.Queue()
            optuna.create_study(study_name=name, storage=url)
            running = [
                spawn.Process(target=work, args=(url, name, trials, results))
                for _ in range(processes)
            ]
            for process in running:
                process.start()
            rows = np.array(sorted(results.get() for _ in range(trials)))
            for process in running:
                process.join()
        for first in (20, trials // 4, trials - 50):
            part = rows[(rows[:, 0] >= first) & (rows[:, 0] < first + 50)]
            print(
                f"{name}, trials {first} to {first + 49}: {1000 * np.median(part[:, 1]):.0f} CPU "
                f"ms per proposal, {np.median(part[:, 2]):.0f} statements",
                flush=True,
            )


def restore(url: str, studies: int = 60, trials: int = 100) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    rng = np.random.default_rng(0)
    space = {f"x{k}": optuna.distributions.FloatDistribution(0, 1) for k in range(5)}
    with tempfile.TemporaryDirectory() as folder:
        journal = f"{folder}/studies.log"
        storage = optuna.storages.JournalStorage(
            optuna.storages.journal.JournalFileBackend(journal)
        )
        for k in range(studies):
            study = optuna.create_study(study_name=f"restored-{k}", storage=storage)
            X = rng.random((trials, 5))
            study.add_trials(
                [
                    optuna.trial.create_trial(
                        params=dict(zip(space, x, strict=True)),
                        distributions=space,
                        value=sum(v * v for v in x),
                    )
                    for x in X.tolist()
                ]
            )
        command = [sys.executable, "-m", "rankwise.cli", "archive", "import", journal]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*command, "--archive", url], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{studies} studies of {trials} trials: {used:.1f} CPU s")


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU seconds and statements")
    parser.add_argument("what", choices=list(WHAT))
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--url", default="sqlite:///runs/statements.db")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    WHAT[arguments.what](arguments)


WHAT: dict[str, Callable[[argparse.Namespace], None]] = {
    "search": lambda a: search(a.trials),
    "pool": lambda a: pool(a.rows),
    "import": lambda a: import_time(),
    "statements": lambda a: statements(a.url),
    "workers": lambda a: workers(a.trials),
    "restore": lambda a: restore(a.url),
}


if __name__ == "__main__":
    main()
