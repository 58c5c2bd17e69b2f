"""PastSource: reads the archive of a sampler and makes the model of its studies."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from optuna.distributions import BaseDistribution

from rankwise.archive import Archive, PastStudy
from rankwise.archive.objectives import Objective
from rankwise.archive.summary import Summary, database_of
from rankwise.archive.used_past import UsedPast
from rankwise.errors import RunWarning
from rankwise.history.task import BUILTIN
from rankwise.integrations.optuna.sub_space import Part
from rankwise.run.model_cache import kept_optimizer

JOINT = ("auto", "eb-gp", "eb-net", "dre-gp")
"""Methods that model parameters which no past study has."""
_NAMED = 5  # studies that a message lists


class PastSource:
    """The archive of a sampler; it is read once, and only if no model of it is kept.

    Args:
        source: the archive, in any form that `open_archive` takes.
        like: pattern of the names of studies.
        **reading: further arguments of `open_archive`.
    """

    def __init__(self, source: Any, like: str | Sequence[str], **reading: Any) -> None:
        self._source, self._like = source, like
        self._reading = {name: value for name, value in reading.items() if value}
        self._archive: Archive | None = None

    def part(
        self,
        name: str,
        known: Mapping[str, BaseDistribution],
        finished: PastStudy,
        method: str,
        options: Mapping[str, Any],
        objectives: Sequence[Objective] = (),
        constrained: bool = False,
    ) -> Part:
        """Make the model of past studies and of the current study.

        Args:
            name: name of the current study, which is excluded from the past studies.
            known: distributions of the current study.
            finished: its finished trials.
            method: name of the method.
            options: options of the method.
            objectives: its objectives, if there are several or the only one has a name.
            constrained: True if it has constraints.
        """
        if self._archive is None or self._archive.objectives != tuple(objectives):
            self._archive = None
            kept = self._read(name, known, method, options, objectives, constrained)
            if kept is not None:
                return kept
        archive = self._archive
        assert archive is not None
        if not archive.studies:
            _warn_of_nothing(archive, self._source, self._like, name)
            return Part(None, None, used=UsedPast.of(archive))
        if any(BUILTIN in study.context for study in archive.studies):
            from rankwise.estimators.builtin_source import fitted

            archive = fitted(archive, known)
        if method not in JOINT:
            known = {n: d for n, d in known.items() if n in archive.space.distributions}
        constrained = constrained or (not len(finished) and _all_constrained(archive))
        return Part.past(archive, known, finished, method, options, constrained)

    def _read(
        self,
        name: str,
        known: Mapping[str, BaseDistribution],
        method: str,
        options: Mapping[str, Any],
        objectives: Sequence[Objective],
        constrained: bool,
    ) -> Part | None:
        """Read the archive, unless a kept model covers the study: then return it."""
        from rankwise.archive import open_archive

        exclude = [name]
        with database_of(self._source, self._like, exclude) as database:
            special = bool(self._reading or objectives or constrained)
            path = None if database is None or special else database.path
            stamp = "" if database is None or path is None else database.stamp
            summary = None if path is None else Summary.read(path, stamp)
            if path is not None and summary is not None and summary.space.covers(known):
                encoder = summary.space.encoder
                kept = kept_optimizer(method, encoder, summary.digest, path.parent, **options)
                if kept is not None:
                    return Part.summarized(summary, kept.strategy)
            storage = self._source if database is None else database.storage
            self._archive = open_archive(
                storage,
                like=self._like,
                exclude=exclude,
                objectives=objectives,
                **self._reading,
            )
        # A kept model has no constraints, so the archive is read each time if it has some.
        if path is not None and self._archive.studies and not _all_constrained(self._archive):
            Summary.of(self._archive).write(path, stamp)
        return None


def _all_constrained(archive: Archive) -> bool:
    """True if all past studies have constraints, so that this one probably has them, too."""
    return bool(archive.studies) and all(study.constraints for study in archive.studies)


def _warn_of_nothing(archive: Archive, source: Any, like: Any, name: str) -> None:
    """Warn that no past study can be used, unless the archive is empty."""
    from rankwise.archive import open_archive

    others = open_archive(source, exclude=[name])
    there = sorted({*(s.name for s in others.studies), *others.left_out})
    if not there:
        return
    some = ", ".join(there[:_NAMED]) + (", ..." if len(there) > _NAMED else "")
    reasons = "".join(f"; {name!r}: {why}" for name, why in archive.left_out.items())
    why = f"none of its studies can be used{reasons}"
    if not archive.left_out:
        why = f"none of its studies has a name like {like!r}"
    warnings.warn(
        f"there are no past studies to learn from in {others.origin or 'the archive'}: {why} "
        f"({len(there)} there: {some}); proposing from this study alone",
        RunWarning,
        stacklevel=2,
    )
