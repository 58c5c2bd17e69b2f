"""Exceptions, one class per kind of mistake.

Every message says what was wrong, where, and what to do about it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any


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
    """An argument has an invalid value."""


class MissingPackageError(OptionError, ImportError):
    """An optional package is not installed."""


class SpaceExhausted(RankwiseError):
    """Every configuration of a finite space was proposed already."""


class StudyMismatchError(RankwiseError, ValueError):
    """A stored study cannot be continued: it has another space or direction."""


class StorageError(RankwiseError, OSError):
    """A storage cannot be opened, read or written."""


class ArchiveError(RankwiseError, ValueError):
    """Past studies cannot be read, or none of them can be used."""


class FallbackError(RankwiseError, RuntimeError):
    """A sampler with `strict=True` would have to fall back to a simpler proposal."""


class ModelFileError(RankwiseError, ValueError):
    """A file does not contain the requested model, or cannot be written."""


class BenchmarkDataError(RankwiseError, ValueError):
    """The data of a benchmark are missing or damaged, or its results cannot be written."""


class TableError(RankwiseError, ValueError):
    """A table of data cannot be read, or nothing can be learnt from it."""


class GeometryError(RankwiseError, ValueError):
    """A network cannot be built, for instance because a kernel is larger than its input."""


class TrainingDiverged(RankwiseError, ArithmeticError):
    """The loss or the weights of a network became infinite or NaN."""


class NetworkTooLarge(RankwiseError, MemoryError):
    """A network and its batches do not fit into memory."""


class RunWarning(UserWarning):
    """Warning about a problem that does not end the run."""


def check_count(name: str, value: Any) -> int:
    """Return `value` as an int if it is a positive whole number, else raise `OptionError`."""
    if not is_number(value, Integral) or value < 1:
        raise OptionError(f"{name} must be a positive integer, not {value!r}")
    return int(value)


def is_number(value: object, kind: type = Real) -> bool:
    """True if a value is a Python or NumPy number and not a bool."""
    return isinstance(value, kind) and not isinstance(value, bool)


def check_name(kind: str, name: str, valid: Iterable[str], hint: str = "") -> str:
    """Return `name` if it is among `valid`, else raise `UnknownNameError` that lists them."""
    choices = list(valid)
    if name not in choices:
        raise UnknownNameError(kind, name, choices, hint)
    return name
