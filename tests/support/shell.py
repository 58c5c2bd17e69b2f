"""Commands as people type them: in this process, or in a terminal of their own."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import optuna
import pandas as pd
import pytest

from rankwise.cli.app import main

SCRIPT = Path(sys.executable).with_name("rankwise")
QUICK = ("--estimator", "decision-tree", "--cv", "2", "--trials", "3")


def data(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n).round(3),
            "weight": rng.normal(size=n).round(3),
            "colour": rng.choice(["red", "green", "blue"], n),
        }
    )
    good = frame["size"] + (frame["colour"] == "red") + rng.normal(0, 0.3, n) > 0.3
    return frame.assign(good=np.where(good, "yes", "no"))


def enter(folder: Path, monkeypatch) -> Path:
    """Make a folder with a table the one in which commands run."""
    monkeypatch.chdir(folder)
    for variable in ("RANKWISE_ARCHIVE", "RANKWISE_DEBUG", "COLUMNS"):
        monkeypatch.delenv(variable, raising=False)
    data().to_csv("fruit.csv", index=False)
    return folder


def commands(monkeypatch, capsys):
    """Runs a command in this process: exit code, standard output and standard error."""

    def run(*words: str) -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["rankwise", *map(str, words)])
        with pytest.raises(SystemExit) as caught:
            main()
        found = capsys.readouterr()
        return SimpleNamespace(code=caught.value.code or 0, out=found.out, err=found.err)

    return run


def in_terminal(folder: Path, *words: str, at: str = "", then: str = "") -> SimpleNamespace:
    """Runs the installed command in a terminal of its own; `then` is typed when `at` appears."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))

    def take_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    process = subprocess.Popen(
        [str(SCRIPT), *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        start_new_session=True,
        preexec_fn=take_terminal,
    )
    os.close(theirs)
    seen, typed, end = b"", not at, time.monotonic() + 900
    try:
        while time.monotonic() < end:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    new = os.read(ours, 1 << 16)
                except OSError:  # how Linux says that the other side is closed
                    new = b""
                if not new:
                    break
                seen += new
                if not typed and at.encode() in seen:
                    os.write(ours, then.encode())
                    typed = True
        process.wait(300)
    finally:
        process.kill()
        os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode(errors="replace"))
    return SimpleNamespace(code=process.returncode, text=text.replace("\r\n", "\n"))


def executed(code: str) -> dict:
    session: dict = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code, session)
    return session


def trials(database: str, name: str) -> list[tuple[dict, float]]:
    study = optuna.load_study(study_name=name, storage=database)
    return [(trial.params, trial.value) for trial in study.trials]
