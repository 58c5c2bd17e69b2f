"""What can go wrong, one class per kind of mistake.

Every message says what was wrong, where, and what to do about it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RankwiseError(Exception):
    """Base class of every error that Rankwise raises on purpose."""


class SpaceError(RankwiseError, ValueError):
    """A search space is impossible or uses something that cannot be encoded."""


class ConfigurationError(RankwiseError, ValueError):
    """A configuration does not belong to the space."""


class UnknownNameError(RankwiseError, ValueError):
    """A name (of a method, an option, a direction, ...) is not one of the valid ones."""

    def __init__(self, kind: str, name: object, valid: Iterable[str], hint: str = "") -> None:
        choices = sorted(valid)
        message = f"unknown {kind} {name!r}; valid: {', '.join(choices) or 'none'}"
        close = difflib.get_close_matches(str(name), choices, n=1)
        if close:
            message += f". Did you mean {close[0]!r}?"
        super().__init__(message + (f" {hint}" if hint else ""))


class OptionError(RankwiseError, ValueError):
    """An argument has a value that makes no sense."""


class SpaceExhausted(RankwiseError):
    """Every configuration of a finite space was proposed already."""


class StudyMismatchError(RankwiseError, ValueError):
    """A stored study cannot be resumed: it has another space, direction, method or seed."""


class StorageError(RankwiseError, OSError):
    """A storage cannot be opened, read or written."""


def check_name(kind: str, name: str, valid: Iterable[str], hint: str = "") -> str:
    """Return `name` if it is among `valid`, else raise `UnknownNameError` that lists them."""
    choices = list(valid)
    if name not in choices:
        raise UnknownNameError(kind, name, choices, hint)
    return name
