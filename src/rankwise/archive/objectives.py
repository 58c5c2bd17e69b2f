"""Objectives of studies: their names and directions, and which past objective teaches which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rankwise.errors import OptionError, check_name

if TYPE_CHECKING:
    from rankwise.archive.past_study import PastStudy

MOST = 4
"""Largest number of objectives of a study."""

_METRIC_NAMES = "study:metric_names"  # Optuna's attribute of a study


@dataclass(frozen=True)
class Objective:
    """One objective of a study.

    Attributes:
        name: name of the metric; "" if the study does not say it.
        direction: "minimize" or "maximize".
    """

    name: str
    direction: str

    def __str__(self) -> str:
        return f"{self.direction} {self.name}".rstrip()


def objectives_of(directions: Sequence[Any], attributes: Mapping[str, Any]) -> list[Objective]:
    """The objectives of an Optuna study.

    Args:
        directions: its directions.
        attributes: its system attributes, which may have the names of the metrics.
    """
    names = attributes.get(_METRIC_NAMES)
    if not isinstance(names, Sequence) or len(names) != len(directions):
        names = [""] * len(directions)
    pairs = zip(names, directions, strict=True)
    return [Objective(str(name), direction.name.lower()) for name, direction in pairs]


def as_objectives(given: Mapping[str, str] | Sequence[Objective] | None) -> tuple[Objective, ...]:
    """The objectives that a user gave as a mapping of names to directions.

    Raises:
        OptionError: they are something else, or too many.
    """
    found = [Objective(n, d) for n, d in given.items()] if isinstance(given, Mapping) else given
    found = list(found or ())
    if not all(isinstance(objective, Objective) for objective in found):
        raise OptionError(
            'objectives= is a dict of names and directions, such as {"error": "minimize"}, not '
            f"{given!r}"
        )
    for objective in found:
        check_name("direction", objective.direction, ("minimize", "maximize"))
    if len(found) > MOST:
        raise OptionError(f"a study has at most {MOST} objectives, not {len(found)}")
    return tuple(found)


def matching(study: PastStudy, wanted: Sequence[Objective]) -> list[int | None]:
    """The column of a past study that teaches each wanted objective; None where none does.

    Objectives with names are matched by name. If one side has no names, objectives are matched by
    position, provided that both studies have the same number of objectives.

    Args:
        study: the past study.
        wanted: objectives of the target study.

    Raises:
        OptionError: the study teaches none of them; the message says why.
    """
    there = study.objectives.kinds if study.objectives else (Objective("", study.direction),)
    if len(there) == len(wanted) == 1:
        return [0]
    names = [objective.name for objective in there]
    size = f"it has {len(there)} objective{'s' * (len(there) > 1)}"
    if all(names) and all(objective.name for objective in wanted):
        columns = [names.index(o.name) if o.name in names else None for o in wanted]
        if not any(column is not None for column in columns):
            raise OptionError(f"{size} ({', '.join(names)}), none of which this study has")
    elif len(there) != len(wanted):
        raise OptionError(
            f"{size} and this study has {len(wanted)}: without study.set_metric_names they cannot "
            "be matched"
        )
    else:
        columns = list(range(len(wanted)))
    for column, objective in zip(columns, wanted, strict=True):
        if column is not None and there[column].direction != objective.direction:
            raise OptionError(
                f"{size}, and the directions disagree: {there[column]} there, {objective} here"
            )
    return columns


def of_objective(study: PastStudy, column: int) -> PastStudy:
    """A study with several objectives as a study of one of them."""
    if study.objectives is None:
        return study
    kind = study.objectives.kinds[column]
    values = study.objectives.values[:, column]
    return replace(study, direction=kind.direction, values=values, objectives=None)
