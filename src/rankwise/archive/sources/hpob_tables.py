"""Tables of HPO-B's JSON files, read as streams, and the box of their columns.

The files have more than a gigabyte: only the tables of one search space are kept in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwise._core.data_errors import missing_package, unreadable, wrong
from rankwise.space.encoder import Encoder
from rankwise.types import Array


@dataclass(frozen=True)
class Box:
    """The ranges of the columns of X, and the space that they are.

    Attributes:
        lower: (d,), at most 0.
        upper: (d,), at least 1.
        encoder: encoder of the space; its columns are those of X, in their order.
    """

    lower: Array
    upper: Array
    encoder: Encoder

    def scale(self, X: Array) -> Array:
        """X (n, d) with the box as the unit cube; rows outside of the box stay outside."""
        scaled: Array = (X - self.lower) / (self.upper - self.lower)
        return scaled

    def unscale(self, X: Array) -> Array:
        """Inverse of `scale` for X (n, d)."""
        unscaled: Array = self.lower + X * (self.upper - self.lower)
        return unscaled


def box(arrays: Iterable[Array]) -> Box:
    """The smallest box that contains the unit cube and all rows of some arrays (n, d)."""
    ranges = [(X.min(axis=0), X.max(axis=0)) for X in arrays]
    lower = np.minimum(0.0, np.min([low for low, _ in ranges], axis=0))
    upper = np.maximum(1.0, np.max([high for _, high in ranges], axis=0))
    digits = len(str(len(lower) - 1))  # spaces sort by name: x02 comes before x10
    pairs = enumerate(zip(lower.tolist(), upper.tolist(), strict=True))
    return Box(lower, upper, Encoder({f"x{j:0{digits}d}": bounds for j, bounds in pairs}))


def stream_tables(path: Path, space: str) -> Iterator[tuple[str, tuple[Array, Array]]]:
    """The tables of a space from one file, one after the other: X (n, d) and losses (n,)."""
    try:
        import ijson
    except ImportError:
        raise missing_package(space, "ijson") from None
    try:
        with path.open("rb") as file:
            for name, content in ijson.kvitems(file, space, use_float=True):
                yield name, _table(path, f"task {name!r} of space {space!r}", content)
    except (OSError, ijson.JSONError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from error


def _table(path: Path, what: str, content: Any) -> tuple[Array, Array]:
    try:
        X = np.array(content["X"], dtype=float)
        losses = -np.array(content["y"], dtype=float).ravel()
    except (KeyError, TypeError, ValueError) as error:
        raise wrong(path, f"{what} has a wrong layout ({error!r})") from error
    if X.ndim != 2 or not len(X) == len(losses) > 0:
        raise wrong(path, f"{what} has X of shape {X.shape} and {len(losses)} values in y")
    if not (np.isfinite(X).all() and np.isfinite(losses).all()):
        raise wrong(path, f"{what} has numbers that are not finite")
    return X, losses
