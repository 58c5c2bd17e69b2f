"""Version, commit, packages and machine of a run."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import datetime, timezone
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import rankwise

PACKAGES = ("torch", "botorch", "gpytorch", "scikit-learn", "optuna", "ConfigSpace", "numpy")


def environment(*, full: bool = False) -> dict[str, Any]:
    """Version, commit and date; with `full`, also the packages, the machine and the command."""
    facts: dict[str, Any] = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "rankwise": rankwise.__version__,
        "commit": commit(),
    }
    if full:
        facts["python"] = platform.python_version()
        facts["cores"] = os.cpu_count()
        facts["packages"] = {name: _version(name) for name in PACKAGES}
        facts["command"] = [Path(sys.argv[0]).name, *sys.argv[1:]]
    return facts


@lru_cache(maxsize=1)
def commit() -> str:
    """The commit of the library's source, with "+" if it was changed since; "" if unknown."""
    folder = Path(__file__).parent

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, check=True, timeout=10
        )
        return done.stdout.strip()

    try:
        if not git("ls-files", "--", __file__):
            return ""  # installed somewhere inside another project's repository
        changed = "+" if git("status", "--porcelain", "--", ".") else ""
        return git("rev-parse", "--short=12", "HEAD") + changed
    except (OSError, subprocess.SubprocessError):
        return ""


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
