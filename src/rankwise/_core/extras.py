"""Optional packages: whether they are installed, and the sentence for one that is not."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from rankwise.errors import MissingPackageError

PACKAGES = {"bench": "cmaes", "neural": "torch", "plot": "matplotlib"}
"""For some extras the package that shows whether it is installed."""


def installed(package: str) -> bool:
    """True if a package can be imported; it is not imported."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def require(user: str, extra: str) -> None:
    """Check that the package of an extra is installed.

    Args:
        user: what needs it, the subject of the message, such as "method 'dre'".
        extra: one of `PACKAGES`.

    Raises:
        MissingPackageError: it is not installed; the message says how to install it.
    """
    if not installed(PACKAGES[extra]):
        raise missing(user, PACKAGES[extra], extra)


def missing(user: str, package: str, extra: str) -> MissingPackageError:
    """The error for an optional package that is not installed."""
    return MissingPackageError(
        f"{user} needs the package {package}, which is not installed: "
        f'pip install "rankwise[{extra}]"'
    )


class LazyModule:
    """A module of an optional package that is imported when one of its names is used.

    Args:
        name: name of the module.
        user: what needs it, for the error message.
        extra: the extra that installs it.
    """

    def __init__(self, name: str, user: str, extra: str) -> None:
        self._name, self._user, self._extra = name, user, extra

    def __getattr__(self, name: str) -> Any:
        try:
            module = importlib.import_module(self._name)
        except ModuleNotFoundError as error:
            raise missing(self._user, self._name, self._extra) from error
        value = getattr(module, name)
        setattr(self, name, value)  # found without this method the next time
        return value
