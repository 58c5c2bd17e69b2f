"""One space over several estimators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rankwise.errors import SpaceError
from rankwise.estimators.estimator_space import Decoder, EstimatorSpace, one_of, part, prefixed
from rankwise.estimators.parameter_names import check_estimator, inner_estimators, kebab, text_of
from rankwise.estimators.ready_spaces import rows_in
from rankwise.estimators.user_spaces import space_from
from rankwise.space.encoder import Encoder
from rankwise.types import Configuration

CHOOSER = "estimator"
"""Name of the hyperparameter that chooses, and of the pipeline step that it sets."""


@dataclass(frozen=True)
class _Chosen:
    """Decodes with the decoder of the chosen estimator, and adds a clone of that estimator."""

    options: Mapping[str, tuple[Any, Decoder]]

    def __call__(self, configuration: Configuration) -> dict[str, Any]:
        from sklearn.base import clone

        name = configuration[CHOOSER]
        estimator, decode = self.options[name]
        params = decode(part(configuration, f"{name}:"))
        return {CHOOSER: clone(estimator), **prefixed(f"{CHOOSER}__", params)}


def chosen_options(space: EstimatorSpace) -> dict[str, Any]:
    """The estimators by name that a space of `choice_of` chooses from; empty for other spaces."""
    decode = space.decode
    return (
        {name: e for name, (e, _) in decode.options.items()} if isinstance(decode, _Chosen) else {}
    )


def choice_of(estimators: Sequence[Any], spaces: Sequence[Any] | None = None) -> EstimatorSpace:
    """A space that first chooses one of several estimators.

    The hyperparameter "estimator" has one readable name for each estimator ("svc",
    "random-forest"), independent of their order. Hyperparameters of an estimator are named
    "<name>:<parameter>". `params` gives
    `{"estimator": <a clone of the chosen one>, "estimator__C": 1.0, ...}`, for a pipeline
    with one step of that name.

    Args:
        estimators: the estimators to choose from.
        spaces: a space for each, in any form that `space_from` takes; None for ready-made ones.

    Raises:
        SpaceError: there is nothing to choose from, an estimator is listed twice with the same
            space, or a space cannot be made.
    """
    if not len(estimators):
        raise SpaceError("the list of estimators is empty; give at least one")
    if spaces is not None and len(spaces) != len(estimators):
        raise SpaceError(
            f"there are {len(estimators)} estimators and {len(spaces)} spaces; give one space "
            "for each, None for a ready-made one"
        )
    for estimator in estimators:
        check_estimator(estimator)
    given = spaces if spaces is not None else [None] * len(estimators)
    found = [space_from(*pair) for pair in zip(estimators, given, strict=True)]
    names = _unique_names(estimators, found)
    # In the order of the names: the same estimators are the same space in any order.
    rows = sorted(zip(names, estimators, found, strict=True), key=lambda row: row[0])
    space = one_of(CHOOSER, {name: option.space for name, _, option in rows})
    options = {name: (estimator, option.decode) for name, estimator, option in rows}
    ready_made = all(option.name for option in found)
    return EstimatorSpace(space, "|".join(options) if ready_made else "", _Chosen(options))


def _unique_names(estimators: Sequence[Any], found: Sequence[EstimatorSpace]) -> list[str]:
    """Short names where they are unique, else long ones, else numbered ones."""
    names = _expanded([_short(e) for e in estimators], [_long(e) for e in estimators])
    groups: dict[str, list[int]] = defaultdict(list)
    for i, name in enumerate(names):
        groups[name].append(i)
    for name, members in groups.items():
        if len(members) == 1:
            continue
        keys = {i: (text_of(estimators[i]), Encoder(found[i].space).fingerprint) for i in members}
        if len(set(keys.values())) < len(members):
            raise SpaceError(f"{name} is listed twice with the same space; drop one")
        for number, i in enumerate(sorted(members, key=keys.__getitem__), start=1):
            names[i] = name if number == 1 else f"{name}-{number}"
    return names


def _expanded(short: list[str], long: list[str]) -> list[str]:
    return [s if short.count(s) == 1 else text for s, text in zip(short, long, strict=True)]


def _short(estimator: Any) -> str:
    """Names of the ready-made spaces inside, or else the class name of the last step."""
    rows = sorted({row.name for _, row, _ in rows_in(estimator)})
    if rows:
        return "+".join(rows)
    steps = getattr(estimator, "steps", None)
    return kebab(type(steps[-1][1] if steps else estimator).__name__)


def _long(estimator: Any) -> str:
    """Names of all steps of a pipeline, or of the estimator's class and its inner estimators."""
    inner = list(inner_estimators(estimator).values())
    if not inner:
        return _short(estimator)
    outer = [] if hasattr(estimator, "steps") else [kebab(type(estimator).__name__)]
    return "+".join([*outer, *map(_long, inner)])
