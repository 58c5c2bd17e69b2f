"""How fast past studies are read and encoded, beside Optuna's own loading of them.

    python benchmarks/archive.py

Builds an SQLite database of 1,000 studies with 200 trials each, once, in `runs/`. Then Optuna
loads all trials, and `open_archive` reads them and encodes them as tasks, each in a process of its
own; the two take turns, so that other work on the machine slows down both. Printed are the times,
their ratio and the most memory that each process held. `--quick` takes a tenth of the studies.
"""

from __future__ import annotations

import argparse
import json
import platform
import sqlite3
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
)

RUNS = Path(__file__).resolve().parents[1] / "runs"
TRIALS = 200
DISTRIBUTIONS: dict[str, BaseDistribution] = {
    "lr": FloatDistribution(1e-5, 1.0, log=True),
    "weight_decay": FloatDistribution(1e-8, 1e-2, log=True),
    "dropout": FloatDistribution(0.0, 0.9, step=0.1),
    "layers": IntDistribution(1, 12),
    "width": IntDistribution(16, 1024, log=True),
    "activation": CategoricalDistribution(["relu", "tanh", "gelu"]),
    "optimizer": CategoricalDistribution(["sgd", "adam"]),
    "momentum": FloatDistribution(0.0, 0.99),  # only with sgd
}

LOAD = """
import optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
start = time.perf_counter()
trials = 0
storage = optuna.storages.get_storage(url)
for name in optuna.get_all_study_names(storage):
    study = optuna.load_study(study_name=name, storage=storage)
    trials += len(study.get_trials(deepcopy=False))
"""
READ = """
from rankwise.archive import open_archive
start = time.perf_counter()
archive = open_archive(url)
read = time.perf_counter() - start
trials = sum(len(task) for task in archive.tasks.tasks)
"""
WORK = """
import json, resource, sys, time
url, read = sys.argv[1], None
{code}
seconds = time.perf_counter() - start
megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([trials, seconds, read, megabytes]))
"""


def build(path: Path, n_studies: int) -> None:
    """A database as Optuna would have written it, trial by trial, in a fraction of the time."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    optuna.storages.RDBStorage(f"sqlite:///{part}").engine.dispose()
    rng = np.random.default_rng(0)
    texts = {name: distribution_to_json(d) for name, d in DISTRIBUTIONS.items()}
    connection = sqlite3.connect(part)
    connection.execute("pragma synchronous = off")
    for study in range(1, n_studies + 1):
        first = (study - 1) * TRIALS + 1
        ids = range(first, first + TRIALS)
        connection.execute("insert into studies values (?, ?)", (study, f"net-{study:04d}"))
        connection.execute(
            "insert into study_directions (direction, study_id, objective) values (?, ?, 0)",
            ("MINIMIZE" if study % 2 else "MAXIMIZE", study),
        )
        when = ("2024-01-01 00:00:00.000000", "2024-01-01 00:01:00.000000")
        connection.executemany(
            "insert into trials (trial_id, number, study_id, state, datetime_start, "
            "datetime_complete) values (?, ?, ?, 'COMPLETE', ?, ?)",
            [(k, k - first, study, *when) for k in ids],
        )
        columns = {name: sample(d, rng) for name, d in DISTRIBUTIONS.items()}
        connection.executemany(
            "insert into trial_params (trial_id, param_name, param_value, distribution_json) "
            "values (?, ?, ?, ?)",
            [
                (k, name, float(values[k - first]), texts[name])
                for k in ids
                for name, values in columns.items()
                if name != "momentum" or columns["optimizer"][k - first] == 0
            ],
        )
        values = (np.log10(columns["lr"]) + rng.uniform(2, 4)) ** 2 + columns["dropout"]
        connection.executemany(
            "insert into trial_values (trial_id, objective, value, value_type) "
            "values (?, 0, ?, 'FINITE')",
            zip(ids, values.tolist(), strict=True),
        )
    connection.commit()
    connection.close()
    part.rename(path)


def sample(distribution: BaseDistribution, rng: np.random.Generator) -> np.ndarray:
    """Random values (n,) as Optuna stores them: of a choice the index."""
    if isinstance(distribution, CategoricalDistribution):
        return rng.integers(len(distribution.choices), size=TRIALS)
    low, high = distribution.low, distribution.high
    if distribution.log:
        values = np.exp(rng.uniform(np.log(low), np.log(high), TRIALS))
    else:
        values = rng.uniform(low, high, TRIALS)
    if distribution.step is not None:
        values = low + np.round((values - low) / distribution.step) * distribution.step
    return np.clip(values, low, high)


def measure(code: str, url: str) -> tuple[int, float, float | None, float]:
    """Trials, seconds in all, seconds of reading, and megabytes, in a process of its own."""
    script = WORK.format(code=code)
    out = subprocess.run(
        [sys.executable, "-c", script, url], capture_output=True, text=True, check=True
    )
    return tuple(json.loads(out.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of reading past studies")
    parser.add_argument("--quick", action="store_true", help="100 studies instead of 1,000")
    parser.add_argument("--rounds", type=int, default=3, help="how often both are timed")
    arguments = parser.parse_args()
    n_studies = 100 if arguments.quick else 1000
    path = RUNS / f"archive-{n_studies}.db"
    if not path.exists():
        RUNS.mkdir(exist_ok=True)
        print(f"building {path.name}: {n_studies} studies of {TRIALS} trials", flush=True)
        build(path, n_studies)
    url = f"sqlite:///{path}"
    ratios = []
    print(f"Python {platform.python_version()}, Optuna {optuna.__version__}")
    for _ in range(arguments.rounds):
        n, plain, _, plain_mb = measure(LOAD, url)
        m, ours, read, ours_mb = measure(READ, url)
        assert n == m == n_studies * TRIALS
        ratios.append(ours / plain)
        print(
            f"Optuna loads {n} trials in {plain:.1f} s ({plain_mb:.0f} MB); read and encoded in "
            f"{ours:.1f} s, of which {read:.1f} s to read ({ours_mb:.0f} MB); "
            f"ratio {ratios[-1]:.2f}",
            flush=True,
        )
    print(f"median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
