"""CPU seconds from an archive to the first proposal, by the number of past studies.

    python benchmarks/archive.py 200 1000 10000
    python benchmarks/archive.py 200 1000 --url postgresql+psycopg://user@host/database

Builds a database with that many studies of 100 trials each: SQLite in `runs/`, or the tables of
the given URL, which must be a database for this benchmark alone: one with another number of
studies is emptied. Then a study with `RankwiseSampler(archive=url)` runs one trial, in a process
of its own, three times:

    first   nothing was kept before: the archive is read, and the method learns from it
    kept    the model and the summary of the archive were kept by the first process
    grown   one more study was written to the archive after that

Printed are the CPU seconds of the whole process, imports included, and its largest memory in MB.
`--optuna` adds the CPU seconds of Optuna's own loading of all trials. `--json` adds the figures
to a file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import sqlalchemy
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
)
from optuna.storages._rdb import models

RUNS = Path(__file__).resolve().parents[1] / "runs"
TRIALS = 100
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
WHEN = "2024-01-01 00:00:00", "2024-01-01 00:01:00"

PROPOSE = """
import json, resource, sys, time, warnings, logging
warnings.simplefilter("ignore")
import optuna
from rankwise import RankwiseSampler
optuna.logging.set_verbosity(optuna.logging.ERROR)

def objective(trial):
    trial.suggest_float("lr", 1e-5, 1.0, log=True)
    trial.suggest_int("layers", 1, 12)
    return 0.0

study = optuna.create_study(sampler=RankwiseSampler(archive=sys.argv[1], seed=0))
study.optimize(objective, n_trials=1)
assert study.trials[0].system_attrs.get("rankwise:proposal"), "the proposal was random"
"""
LOAD = """
import json, resource, sys, time
import optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
storage = optuna.storages.get_storage(sys.argv[1])
for name in optuna.get_all_study_names(storage):
    optuna.load_study(study_name=name, storage=storage).get_trials(deepcopy=False)
"""
MEASURED = """
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]))
"""


def build(url: str, n_studies: int) -> None:
    """Write studies as Optuna would, trial by trial, in a fraction of the time."""
    optuna.storages.RDBStorage(url).remove_session()
    engine = sqlalchemy.create_engine(url)
    tables = models.BaseModel.metadata.tables
    with engine.begin() as connection:
        there = connection.execute(sqlalchemy.text("select count(*) from studies")).scalar()
        if there == n_studies:
            return
        for table in reversed(models.BaseModel.metadata.sorted_tables):
            if table.name not in ("version_info", "alembic_version"):
                connection.execute(table.delete())
    rng = np.random.default_rng(0)
    for first in range(1, n_studies + 1, 100):
        with engine.begin() as connection:
            for study in range(first, min(first + 100, n_studies + 1)):
                for name, rows in content(study, rng).items():
                    connection.execute(tables[name].insert(), rows)
    engine.dispose()


def content(study: int, rng: np.random.Generator) -> dict[str, list[dict[str, Any]]]:
    """The rows of one study by table."""
    texts = {name: distribution_to_json(d) for name, d in DISTRIBUTIONS.items()}
    first = (study - 1) * TRIALS + 1
    ids = range(first, first + TRIALS)
    columns = {name: sample(d, rng) for name, d in DISTRIBUTIONS.items()}
    values = (np.log10(columns["lr"]) + rng.uniform(2, 4)) ** 2 + columns["dropout"]
    sign = 1 if study % 2 else -1
    start, end = (np.datetime64(when, "s").item() for when in WHEN)
    return {
        "studies": [{"study_id": study, "study_name": f"net-{study:05d}"}],
        "study_directions": [
            {
                "direction": "MINIMIZE" if sign == 1 else "MAXIMIZE",
                "study_id": study,
                "objective": 0,
            }
        ],
        "trials": [
            {
                "trial_id": k,
                "number": k - first,
                "study_id": study,
                "state": "COMPLETE",
                "datetime_start": start,
                "datetime_complete": end,
            }
            for k in ids
        ],
        "trial_params": [
            {
                "trial_id": k,
                "param_name": name,
                "param_value": float(of[k - first]),
                "distribution_json": texts[name],
            }
            for k in ids
            for name, of in columns.items()
            if name != "momentum" or columns["optimizer"][k - first] == 0
        ],
        "trial_values": [
            {"trial_id": k, "objective": 0, "value": value, "value_type": "FINITE"}
            for k, value in zip(ids, (sign * values).tolist(), strict=True)
        ],
    }


def sample(distribution: BaseDistribution, rng: np.random.Generator) -> np.ndarray:
    """Random values (n,) as Optuna stores them: of a choice the index."""
    if isinstance(distribution, CategoricalDistribution):
        return rng.integers(len(distribution.choices), size=TRIALS)
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high = distribution.low, distribution.high
    if distribution.log:
        values = np.exp(rng.uniform(np.log(low), np.log(high), TRIALS))
    else:
        values = rng.uniform(low, high, TRIALS)
    if distribution.step is not None:
        values = low + np.round((values - low) / distribution.step) * distribution.step
    return np.clip(values, low, high)


def grow(url: str, n_studies: int) -> None:
    """Write one more study."""
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        for name, rows in content(n_studies + 1, np.random.default_rng(1)).items():
            connection.execute(models.BaseModel.metadata.tables[name].insert(), rows)
    engine.dispose()


def shrink(url: str, n_studies: int) -> None:
    """Remove the study that `grow` wrote."""
    engine, ids = sqlalchemy.create_engine(url), range(n_studies * TRIALS + 1, 2**31 - 1)
    tables = models.BaseModel.metadata.tables
    with engine.begin() as connection:
        for name in ("trial_values", "trial_params", "trials"):
            connection.execute(tables[name].delete().where(tables[name].c.trial_id >= ids.start))
        for name in ("study_directions", "studies"):
            connection.execute(tables[name].delete().where(tables[name].c.study_id > n_studies))
    engine.dispose()


def measure(code: str, url: str, cache: Path) -> tuple[float, float]:
    """CPU seconds and megabytes of a process of its own."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1"}
    out = subprocess.run(
        [sys.executable, "-c", code + MEASURED, url],
        capture_output=True,
        text=True,
        env=environment,
    )
    if out.returncode:
        raise RuntimeError(out.stderr)
    seconds, megabytes = json.loads(out.stdout.splitlines()[-1])
    return seconds, megabytes


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU seconds to the first proposal")
    parser.add_argument("studies", type=int, nargs="+", help="numbers of past studies")
    parser.add_argument("--url", help="database of this benchmark alone; default SQLite in runs/")
    parser.add_argument("--optuna", action="store_true", help="also time Optuna's loading")
    parser.add_argument("--json", type=Path, help="file to which the figures are added")
    arguments = parser.parse_args()
    RUNS.mkdir(exist_ok=True)
    cache = RUNS / "archive-cache"
    for n_studies in arguments.studies:
        path = RUNS / f"archive-{n_studies}.db"
        url = arguments.url or f"sqlite:///{path}"
        build(url, n_studies)
        shrink(url, n_studies)
        for folder in (cache, path.with_name(path.name + ".rankwise")):
            shutil.rmtree(folder, ignore_errors=True)
        found: dict[str, Any] = {"studies": n_studies, "database": url.partition("+")[0]}
        found["database"] = found["database"].partition(":")[0]
        steps = {"first": PROPOSE, "kept": PROPOSE, "grown": PROPOSE}
        steps |= {"optuna": LOAD} if arguments.optuna else {}
        for step, code in steps.items():
            if step == "grown":
                grow(url, n_studies)
            found[step] = [round(x, 2) for x in measure(code, url, cache)]
            print(n_studies, found["database"], step, *found[step], flush=True)
        shrink(url, n_studies)
        if arguments.json:
            known = json.loads(arguments.json.read_text()) if arguments.json.exists() else []
            arguments.json.write_text(json.dumps([*known, found], indent=1))


if __name__ == "__main__":
    main()
