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
        kind: the same without what differs from call to call: the exception and its place.
    """

    status: str
    value: float = math.nan
    cost: float = math.nan
    error: str = ""
    kind: str = ""


def evaluate(objective: Objective, configuration: Mapping[str, Any]) -> Evaluation:
    """Call the objective with a copy of the configuration and catch what goes wrong.

    Also `SystemExit`, which training scripts raise; only Ctrl-C goes through.
    """
    start = time.perf_counter()
    try:
        returned = objective(dict(configuration))
    except (Exception, SystemExit) as error:
        status = TIMEOUT if isinstance(error, TimeoutError) else FAILED
        return _failure(status, error, time.perf_counter() - start)
    seconds = time.perf_counter() - start
    try:
        value = float(returned)
    except Exception:
        message = f"the objective returned {_text(returned)}, which is not a number"
        return Evaluation(INVALID, cost=seconds, error=message, kind=INVALID)
    if not math.isfinite(value):
        message = f"the objective returned {value}"
        return Evaluation(INVALID, cost=seconds, error=message, kind=message)
    return Evaluation(OK, value, seconds)


def evaluate_numbered(
    index: int, objective: Objective, configuration: Mapping[str, Any]
) -> tuple[int, Evaluation]:
    """`evaluate`, with the index of the job so that results may come in any order."""
    return index, evaluate(objective, configuration)


def wake(objective: Objective) -> None:
    """Make a worker import what the objective needs, without calling it."""
    time.sleep(0.1)  # so that no worker takes all of these


def _failure(status: str, error: BaseException, seconds: float) -> Evaluation:
    """What an exception says, and the line of the objective that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" (line {frames[-1].lineno} of {frames[-1].name})" if frames else ""
    name = type(error).__name__
    message = f"{name}: {_text(error, str)}".rstrip(": ")
    return Evaluation(status, cost=seconds, error=f"{message}{where}", kind=f"{name}{where}")


def _text(thing: object, to_text: Callable[[object], str] = repr) -> str:
    """A short text of anything, even of what cannot be printed."""
    try:
        return to_text(thing)[:1000]
    except Exception:
        return f"an unprintable {type(thing).__name__}"
