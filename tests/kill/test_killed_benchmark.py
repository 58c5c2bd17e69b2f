"""A benchmark that is killed at random points ends with the same bytes as a calm one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

WORDS = "bench run --on quadratics --methods random,mbo,eb-gp --seeds 2 --trials 4 --initial 3"
KILLS = 4


def command(out: Path, jobs: int) -> list[str]:
    words = [*WORDS.split(), "--jobs", str(jobs), "--out", str(out)]
    return [sys.executable, "-m", "rankwise.cli", *words]


def results(out: Path) -> dict[str, bytes]:
    """The content of all results, by path."""
    folder = out / "cells"
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.glob("*/*/*.json"))}


@pytest.mark.parametrize("seed", range(int(os.environ.get("RANKWISE_REPEATS", "1"))))
def test_a_benchmark(tmp_path: Path, seed: int) -> None:
    moments, calm, stormy = random.Random(seed), tmp_path / "calm", tmp_path / "stormy"
    subprocess.run(command(calm, 1), check=True, capture_output=True)
    wanted, killed = results(calm), 0
    for point in sorted(moments.sample(range(len(wanted) - 1), KILLS)):
        process = subprocess.Popen(
            command(stormy, 2), start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while len(results(stormy)) < point and process.poll() is None:
            time.sleep(0.002)
        time.sleep(moments.uniform(0.0, 0.1))
        killed += process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        left = results(stormy)
        assert left.items() <= wanted.items()  # whole files only
    subprocess.run(command(stormy, 2), check=True, capture_output=True)
    assert results(stormy) == wanted and killed
    print(f"benchmark: {killed} kills, {len(wanted)} cells, 0 lost")
