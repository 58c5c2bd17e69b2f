"""Random cases in a loop: `make fuzz`.

    python tests/fuzz/run.py --cases 10000
    python tests/fuzz/run.py --first 1234 --cases 1    # one case again, by its seed

Every case is determined by its seed. A finding is a crash, a process that dies, more than 60 CPU
seconds, an illegal proposal, a fall-back or a numerical warning. Findings are printed with their
seeds as they come; the exit status is 1 if there is one.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import json
import resource
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from types import FrameType

HERE = Path(__file__).resolve().parent
LIMIT = 60  # CPU seconds of a case
BATCH = 2000  # cases per process


class Hang(BaseException):
    """A case used more than `LIMIT` CPU seconds."""


def _hang(signum: int, frame: FrameType | None) -> None:
    raise Hang(f"more than {LIMIT} CPU seconds")


def work(first: int, cases: int) -> None:
    """Run cases; print a line of JSON before and after each."""
    sys.path.insert(0, str(HERE))
    import optuna
    from cases import run_case

    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    signal.signal(signal.SIGPROF, _hang)
    for seed in range(first, first + cases):
        print(json.dumps({"begin": seed}), flush=True)
        began, error, text = time.process_time(), "", ""
        # What does not return to Python for so long cannot raise: the kernel ends it.
        resource.setrlimit(resource.RLIMIT_CPU, (int(began) + LIMIT + 30, resource.RLIM_INFINITY))
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
        try:
            text = run_case(seed)
        except (Exception, Hang):
            error = traceback.format_exc()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        used = time.process_time() - began
        print(json.dumps({"seed": seed, "cpu": used, "error": error, "text": text}), flush=True)


def run(first: int, cases: int, log: Path | None) -> int:
    """Run batches of cases in processes of their own; return the number of findings."""
    findings, done, cpu, slowest, seed = 0, 0, 0.0, 0.0, first
    end = first + cases
    while seed < end:
        n = min(BATCH, end - seed)
        words = [sys.executable, str(Path(__file__)), "--work", "--first", str(seed)]
        process = subprocess.Popen(
            [*words, "--cases", str(n)], stdout=subprocess.PIPE, text=True, env={**os.environ}
        )
        assert process.stdout is not None
        begun = seed
        seed += n
        for line in process.stdout:
            said = json.loads(line)
            begun = said.get("begin", begun)
            if "seed" not in said:
                continue
            done, cpu = done + 1, cpu + said["cpu"]
            slowest = max(slowest, said["cpu"])
            if log is not None:
                with log.open("a") as file:
                    file.write(line)
            if said["error"]:
                findings += 1
                print(f"seed {said['seed']}:\n{said['error']}", flush=True)
        if process.wait():
            findings, done, seed = findings + 1, done + 1, begun + 1
            print(f"seed {begun}: the process died ({process.returncode})", flush=True)
        print(
            f"{done} cases, {cpu:.0f} CPU s, slowest {slowest:.1f} s, {findings} findings",
            flush=True,
        )
    return findings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    parser.add_argument("--log", type=Path, help="file for one line of JSON per case")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.first, options.cases)
    else:
        sys.exit(1 if run(options.first, options.cases, options.log) else 0)


if __name__ == "__main__":
    main()
