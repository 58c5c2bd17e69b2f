"""Objectives at the top of a module, so that worker processes can import them."""

from __future__ import annotations

import math
import os
import time


def bowl(configuration) -> float:
    return (configuration["x"] - 0.3) ** 2 + (configuration["y"] - 0.6) ** 2


def moody(configuration) -> float:
    """Raises, returns NaN or a bowl, depending on the corner."""
    if configuration["x"] > 0.8:
        raise ValueError("too far right")
    if configuration["y"] > 0.8:
        return math.nan
    return bowl(configuration)


def slow_right(configuration) -> float:
    if configuration["x"] > 0.5:
        time.sleep(3600)
    return bowl(configuration)


def deadly_right(configuration) -> float:
    if configuration["x"] > 0.7:
        os._exit(3)
    return bowl(configuration)


def which_process(configuration) -> float:
    time.sleep(0.2)
    return float(os.getpid())


def tower(configuration) -> float:
    """Depth matters: each layer lowers the loss, if it is as wide as it should be."""
    loss = 1.0 + 3.0 * (configuration["rate"] - 0.6) ** 2
    for k, width in zip(range(1, configuration["depth"] + 1), (0.2, 0.9, 0.15), strict=False):
        loss -= 0.3 * (1.0 - 4.0 * (configuration[f"width_{k}"] - width) ** 2)
    return loss
