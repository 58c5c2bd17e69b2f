"""Calling the objective: whatever it does becomes a value or a status, never a crash of the run.

Worker processes import this module and nothing else of the library: it must stay light.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rankwise.task import FAILED, INVALID, OK, TIMEOUT

Objective = Callable[[dict[str, Any]], float]


@dataclass(frozen=True)
class Evaluation:
    """What came of one call of the objective.

    Attributes:
        status: "ok", "failed", "invalid" or "timeout".
        value: what the objective returned; NaN unless "ok".
        cost: seconds it took.
        error: what went wrong.
    """

    status: str
    value: float = math.nan
    cost: float = math.nan
    error: str = ""


def evaluate(objective: Objective, configuration: Mapping[str, Any]) -> Evaluation:
    """Call the objective with a copy of the configuration and catch what goes wrong."""
    start = time.perf_counter()
    try:
        returned = objective(dict(configuration))
    except TimeoutError as error:
        return Evaluation(TIMEOUT, cost=time.perf_counter() - start, error=_describe(error))
    except Exception as error:
        return Evaluation(FAILED, cost=time.perf_counter() - start, error=_describe(error))
    seconds = time.perf_counter() - start
    try:
        value = float(returned)
    except (TypeError, ValueError):
        message = f"the objective returned {returned!r:.100}, which is not a number"
        return Evaluation(INVALID, cost=seconds, error=message)
    if not math.isfinite(value):
        return Evaluation(INVALID, cost=seconds, error=f"the objective returned {value}")
    return Evaluation(OK, value, seconds)


def evaluate_numbered(
    index: int, objective: Objective, configuration: Mapping[str, Any]
) -> tuple[int, Evaluation]:
    """`evaluate`, with the index of the job so that results may come in any order."""
    return index, evaluate(objective, configuration)


def wake(objective: Objective) -> None:
    """Make a worker import what the objective needs, without calling it."""
    time.sleep(0.1)  # so that no worker takes all of these


def _describe(error: BaseException) -> str:
    """The exception and the line of the objective that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" (line {frames[-1].lineno} of {frames[-1].name})" if frames else ""
    message = f"{type(error).__name__}: {error}".rstrip(": ")
    return f"{message[:1000]}{where}"
