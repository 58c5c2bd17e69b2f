"""Limits numerical libraries to one thread."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Run linear algebra and torch on one thread.

    Matrices are small here. On a busy machine two threads that wait for each other can be a
    hundred times slower than one.
    """
    torch = sys.modules.get("torch")  # if torch was not imported, it needs no limit
    before = torch.get_num_threads() if torch else 1
    limited = [(library, library.num_threads) for library in _libraries()]
    limited = [(library, count) for library, count in limited if count and count > 1]
    if torch and before > 1:
        torch.set_num_threads(1)
    for library, _ in limited:
        library.set_num_threads(1)
    try:
        yield
    finally:
        for library, count in limited:
            library.set_num_threads(count)
        if torch and before > 1:
            torch.set_num_threads(before)


@lru_cache(maxsize=1)
def _libraries() -> list[Any]:
    """The libraries for linear algebra that are loaded; finding them takes milliseconds."""
    return ThreadpoolController().select(user_api="blas").lib_controllers  # type: ignore[no-any-return]
