"""Finding and reading the files of benchmarks, with errors that say what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rankwise.bench.registry import DATA_VARIABLE
from rankwise.errors import BenchmarkDataError

EXTRA = 'pip install "rankwise[bench]"'


def need_data(name: str, data: Path | None) -> Path:
    """The data folder, which the benchmark of that name cannot do without."""
    if data is None:
        raise BenchmarkDataError(
            f"benchmark {name!r} needs data files and no data folder is given: "
            f"set the environment variable {DATA_VARIABLE} to it"
        )
    return data


def need_folder(name: str, folder: Path) -> Path:
    """The folder, if it is there."""
    if not folder.is_dir():
        raise BenchmarkDataError(
            f"benchmark {name!r} needs the folder {folder}, which is not there: "
            "put its files there, or name another data folder"
        )
    return folder


def missing_package(name: str, package: str) -> BenchmarkDataError:
    """What is raised where an optional package is not installed."""
    return BenchmarkDataError(
        f"benchmark {name!r} needs the package {package}, which is not installed: run {EXTRA}"
    )


def wrong(path: Path, problem: str) -> BenchmarkDataError:
    """What is raised where a file does not hold what it should."""
    return BenchmarkDataError(f"{path}: {problem}; correct the file or get it anew")


def unreadable(path: Path, error: Exception) -> BenchmarkDataError:
    """What is raised where a file cannot be read."""
    if isinstance(error, FileNotFoundError):
        return BenchmarkDataError(f"{path} is not there: get it, or name another data folder")
    return wrong(path, f"it cannot be read ({str(error) or type(error).__name__})")


def read_json(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # ValueError: no JSON, or no text
        raise unreadable(path, error) from error
    if not isinstance(content, dict):
        raise wrong(path, f"it holds a {type(content).__name__}, not an object")
    return content
