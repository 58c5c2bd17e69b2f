"""Runs in another process that are killed at a chosen evaluation, not at a chosen second."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from support import TESTS


def stall_at(log: str, call: int, configuration, objective) -> float:
    """Evaluates an objective, and never returns from the given call or a later one.

    Calls are counted over all processes: each one adds a line to the file `log`.
    """
    with open(log, "a") as file:
        file.write(".\n")
    if len(Path(log).read_text().splitlines()) >= call:
        time.sleep(3600)
    return objective(configuration)


def run_and_kill(script: str, log: Path, call: int, *arguments: str) -> None:
    """Runs a script that uses `stall_at`, and kills it with its workers at the given call.

    Args:
        script: Python code; `sys.argv` has the log, the call and the arguments.
        log: file that `stall_at` writes to.
        call: number of the evaluation during which the process is killed.
        *arguments: more words for the script.
    """
    words = [sys.executable, "-c", script, str(log), str(call), *arguments]
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        words, start_new_session=True, env={**os.environ, "PYTHONPATH": path}
    )
    try:
        while not (log.exists() and len(log.read_text().splitlines()) >= call):
            assert process.poll() is None, "the run ended before it could be killed"
            time.sleep(0.02)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
