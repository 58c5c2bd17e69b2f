"""Round numbers for the ticks of an axis."""

from __future__ import annotations

import math

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


def round_ticks(low: float, high: float, *, most: int = 5, integer: bool = False) -> list[float]:
    """Equally spaced round numbers within an interval.

    Args:
        low: lower end.
        high: upper end; no ticks if it is not above the lower one.
        most: largest number of steps between ticks that fit into the interval.
        integer: True for whole numbers only.
    """
    width = high - low
    if not (width > 0 and math.isfinite(width)):
        return []
    scale = 10.0 ** math.floor(math.log10(width / most))
    steps = [step * scale for step in _STEPS]
    if integer:
        steps = [step for step in steps if step == round(step)] or [1.0]
    # The last step is at least width / most; the tolerance keeps one that is equal to it.
    step = next(step for step in [*steps, steps[-1]] if step * most >= width * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]
