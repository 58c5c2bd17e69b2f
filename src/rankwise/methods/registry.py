"""Look up a method by name, check its options and make its strategy.

`rankwise.methods.rows` lists the methods. Keyword arguments of a method's builder and surrogate
are its options; the error for an unknown option lists the valid ones.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from rankwise.errors import OptionError, UnknownNameError, check_name
from rankwise.history.task import Task, TaskSet, as_task_set
from rankwise.methods import build_transfer
from rankwise.methods.added import added
from rankwise.methods.method import Method
from rankwise.methods.rows import METHODS

if TYPE_CHECKING:
    from rankwise.space.encoder import Encoder
    from rankwise.strategies.base import Strategy
    from rankwise.strategies.guard.trust import Witnesses

_BY_NAME = {method.name: method for method in METHODS}
_AS_JSON = {"True": "true", "False": "false", "None": "null"}
_FILES = ("model", "previous", "checkpoint")  # options whose values are files


def available() -> list[str]:
    """Names of all methods; those of users and other packages come last."""
    return list(_methods())


def _methods() -> dict[str, Method]:
    return {**_BY_NAME, **added()}


def get(name: str) -> Method:
    """The method of that name.

    Raises:
        UnknownNameError: there is no such method; the message lists all names.
    """
    if name in _BY_NAME:  # without importing plug-ins
        return _BY_NAME[name]
    if name not in added():
        raise UnknownNameError("method", name, _methods())
    return added()[name]


def split(text: str) -> tuple[str, dict[str, Any]]:
    """Split "forest:acquisition=ei,trees=100" into the method's name and options.

    A dot sets one entry of an option that is a dict: "dre:training.steps=500".
    """
    name, _, rest = text.partition(":")
    options: dict[str, Any] = {}
    for piece in filter(None, rest.split(",")):
        key, equals, value = piece.partition("=")
        if not equals:
            raise OptionError(f"{text!r}: an option is written name=value, not {piece!r}")
        outer, dot, inner = key.partition(".")
        place, key = (options.setdefault(outer, {}), inner) if dot else (options, key)
        try:
            place[key] = json.loads(_AS_JSON.get(value, value))  # a number, true, false, null
        except ValueError:
            place[key] = value
    return name, options


def check_options(name: str, options: Iterable[str]) -> None:
    """Check that a method is installed and has these options.

    Raises:
        UnknownNameError: the method or an option does not exist.
        MissingPackageError: the method needs a package that is not installed.
    """
    method = get(name)
    method.check_installed()
    for option in options:
        hint = ""
        if option == "guard" and not method.transfer:
            hint = "A guard is for methods that learn from past studies."
        check_name(f"option of method {name!r}", option, method.options, hint)


def check_values(name: str, options: Mapping[str, Any]) -> None:
    """Check the values of a method's options before a study starts.

    The method is made once, for a space of one number and without source tasks, so that nothing is
    learnt. Options that name files are not checked.

    Raises:
        UnknownNameError: the method or an option does not exist.
        MissingPackageError: the method needs a package that is not installed.
        OptionError: an option has an invalid value.
    """
    from rankwise.space.encoder import Encoder

    check_options(name, options)
    without = {key: value for key, value in options.items() if key not in _FILES}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make(name, Encoder({"x": (0.0, 1.0)}), **without)


def make(
    name: str, encoder: Encoder, tasks: TaskSet | Sequence[Task] = (), **options: Any
) -> Strategy:
    """Make the strategy of a method.

    Args:
        name: name of the method.
        encoder: encoder of the search space.
        tasks: source tasks of the same space. A plain sequence is split into tasks to learn
            from and tasks for validation.
        **options: options of the method. `guard` is True or False. If the source tasks are not
            given because a model file replaces them, it can be the
            `rankwise.strategies.guard.trust.Witnesses` of these tasks.

    Raises:
        UnknownNameError: the method or an option does not exist.
        MissingPackageError: the method needs a package that is not installed.
        OptionError: the method cannot learn from source tasks, or they belong to another space.
    """
    check_options(name, options)
    method = get(name)
    if not method.transfer:
        if as_task_set(tasks).everything:
            able = ", ".join(m.name for m in _methods().values() if m.transfer)
            raise OptionError(f"method {name!r} cannot learn from past studies; these can: {able}")
        return method.make(encoder, **options)
    guard = options.pop("guard", False)
    if not isinstance(guard, bool):
        from rankwise.strategies.guard.trust import Witnesses

        if not isinstance(guard, Witnesses):
            raise OptionError(f"guard is True or False, not {guard!r}")
    past = _checked_tasks(encoder, tasks)
    strategy = method.make(encoder, past, **options)
    if guard and (past.everything or options.get("model") is not None):
        return _guarded(method, strategy, past, guard, options)
    return strategy


def _guarded(
    method: Method,
    strategy: Strategy,
    past: TaskSet,
    guard: Literal[True] | Witnesses,
    options: dict[str, Any],
) -> Strategy:
    """Wrap a strategy with the guard, which falls back to a method without transfer.

    Args:
        method: the transfer method.
        strategy: its strategy.
        past: source tasks that it learnt from; empty if a model file replaces them.
        guard: True, or the witnesses of the source tasks.
        options: options of the method. The fallback gets those that it has too.
    """
    from rankwise.strategies.guard.strategy import GuardedStrategy
    from rankwise.strategies.model_based import ModelStrategy

    if not strategy.informed:
        return strategy  # nothing was learnt from source tasks
    if isinstance(strategy, ModelStrategy):
        # The guard checks past studies by itself, and has its own method without them.
        strategy = replace(strategy, checks=False, alone=None)
    plain = options.get("then") or method.fallback
    shared = {key: options[key] for key in ("acquisition", "liar") if key in options}
    if shared.get("liar") in (None, "believer"):  # the fallback may not support it
        shared.pop("liar", None)
    if "acquisition" not in get(plain).options:
        shared.clear()
    witnesses = build_transfer.witnesses(past) if guard is True else guard
    return GuardedStrategy(
        strategy.encoder,
        None,
        strategy,
        make(plain, strategy.encoder, **shared),
        None if strategy.foresees else witnesses.functions,
        witnesses.expectation,
    )


def _checked_tasks(encoder: Encoder, tasks: TaskSet | Sequence[Task]) -> TaskSet:
    past = as_task_set(tasks)
    if past.fingerprint not in ("", encoder.fingerprint):
        raise OptionError("the past studies belong to another search space than the target study")
    for task in past.everything:
        if task.X.shape[1] != encoder.n_columns:
            raise OptionError(
                f"past study {task.name!r} has {task.X.shape[1]} columns and the space has "
                f"{encoder.n_columns}; encode its configurations with Encoder(space).encode"
            )
    return past if past.validation else past.split()
