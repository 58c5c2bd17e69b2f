"""bounding_box: restricts a space to the region of the optima of source tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.errors import OptionError, check_count, is_number
from rankwise.history.task import Task, TaskSet, as_task_set
from rankwise.space.encoder import Encoder
from rankwise.space.parameters import Choice, Number, Parameter
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
    """Return the smallest box around the optima of source tasks (Perrone et al., NeurIPS 2019).

    A number is restricted to the range of its values at the optima, an ordered choice to the
    values between them, any other choice to the values that occur. A hyperparameter that is
    inactive at all optima is not restricted.

    If source and target tasks are similar, the target's optimum lies outside the range of a number
    with probability 2 / (T + 1) for T source tasks: with few of them, use a margin.

    Args:
        space: a ConfigSpace space, the dict shorthand of `rankwise.make_space`, or an encoder.
        past: source tasks of this space.
        best: number of best configurations of each task that count as optima.
        share: share of the optima that the box must contain. The others are dropped one by one,
            each time the one whose removal makes the box smallest.
        margin: extension of a number's range on both sides, as a share of its whole range.

    Returns:
        An encoder with the same columns and fingerprint, which every method accepts as a space,
        together with the same source tasks. Without any trial in the source tasks it covers the
        whole space.

    Raises:
        OptionError: the tasks belong to another space, or an argument is invalid.

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
    """Return the best configurations (n, d) of each source task."""
    if past.fingerprint not in ("", encoder.fingerprint):
        raise OptionError("the past studies belong to another search space than the box")
    found = [np.empty((0, encoder.n_columns))]
    for task in past.everything:
        if task.X.shape[1] != encoder.n_columns:
            raise OptionError(
                f"past study {task.name!r} has {task.X.shape[1]} columns and the space has "
                f"{encoder.n_columns}; encode its configurations with Encoder(space).encode"
            )
        order = np.argsort(task.losses, kind="stable")
        found.append(task.X[order[task.ok[order]][:best]])
    return np.concatenate(found)


def _without_outliers(X: Array, count: int) -> Array:
    """Drop rows of X (n, d) that enlarge their bounding box most, until `count` are left.

    The size of a box is the sum of its side lengths, because a volume is zero as soon as one side
    is.
    """
    while len(X) > max(count, 1):
        ordered = np.sort(X, axis=0)
        # Dropping the only row at an end of a side shortens the side to the next row.
        saved = np.where(ordered[0] == X, ordered[1] - ordered[0], 0.0)
        saved += np.where(ordered[-1] == X, ordered[-1] - ordered[-2], 0.0)
        X = np.delete(X, int(np.argmax(saved.sum(axis=1))), axis=0)
    return X


def _legal(parameter: Parameter, codes: Array, margin: float) -> Any:
    """Legal values, as for `Encoder.restricted`, from the codes (n,) at the optima."""
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
