"""open_archive: reads past studies from storages, files and folders."""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage

from rankwise._core.words import count
from rankwise.archive.ageing import LEARNT
from rankwise.archive.archive import Archive
from rankwise.archive.names import named_values, under_names
from rankwise.archive.objectives import Objective
from rankwise.archive.past_study import PastStudy
from rankwise.archive.sources import optuna_storage, registry
from rankwise.archive.sources.base import Contents, ReadOptions
from rankwise.errors import ArchiveError, OptionError, RunWarning
from rankwise.storage.study_log import without_password

_logger = logging.getLogger(__name__)


def open_archive(
    source: Any,
    *,
    like: str | Sequence[str] = "*",
    attrs: Mapping[str, Any] | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    parameters: Collection[str] | None = None,
    search_space: Mapping[str, BaseDistribution] | None = None,
    exclude: Collection[str] = (),
    space: str | None = None,
    study: str | None = None,
    metric: str | None = None,
    value: str | None = None,
    direction: str | None = None,
    ignore: Collection[str] = (),
    experiment: str = "*",
    half_life: float | timedelta | str | None = LEARNT,
    rename: Mapping[str, str] | str | Path | None = None,
    known: Mapping[str, Any] | str | Path | None = None,
    objectives: Mapping[str, str] | Sequence[Objective] = (),
) -> Archive:
    """Read past studies.

    Args:
        source: an Optuna storage or its URL (sqlite, postgresql, mysql), the path
            of a journal file or of an SQLite file, a file or folder of HPO-B's JSON, a table (CSV,
            Parquet, JSON lines) or a folder of them, an address of any other source (see
            `rankwise.archive.sources`), an `Archive`, or a list of any of these.
        like: pattern of the names of studies, such as "xgb-*", or several.
        attrs: user attributes or attached facts that a study must have: the required value, or a
            function that returns True for an accepted value.
        since: keep studies whose first trial began at this time or later; datetime or ISO text.
        until: keep studies whose first trial began at this time or earlier.
        parameters: names of parameters that a study must all have. In tables and runs, which do
            not say what a hyperparameter is, no other column is one.
        search_space: distributions of the target study; see `Archive`.
        exclude: names of studies to leave out.
        space: id of the search space (HPO-B files only); optional if a file has only one.
        study: column of the study names (tables only); by default the one of the table's dialect.
        metric: name of the objective values: a column or a logged metric (tables and runs).
        value: former name of `metric`.
        direction: "minimize" or "maximize" (tables and runs, which do not store it).
        ignore: columns that are not hyperparameters (tables and runs).
        experiment: pattern of the names of experiments (MLflow only).
        half_life: time after which the weight of a past study is halved: a number of days or a
            timedelta. "auto" learns it from how studies predict later ones; None: no ageing.
        rename: new names of parameters by old name, such as {"eta": "learning_rate"}, or a JSON
            file with them. `Archive.describe` lists likely ones.
        known: values of parameters that were constant in studies and are not recorded, such as
            {"epochs": 5}, or a JSON file with them. Studies that have the parameter ignore it.
        objectives: names and directions of the objectives of a target study that has several,
            such as {"error": "minimize", "seconds": "minimize"}; or the name of its only one.

    Raises:
        StorageError: a storage cannot be opened or read.
        ArchiveError: a file or folder does not contain studies.
    """
    wanted = _Wanted(
        check_patterns(like),
        dict(attrs or {}),
        _moment("since", since),
        _moment("until", until),
        frozenset(parameters or ()),
        frozenset(exclude),
    )
    names, values = named_values("rename", rename), named_values("known", known)
    filtered = wanted != _Wanted() or search_space is not None or names or values
    unchanged = not filtered and half_life == LEARNT and not objectives
    if isinstance(source, Archive) and unchanged:
        return source
    options = ReadOptions(
        metric if metric is not None else value,
        direction,
        study,
        wanted.parameters,
        frozenset(ignore),
        experiment,
        space,
        dict(search_space or {}),
        isinstance(source, Sequence) and not isinstance(source, str) and len(source) > 1,
        wanted.by_facts,
    )
    found = _Found(wanted, options, names, values)
    found.add(source)
    if names:
        found.notes.append(
            "renamed: "
            + ", ".join(
                f"{old} to {new} (in {count(found.renamed[old], 'study')})"
                for old, new in names.items()
            )
        )
    if values:
        found.notes.append("known: " + ", ".join(f"{k} = {v!r}" for k, v in values.items()))
    return Archive(
        found.studies,
        search_space=found.search_space if search_space is None else search_space,
        origin=found.origin,
        left_out=found.left_out,
        notes=found.notes,
        half_life=found.half_life if half_life == LEARNT else half_life,
        objectives=objectives,
    )


@dataclass(frozen=True)
class _Wanted:
    """Filter of studies."""

    like: tuple[str, ...] = ("*",)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    since: datetime | None = None
    until: datetime | None = None
    parameters: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()

    def by_facts(self, name: str, facts: Mapping[str, Any]) -> bool:
        """True if the name and the facts of a study pass the filter."""
        if name in self.exclude or not any(fnmatchcase(name, pattern) for pattern in self.like):
            return False
        for key, asked in self.attrs.items():
            if key not in facts:
                return False
            if not (asked(facts[key]) if callable(asked) else facts[key] == asked):
                return False
        return True

    def by_trials(self, study: PastStudy) -> bool:
        """True if the trials of a study pass the filter."""
        if not self.parameters <= set(study.distributions):
            return False
        if self.since is None and self.until is None:
            return True
        if study.started is None:
            return False
        began = study.started.timestamp()
        late_enough = self.since is None or began >= self.since.timestamp()
        return late_enough and (self.until is None or began <= self.until.timestamp())


def name_filter(like: str | Sequence[str], exclude: Collection[str]) -> optuna_storage.Filter:
    """The filter of `open_archive` for patterns of names and names to leave out."""
    return _Wanted(like=check_patterns(like), exclude=frozenset(exclude)).by_facts


def check_patterns(like: Any) -> tuple[str, ...]:
    """The patterns of names that a user gave, as a tuple.

    Raises:
        OptionError: they are no texts.
    """
    patterns = (like,) if isinstance(like, str) else like
    if not isinstance(patterns, Collection) or not all(isinstance(p, str) for p in patterns):
        raise OptionError(
            f'like= is a pattern such as "xgb-*" or a list of patterns, not {like!r}'
        )
    return tuple(patterns)


class _Found:
    """Studies collected from one or several sources."""

    def __init__(
        self,
        wanted: _Wanted,
        options: ReadOptions,
        names: Mapping[str, str],
        values: Mapping[str, Any],
    ) -> None:
        self.wanted, self.options, self.names, self.values = wanted, options, names, values
        self.studies: list[PastStudy] = []
        self.left_out: dict[str, str] = {}
        self.search_space: Mapping[str, BaseDistribution] | None = None
        self.origins: list[str] = []
        self.notes: list[str] = []
        self.half_life: timedelta | str | None = LEARNT
        self.renamed: Counter[str] = Counter()  # numbers of studies by old name

    @property
    def origin(self) -> str:
        """Common origin of all sources; "" if one of them is only in memory."""
        if len(self.origins) == 1:
            return self.origins[0]
        return "several://" + "|".join(self.origins) if all(self.origins) else ""

    def add(self, source: Any) -> None:
        """Read one source."""
        if isinstance(source, Archive):
            self.search_space = source._search_space
            self.half_life = source.half_life
            self._keep(source.origin, Contents(source.given, source.unread, source.notes))
        elif isinstance(source, BaseStorage):
            origin = optuna_storage.storage_origin(source)
            self._keep(origin, optuna_storage.read_contents(source, self.options, origin))
        elif isinstance(source, str | Path):
            contents = registry.read(str(source), self.options)
            for note in contents.notes:
                _logger.info("%s: %s", without_password(str(source)), note)
            self._keep(contents.origin or without_password(str(source)), contents)
        elif isinstance(source, Sequence) and source:
            for one in source:
                self._add_one_of(one, len(source))
        else:
            raise ArchiveError(
                "an archive is an Optuna storage or its URL, a file, a folder, an Archive or a "
                f"list of these, not {source!r}"
            )

    def _add_one_of(self, source: Any, several: int) -> None:
        """Read one of several sources; a damaged built-in file does not cost the others."""
        try:
            self.add(source)
        except ArchiveError as error:
            if several == 1 or not str(source).startswith("builtin:"):
                raise
            self.left_out[str(source)] = str(error)
            self.origins.append("")
            warnings.warn(f"{error}; the other past studies are used", RunWarning, stacklevel=2)

    def _keep(self, origin: str, contents: Contents) -> None:
        """Add the studies that pass the filters."""
        for given in contents.studies:
            study = under_names(given, self.names, self.values)
            chosen = contents.filtered or self.wanted.by_facts(study.name, study.context)
            if chosen and self.wanted.by_trials(study):
                self.studies.append(study)
                self.renamed.update(given.distributions.keys() - study.distributions.keys())
        self.left_out.update(contents.left_out)
        self.notes += [note for note in contents.notes if note not in self.notes]
        self.origins.append(origin)


def _moment(what: str, given: datetime | str | None) -> datetime | None:
    if not isinstance(given, str):
        return given
    try:
        return datetime.fromisoformat(given)
    except ValueError:
        raise OptionError(
            f"{what} must be a datetime or a text such as '2024-05-31', not {given!r}"
        ) from None
