"""JSON files of other tools, read with a limit on their size and depth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rankwise.errors import ArchiveError

_LARGEST = 200_000_000  # bytes of one file


def read_json(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
        ArchiveError: it is missing, damaged, too large or nested too deeply.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise ArchiveError(f"{path} is too large: {path.stat().st_size} bytes")
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ArchiveError(f"{path} cannot be read: it is nested too deeply") from None
    except ArchiveError:
        raise
    except (OSError, ValueError) as error:
        raise ArchiveError(f"{path} cannot be read as JSON ({str(error)[:200]})") from error


def flat(nested: Any, prefix: str = "") -> dict[str, Any]:
    """A nested dict as one level; names of inner entries are joined with a slash."""
    found: dict[str, Any] = {}
    todo = [(prefix, nested)]
    while todo:
        name, value = todo.pop()
        if isinstance(value, dict) and (value or not name):
            inner = [(f"{name}/{key}" if name else str(key), v) for key, v in value.items()]
            todo += reversed(inner)
        else:
            found[name] = value
    return found
