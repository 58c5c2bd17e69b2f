"""Plug-ins of other packages, found by their entry points."""

from __future__ import annotations

import warnings
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any

from rankwise.errors import RunWarning


@lru_cache(maxsize=8)
def plugins(group: str) -> dict[str, Any]:
    """The objects of all entry points of a group, by name, sorted by name.

    A plug-in that cannot be imported is left out, and a warning names it.
    """
    found: dict[str, Any] = {}
    for point in sorted(entry_points(group=group), key=lambda p: p.name):
        try:
            found[point.name] = point.load()
        except Exception as error:  # a plug-in of others may raise anything
            warnings.warn(
                f"the plug-in {point.name!r} ({point.value}) of group {group} is not used: "
                f"{type(error).__name__}: {error}",
                RunWarning,
                stacklevel=2,
            )
    return found
