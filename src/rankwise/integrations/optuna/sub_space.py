"""Parts of the Optuna sampler: spaces with a strategy, and conversion of trials."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from rankwise import methods
from rankwise.archive import Archive, CommonSpace, PastStudy
from rankwise.archive.learning import PLAIN, learnt_jointly
from rankwise.archive.merge_distributions import as_choice, as_number, choice_key
from rankwise.archive.objectives import Objective, objectives_of
from rankwise.archive.sources.optuna_storage import columns_of_trials
from rankwise.archive.summary import Summary
from rankwise.archive.used_past import UsedPast
from rankwise.errors import OptionError, SpaceError
from rankwise.history.task import Task
from rankwise.integrations.optuna.choices import failing_choices
from rankwise.run.model_cache import learnt_optimizer
from rankwise.run.next_row import make_design, next_row
from rankwise.storage.optuna_private import id_of_study, id_of_trial, storage_of, without_heartbeat
from rankwise.storage.study_facts import context_of, full_context
from rankwise.storage.trial_facts import without_retried
from rankwise.strategies.base import Strategy
from rankwise.strategies.joint import BLIND, JointStrategy, joint
from rankwise.surrogates.transfer_trust import Evidence
from rankwise.types import sign_of

MISSING = object()
"""Marks an absent value; None may be a choice."""
PROPOSAL = "rankwise:proposal"
"""Attribute of a trial with its proposal, through which workers see each other's choice."""
_LONG = timedelta(hours=1)  # no trial without heartbeats is stale before


@dataclass(frozen=True)
class Part:
    """The parameters of a study and the strategy that proposes their values.

    Attributes:
        space: space of the parameters; None if there are none.
        strategy: strategy for the encoder of the space; None without a space.
        typical: typical values of the parameters in good trials of past studies.
        tried: choices that past studies have tried, as pairs of a name and a `choice_key`.
        used: the past studies that the strategy learnt from; None without an archive.
        constrained: True if the constraints of past studies were learnt.
    """

    space: CommonSpace | None
    strategy: Strategy | None
    typical: Mapping[str, Any] = field(default_factory=dict)
    tried: frozenset[tuple[str, Any]] = frozenset()
    used: UsedPast | None = None
    constrained: bool = False

    @classmethod
    def past(
        cls,
        archive: Archive,
        known: Mapping[str, BaseDistribution],
        finished: PastStudy,
        method: str,
        options: Mapping[str, Any],
        constrained: bool = False,
    ) -> Part:
        """Make one space of past studies and of this study, with a transfer method.

        Args:
            archive: at least one past study.
            known: distributions of this study; they are part of the common space.
            finished: finished trials of this study, which decide on the conditions of parameters
                that no past study has.
            method: name of the method.
            options: options of the method.
            constrained: learn the constraints of past studies, too.
        """
        own = _ended(finished)
        known = {n: _on_scale(d, archive.space.distributions.get(n)) for n, d in known.items()}
        if not (archive.space.covers(known) and archive.space.up_to_date(own)):
            archive = Archive(
                archive.studies,
                search_space=known,
                origin=archive.origin,
                half_life=archive.half_life,
                left_out=archive.left_out,
                own=own,
                objectives=archive.objectives,
            )
        if len(archive.objectives) > 1 or constrained:
            strategy = learnt_jointly(archive, method, options, constrained)
            return replace(cls.summarized(Summary.of(archive), strategy), constrained=constrained)
        learnt = learnt_optimizer(
            method, archive.space.encoder, archive.tasks, archive.folder, **options
        )
        return cls.summarized(Summary.of(archive), learnt.strategy)

    @classmethod
    def summarized(cls, summary: Summary, strategy: Strategy) -> Part:
        """The part of an archive's summary, with a strategy that has learnt from the archive."""
        tried = frozenset(
            (name, choice_key(value)) for name, values in summary.tried.items() for value in values
        )
        used = summary.used
        if not strategy.informed:
            text = f"The {len(used.studies)} past studies are not used: they are too small, or do "
            used = replace(used, studies={}, unused=f"{text}not predict each other")
        return cls(summary.space, strategy, summary.typical, tried, used)

    @classmethod
    def alone(
        cls,
        study: PastStudy,
        known: Mapping[str, BaseDistribution],
        method: str,
        before: Part | None = None,
        objectives: int = 1,
    ) -> Part:
        """Make the part for all parameters of the study, with a method without transfer.

        Args:
            study: the finished trials of the study.
            known: the distributions of its parameters.
            method: name of the method.
            before: the part of an earlier call; it is returned if the space is still the same.
            objectives: number of objectives of the study.
        """
        space, _ = CommonSpace.of([study], known, None if before is None else before.space)
        if before is not None and before.space is space:
            return before
        strategy = methods.make(method, space.encoder)
        if objectives > 1 and method not in BLIND:
            plain = methods.make(PLAIN, space.encoder)
            strategy = joint([strategy] * objectives, plain)
        return cls(space, strategy)

    @property
    def names(self) -> frozenset[str]:
        """Names of the parameters."""
        return frozenset() if self.space is None else frozenset(self.space.distributions)

    @property
    def new(self) -> frozenset[str]:
        """Names of the parameters that no past study has."""
        return frozenset() if self.space is None else self.space.new

    def covers(self, known: Mapping[str, BaseDistribution], finished: PastStudy) -> bool:
        """True if the space contains the distributions and conditions of the study."""
        if self.space is None:
            return True
        return self.space.covers(known) and self.space.up_to_date(_ended(finished))

    def restricted(
        self,
        known: Mapping[str, BaseDistribution],
        given: Mapping[str, Any],
        finished: PastStudy | None = None,
        choices: Mapping[str, Sequence[Any]] | None = None,
        unswitched: bool = False,
    ) -> Part:
        """A copy whose proposals fit the distributions and values that are known.

        Args:
            known: distributions of the study. If it has none of the parameters, or no trial with a
                value, all parameters get a value, in case they are asked for.
            given: values of parameters that are already decided; the others are proposed to match
                them.
            finished: finished trials of the study. A parameter that past studies have but the
                objective never asked for is fixed at its typical value, because varying it would
                give equal configurations.
            choices: choices to which proposals are limited, see `allowed_choices`.
            unswitched: propose no parameter with an unknown condition. A value of it is not asked
                for where the condition does not hold, and the rest may repeat a trial.
        """
        if self.space is None or self.strategy is None:
            return self
        mine = {name: d for name, d in known.items() if name in self.names}
        fixed: dict[str, Any] = {}
        ended = [] if finished is None else _ended(finished)
        if mine and ended:
            absent = [n for n in self.space.unasked(ended) if n not in known]
            fixed = {name: self.typical[name] for name in absent if name in self.typical}
        elif finished is not None:  # the objective may ask for more than it has asked for
            mine = {**self.space.distributions, **mine}
        mine = mine or self.space.distributions
        if unswitched:
            hidden = {name for name, c in self.space.conditions.items() if c.hidden}
            mine = {name: d for name, d in mine.items() if name not in hidden} or mine
        for name, some in (choices or {}).items():
            mine = {**mine, name: CategoricalDistribution(list(some))}
        for name, value in given.items():
            alone = single(value, mine.get(name))
            if alone is not None:
                mine = {**mine, name: alone}
        space = self.space.restricted(mine, fixed)
        return replace(self, space=space, strategy=self.strategy.within(space.encoder))

    def propose(
        self,
        finished: PastStudy,
        pending: Sequence[Mapping[str, Any]],
        rng: np.random.Generator,
        seed: int,
        number: int,
    ) -> dict[str, Any]:
        """Propose values of the active parameters of one trial.

        Args:
            finished: the finished trials of the study.
            pending: parameters of the trials that are running.
            rng: random generator of the trial.
            seed: seed of the study, for the initial design.
            number: number of the trial.

        Raises:
            SpaceExhausted: a finite space has no new configuration.
        """
        if self.space is None or self.strategy is None:
            return {}
        history = self._history(finished, again=True)
        strategy = with_constraints(self.strategy, history)
        waiting = [params for params in pending if self.space.encodable(params)]
        try:
            design = make_design(strategy.design, strategy, seed)
        except SpaceError:  # the values that are given leave too few configurations
            design = make_design(None, strategy, seed)
        rows = self.space.encode(waiting)
        row, _ = next_row(strategy.propose, design, number, history, rows, rng)
        return self.space.decode(row)

    def facts(
        self,
        values: Mapping[str, Any],
        finished: PastStudy,
        pending: int,
        number: int,
        seed: int,
    ) -> dict[str, Any]:
        """What a proposal is based on and what it is expected to reach, to be stored with it.

        Args:
            values: the proposed values of the parameters.
            finished: the finished trials of the study.
            pending: number of trials that are running.
            number: number of the trial.
            seed: seed of the study, for the initial design.
        """
        if self.space is None or self.strategy is None:
            return {}
        history, design = self._history(finished), self.strategy.design
        if design is not None and number < len(make_design(design, self.strategy, seed)):
            return {"origin": "initial design"}
        found: dict[str, Any] = {"origin": self.strategy.origin(history, pending)}
        if self.strategy.informed and self.space.encodable(values):
            [belief] = self.strategy.explain(history, self.space.encode([values]))
            found.update(belief.facts(sign_of(finished.direction)))
        return found

    def evidence(self, finished: PastStudy) -> Evidence | None:
        """Evidence for the transfer trust after the trials of a study; None if unknown."""
        if self.space is None or self.strategy is None:
            return None
        return self.strategy.evidence(self._history(finished))

    def random(self, rng: np.random.Generator) -> dict[str, Any]:
        """Random values of the parameters, which may repeat a trial."""
        return (
            {} if self.space is None else self.space.decode(self.space.encoder.sample(1, rng)[0])
        )

    def _history(self, finished: PastStudy, again: bool = False) -> Task:
        """The finished trials as a task.

        Args:
            finished: the finished trials.
            again: add a trial once more as it was proposed, if the objective turned a hidden
                switch. Its conditions are unknown, so the proposal would be made again.
        """
        assert self.space is not None
        usable = [k for k, p in enumerate(finished.params) if self.space.encodable(p)]
        history = finished.task(
            self.space.encode([finished.params[k] for k in usable]),
            usable,
            full_context(finished.context, None, ""),
            shared=finished.shared,
        )
        if not again or finished.proposals is None or history.objectives is not None:
            return history
        pairs = zip(
            (finished.params[k] for k in usable),
            (finished.proposals[k] for k in usable),
            strict=True,
        )
        others = [self.space.as_proposed(*pair) for pair in pairs]
        turned = [k for k, other in enumerate(others) if other is not None and history.ok[k]]
        if not turned or history.constraints:
            return history
        X = self.space.encode([others[k] or {} for k in turned])
        return history.extended(X, history.losses[turned])


def with_constraints(strategy: Strategy, history: Task) -> Strategy:
    """The strategy, or one that models the constraints of the history, too.

    A strategy without a surrogate is returned unchanged.
    """
    if not history.constraints or isinstance(strategy, JointStrategy):
        return strategy
    try:
        return joint([strategy], methods.make(PLAIN, strategy.encoder))
    except OptionError:
        return strategy


def _on_scale(d: BaseDistribution, past: BaseDistribution | None) -> BaseDistribution:
    """The same range on a log scale, if past studies have one: models need it to be accurate."""
    if not isinstance(d, FloatDistribution) or d.step is not None or d.low <= 0:
        return d
    return FloatDistribution(d.low, d.high, log=d.log or bool(getattr(past, "log", False)))


def _ended(study: PastStudy) -> list[Mapping[str, Any]]:
    """Parameters of the trials with a value; others may have failed before they asked for all."""
    return [p for p, ok in zip(study.params, study.ok, strict=True) if ok]


# ---------------------------------------------------------------------- trials


def given_params(trial: FrozenTrial) -> dict[str, Any]:
    """Parameters that a trial already has: enqueued values, or those of a dead worker."""
    fixed = trial.system_attrs.get("fixed_params", {})
    return {**fixed, **trial.params}


def study_objectives(study: Study) -> list[Objective]:
    """The objectives of the current study."""
    attributes = storage_of(study).get_study_system_attrs(id_of_study(study))
    return objectives_of(study.directions, attributes)


def past_study(
    study: Study, trials: Sequence[FrozenTrial], objectives: Sequence[Objective] | None = None
) -> PastStudy:
    """The finished trials of the current study as a `PastStudy`.

    A trial that failed before it asked for all parameters counts as evaluated with the values
    that were proposed for the others. `blamed_trials` are left out.
    """
    # Hyperband passes samplers a study without `user_attrs`.
    known = storage_of(study).get_study_user_attrs(id_of_study(study))
    objectives, context = objectives or study_objectives(study), context_of(known)
    found = columns_of_trials(study.study_name, objectives, trials, context)
    if all(t.state != TrialState.FAIL for t in trials):
        ended = [t for t in without_retried(trials) if t.state.is_finished()]
        return replace(found, proposals=[proposed(t) for t in ended])
    numbers = {t.number for t in blamed_trials(trials)}
    kept = [t for t in without_retried(trials) if t.number not in numbers]
    rest = columns_of_trials(study.study_name, objectives, kept, context)
    ended = [t for t in kept if t.state.is_finished()]
    params = [
        {**proposed(t), **t.params} if t.state == TrialState.FAIL else t.params for t in ended
    ]
    proposals = [proposed(t) for t in ended]
    return replace(rest, params=params, distributions=found.distributions, proposals=proposals)


def blamed_trials(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Failed trials with a choice that always fails.

    The failure says nothing about the other parameters, so no model sees these trials.
    """
    failing = {number for numbers in failing_choices(trials).values() for number in numbers}
    return [trial for trial in trials if trial.number in failing]


def proposed(trial: FrozenTrial) -> dict[str, Any]:
    """The proposal that the sampler wrote to a trial; empty if there is none."""
    proposal: dict[str, Any] = json.loads(trial.system_attrs.get(PROPOSAL, "{}"))
    return proposal


def running_params(
    trials: Sequence[FrozenTrial], number: int, stale: Collection[int] = ()
) -> list[dict[str, Any]]:
    """Parameters of the trials that other workers run, completed by their proposals.

    Args:
        trials: trials of the study.
        number: number of the current trial.
        stale: numbers of trials whose workers seem to be dead, see `stale_trials`.
    """
    found = []
    for trial in trials:
        if trial.state == TrialState.RUNNING and trial.number not in {number, *stale}:
            params = {**proposed(trial), **trial.params}
            if params:
                found.append(params)
    return found


def stale_trials(
    study: Study, trials: Sequence[FrozenTrial], now: datetime | None = None
) -> set[int]:
    """Numbers of the running trials whose workers seem to be dead.

    If the storage records heartbeats, these decide. Otherwise a trial is stale if it has been
    running for more than an hour and for more than ten times the longest finished trial.

    Args:
        study: the study.
        trials: its trials.
        now: current time.
    """
    running = [t for t in trials if t.state == TrialState.RUNNING]
    if not running:
        return set()
    dead = without_heartbeat(study)
    if dead is not None:
        return {t.number for t in running if id_of_trial(t) in dead}
    lasted = [t.duration for t in trials if t.state.is_finished() and t.duration is not None]
    limit = max([_LONG, *(10 * duration for duration in lasted)])
    now = now or datetime.now()
    return {t.number for t in running if t.datetime_start and now - t.datetime_start > limit}


def single(value: Any, distribution: BaseDistribution | None) -> BaseDistribution | None:
    """A distribution with this value only; None if the distribution does not contain it."""
    if distribution is None or fit_value(value, distribution) != value:
        return None
    if isinstance(distribution, CategoricalDistribution):
        return CategoricalDistribution([value])
    if isinstance(distribution, IntDistribution):
        return IntDistribution(value, value)
    return FloatDistribution(value, value)


def fit_value(value: Any, distribution: BaseDistribution) -> Any:
    """A value moved into the range and onto the grid of a distribution; else `MISSING`."""
    if isinstance(distribution, CategoricalDistribution):
        same = (c for c in distribution.choices if type(c) is type(value) and c == value)
        index = None if value is MISSING else as_choice(value, distribution.choices)
        return next(same, MISSING if index is None else distribution.choices[index])
    number = None if value is MISSING else as_number(value)
    if number is None:
        return MISSING
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high, step = distribution.low, distribution.high, distribution.step
    inside = min(max(value if isinstance(value, int) else number, low), high)
    if step is not None:
        inside = min(low + round((inside - low) / step) * step, high)
    return int(inside) if isinstance(distribution, IntDistribution) else float(inside)
