"""What the Optuna sampler is made of: spaces with a strategy, and trials as they see them."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from rankwise import methods
from rankwise.archive import Archive, CommonSpace, PastStudy
from rankwise.archive.context import context_of, full_context
from rankwise.archive.optuna_storage import columns_of_trials
from rankwise.cache import learnt_optimizer
from rankwise.errors import RunWarning
from rankwise.proposal import Seen
from rankwise.strategy import Strategy
from rankwise.task import Task
from rankwise.types import Array

MISSING = object()
"""Not None, which may be a choice."""
_NAMED = 5  # studies that a message names
_DESIGN_STREAM = 2**32  # a number that no trial has: the design's own random numbers


@dataclass(frozen=True)
class Part:
    """Some parameters, and the strategy that proposes them.

    Attributes:
        space: of the parameters; None if there are none.
        strategy: for its encoder.
        typical: values of parameters in the best trials of past studies.
    """

    space: CommonSpace | None
    strategy: Strategy | None
    typical: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def past(
        cls,
        source: Any,
        like: str | Sequence[str],
        study: Study,
        known: Mapping[str, BaseDistribution],
        method: str,
        options: Mapping[str, Any],
    ) -> Part:
        """The parameters of past studies, and a method that has learnt them.

        Args:
            source: of the archive.
            like: pattern of the names of studies.
            study: that is being run; it is no past study.
            known: distributions that it has; those of parameters that the archive has, too, take
                part in the common space.
            method: its name.
            options: of the method.
        """
        from rankwise.archive import open_archive

        archive = open_archive(source, like=like, exclude=[study.study_name])
        if not archive.studies:
            _warn_of_nothing(archive, source, like, study.study_name)
            return cls(None, None)
        shared = {name: d for name, d in known.items() if name in archive.space.distributions}
        if not archive.space.covers(shared):
            archive = Archive(archive.studies, search_space=shared, origin=archive.origin)
        encoder, tasks, folder = archive.space.encoder, archive.tasks, archive.folder
        if folder is None:
            strategy = methods.make(method, encoder, tasks, **options)
        else:
            strategy = learnt_optimizer(method, encoder, tasks, folder, **options).strategy
        # First those of the best trials, then of any that has the parameter
        best = [s.params[int(np.nanargmin(s.losses))] for s in archive.studies]
        everything = [params for s in archive.studies for params in s.params]
        typical = archive.space.typical(everything) | archive.space.typical(best)
        return cls(archive.space, strategy, typical)

    @classmethod
    def alone(cls, study: PastStudy, known: Mapping[str, BaseDistribution], method: str) -> Part:
        """All parameters of this study, with a method that knows no other."""
        space, _ = CommonSpace.of([study], known)
        return cls(space, methods.make(method, space.encoder))

    @property
    def names(self) -> frozenset[str]:
        """Of the parameters."""
        return frozenset() if self.space is None else frozenset(self.space.distributions)

    def covers(self, known: Mapping[str, BaseDistribution]) -> bool:
        """Whether all these are inside the space, as far as it has them."""
        return self.space is None or self.space.covers(known)

    def restricted(
        self,
        known: Mapping[str, BaseDistribution],
        given: Mapping[str, Any],
        finished: PastStudy | None = None,
    ) -> Part:
        """The same, proposing only what fits to what is known.

        Args:
            known: distributions of the study. If it has none of the parameters, nothing is
                known of it yet, and all of them get a value, for the case that they are asked for.
            given: values of some parameters that are settled; the others are proposed to go with
                them.
            finished: trials of the study. What they were never asked for, though past studies
                have it in such trials, is one configuration to the study whatever its value: it
                is fixed at what is typical of good past trials.
        """
        if self.space is None or self.strategy is None:
            return self
        mine = {name: d for name, d in known.items() if name in self.names}
        fixed: dict[str, Any] = {}
        if mine and finished is not None:
            # One that failed may have failed before it was asked for everything.
            ended = [p for p, ok in zip(finished.params, finished.ok, strict=True) if ok]
            absent = [name for name in self.space.unasked(ended) if name not in known]
            fixed = {name: self.typical[name] for name in absent if name in self.typical}
        mine = mine or self.space.distributions
        for name, value in given.items():
            alone = single(value, mine.get(name))
            if alone is not None:
                mine = {**mine, name: alone}
        space = self.space.restricted(mine, fixed)
        return Part(space, self.strategy.within(space.encoder), self.typical)

    def propose(
        self,
        finished: PastStudy,
        pending: Sequence[Mapping[str, Any]],
        rng: np.random.Generator,
        seed: int,
    ) -> dict[str, Any]:
        """Values of the parameters for one more trial; of those that are active in it.

        Raises:
            SpaceExhausted: a finite space is used up.
        """
        if self.space is None or self.strategy is None:
            return {}
        history = self._history(finished)
        waiting = [params for params in pending if self.space.encodable(params)]
        rows = self.space.encode(waiting)
        row = self._design_row(history, rows, seed)
        if row is None:
            row = self.strategy.propose(history, rows, rng)
        return self.space.decode(row)

    def trust(self, finished: PastStudy) -> float | None:
        """How sure it is, after the trials of a study, that the past applies to it."""
        if self.space is None or self.strategy is None:
            return None
        return self.strategy.trust(self._history(finished))

    def random(self, rng: np.random.Generator) -> dict[str, Any]:
        """Values of the parameters at random, whether they were tried or not."""
        return (
            {} if self.space is None else self.space.decode(self.space.encoder.sample(1, rng)[0])
        )

    def _history(self, finished: PastStudy) -> Task:
        assert self.space is not None
        usable = [k for k, p in enumerate(finished.params) if self.space.encodable(p)]
        sign = 1.0 if finished.direction == "minimize" else -1.0
        return Task.of(
            self.space.encode([finished.params[k] for k in usable]),
            sign * finished.values[usable],
            finished.seconds[usable],
            [finished.status[k] for k in usable],
            context=full_context(finished.context, None, ""),
            shared=None if finished.shared is None else finished.shared[usable],
        )

    def _design_row(self, history: Task, pending: Array, seed: int) -> Array | None:
        """A row of the initial design that was not tried, if there is a design and a row left."""
        assert self.strategy is not None and self.space is not None
        design, encoder = self.strategy.design, self.space.encoder
        if design is None or len(history) + len(pending) >= design.n(encoder):
            return None
        rows = design.make(encoder, np.random.default_rng([seed, _DESIGN_STREAM]))
        fresh = rows[Seen(history.X, pending).new(rows)]
        if not len(fresh):
            return None
        first: Array = fresh[0]
        return first


def _warn_of_nothing(archive: Archive, source: Any, like: Any, name: str) -> None:
    """Say that a past was asked for and there is none, unless it is the first study of all."""
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
        f"there is no past to learn from in {others.origin or 'the archive'}: {why} "
        f"({len(there)} there: {some}); going on without a past",
        RunWarning,
        stacklevel=2,
    )


# ---------------------------------------------------------------------- trials


def given_params(trial: FrozenTrial) -> dict[str, Any]:
    """What a trial has already: it was enqueued with it, or began before its worker died."""
    fixed = trial.system_attrs.get("fixed_params", {})
    return {**fixed, **trial.params}


def past_study(study: Study, trials: Sequence[FrozenTrial]) -> PastStudy:
    """What is finished of a study that is being run."""
    direction = "minimize" if study.direction == StudyDirection.MINIMIZE else "maximize"
    # Hyperband hands its samplers a study that has no `user_attrs`.
    known = study._storage.get_study_user_attrs(study._study_id)
    return columns_of_trials(study.study_name, direction, trials, context_of(known))


def running_params(
    trials: Sequence[FrozenTrial], number: int, attribute: str
) -> list[dict[str, Any]]:
    """What other workers evaluate now: their proposals, where they have not been asked yet."""
    found = []
    for trial in trials:
        if trial.state == TrialState.RUNNING and trial.number != number:
            proposal = json.loads(trial.system_attrs.get(attribute, "{}"))
            params = {**proposal, **trial.params}
            if params:
                found.append(params)
    return found


def single(value: Any, distribution: BaseDistribution | None) -> BaseDistribution | None:
    """The distribution that has this value only; None if it is not one of those that there are."""
    if distribution is None or fit_value(value, distribution) != value:
        return None
    if isinstance(distribution, CategoricalDistribution):
        return CategoricalDistribution([value])
    if isinstance(distribution, IntDistribution):
        return IntDistribution(value, value)
    return FloatDistribution(value, value)


def fit_value(value: Any, distribution: BaseDistribution) -> Any:
    """A value as a distribution wants it: inside, on its grid; `MISSING` if it cannot be."""
    if isinstance(distribution, CategoricalDistribution):
        same = (c for c in distribution.choices if type(c) is type(value) and c == value)
        return next(same, MISSING)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return MISSING
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high, step = distribution.low, distribution.high, distribution.step
    inside = min(max(value, low), high)
    if step is not None:
        inside = min(low + round((inside - low) / step) * step, high)
    return int(inside) if isinstance(distribution, IntDistribution) else float(inside)
