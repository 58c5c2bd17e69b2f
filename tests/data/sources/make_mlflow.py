"""Write an MLflow database, a folder of runs and a table of runs, with a real MLflow.

Run in an environment with mlflow and optuna: python make_mlflow.py [folder]
The database is dumped as SQL text without the tables that hold no runs, to be small.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import sys
import tempfile
import zipfile
from pathlib import Path

os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
TABLES = ("experiments", "runs", "params", "metrics", "latest_metrics", "tags", "alembic_version")


def log_runs(uri: str, artifacts: str) -> None:
    """Two sweeps of nested runs, three single runs, and a run that was deleted."""
    import mlflow

    mlflow.set_tracking_uri(uri)
    for experiment in ("xgb-sales", "forest"):
        mlflow.create_experiment(experiment, artifact_location=artifacts)
    mlflow.set_experiment("xgb-sales")
    for k in range(2):
        with mlflow.start_run(run_name=f"sweep-{k}"):
            mlflow.set_tag("dataset", f"sales-{k}")
            mlflow.set_tag("rows", 1000 * (k + 1))
            for trial in range(6):
                with mlflow.start_run(nested=True):
                    lr, depth = 10.0 ** (-trial), trial % 3 + 1
                    mlflow.log_params({"lr": lr, "depth": depth, "warm": trial % 2 == 0})
                    mlflow.log_param("max_leaves", None if trial % 2 else 7)
                    if trial == 4:
                        mlflow.end_run("FAILED")
                        continue
                    for step in range(3):
                        mlflow.log_metric("val_loss", abs(depth - 2) + lr + 1 / (step + 1), step)
                    mlflow.log_metric("accuracy", 0.5 + trial / 20)
                    if trial == 5:
                        mlflow.log_metric("val_loss", float("inf"), 3)
    mlflow.set_experiment("forest")
    for trial in range(3):
        with mlflow.start_run() as run:
            mlflow.log_params({"trees": 10 * (trial + 1), "criterion": "gini"})
            mlflow.log_metric("val_loss", 1.0 / (trial + 1))
    mlflow.delete_run(run.info.run_id)


def main(folder: Path) -> None:
    import mlflow

    work = Path(tempfile.mkdtemp())
    log_runs(f"sqlite:///{work}/mlflow.db", "artifacts")
    frame = mlflow.search_runs(search_all_experiments=True)
    own = [c for c in frame if c.startswith(("tags.mlflow.source", "tags.mlflow.user"))]
    frame.drop(columns=["artifact_uri", *own]).to_csv(folder / "mlflow.csv", index=False)
    keep = [f"INSERT INTO {q}{t}{q}" for t in TABLES for q in ('"', "")]
    keep += [f"CREATE TABLE {q}{t}{q}" for t in TABLES for q in ('"', "")]
    connection = sqlite3.connect(work / "mlflow.db")
    connection.execute(
        "DELETE FROM tags WHERE key LIKE 'mlflow.source%' OR key LIKE 'mlflow.user'"
    )
    lines = [s for s in connection.iterdump() if s.startswith(tuple(keep))]
    (folder / "mlflow.sql").write_text("\n".join(_neutral(line, work) for line in lines) + "\n")
    connection.close()
    log_runs(f"file://{work}/mlruns", "artifacts")
    with zipfile.ZipFile(folder / "mlruns.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted((work / "mlruns").rglob("*")):
            name = str(path.relative_to(work / "mlruns"))
            if path.is_file() and "mlflow.source" not in name and "mlflow.user" not in name:
                packed.writestr(name, _neutral(path.read_text(), work))
    shutil.rmtree(work)


def _neutral(text: str, work: Path) -> str:
    """The text without the name of the user, of the machine and of its folders."""
    import getpass

    text = text.replace(f"file://{work}", "results").replace(str(work), "results")
    for path in (str(Path(__file__).absolute()), __file__, str(Path.cwd())):
        text = text.replace(path, "make_mlflow.py")
    return re.sub(rf"\b{re.escape(getpass.getuser())}\b", "user", text)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
