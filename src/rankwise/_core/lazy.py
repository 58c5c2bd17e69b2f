"""Public names that load on first use, so that importing a package is cheap."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from rankwise._core.extras import missing

_NEURAL = ("skorch", "torch")  # packages of the extra `neural`


def lazy_names(
    package: str, homes: Mapping[str, str], modules: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose public names load on first use.

    Args:
        package: name of the package, for error messages.
        homes: for each public name the module that defines it, relative to `rankwise`
            ("space.encoder").
        modules: for each public name that is itself a module, its path relative to `rankwise`.
    """
    inside = dict(modules or {})

    def load(name: str) -> Any:
        if name in inside:
            return load_module(f"rankwise.{inside[name]}", f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(load_module(f"rankwise.{homes[name]}", f"{package}.{name}"), name)

    def names() -> list[str]:
        return sorted([*homes, *inside])

    return load, names


def load_module(path: str, user: str) -> ModuleType:
    """Import a module of this library.

    Args:
        path: full name of the module.
        user: what needs it, for the error message.

    Raises:
        MissingPackageError: it needs PyTorch, which is not installed.
    """
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name not in _NEURAL:
            raise
        raise missing(user, error.name, "neural") from error
