"""Archives against the tools themselves: `make test-integrations` installs and runs them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import optuna
import pytest
from support import ROOT

from rankwise import RankwiseSampler
from rankwise.archive import open_archive

DATA = ROOT / "tests" / "data" / "sources"
GOAL = {"metric": "val_loss", "direction": "minimize"}


def script(name):
    spec = importlib.util.spec_from_file_location(name, DATA / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", ["sqlite:///{}/mlflow.db", "file://{}/mlruns"])
def test_runs_that_mlflow_logs(kind, tmp_path):
    pytest.importorskip("mlflow")
    make = script("make_mlflow")
    address = kind.format(tmp_path)
    make.log_runs(address, "artifacts")
    archive = open_archive(f"mlflow:{address}", experiment="xgb*", **GOAL)
    assert sorted(study.name for study in archive.studies) == ["sweep-0", "sweep-1"]
    assert archive.studies[0].curves is not None
    assert len(open_archive(f"mlflow:{address}", like="forest", **GOAL).studies[0]) == 2


def test_studies_in_mlflows_own_storage(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    from mlflow.optuna.storage import MlflowStorage

    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    storage = MlflowStorage(experiment_id=mlflow.create_experiment("optuna"))
    for k in range(2):
        study = optuna.create_study(study_name=f"past-{k}", storage=storage)
        study.optimize(lambda trial: (trial.suggest_float("x", 0, 1) - 0.3) ** 2, n_trials=8)
    archive = open_archive(storage)
    assert sorted(s.name for s in archive.studies) == ["past-0", "past-1"]
    assert [len(s) for s in archive.studies] == [8, 8]
    sampler = RankwiseSampler(archive=storage, seed=0)
    new = optuna.create_study(study_name="new", storage=storage, sampler=sampler)
    new.optimize(lambda trial: (trial.suggest_float("x", 0, 1) - 0.3) ** 2, n_trials=3)
    assert new.best_value < 0.05


def test_a_ray_tune_run(tmp_path):
    pytest.importorskip("ray.tune")
    # Ray's workers cannot import a module that was loaded from a file, but they get `__main__`.
    subprocess.run([sys.executable, str(DATA / "make_ray.py"), str(tmp_path)], check=True)
    archive = open_archive(tmp_path / "ray_run", metric="loss", direction="minimize")
    [study] = archive.studies
    assert len(study) == 6 and study.ok.sum() == 4
    assert set(study.distributions) == {"lr", "model/depth", "optimizer"}
    table = open_archive(tmp_path / "ray.csv", metric="loss", direction="minimize")
    assert set(table.space.distributions) == set(study.distributions)
