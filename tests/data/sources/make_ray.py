"""Write a Ray Tune experiment folder and its table, with a real run of Ray.

Run in an environment with ray[tune]: python make_ray.py [folder]
Only the text files are kept; Ray's pickles and logs are removed.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path


def train(config: dict) -> None:
    from ray import tune

    if config["lr"] > 0.5:
        raise ValueError("diverged")
    for step in range(3):
        tune.report({"loss": (config["lr"] - 0.01) ** 2 + config["model"]["depth"] / (step + 1)})


def main(folder: Path) -> None:
    import ray
    from ray import tune
    from ray.tune import RunConfig

    work = Path(tempfile.mkdtemp())
    ray.init(num_cpus=1, include_dashboard=False, logging_level="ERROR")
    tuner = tune.Tuner(
        train,
        param_space={
            "lr": tune.grid_search([0.001, 0.1, 0.9]),
            "model": {"depth": tune.grid_search([1, 2])},
            "optimizer": "adam",
        },
        tune_config=tune.TuneConfig(metric="loss", mode="min"),
        run_config=RunConfig(name="ray_run", storage_path=str(work), verbose=0),
    )
    results = tuner.fit()
    frame = results.get_dataframe()
    frame.drop(columns=["logdir", "hostname", "node_ip", "pid"], errors="ignore").to_csv(
        folder / "ray.csv", index=False
    )
    ray.shutdown()
    target = folder / "ray_run"
    shutil.rmtree(target, ignore_errors=True)
    for path in sorted((work / "ray_run").rglob("*.json")):
        if path.read_bytes()[:1] == b"\x80":
            continue  # a pickle, whatever its name says
        copy = target / path.relative_to(work / "ray_run")
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text().replace(str(work), "results")
        copy.write_text(re.sub(r'"(hostname|node_ip)": "[^"]*"', r'"\1": "host"', text))
    shutil.rmtree(work)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
