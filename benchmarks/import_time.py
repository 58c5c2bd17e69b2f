"""How long importing the package takes, beside importing NumPy.

    python benchmarks/import_time.py

Starts a fresh interpreter for each measurement, in turns, and prints medians in milliseconds.
The time of an empty interpreter is subtracted.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

STATEMENTS = {"nothing": "pass", "numpy": "import numpy", "rankwise": "import rankwise"}


def seconds(statement: str) -> float:
    """Wall time of one interpreter that runs a statement."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start


def main(repetitions: int = 15) -> None:
    """Measure and print."""
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(repetitions):
        for name, statement in STATEMENTS.items():
            times[name].append(seconds(statement))
    empty = statistics.median(times["nothing"])
    medians = {name: statistics.median(t) - empty for name, t in times.items()}
    print(f"numpy {1e3 * medians['numpy']:.1f} ms, rankwise {1e3 * medians['rankwise']:.1f} ms")
    print(f"ratio {medians['rankwise'] / medians['numpy']:.2f}")


if __name__ == "__main__":
    main()
