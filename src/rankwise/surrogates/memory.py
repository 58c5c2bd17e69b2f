"""A function of configurations that keeps its values: rows of tables are asked about often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from rankwise.types import Array

MEMORY = 20_000  # configurations whose values are remembered


class Memory:
    """Values of a function of configurations, kept.

    Args:
        function: from X (n, d) to values (n, p), row by row.
    """

    def __init__(self, function: Callable[[Array], Array]) -> None:
        self._function = function
        self._number: dict[bytes, int] = {}
        self._values = np.empty((0, 0))

    def __call__(self, X: Array) -> Array:
        """Values (n, p) at X (n, d)."""
        if not len(X):
            return self._function(X)
        X = np.ascontiguousarray(X)
        row = np.dtype((np.void, X.itemsize * X.shape[1]))
        keys: list[Any] = X.view(row).ravel().tolist()  # each row's bytes
        numbers = self._numbers(keys)
        unknown = np.flatnonzero(numbers < 0).tolist()
        if unknown:
            new = {keys[k]: k for k in unknown}
            values = self._function(X[list(new.values())])
            if len(self._number) + len(new) > MEMORY or not self._number:
                self._number, self._values = {}, np.empty((0, values.shape[1]))
                if len(new) < len(set(keys)):  # what was known is forgotten
                    return self(X)
            first = len(self._values)
            self._number.update({key: first + j for j, key in enumerate(new)})
            self._values = np.concatenate([self._values, values])
            numbers = self._numbers(keys)
        known: Array = self._values.take(numbers, axis=0)
        return known

    def _numbers(self, keys: Sequence[bytes]) -> np.ndarray:
        """The rows (n,) of the values that are known by these keys; -1: not known."""
        return np.fromiter(map(self._number.get, keys, repeat(-1)), np.intp, len(keys))
