"""Functions that find and read the data files of benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rankwise._core.data_errors import unreadable, wrong
from rankwise.bench.benchmarks import DATA_VARIABLE
from rankwise.errors import BenchmarkDataError


def need_data(name: str, data: Path | None) -> Path:
    """Return the data folder of a benchmark that needs one.

    Raises:
        BenchmarkDataError: there is no data folder.
    """
    if data is None:
        raise BenchmarkDataError(
            f"benchmark {name!r} needs data files and no data folder is given: "
            f"set the environment variable {DATA_VARIABLE} to the folder"
        )
    return data


def need_folder(name: str, folder: Path) -> Path:
    """Return a folder of a benchmark's files.

    Raises:
        BenchmarkDataError: the folder does not exist.
    """
    if not folder.is_dir():
        raise BenchmarkDataError(
            f"benchmark {name!r} needs the folder {folder}, which does not exist: "
            "put its files there, or choose another data folder"
        )
    return folder


def read_json(path: Path) -> dict[str, Any]:
    """Read the object in a JSON file.

    Raises:
        BenchmarkDataError: the file is missing or damaged, or has something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # ValueError: not JSON, or not text
        raise unreadable(path, error) from error
    if not isinstance(content, dict):
        raise wrong(path, f"it contains a {type(content).__name__}, not an object")
    return content
