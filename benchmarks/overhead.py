"""What the benchmark runner itself costs per trial.

    python benchmarks/overhead.py --data ../shared/data

Runs random search on real tables in this process and subtracts the time of its proposals from
the whole, files included; reading the data is not counted, as it is done once per process.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from rankwise.bench import load, run
from rankwise.bench.cells import read_seconds

TABLES = ("tst-svm-hpob", "hpobench-xgb", "oboe", "textclf")
TRIALS = 50


def overhead(name: str, data: Path) -> tuple[float, int]:
    """Seconds per trial besides the proposals, and the number of cells."""
    benchmark = load(name, data)
    for task in benchmark.test:
        benchmark.problem(task)
    with TemporaryDirectory() as folder:
        out = Path(folder)
        start = time.perf_counter()
        cells = run([name], ["random"], trials=TRIALS, out=out, data=data, progress=False)
        whole = time.perf_counter() - start
        proposals = [read_seconds(cell, out) for cell in cells]
    return (whole - sum(map(sum, proposals))) / sum(map(len, proposals)), len(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    data = parser.parse_args().data.resolve()
    overhead(TABLES[0], data)  # imports
    print("| table | cells | milliseconds per trial |\n|---|---|---|")
    for name in TABLES:
        seconds, cells = zip(*(overhead(name, data) for _ in range(3)), strict=True)
        print(f"| {name} | {cells[0]} | {1000 * float(np.median(seconds)):.2f} |")


if __name__ == "__main__":
    main()
