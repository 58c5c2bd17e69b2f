"""The examples run as they are shipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
SHORTER = {  # what an example takes to be shown quickly
    "demo.py": ["runs/demo", "1", "6"],
    "digits_network.py": ["--seconds", "3"],
    "inverse_mapping.py": ["--sizes", "3"],
    "ranking_sinusoid.py": ["--starts", "2", "--steps", "100"],
    "restart_or_reuse.py": ["--seeds", "1"],
}


@pytest.mark.parametrize("name", sorted(p.name for p in FOLDER.glob("*.py")))
def test_example(name, tmp_path):
    done = subprocess.run(
        [sys.executable, str(FOLDER / name), *SHORTER.get(name, [])],
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "default::RuntimeWarning"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert "best" in done.stdout
    assert "the surrogate failed" not in done.stderr
    if name == "demo.py":
        written = {p.name for p in (tmp_path / "runs" / "demo").iterdir()}
        assert {"demo.png", "report.html", "rankwise.db"} <= written
