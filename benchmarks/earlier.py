"""How examples/earlier-svc.jsonl came about: `rankwise tune` on ten tables of real data.

    python benchmarks/earlier.py ../shared/data/tabular examples/earlier-svc.jsonl

The data sets are not part of this project; the file has the scores of the configurations tried,
not a row of them. It is a journal of Optuna's, reduced to what later studies learn from.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend

TABLES = ("marketing", "mammographic", "balance-scale", "column2C", "adult")
TABLES += ("attrition", "stackoverflow", "column3C", "vowel", "mlc-churn")
ROWS, TRIALS = 800, 25
KEPT = ("rankwise:fingerprint", "rankwise:space", "rankwise:search", "rankwise:context")


def tune(data: Path, name: str, folder: Path) -> None:
    """Tune a support vector machine for some rows of a table."""
    with np.load(data / f"{name}.npz") as file:
        rows = np.random.default_rng(0).permutation(len(file["y"]))[:ROWS]
        table = pd.DataFrame(file["X"][rows]).add_prefix("x")
        table["kind"] = [f"class {k}" for k in file["y"][rows]]
    table.to_csv(folder / f"{name}.csv", index=False)
    command = f"tune {name}.csv --target kind --estimator svc --metric accuracy --cv 3 --json"
    archive = f"--archive past.db --name {name} --trials {TRIALS}"
    run = [sys.executable, "-m", "rankwise.cli.app", *command.split(), *archive.split()]
    subprocess.run(run, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def reduce(source: BaseStorage, path: Path) -> None:
    """Copy what later studies learn from."""
    path.unlink(missing_ok=True)
    target = JournalStorage(JournalFileBackend(str(path)))
    for name in TABLES:
        full = optuna.load_study(study_name=name, storage=source)
        small = optuna.create_study(study_name=name, storage=target, direction="maximize")
        for key, value in full.user_attrs.items():
            if key in KEPT:
                small.set_user_attr(key, value)
        for trial in full.trials:
            trial.user_attrs = {}
            small.add_trial(trial)


def main(data: str, path: str) -> None:
    """Run all and write the file."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        for name in TABLES:
            tune(Path(data), name, Path(folder))
            print(f"{name} is tuned", flush=True)
        reduce(optuna.storages.RDBStorage(f"sqlite:///{folder}/past.db"), Path(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
