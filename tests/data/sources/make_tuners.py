"""Write a SMAC3 run history, a Keras Tuner project and a Syne Tune table, with the real tools.

Run in an environment with smac, keras-tuner, jax and syne-tune: python make_tuners.py [folder]
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "jax")


def smac_run(folder: Path) -> None:
    from ConfigSpace import ConfigurationSpace
    from smac import HyperparameterOptimizationFacade, Scenario

    space = ConfigurationSpace({"lr": (1e-4, 1.0), "depth": (1, 8), "kind": ["a", "b"]})

    def train(config, seed: int = 0) -> float:
        if config["depth"] == 8:
            raise ValueError("too deep")
        return (config["lr"] - 0.1) ** 2 + config["depth"]

    work = Path(tempfile.mkdtemp())
    scenario = Scenario(  # a crash needs a cost, or SMAC stops
        space,
        n_trials=12,
        output_directory=work,
        name="forest",
        deterministic=True,
        seed=1,
        crash_cost=100.0,
    )
    facade = HyperparameterOptimizationFacade
    design = facade.get_initial_design(scenario, n_configs=10, max_ratio=1.0)
    facade(scenario, train, initial_design=design, overwrite=True, logging_level=False).optimize()
    found = json.loads(next(work.rglob("runhistory.json")).read_text())
    for trial in found["data"]:
        trial["additional_info"] = {}  # tracebacks with paths
    target = folder / "smac_run" / "forest" / "1"
    target.mkdir(parents=True, exist_ok=True)
    (target / "runhistory.json").write_text(json.dumps(found, indent=1))
    shutil.rmtree(work)


def keras_run(folder: Path) -> None:
    import keras_tuner

    class Tuner(keras_tuner.RandomSearch):
        def run_trial(self, trial, *args, **kwargs):
            hp = trial.hyperparameters
            lr = hp.Float("lr", 1e-4, 1e-1, sampling="log")
            units = hp.Int("units", 8, 64, step=8)
            if hp.Boolean("dropout"):
                hp.Float("rate", 0.1, 0.5)
            return {"val_loss": abs(units - 32) / 32 + lr, "accuracy": 0.5}

    work = Path(tempfile.mkdtemp())
    Tuner(
        objective=keras_tuner.Objective("val_loss", "min"),
        max_trials=6,
        seed=0,
        directory=str(work),
        project_name="mnist",
    ).search()
    for path in sorted((work / "mnist").rglob("*.json")):
        copy = folder / "keras_run" / "mnist" / path.relative_to(work / "mnist")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text())
    shutil.rmtree(work)


def syne_train() -> None:
    import argparse

    from syne_tune import Reporter

    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float)
    parser.add_argument("--depth", type=int)
    parser.add_argument("--epochs", type=int)
    config, _ = parser.parse_known_args()
    report = Reporter()
    for epoch in range(1, config.epochs + 1):
        report(epoch=epoch, loss=(config.lr - 0.1) ** 2 + config.depth / epoch)


def syne_run(folder: Path) -> None:
    work = Path(tempfile.mkdtemp())
    os.environ["SYNETUNE_FOLDER"] = str(work)
    from syne_tune import StoppingCriterion, Tuner
    from syne_tune.backend import LocalBackend
    from syne_tune.config_space import randint, uniform
    from syne_tune.optimizer.baselines import ASHA

    space = {"lr": uniform(0, 1), "depth": randint(1, 5), "epochs": 3}
    limits = {"time_attr": "epoch", "max_t": 3, "grace_period": 1}
    Tuner(
        trial_backend=LocalBackend(__file__),
        scheduler=ASHA(space, metric="loss", do_minimize=True, random_seed=0, **limits),
        stop_criterion=StoppingCriterion(max_num_trials_finished=6),
        n_workers=1,
        tuner_name="asha",
        sleep_time=0.2,
    ).run()
    with zipfile.ZipFile(next(work.rglob("results.csv.zip"))) as packed:
        (folder / "syne_tune.csv").write_bytes(packed.read("results.csv"))
    shutil.rmtree(work)


if __name__ == "__main__":
    if "--epochs" in sys.argv:  # a trial of Syne Tune
        syne_train()
        sys.exit()
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    smac_run(place)
    keras_run(place)
    syne_run(place)
