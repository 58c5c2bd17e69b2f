"""Errors for data files of benchmarks: what is wrong, where, and what to do."""

from __future__ import annotations

from pathlib import Path

from rankwise.errors import BenchmarkDataError

EXTRA = 'pip install "rankwise[bench]"'
"""The command that installs the optional packages of benchmarks."""


def missing_package(name: str, package: str) -> BenchmarkDataError:
    """The error for an optional package that is not installed."""
    return BenchmarkDataError(
        f"benchmark {name!r} needs the package {package}, which is not installed: run {EXTRA}"
    )


def wrong(path: Path, problem: str) -> BenchmarkDataError:
    """The error for a file with unexpected content."""
    return BenchmarkDataError(f"{path}: {problem}; correct the file or get it anew")


def unreadable(path: Path, error: Exception) -> BenchmarkDataError:
    """The error for a file that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return BenchmarkDataError(f"{path} is not there: get it, or name another data folder")
    return wrong(path, f"it cannot be read ({str(error) or type(error).__name__})")
