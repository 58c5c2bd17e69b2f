"""Type names that many modules share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Counts: TypeAlias = npt.NDArray[np.int64]
Configuration: TypeAlias = dict[str, Any]
"""One point of a space: the active hyperparameters and their values, as plain Python objects."""
Foresight: TypeAlias = Callable[[Array], Array]
"""Function from configurations (n, d) to predictions (n,) of past studies alone; low is good."""


def sign_of(direction: str) -> float:
    """Return 1 for "minimize" and -1 for "maximize": sign times value is a loss."""
    return 1.0 if direction == "minimize" else -1.0
