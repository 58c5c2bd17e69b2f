"""When parameters are active: guessed from which trials have them.

A study that was written as code has no list of conditions. But if "gamma" was there in all
trials with the kernel "rbf" and in no other, then that is its condition. Where no other parameter
explains it, a hidden switch that is on or off says whether it is active.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankwise.types import Array, Mask


@dataclass(frozen=True, eq=False)
class Column:
    """What a parameter was in all trials.

    Attributes:
        name: of the parameter.
        codes: (n,) the index of the choice, anything for a number; NaN where it was absent.
        n_choices: 0 for a number.
    """

    name: str
    codes: Array
    n_choices: int

    @property
    def present(self) -> Mask:
        """Which trials (n,) had it."""
        return ~np.isnan(self.codes)


@dataclass(frozen=True)
class Condition:
    """A parameter is active when another one has one of some choices.

    Attributes:
        parent: name of the other parameter, or of a hidden switch.
        choices: indices of the choices; (1,) for a switch, which is on then.
        hidden: whether the parent is a hidden switch.
    """

    parent: str
    choices: tuple[int, ...]
    hidden: bool = False


def find_conditions(columns: Sequence[Column]) -> dict[str, Condition]:
    """The condition of each parameter that some trials lack.

    Parents come first: those that are always active, then those whose own condition is known, so
    that conditions never go round in a circle. A parameter that no trial has at all says nothing
    about when it is active and counts as always active.

    Args:
        columns: of all parameters.
    """
    names = {column.name for column in columns}
    conditions: dict[str, Condition] = {}
    open_ = [c for c in columns if c.present.any() and not c.present.all()]
    # What may be a parent comes before what may only be a child.
    open_.sort(key=lambda c: (c.n_choices < 2, -int(c.present.sum())))
    unsolved = {c.name for c in open_}
    parents = [c for c in columns if c.n_choices > 1 and c.name not in unsolved]
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
        if column.n_choices > 1:
            parents.append(column)
    return conditions


def _explain(
    child: Column,
    parents: Sequence[Column],
    switches: dict[str, Column],
    conditions: dict[str, Condition],
) -> Condition | None:
    """The simplest parent that explains exactly when a parameter was there."""
    candidates = sorted(
        [*parents, *switches.values()],
        key=lambda p: (p.name in conditions, p.n_choices),
    )
    for parent in candidates:
        choices, hidden = _deciding(child, parent), parent.name in switches
        # A switch says that something is there; what is there without it has its own.
        if choices is not None and (not hidden or choices == (1,)):
            return Condition(parent.name, choices, hidden)
    return None


def _deciding(child: Column, parent: Column) -> tuple[int, ...] | None:
    """The choices of a parent with which a parameter is always there, if never else."""
    if np.any(child.present & ~parent.present):
        return None
    codes = parent.codes[parent.present].astype(int)
    seen = np.bincount(codes, minlength=parent.n_choices)
    there = np.bincount(codes, child.present[parent.present], parent.n_choices)
    if np.any((there > 0) & (there < seen)):
        return None
    return tuple(np.flatnonzero(there).tolist())


def _free_name(name: str, taken: set[str]) -> str:
    switch = f"{name}?"
    while switch in taken:
        switch += "?"
    return switch
