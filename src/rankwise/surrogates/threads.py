"""How many cores a surrogate takes: one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Run linear algebra and torch on one thread: matrices are small here and other cores busy.

    Two threads that wait for each other on a busy machine can be a hundred times as slow as one.
    """
    torch = sys.modules.get("torch")  # who has not imported it needs no limit
    before = torch.get_num_threads() if torch else 1
    if torch:
        torch.set_num_threads(1)
    try:
        with _libraries().limit(limits=1, user_api="blas"):
            yield
    finally:
        if torch:
            torch.set_num_threads(before)


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    """The libraries that are loaded; finding them takes milliseconds."""
    return ThreadpoolController()
