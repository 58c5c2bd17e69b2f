"""The registry of methods: names, options, and how they are built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise._core.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.methods.added import register
    from rankwise.methods.method import Method
    from rankwise.methods.registry import (
        available,
        check_options,
        check_values,
        get,
        make,
        split,
    )

__all__ = [
    "Method",
    "available",
    "check_options",
    "check_values",
    "get",
    "make",
    "register",
    "split",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Method": "methods.method",
        "available": "methods.registry",
        "check_options": "methods.registry",
        "check_values": "methods.registry",
        "get": "methods.registry",
        "make": "methods.registry",
        "register": "methods.added",
        "split": "methods.registry",
    },
)
