"""The part of a space where past tasks had their optima, as a restriction for any method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.errors import OptionError, check_count, is_number
from rankwise.parameters import Choice, Number, Parameter
from rankwise.space import Encoder
from rankwise.task import Task, TaskSet, as_task_set
from rankwise.types import Array

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace


def bounding_box(
    space: ConfigurationSpace | Mapping[str, Any] | Encoder,
    past: TaskSet | Sequence[Task],
    *,
    best: int = 1,
    share: float = 1.0,
    margin: float = 0.0,
) -> Encoder:
    """The smallest box of a space around the optima of past tasks (Perrone et al., NeurIPS 2019).

    A number keeps the range between its smallest and its largest value at the optima, an ordered
    choice what lies between, any other choice the values that it has there. A hyperparameter that
    is inactive at all of them stays as it is.

    If past and new tasks are alike, the optimum of the new one lies outside of the range of a
    number with probability 2 / (T + 1), where T is the number of past tasks: with few of them,
    leave a margin.

    Args:
        space: a ConfigSpace space, the dict shorthand of `rankwise.make_space`, or an encoder.
        past: tasks of this space.
        best: configurations of each task that are its optima.
        share: of the optima that the box must contain. The others are left out one by one, each
            time the one without which the box is smallest.
        margin: by which the range of a number grows on both sides, as a share of its whole range.

    Returns:
        An encoder of the same columns and the same fingerprint: every method takes it for a space,
        and methods that learn take the past tasks along with it. Without an evaluation in the past
        it is that of the whole space.

    Raises:
        OptionError: the past is of another space, or an argument makes no sense.

    Example:
        >>> from rankwise import Optimizer, TaskSet
        >>> space = {"x": (0.0, 10.0), "kind": ["a", "b", "c"]}
        >>> studies = {
        ...     "one": ([{"x": 2.0, "kind": "a"}, {"x": 9.0, "kind": "b"}], [0.1, 0.5]),
        ...     "two": ([{"x": 4.0, "kind": "a"}, {"x": 8.0, "kind": "c"}], [0.2, 0.3]),
        ... }
        >>> box = bounding_box(space, TaskSet.of(space, studies))
        >>> [configuration] = Optimizer(box, method="random", seed=0).ask()
        >>> 2.0 <= configuration["x"] <= 4.0, configuration["kind"]
        (True, 'a')
    """
    encoder = space if isinstance(space, Encoder) else Encoder(space)
    check_count("best", best)
    if not (is_number(share) and 0 < share <= 1):
        raise OptionError(f"share must be above 0 and at most 1, not {share!r}")
    if not (is_number(margin) and margin >= 0):
        raise OptionError(f"margin must not be negative, not {margin!r}")
    optima = _optima(encoder, as_task_set(past), best)
    codes = encoder.decode_codes(_without_outliers(optima, math.ceil(share * len(optima))))
    columns = zip(encoder.parameters, codes.T, strict=True)
    active = ((parameter, column[~np.isnan(column)]) for parameter, column in columns)
    return encoder.restricted(
        {p.name: _legal(p, column, margin) for p, column in active if len(column) and p.size > 1}
    )


def _optima(encoder: Encoder, past: TaskSet, best: int) -> Array:
    """The best configurations (n, d) of each past task."""
    if past.fingerprint not in ("", encoder.fingerprint):
        raise OptionError("the past tasks are of another search space than the box")
    found = [np.empty((0, encoder.n_columns))]
    for task in past.everything:
        if task.X.shape[1] != encoder.n_columns:
            raise OptionError(
                f"past task {task.name!r} has {task.X.shape[1]} columns and the space has "
                f"{encoder.n_columns}; encode its configurations with Encoder(space).encode"
            )
        order = np.argsort(task.losses, kind="stable")
        found.append(task.X[order[task.ok[order]][:best]])
    return np.concatenate(found)


def _without_outliers(X: Array, count: int) -> Array:
    """Rows of X (n, d), those taken away until `count` are left that make their box largest.

    The size of a box is the sum of the lengths of its sides: a volume would be zero as soon as one
    of them is, and then say nothing about the others.
    """
    while len(X) > max(count, 1):
        ordered = np.sort(X, axis=0)
        # Without a row that is alone at an end of a side, the side ends at the next one.
        saved = np.where(ordered[0] == X, ordered[1] - ordered[0], 0.0)
        saved += np.where(ordered[-1] == X, ordered[-1] - ordered[-2], 0.0)
        X = np.delete(X, int(np.argmax(saved.sum(axis=1))), axis=0)
    return X


def _legal(parameter: Parameter, codes: Array, margin: float) -> Any:
    """What `Encoder.restricted` takes for a hyperparameter with codes (n,) at the optima."""
    if isinstance(parameter, Choice):
        if parameter.ordered:
            inside = (parameter.legal >= codes.min()) & (parameter.legal <= codes.max())
            codes = parameter.legal[inside]
        return [parameter.value(code) for code in np.unique(codes)]
    assert isinstance(parameter, Number)
    ends = parameter.encode(np.array([codes.min(), codes.max()]))
    if margin:
        return tuple(parameter.decode(ends + np.array([[-margin], [margin]])).tolist())
    return float(codes.min()), float(codes.max())
