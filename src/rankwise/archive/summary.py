"""`Summary`: facts about an archive that are kept, so that it is not read for a kept model."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import optuna
from optuna.distributions import BaseDistribution, distribution_to_json, json_to_distribution
from optuna.storages import BaseStorage, RDBStorage

import rankwise
from rankwise._core.atomic_write import atomic_write, private_folder
from rankwise.archive.archive import Archive
from rankwise.archive.common_space import CommonSpace
from rankwise.archive.infer_conditions import Condition
from rankwise.archive.open import name_filter
from rankwise.archive.sources import optuna_storage
from rankwise.archive.used_past import UsedPast
from rankwise.storage.all_studies import all_studies
from rankwise.storage.locations import model_folder, storage_url
from rankwise.storage.optuna_private import id_of_study, uncached
from rankwise.storage.study_log import quiet_optuna, storage_errors

_FORMAT = 5

_SUMMARIES: WeakKeyDictionary[Archive, Summary] = WeakKeyDictionary()


@dataclass(frozen=True)
class Summary:
    """The common space of an archive, typical values and the digest of its tasks.

    Attributes:
        space: common space of the studies.
        typical: typical values of the parameters in good trials.
        digest: digest of the tasks (`TaskSet.digest`), under which models are kept.
        tried: choices of each categorical parameter that trials have.
        used: the studies, and those left out.
    """

    space: CommonSpace
    typical: Mapping[str, Any]
    digest: str
    tried: Mapping[str, list[Any]]
    used: UsedPast

    @classmethod
    def of(cls, archive: Archive) -> Summary:
        """Summarize an archive with at least one study; an archive is summarized once."""
        known = _SUMMARIES.get(archive)
        if known is None:
            known = _SUMMARIES[archive] = cls._of(archive)
        return known

    @classmethod
    def _of(cls, archive: Archive) -> Summary:
        # Values of the best trials, and of other trials for parameters that these do not have.
        best = [study.params[study.ranking[0]] for study in archive.studies]
        everything = [params for study in archive.studies for params in study.params]
        typical = archive.space.typical(everything) | archive.space.typical(best)
        tried = archive.space.tried(everything)
        used = UsedPast.of(archive)
        return cls(archive.space, typical, archive.tasks.digest, tried, used)

    def write(self, path: Path, stamp: str) -> None:
        """Write the summary to a file; no-op if that is impossible.

        Args:
            path: file to write.
            stamp: stamp of the archive, see `Database.stamp`.
        """
        content = {
            "stamp": stamp,
            "digest": self.digest,
            "fingerprint": self.space.encoder.fingerprint,
            "distributions": {
                name: distribution_to_json(d) for name, d in self.space.distributions.items()
            },
            "conditions": {
                child: [when.parent, when.choices, when.hidden, when.beyond]
                for child, when in self.space.conditions.items()
            },
            "typical": dict(self.typical),
            "tried": dict(self.tried),
            "used": self.used.to_dict(),
        }
        try:
            text = json.dumps(content)
            private_folder(path.parent)
            with atomic_write(path) as unfinished:
                unfinished.write_text(json.dumps([_FORMAT, _digest(text), text]), encoding="utf-8")
        except (OSError, TypeError, ValueError):  # the archive is read again the next time
            return

    @classmethod
    def read(cls, path: Path, stamp: str) -> Summary | None:
        """Read a summary; None if there is none, it is damaged or it has another stamp."""
        try:
            version, digest, text = json.loads(path.read_text(encoding="utf-8"))
            if version != _FORMAT or digest != _digest(text):
                return None
            content = json.loads(text)
            if content["stamp"] != stamp:
                return None
            distributions: dict[str, BaseDistribution] = {
                name: json_to_distribution(d) for name, d in content["distributions"].items()
            }
            conditions = {
                child: Condition(parent, tuple(choices), hidden, beyond and tuple(beyond))
                for child, (parent, choices, hidden, beyond) in content["conditions"].items()
            }
            space = CommonSpace(distributions, conditions)
            used = UsedPast.from_dict(content["used"]) or UsedPast()
        except Exception:  # a damaged file may raise anything
            return None
        if space.encoder.fingerprint != content["fingerprint"]:
            return None
        return cls(space, content["typical"], content["digest"], content["tried"], used)


@dataclass(frozen=True)
class Database:
    """Some studies of an archive in database tables.

    Attributes:
        storage: the tables.
        like: patterns of the names of studies.
        exclude: names of studies to leave out.
    """

    storage: RDBStorage
    like: str | Sequence[str]
    exclude: Collection[str]

    @property
    def path(self) -> Path | None:
        """File of the summary; None if nothing is kept for this archive."""
        folder = model_folder(optuna_storage.storage_origin(self.storage))
        if folder is None:
            return None
        like = [self.like] if isinstance(self.like, str) else list(self.like)
        return folder / f"archive-{_digest(json.dumps(like))[:16]}.json"

    @property
    def stamp(self) -> str:
        """SHA-256 of what changes with the studies, without reading their trials.

        It covers names, directions, user attributes and stored rows of the studies and, by state,
        the number of trials, the last id and the last time of completion. Optuna does not change
        trials that have ended.

        Raises:
            StorageError: the storage cannot be read.
        """
        from rankwise.archive.sources.rdb_rows import stamps

        origin = optuna_storage.storage_origin(self.storage)
        with quiet_optuna(), storage_errors(origin, "read"):
            wanted = name_filter(self.like, self.exclude)
            studies, left_out = optuna_storage.choose(all_studies(self.storage), wanted)
            known = stamps(self.storage)
        facts = [
            [s.study_name, str(s.directions), s.user_attrs, known.get(id_of_study(s), "")]
            for s in studies
        ]
        folder = model_folder(origin)
        rows = [] if folder is None else _files(folder / "contexts")
        version = [rankwise.__version__, optuna.__version__, _FORMAT]
        return _digest(json.dumps([version, facts, left_out, rows], sort_keys=True, default=repr))


@contextmanager
def database_of(
    source: Any, like: str | Sequence[str], exclude: Collection[str]
) -> Iterator[Database | None]:
    """Open the database tables of an archive; None if the archive is something else.

    Raises:
        StorageError: the storage cannot be opened.
    """
    if isinstance(source, BaseStorage):
        storage: BaseStorage | None = uncached(source)
        yield Database(storage, like, exclude) if isinstance(storage, RDBStorage) else None
        return
    address = str(source) if isinstance(source, str | Path) else ""
    if not optuna_storage.belongs(address) or storage_url(address) is None:
        yield None
        return
    storage = optuna_storage.open_address(address)
    assert isinstance(storage, RDBStorage)
    with optuna_storage.closing(storage):
        yield Database(storage, like, exclude)


def _files(folder: Path) -> list[list[Any]]:
    """Names, sizes and times of the files in a folder."""
    if not folder.is_dir():
        return []
    found = []
    for entry in os.scandir(folder):
        facts = entry.stat()
        found.append([entry.name, facts.st_size, facts.st_mtime_ns])
    return sorted(found)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
