"""The contract of a source of past studies, and what reading one gives.

A source is any object (a module, too) with two functions:

- `belongs(address)`: is this address mine?
- `read(address, options)`: the studies at the address.

A package adds a source with an entry point of the group "rankwise.sources".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from optuna.distributions import BaseDistribution

from rankwise.archive.past_study import DIRECTIONS, PastStudy
from rankwise.errors import ArchiveError

GROUP = "rankwise.sources"
"""Group of the entry points of sources."""


@dataclass(frozen=True)
class ReadOptions:
    """Options of `open_archive` for reading a source; a reader can ignore each of them.

    Attributes:
        metric: name of the objective's column or metric; None if the source decides.
        direction: "minimize" or "maximize"; None if the source decides.
        study: column of the study names; None if the source decides.
        parameters: the only names that are hyperparameters; empty if the source decides.
        ignore: names that are not hyperparameters.
        experiment: pattern of the names of MLflow experiments.
        space: id of a search space of HPO-B.
        search_space: known distributions; those of other parameters are guessed from the values.
        several: True if the address is one of several, so that a table without study names is a
            study.
        wanted: filter of a study by its name and facts, for a reader that can skip studies. The
            studies of every source are filtered afterwards.
    """

    metric: str | None = None
    direction: str | None = None
    study: str | None = None
    parameters: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    experiment: str = "*"
    space: str | None = None
    search_space: Mapping[str, BaseDistribution] = field(default_factory=dict)
    several: bool = False
    wanted: Callable[[str, Mapping[str, Any]], bool] = lambda name, facts: True

    def known_direction(self, where: object, known: str | None = None) -> str:
        """Return the direction that the user gave, else the one that is stored in the source.

        Raises:
            ArchiveError: neither is there, or the user gave something else.
        """
        direction = known if self.direction is None else self.direction
        if direction in DIRECTIONS:
            return direction
        wrong = "" if direction is None else f", not {direction!r}"
        raise ArchiveError(
            f"{where} does not say whether small or large values are good: give open_archive "
            f"direction='minimize' or direction='maximize' (at the shell --direction){wrong}"
        )


@dataclass(frozen=True)
class Contents:
    """Studies that were read from a source.

    Attributes:
        studies: the studies.
        left_out: reasons, by name, why other studies cannot be used.
        notes: sentences about what was recognised, dropped and left out; `describe` shows them.
        origin: address for messages and kept models, without passwords; "" for the address that
            the user gave.
        filtered: True if `ReadOptions.wanted` has been applied.
    """

    studies: Sequence[PastStudy]
    left_out: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    origin: str = ""
    filtered: bool = False


class Source(Protocol):
    """A kind of place where past studies are kept."""

    def belongs(self, address: str) -> bool:
        """True if this source reads the address: a URL, a path, or a text with its own prefix."""

    def read(self, address: str, options: ReadOptions) -> Contents:
        """Read the studies at an address.

        Raises:
            ArchiveError: they cannot be read; the message names the file and the column.
        """
