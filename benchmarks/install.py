"""Installed size, number of packages, and time to start, beside Optuna.

    python benchmarks/install.py --results benchmarks/results/install.json

Four environments are made in a folder (`--folder`, kept if it is given): rankwise, rankwise with
the extra `neural`, Optuna alone, and Optuna with scikit-learn and ConfigSpace. Versions are those
of `constraints.txt`. The size is that of the installed files of all packages except pip and
setuptools. Times are processor seconds of whole processes, medians of `--repeats` in turns, after
one that is not counted. `--skip-neural` leaves PyTorch out, and with it Optuna's GP sampler.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS: Mapping[str, Sequence[str]] = {
    "rankwise": [str(ROOT)],
    "rankwise[neural]": [f"{ROOT}[neural]"],
    "optuna": ["optuna"],
    "optuna, scikit-learn, ConfigSpace": ["optuna", "scikit-learn", "ConfigSpace"],
}
CORE, NEURAL, ALONE, PEERS = ENVIRONMENTS

ARCHIVE = """
import optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
def objective(trial, k=0):
    x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 1e-3, 1, log=True)
    n = trial.suggest_int("n", 1, 9)
    return (x - 0.1 * k) ** 2 + y + 0.1 * abs(n - 5)
"""
FILL = """
for k in range(5):
    sampler = optuna.samplers.RandomSampler(seed=k)
    study = optuna.create_study(storage="sqlite:///studies.db", study_name=str(k), sampler=sampler)
    study.optimize(lambda trial: objective(trial, k), n_trials=30)
"""
FIRST = """
from rankwise import RankwiseSampler
study = optuna.create_study(sampler=RankwiseSampler("sqlite:///studies.db", seed=0))
objective(study.ask())
"""
ALSO_FIRST = """
study = optuna.create_study(sampler=optuna.samplers.GPSampler(seed=0))
study.add_trials(optuna.load_study(study_name="0", storage="sqlite:///studies.db").trials)
objective(study.ask())
"""

SIZE = """
import importlib.metadata, json, os
found = {}
for package in importlib.metadata.distributions():
    name = package.metadata["Name"].lower()
    paths = [package.locate_file(file) for file in package.files or ()]
    found[name] = sum(os.path.getsize(path) for path in paths if os.path.isfile(path))
print(json.dumps({k: v for k, v in found.items() if k not in ("pip", "setuptools")}))
"""


def installed(folder: Path, name: str) -> Path:
    """The folder of the programs of an environment; it is made if it does not exist."""
    place = folder / "".join(c for c in name if c.isalnum())
    programs = place / "bin"
    if not (place / "complete").exists():
        print(f"installing {name}", flush=True)
        venv.create(place, with_pip=True, clear=True)
        command = [programs / "python", "-m", "pip", "install", "-qq", "-c"]
        subprocess.run([*command, ROOT / "constraints.txt", *ENVIRONMENTS[name]], check=True)
        (place / "complete").touch()
    return programs


def sizes(programs: Path) -> dict[str, int]:
    """Bytes of each installed package."""
    out = subprocess.run([programs / "python", "-c", SIZE], capture_output=True, check=True)
    found: dict[str, int] = json.loads(out.stdout)
    return found


def cpu_seconds(command: Sequence[Any], folder: Path) -> float:
    """Processor seconds of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    one = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | one
    subprocess.run(command, capture_output=True, check=True, cwd=folder, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def medians(commands: Mapping[str, Sequence[Any]], folder: Path, repeats: int) -> dict[str, float]:
    """Median processor seconds of each command; they run in turns."""
    seen: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(repeats + 1):
        for name, command in commands.items():
            seconds = cpu_seconds(command, folder)
            if turn:  # the first one compiles and fills caches
                seen[name].append(seconds)
    return {name: statistics.median(values) for name, values in seen.items()}


def measure(folder: Path, repeats: int, neural: bool) -> dict[str, Any]:
    names = [name for name in ENVIRONMENTS if neural or name != NEURAL]
    programs = {name: installed(folder, name) for name in names}
    found = {name: sizes(programs[name]) for name in names}
    total = {name: sum(found[name].values()) / 1e6 for name in names}
    size_rows = [
        [name, len(found[name]), round(total[name]), round(total[name] / total[PEERS], 2)]
        for name in names
    ]
    large = sorted(found[CORE].items(), key=lambda item: -item[1])[:10]
    core = programs[CORE]
    python = core / "python"
    subprocess.run([python, "-c", ARCHIVE + FILL], check=True, cwd=folder)
    help_ = {
        "import rankwise": [python, "-c", "import rankwise"],
        "rankwise --help": [core / "rankwise", "--help"],
        "optuna --help": [core / "optuna", "--help"],
        "import optuna": [python, "-c", "import optuna"],
        "from rankwise import RankwiseSampler": [
            python, "-c", "from rankwise import RankwiseSampler",
        ],
    }  # fmt: skip
    first = {"first proposal, RankwiseSampler": [python, "-c", ARCHIVE + FIRST]}
    if neural:
        gp = [programs[NEURAL] / "python", "-c", ARCHIVE + ALSO_FIRST]
        first["first proposal, Optuna's GPSampler"] = gp
    starts = medians(help_, folder, repeats) | medians(first, folder, repeats)
    base, other = starts["optuna --help"], starts.get("first proposal, Optuna's GPSampler")
    start_rows = [
        [
            name,
            round(seconds, 2),
            round(seconds / base, 2),
            None if other is None else round(seconds / other, 2),
        ]
        for name, seconds in starts.items()
    ]
    return {
        "size": {
            "about": "Installed packages and their size, without pip and setuptools.",
            "columns": [
                {"name": "installed", "code": True},
                {"name": "packages"},
                {"name": "MB"},
                {"name": "ratio to optuna, scikit-learn, ConfigSpace", "digits": 2},
            ],
            "rows": size_rows,
        },
        "largest": {
            "about": "The largest packages of the core.",
            "columns": [{"name": "package", "code": True}, {"name": "MB", "digits": 1}],
            "rows": [[name, round(size / 1e6, 1)] for name, size in large],
        },
        "start": {
            "about": "Processor seconds of whole processes.",
            "columns": [
                {"name": "process", "code": True},
                {"name": "s", "digits": 2},
                {"name": "ratio to optuna --help", "digits": 2},
                {"name": "ratio to GPSampler", "digits": 2},
            ],
            "rows": start_rows,
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="keep the environments here")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--skip-neural", action="store_true")
    parser.add_argument("--results", type=Path, help="write the tables to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob("studies.db*"):
            left.unlink()
        tables = measure(folder, options.repeats, not options.skip_neural)
    print(json.dumps(tables, indent=1))
    if options.results:
        content = {
            "title": "Installed size and time to start",
            "date": date.today().isoformat(),
            "machine": f"{os.cpu_count()} cores, one thread, other work on the machine",
            "versions": f"versions of constraints.txt, Python {platform.python_version()}",
            "command": [f"python {' '.join(sys.argv)}"],
            "protocol": "Sizes are of the installed files, compiled ones included, with the CPU "
            "build of PyTorch. Times are processor seconds of whole processes, medians of "
            f"{options.repeats} in turns. A first proposal includes importing, reading an archive "
            "of five studies of 30 trials from SQLite, learning from it, and suggesting three "
            "parameters; GPSampler has 30 finished trials of the same study.",
            "tables": tables,
        }
        options.results.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
