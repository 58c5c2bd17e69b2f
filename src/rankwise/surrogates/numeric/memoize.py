"""Cache of a function of configurations.

In tabular benchmarks and pools of candidates, the same configurations are evaluated at every
proposal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from rankwise.types import Array

MEMORY = 20_000  # configurations whose values are cached


class Memory:
    """A function of configurations that computes each value once and caches it.

    The cache is emptied when a call would make it larger than `MEMORY` configurations.

    Args:
        function: Maps X (n, d) to values (n, p); each row must depend on the same row of X only.
    """

    def __init__(self, function: Callable[[Array], Array]) -> None:
        self._function = function
        self._index: dict[bytes, int] = {}  # bytes of a configuration -> row of _values
        self._values = np.empty((0, 0))

    def __call__(self, X: Array) -> Array:
        """Return the function's values (n, p) at X (n, d)."""
        if not len(X):
            return self._function(X)
        X = np.ascontiguousarray(X)
        row = np.dtype((np.void, X.itemsize * X.shape[1]))
        keys: list[Any] = X.view(row).ravel().tolist()  # each row's bytes
        rows = self._cached_rows(keys)
        missing = np.flatnonzero(rows < 0).tolist()
        if missing:
            new = {keys[k]: k for k in missing}
            values = self._function(X[list(new.values())])
            if len(self._index) + len(new) > MEMORY or not self._index:
                self._index, self._values = {}, np.empty((0, values.shape[1]))
                if len(new) < len(set(keys)):  # some values of this call were just discarded
                    return self(X)
            first = len(self._values)
            self._index.update({key: first + j for j, key in enumerate(new)})
            self._values = np.concatenate([self._values, values])
            rows = self._cached_rows(keys)
        found: Array = self._values.take(rows, axis=0)
        return found

    def _cached_rows(self, keys: Sequence[bytes]) -> np.ndarray:
        """Return the row (n,) of each key in the cached values, -1 where it is not cached."""
        return np.fromiter(map(self._index.get, keys, repeat(-1)), np.intp, len(keys))
