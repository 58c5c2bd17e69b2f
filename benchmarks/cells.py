"""What the benchmarks of several objectives, constraints, early stopping and seconds share.

The result of a run is one line of a file of JSON lines, found by its key. So a benchmark that was
interrupted goes on where it stopped, and the results file is written from these lines.
"""

from __future__ import annotations

import argparse
import json
import warnings
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import optuna

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


class Lines:
    """Results of runs by key, kept in a file of JSON lines.

    Args:
        path: the file; it is made if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        self._found = {tuple(key): value for key, value in map(json.loads, lines)}

    def __contains__(self, key: tuple) -> bool:
        return key in self._found

    def __getitem__(self, key: tuple) -> Any:
        return self._found[key]

    def keys(self) -> list[tuple]:
        return sorted(self._found)

    def add(self, key: tuple, value: Any) -> None:
        """Keep the result of a run."""
        self._found[key] = value
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([list(key), value]) + "\n")

    def complete(self, names: tuple[str, ...]) -> list[tuple]:
        """The keys without their last part for which there is a result with each last part."""
        heads = sorted({key[:-1] for key in self._found})
        return [head for head in heads if all((*head, name) in self._found for name in names)]


def arguments(name: str, about: str, seeds: int) -> argparse.ArgumentParser:
    """The options that all of these benchmarks have; Optuna is made quiet."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--cache", type=Path, default=ROOT / "runs" / f"{name}.jsonl")
    parser.add_argument("--choose", action="store_true", help="compare settings only")
    parser.add_argument("--write", action="store_true", help="only write the results file")
    return parser


def write_results(
    name: str, title: str, command: str | list[str], protocol: str, tables: dict[str, dict]
) -> None:
    """Write a results file, from which `docs/generate.py` makes tables."""
    content = {
        "title": title,
        "date": str(date.today()),
        "machine": "2 cores, other work on both",
        "versions": f"Optuna {optuna.__version__}, NumPy {np.__version__}",
        "command": [command] if isinstance(command, str) else command,
        "protocol": protocol,
        "tables": tables,
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", "utf-8")
