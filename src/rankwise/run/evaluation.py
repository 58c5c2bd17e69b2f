"""Calls the objective and turns every outcome into a value or a status.

Worker processes import this module and nothing else of the library, so it must stay light.
"""

from __future__ import annotations

import inspect
import math
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

from rankwise.history.task import FAILED, INVALID, OK, TIMEOUT
from rankwise.history.trial import PRUNED

Objective = Callable[..., Any]
"""Function of a configuration, and of `report` if it has a parameter of that name."""
Watch = Callable[[float, int], bool]


@dataclass(frozen=True)
class Evaluation:
    """Result of one call of the objective.

    Attributes:
        status: "ok", "failed", "invalid" or "timeout".
        value: value that the objective returned; NaN unless "ok".
        cost: seconds of the call.
        error: error message.
        kind: exception type and line, without the parts that differ from call to call.
        values: values of all objectives; empty with one objective.
        curve: intermediate values by step that the objective reported.
    """

    status: str
    value: float = math.nan
    cost: float = math.nan
    error: str = ""
    kind: str = ""
    values: tuple[float, ...] = ()
    curve: dict[int, float] = field(default_factory=dict)


class Stopped(Exception):
    """Ends the call of an objective whose trial is stopped early; `report` raises it."""


class Report:
    """The argument `report` of an objective: records an intermediate value.

    Args:
        watch: told the value and the step; True stops the trial. None never stops it.

    Attributes:
        curve: reported values by step.
    """

    def __init__(self, watch: Watch | None = None) -> None:
        self._watch = watch
        self.curve: dict[int, float] = {}

    def __call__(self, value: float, step: int) -> None:
        """Record a value; the arguments are those of `optuna.Trial.report`.

        Args:
            value: value in the direction of the study; NaN counts as the worst.
            step: step of the training, from 0, such as an epoch.

        Raises:
            TypeError: the value is not a number, or the step not an integer from 0.
            Stopped: the pruner stops the trial.
        """
        if isinstance(step, bool) or not isinstance(step, Integral) or step < 0:
            raise TypeError(f"report(value, step): a step is an integer from 0, not {step!r}")
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise TypeError(f"report(value, step): {value!r} is not a number") from None
        self.curve[int(step)] = number
        if self._watch is not None and self._watch(number, int(step)):
            raise Stopped(f"after step {step}")


def reports(objective: Objective) -> bool:
    """True if an objective has a parameter `report`."""
    try:
        return "report" in inspect.signature(objective).parameters
    except (TypeError, ValueError):  # some callables have no signature
        return False


def evaluate(
    objective: Objective,
    configuration: Mapping[str, Any],
    objectives: int = 1,
    watch: Watch | None = None,
) -> Evaluation:
    """Call the objective with a copy of the configuration and catch exceptions.

    `SystemExit`, which training scripts raise, is caught as well; Ctrl-C is not. An objective with
    a parameter `report` gets a `Report`.

    Args:
        objective: function to call.
        configuration: its argument.
        objectives: number of values that it returns.
        watch: see `Report`.
    """
    report = Report(watch) if objectives == 1 and reports(objective) else None
    found = _call(objective, configuration, objectives, report)
    return found if report is None else replace(found, curve=report.curve)


def _call(
    objective: Objective, configuration: Mapping[str, Any], objectives: int, report: Report | None
) -> Evaluation:
    """Call the objective and turn what happens into an evaluation, without the curve."""
    more = {} if report is None else {"report": report}
    start = time.perf_counter()
    try:
        returned = objective(dict(configuration), **more)
    except Stopped as stop:
        return Evaluation(PRUNED, cost=time.perf_counter() - start, error=str(stop))
    except (Exception, SystemExit) as error:
        status = TIMEOUT if isinstance(error, TimeoutError) else FAILED
        return _failure(status, error, time.perf_counter() - start)
    seconds = time.perf_counter() - start
    if objectives > 1:
        return _several(returned, objectives, seconds)
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
    index: int, objective: Objective, configuration: Mapping[str, Any], objectives: int = 1
) -> tuple[int, Evaluation]:
    """Like `evaluate`, but returns the index of the job too, for results in any order."""
    return index, evaluate(objective, configuration, objectives)


def _several(returned: Any, objectives: int, seconds: float) -> Evaluation:
    """The result of a call that should have returned several numbers."""
    try:
        values = tuple(float(value) for value in returned)
    except Exception:
        values = ()
    if len(values) != objectives:
        message = f"the objective returned {_text(returned)}, which is not {objectives} numbers"
        return Evaluation(INVALID, cost=seconds, error=message, kind=INVALID)
    if not all(map(math.isfinite, values)):
        message = f"the objective returned {values}"
        return Evaluation(INVALID, cost=seconds, error=message, kind=message)
    return Evaluation(OK, values[0], seconds, values=values)


def wake(objective: Objective) -> None:
    """Make a worker import what the objective needs, without calling it."""
    time.sleep(0.1)  # long enough that every worker gets one of these calls


def _failure(status: str, error: BaseException, seconds: float) -> Evaluation:
    """The result of a call that raised: message and line of the exception."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" (line {frames[-1].lineno} of {frames[-1].name})" if frames else ""
    name = type(error).__name__
    message = f"{name}: {_text(error, str)}".rstrip(": ")
    return Evaluation(status, cost=seconds, error=f"{message}{where}", kind=f"{name}{where}")


def _text(thing: object, to_text: Callable[[object], str] = repr) -> str:
    """A short text for any object, including objects that cannot be printed."""
    try:
        return to_text(thing)[:1000]
    except Exception:
        return f"an unprintable {type(thing).__name__}"
