"""Trials as a source finds them, and how they become studies; shared by all readers of runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from rankwise._core.words import count, listed
from rankwise.archive.past_study import PastStudy
from rankwise.archive.sources.base import Contents, ReadOptions
from rankwise.archive.sources.cells import Parameter, parameter, parse
from rankwise.errors import ArchiveError
from rankwise.history.task import FAILED, INVALID, OK

_MOST_PARAMETERS = 1000

STATES = {
    **dict.fromkeys(
        ("complete", "finished", "terminated", "completed", "success", "continue"), OK
    ),
    **dict.fromkeys(("pruned", "stopped", "stop", "paused", "pause", "killed"), "pruned"),
    **dict.fromkeys(("fail", "failed", "error", "crashed", "invalid", "crash"), FAILED),
}
"""States of trials of several tools in small letters; trials in any other state have not ended.

A pruned trial without a value has failed."""


@dataclass
class Record:
    """One trial of a source.

    Attributes:
        study: key of its study.
        params: its hyperparameters as they were found; texts are parsed later. An inactive one is
            missing.
        value: its value; NaN if there is none.
        state: its state in the words of the tool, see `STATES`; "" if it has ended.
        seconds: duration; NaN if unknown.
        started: its start, or None.
        curve: intermediate values by step.
        facts: facts about the data set or the study.
    """

    study: str
    params: Mapping[str, Any]
    value: float = math.nan
    state: str = ""
    seconds: float = math.nan
    started: datetime | None = None
    curve: Mapping[int, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


def studies_of(
    records: Iterable[Record],
    where: object,
    options: ReadOptions,
    *,
    direction: str | None = None,
    names: Mapping[str, str] | None = None,
    doubtful: Callable[[str, Sequence[Any]], bool] = lambda name, cells: False,
    notes: Sequence[str] = (),
) -> Contents:
    """Convert trials to studies.

    A hyperparameter has one type over all studies of the source. One whose numbers are mostly
    infinite or too large, such as a seed of 64 bits, is not used. Otherwise trials with such a
    number are left out and counted. Facts that all trials of a study agree on become its context.

    Args:
        records: the trials.
        where: address of the source, for messages.
        options: what the user said.
        direction: direction that the source knows; the user's takes precedence.
        names: names of studies by their key; by default the key itself.
        doubtful: True for a column that looks like an outcome or a date by its name and cells; it
            is not a hyperparameter unless the user names it.
        notes: sentences about the source, which come first.

    Raises:
        ArchiveError: no trial can be used, a column cannot be read, or the direction is missing.
    """
    direction = options.known_direction(where, direction)
    everything = list(records)
    ended = [r for r in everything if not r.state or r.state.lower() in STATES]
    told = list(notes)
    if len(ended) < len(everything):
        states = {r.state for r in everything} - {r.state for r in ended}
        left = count(len(everything) - len(ended), "trial")
        told.append(f"{left} left out: state {listed(sorted(states))}")
    if not ended:
        raise ArchiveError(f"{where} has no finished trials")
    columns, dropped = _columns(ended, where, options, doubtful)
    if dropped:
        told.append(f"not used as hyperparameters: {listed(dropped)}")
    unusable: set[int] = set()
    columns, odd = _usable(columns, where)
    for name in odd:
        told.append(f"{name} is not used: most of its numbers are infinite or too large")
    for name, column in columns.items():
        if column.note:
            told.append(column.note)
        if column.unusable:
            unusable |= column.unusable
            left = count(len(column.unusable), "trial")
            told.append(f"{left} left out: {name} is infinite or too large")
    groups: dict[str, list[int]] = {}
    for row, record in enumerate(ended):
        if row not in unusable:
            groups.setdefault(record.study, []).append(row)
    studies = [
        _study((names or {}).get(key, key), direction, rows, ended, columns)
        for key, rows in groups.items()
    ]
    return Contents(studies, {}, told)


def _columns(
    records: Sequence[Record],
    where: object,
    options: ReadOptions,
    doubtful: Callable[[str, Sequence[Any]], bool],
) -> tuple[dict[str, Parameter], list[str]]:
    """The hyperparameters, and the names of columns that are none."""
    cells: dict[str, dict[int, Any]] = {}
    for row, record in enumerate(records):
        for name, cell in record.params.items():
            cells.setdefault(name, {})[row] = cell
    missing = [name for name in sorted(options.parameters) if name not in cells]
    if missing:
        raise ArchiveError(
            f"{where} has no parameter {missing[0]!r}, only {listed(sorted(cells))}"
        )
    kept, dropped = {}, []
    for name, column in cells.items():
        if name in options.ignore or (options.parameters and name not in options.parameters):
            dropped.append(name)
        elif name in options.parameters or name in options.search_space:
            kept[name] = column
        elif doubtful(name, list(column.values())):
            dropped.append(name)
        else:
            kept[name] = column
    if len(kept) > _MOST_PARAMETERS:
        raise ArchiveError(
            f"{where} has {len(kept)} hyperparameters, at most {_MOST_PARAMETERS} can be used "
            f"({listed(list(kept))}): name them with parameters="
        )
    found = {
        name: parameter(where, name, column, options.search_space.get(name))
        for name, column in kept.items()
    }
    return {name: column for name, column in found.items() if column is not None}, dropped


def _usable(
    columns: Mapping[str, Parameter], where: object
) -> tuple[dict[str, Parameter], list[str]]:
    """The columns of which at least half of the cells are usable, and the names of the others.

    Raises:
        ArchiveError: there is none.
    """
    odd = [name for name, c in columns.items() if len(c.unusable) > len(c.values)]
    if odd and len(odd) == len(columns):
        raise ArchiveError(
            f"{where}: column {odd[0]!r} has only numbers that are infinite or too large; leave "
            f"it out with ignore=[{odd[0]!r}]"
        )
    return {name: c for name, c in columns.items() if name not in odd}, odd


def _study(
    name: str,
    direction: str,
    rows: Sequence[int],
    records: Sequence[Record],
    columns: Mapping[str, Parameter],
) -> PastStudy:
    some = [records[row] for row in rows]
    params = [
        {key: column.values[row] for key, column in columns.items() if row in column.values}
        for row in rows
    ]
    there = set().union(*params)
    states = [STATES.get(record.state.lower(), OK) for record in some]
    last = [_last(record) if state == "pruned" else record.value
            for record, state in zip(some, states, strict=True)]  # fmt: skip
    values = np.array([np.nan if s == FAILED else v for s, v in zip(states, last, strict=True)])
    finite = np.isfinite(values)
    starts = [record.started for record in some if record.started is not None]
    return PastStudy(
        name,
        direction,
        params,
        {key: column.distribution for key, column in columns.items() if key in there},
        np.where(finite, values, np.nan),
        tuple(
            OK if f else FAILED if s in (FAILED, "pruned") else INVALID
            for f, s in zip(finite, states, strict=True)
        ),
        np.array([s == "pruned" for s in states], dtype=bool),
        np.array([record.seconds for record in some], dtype=float),
        _agreed([record.facts for record in some]),
        min(starts, key=datetime.timestamp, default=None),
        curves=tuple(r.curve for r in some) if any(r.curve for r in some) else None,
    )


def _last(record: Record) -> float:
    """The value of a pruned trial: its own, else the last one of its curve."""
    if math.isnan(record.value) and record.curve:
        return record.curve[max(record.curve)]
    return record.value


def _agreed(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The facts that are equal in all trials."""
    first = {key: parse(fact) for key, fact in facts[0].items()}
    for other in facts[1:]:
        first = {k: v for k, v in first.items() if k in other and parse(other[k]) == v}
    return first
