"""Names for types that many modules share."""

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
"""From configurations (n, d) to numbers (n,) by which the past alone orders them; low is good."""
