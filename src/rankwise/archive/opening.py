"""open_archive: past studies from wherever they are kept."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage

from rankwise.archive import hpob, optuna_storage, tables
from rankwise.archive.archive import Archive
from rankwise.archive.studies import PastStudy
from rankwise.errors import ArchiveError, OptionError
from rankwise.study import without_password

_SQLITE_FILES = (".db", ".sqlite", ".sqlite3")


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
    study: str = "study",
    value: str = "value",
    direction: str | None = None,
    ignore: Collection[str] = (),
) -> Archive:
    """Read past studies.

    Args:
        source: where they are: an Optuna storage or its URL (sqlite, postgresql, mysql), the path
            of a journal file or of an SQLite file, a file or folder of HPO-B's JSON, a table (CSV,
            Parquet, JSON lines) or a folder of them, an `Archive`, or a list of any of these.
        like: pattern of the names of studies, such as "xgb-*", or several.
        attrs: user attributes or attached facts that a study must have: a value to be equal to, or
            a function that says whether the value is fine.
        since: studies whose first trial began then or later; a datetime or ISO text.
        until: studies whose first trial began then or earlier.
        parameters: names of parameters that a study must all have.
        search_space: distributions of a study to come; see `Archive`.
        exclude: names of studies that are not wanted.
        space: of HPO-B: the id of the search space; may be left out if a file has only one.
        study: of tables: the column of the studies' names.
        value: of tables: the column of the objective.
        direction: of tables, which do not say it: "minimize" or "maximize".
        ignore: of tables: columns that are no parameters.

    Raises:
        StorageError: a storage cannot be opened or read.
        ArchiveError: a file or folder does not hold studies.
    """
    wanted = _Wanted(
        (like,) if isinstance(like, str) else tuple(like),
        dict(attrs or {}),
        _moment("since", since),
        _moment("until", until),
        frozenset(parameters or ()),
        frozenset(exclude),
    )
    if isinstance(source, Archive) and wanted == _Wanted() and search_space is None:
        return source
    layout = tables.Layout(study, value, direction, frozenset(ignore), dict(search_space or {}))
    found = _Found(wanted, layout, space)
    found.add(source)
    return Archive(
        found.studies,
        search_space=found.search_space if search_space is None else search_space,
        origin=found.origin,
        left_out=found.left_out,
    )


@dataclass(frozen=True)
class _Wanted:
    """Which studies are asked for."""

    like: tuple[str, ...] = ("*",)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    since: datetime | None = None
    until: datetime | None = None
    parameters: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()

    def by_facts(self, name: str, facts: Mapping[str, Any]) -> bool:
        """Whether a study is wanted as far as its name and the facts about it say."""
        if name in self.exclude or not any(fnmatchcase(name, pattern) for pattern in self.like):
            return False
        for key, asked in self.attrs.items():
            if key not in facts:
                return False
            if not (asked(facts[key]) if callable(asked) else facts[key] == asked):
                return False
        return True

    def by_trials(self, study: PastStudy) -> bool:
        """Whether a study is wanted as far as its trials say."""
        if not self.parameters <= set(study.distributions):
            return False
        if self.since is None and self.until is None:
            return True
        if study.started is None:
            return False
        began = study.started.timestamp()
        late_enough = self.since is None or began >= self.since.timestamp()
        return late_enough and (self.until is None or began <= self.until.timestamp())


class _Found:
    """Studies from one source or several."""

    def __init__(self, wanted: _Wanted, layout: tables.Layout, space: str | None) -> None:
        self.wanted, self.layout, self.space = wanted, layout, space
        self.studies: list[PastStudy] = []
        self.left_out: dict[str, str] = {}
        self.search_space: Mapping[str, BaseDistribution] | None = None
        self.origins: list[str] = []

    @property
    def origin(self) -> str:
        """Of all sources together; "" if one of them is only in memory."""
        if len(self.origins) == 1:
            return self.origins[0]
        return "several://" + "|".join(self.origins) if all(self.origins) else ""

    def add(self, source: Any) -> None:
        """Read one source."""
        if isinstance(source, Archive):
            self.search_space = source._search_space
            self._keep(source.studies, source.left_out, source.origin)
        elif isinstance(source, BaseStorage):
            self._add_storage(source, optuna_storage.storage_origin(source))
        elif isinstance(source, str) and "://" in source:
            self._add_storage(optuna_storage.open_url(source), without_password(source))
        elif isinstance(source, str | Path):
            self._add_path(Path(source))
        elif isinstance(source, Sequence) and source:
            for one in source:
                self.add(one)
        else:
            raise ArchiveError(
                "an archive is an Optuna storage or its URL, a file, a folder, an Archive or a "
                f"list of these, not {source!r}"
            )

    def _add_path(self, path: Path) -> None:
        if not path.exists():
            raise ArchiveError(f"there is no file or folder {path}; check the path")
        if hpob.is_hpob(path):
            self._keep(hpob.read(path, self.space), {}, str(path))
        elif tables.is_table(path) and not _is_journal(path):
            self._keep(tables.read(path, self.layout), {}, str(path))
        elif path.suffix in _SQLITE_FILES:
            url = f"sqlite:///{path}"
            self._add_storage(optuna_storage.open_url(url), url)
        elif path.is_file() and _is_journal(path):
            self._add_storage(optuna_storage.open_journal(path), str(path))
        else:
            raise ArchiveError(
                f"{path} holds no studies that can be read: expected is a journal or SQLite file "
                "of Optuna, HPO-B's JSON, or tables (.csv, .parquet, .jsonl)"
            )

    def _add_storage(self, storage: BaseStorage, origin: str) -> None:
        studies, left_out = optuna_storage.read_storage(
            optuna_storage.uncached(storage), self.wanted.by_facts, origin
        )
        self._keep(studies, left_out, origin, chosen=True)

    def _keep(
        self,
        studies: Sequence[PastStudy],
        left_out: Mapping[str, str],
        origin: str,
        *,
        chosen: bool = False,
    ) -> None:
        """Take studies over; those that were chosen by all of their facts have but some left."""
        for study in studies:
            if chosen or self.wanted.by_facts(study.name, study.context):
                self.studies += [study] if self.wanted.by_trials(study) else []
        self.left_out.update(left_out)
        self.origins.append(origin)


def _is_journal(path: Path) -> bool:
    """Whether the first line of a file is one of Optuna's journal; so is that of an empty file."""
    if path.is_dir():
        return False
    try:
        with path.open(encoding="utf-8") as file:
            line = file.readline()
        return not line or "op_code" in json.loads(line)
    except (OSError, ValueError, TypeError):
        return False


def _moment(what: str, given: datetime | str | None) -> datetime | None:
    if not isinstance(given, str):
        return given
    try:
        return datetime.fromisoformat(given)
    except ValueError:
        raise OptionError(
            f"{what} must be a datetime or a text such as '2024-05-31', not {given!r}"
        ) from None
