"""Infers the conditions of parameters from the trials that have them.

A define-by-run study has no list of conditions. But if "gamma" is present in all trials with
kernel "rbf" and in no others, kernel "rbf" is its condition; if "units_2" is present in all trials
with more than two layers, that is. If no other parameter explains when it is present, a hidden
boolean switch is added as its parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankwise.types import Array, Mask

_FEWEST = 2  # trials with, and trials without, a parameter that an integer decides on


@dataclass(frozen=True, eq=False)
class Column:
    """The values of a parameter in all trials.

    Attributes:
        name: name of the parameter.
        codes: (n,) index of the choice, any number for a numeric parameter; NaN where absent.
        n_choices: number of choices; 0 for a numeric parameter.
        whole: True for an integer.
    """

    name: str
    codes: Array
    n_choices: int
    whole: bool = False

    @property
    def present(self) -> Mask:
        """Mask (n,) of the trials that have the parameter."""
        return ~np.isnan(self.codes)


@dataclass(frozen=True)
class Condition:
    """A parameter is active if its parent has one of some choices, or lies beyond a bound.

    Attributes:
        parent: name of the parent parameter or of a hidden switch.
        choices: indices of the choices; (1,), which means on, for a switch; () for an integer.
        hidden: True if the parent is a hidden switch.
        beyond: for an integer, ">" or "<" and the bound.
    """

    parent: str
    choices: tuple[int, ...]
    hidden: bool = False
    beyond: tuple[str, int] | None = None


def find_conditions(columns: Sequence[Column]) -> dict[str, Condition]:
    """Find the condition of each parameter that is missing in some trials.

    Only parameters that are always active, or whose own condition is already known, can be
    parents, so that there are no cycles. A parameter that no trial has counts as always active.

    Args:
        columns: columns of all parameters.
    """
    names = {column.name for column in columns}
    conditions: dict[str, Condition] = {}
    open_ = [c for c in columns if c.present.any() and not c.present.all()]
    # Parameters that can be parents come first.
    open_.sort(key=lambda c: (c.n_choices < 2, -int(c.present.sum())))
    unsolved = {c.name for c in open_}
    parents = [c for c in columns if _decides(c) and c.name not in unsolved]
    switches: dict[str, Column] = {}
    while open_:
        for column in open_:
            condition = _explain(column, parents, switches, conditions)
            if condition is not None:
                break
        else:
            column = open_[0]
            switch = _free_name(column.name, names)
            names.add(switch)
            switches[switch] = Column(switch, column.present.astype(float), 2)
            condition = Condition(switch, (1,), hidden=True)
        conditions[column.name] = condition
        open_.remove(column)
        if _decides(column):
            parents.append(column)
    return conditions


def _decides(column: Column) -> bool:
    """True if a parameter may be a parent."""
    return column.n_choices > 1 or column.whole


def _explain(
    child: Column,
    parents: Sequence[Column],
    switches: dict[str, Column],
    conditions: dict[str, Condition],
) -> Condition | None:
    """The simplest parent that explains exactly when a parameter is present, or None."""
    candidates = sorted(
        [*parents, *switches.values()],
        key=lambda p: (p.name in conditions, p.whole, p.n_choices),
    )
    for parent in candidates:
        if parent.whole:
            beyond = _beyond(child, parent)
            if beyond is not None:
                return Condition(parent.name, (), beyond=beyond)
            continue
        choices, hidden = _deciding(child, parent), parent.name in switches
        # A switch can only explain parameters that are present when it is on.
        if choices is not None and (not hidden or choices == (1,)):
            return Condition(parent.name, choices, hidden)
    return None


def _deciding(child: Column, parent: Column) -> tuple[int, ...] | None:
    """The choices of a parent with which a parameter is always present; None if not exact."""
    if np.any(child.present & ~parent.present):
        return None
    codes = parent.codes[parent.present].astype(int)
    seen = np.bincount(codes, minlength=parent.n_choices)
    there = np.bincount(codes, child.present[parent.present], parent.n_choices)
    if np.any((there > 0) & (there < seen)):
        return None
    return tuple(np.flatnonzero(there).tolist())


def _beyond(child: Column, parent: Column) -> tuple[str, int] | None:
    """The bound of an integer beyond which a parameter is always present; None if not exact.

    Values between the largest without and the smallest with the parameter have not been seen;
    they count as beyond the bound. A few trials agree with some bound by accident, so two are
    wanted on either side.
    """
    if np.any(child.present & ~parent.present):
        return None
    values, there = parent.codes[parent.present], child.present[parent.present]
    if min(np.count_nonzero(there), np.count_nonzero(~there)) < _FEWEST:
        return None
    inside, outside = values[there], values[~there]
    if outside.max() < inside.min():
        return ">", int(outside.max())
    if inside.max() < outside.min():
        return "<", int(outside.min())
    return None


def _free_name(name: str, taken: set[str]) -> str:
    switch = f"{name}?"
    while switch in taken:
        switch += "?"
    return switch
