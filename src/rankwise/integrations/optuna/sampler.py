"""RankwiseSampler: an Optuna sampler that learns from past studies."""

from __future__ import annotations

import logging
import threading
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.storages import BaseStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from typing_extensions import override

from rankwise import methods
from rankwise.archive import Archive
from rankwise.archive.merge_distributions import unusable
from rankwise.archive.names import named_values
from rankwise.archive.objectives import MOST, Objective
from rankwise.archive.open import check_patterns
from rankwise.archive.used_past import UsedPast
from rankwise.errors import ArchiveError, OptionError, RankwiseError, SpaceExhausted
from rankwise.integrations.optuna.account import Account, stored_past, with_result
from rankwise.integrations.optuna.choices import allowed_choices, new_choice
from rankwise.integrations.optuna.collisions import (
    TRIES,
    Draft,
    is_undisputed,
    repeats,
    settle,
)
from rankwise.integrations.optuna.past_source import JOINT, PastSource
from rankwise.integrations.optuna.sub_space import (
    MISSING,
    PROPOSAL,
    Part,
    blamed_trials,
    fit_value,
    given_params,
    past_study,
    proposed,
    running_params,
    stale_trials,
    study_objectives,
)
from rankwise.run.next_row import trial_rng
from rankwise.run.optimizer import check_seed
from rankwise.storage.optuna_private import (
    id_of_study,
    id_of_trial,
    storage_of,
    store_constraints,
)
from rankwise.strategies.base import FALLBACK, RANDOM
from rankwise.surrogates.transfer_trust import Evidence

if TYPE_CHECKING:
    from rankwise.archive import PastStudy

_BUILTIN = "builtin:"  # address of the built-in past
_PAUSE = 10  # trials before past studies that could not be read are read again
_logger = logging.getLogger(__name__)


class RankwiseSampler(BaseSampler):
    """Proposes parameters from past studies, starting with trial 0, and from the current study.

    At the first `suggest_*` call of a trial a configuration of all known parameters is proposed.
    Every answer is taken from it and fitted to the distribution that the objective asks for. So
    conditional objectives, other ranges and new parameters are supported. One model has all
    parameters; in those that no past study has it uses the current study only.

    Several workers (threads, processes or machines) may share a study. Each proposal is written to
    the storage, and of two equal proposals one is withdrawn before it is evaluated. With one
    worker the same seed gives the same trials.

    The sampler never ends a study. If the archive cannot be read, the study continues without past
    studies; if no model can be fitted, the proposal is random. Such fall-backs are counted and
    logged at number 1, 10, 100 and so on; `strict=True` raises an error instead.

    Args:
        archive: past studies: an Optuna storage or its URL, a journal file, a table, a folder, an
            `Archive`, "builtin:svc" for the built-in past of a learner (`rankwise builtin` lists
            them; "builtin:svc:regression:mae" names a kind and a metric), or a list of these;
            None uses the current study only, with method `alone`.
        like: pattern of the names of the past studies, such as "xgb-*".
        method: a transfer method of `rankwise.methods.available()`; "auto" chooses by the number
            of past studies.
        alone: method without past studies.
        search_space: distributions of the parameters, if known; otherwise the ranges of past
            studies are used until the objective has asked for its own.
        seed: seed of all random numbers; None draws one.
        warn_independent_sampling: log once for each parameter that no past study has, or that is
            sampled at random because its range cannot be modelled.
        options: options of the method.
        strict: raise an error if no past study can be used, or instead of a fall-back. For jobs
            that nobody watches.
        constraints_func: function that returns the values of a finished trial's constraints; a
            trial is feasible if all of them are zero or less. Constraints that an objective sets
            itself (`trial.set_constraint`, Optuna 5) are used as well.

    Raises:
        UnknownNameError, OptionError: the method or an option does not exist, an option has an
            invalid value, or the method is not a transfer method.

    Attributes:
        past_: past studies that were used and those left out (`UsedPast`); None before the
            first proposal and without an archive.

    Example:
        >>> import optuna
        >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
        >>> study = optuna.create_study(sampler=RankwiseSampler(seed=0))
        >>> study.optimize(lambda trial: trial.suggest_float("x", -5, 5) ** 2, n_trials=15)
        >>> study.best_value < 0.1
        True
    """

    def __init__(
        self,
        archive: str | BaseStorage | Archive | Sequence[Any] | None = None,
        *,
        like: str | Sequence[str] = "*",
        method: str = "auto",
        alone: str = "mbo",
        search_space: Mapping[str, BaseDistribution] | None = None,
        seed: int | None = None,
        warn_independent_sampling: bool = True,
        rename: Mapping[str, str] | str | Path | None = None,
        known: Mapping[str, Any] | str | Path | None = None,
        options: Mapping[str, Any] | None = None,
        strict: bool = False,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
    ) -> None:
        if constraints_func is not None and not callable(constraints_func):
            raise OptionError(
                f"constraints_func is a function of a trial, not {constraints_func!r}"
            )
        able = [name for name in methods.available() if methods.get(name).transfer]
        if not methods.get(method).transfer:
            raise OptionError(
                f"method {method!r} cannot learn from past studies; these can: {', '.join(able)}. "
                f"To use it on this study alone: archive=None, alone={method!r}"
            )
        methods.check_values(alone, {})
        methods.check_values(method, options or {})
        if archive is not None and "model" in (options or {}):
            raise OptionError("past studies come from an archive or from a model, not from both")
        if not isinstance(archive, str | Path | BaseStorage | Archive | Sequence | None):
            raise OptionError(
                "an archive is an Optuna storage or its URL, a file, a folder, an Archive or a "
                f"list of these, not {archive!r}"
            )
        given = archive if isinstance(archive, list | tuple) else [archive]
        self._builtin = [a for a in given if isinstance(a, str) and a.startswith(_BUILTIN)]
        for address in self._builtin:
            from rankwise.estimators.builtin_source import check_address

            with suppress(ArchiveError):  # a damaged file is a fall-back of the first trial
                check_address(address)
        check_patterns(like)
        self._archive, self._like = archive, like
        self._method, self._alone, self._options = method, alone, dict(options or {})
        self._search_space = dict(search_space or {})
        self._seed = check_seed(seed)
        self._warn = warn_independent_sampling
        names, values = named_values("rename", rename), named_values("known", known)
        self._source = PastSource(archive, like, rename=names, known=values)
        self._constraints_func = constraints_func
        self._objectives: list[Objective] = []  # of the last study
        self._known_kinds: dict[tuple[str, int], list[Objective]] = {}  # by name and id of a study
        self._past: Part | None = None  # None until a model was learnt
        self._own: Part | None = None  # uses this study only; kept while its space is the same
        self._again = 0  # trial number at which the archive is read again after an error
        self.past_: UsedPast | None = None
        self._account = Account(strict)
        self._said: set[str] = set()
        self._proposals: dict[int, dict[str, Any]] = {}
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_proposals": {}, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    # ------------------------------------------------------------------ interface of Optuna

    @override
    def reseed_rng(self) -> None:
        self._seed = check_seed(None)

    @override
    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Refuse a study with too many objectives, and if `strict` one without past studies.

        An error in the objective function would end the trial only, if the study catches it.
        """
        try:
            _check_objectives(study)
            if self._account.strict:
                self._current(study, study.get_trials(deepcopy=False))
        except Exception:  # otherwise the trial that Optuna has just created stays running
            storage_of(study).set_trial_state_values(id_of_trial(trial), TrialState.FAIL)
            raise

    @override
    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Empty, because Optuna raises if the objective asks for another distribution."""
        return {}

    @override
    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        _check_objectives(study)
        return {
            name: self.sample_independent(study, trial, name, distribution)
            for name, distribution in search_space.items()
        }

    @override
    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        _check_objectives(study)
        proposal = self._proposal(study, trial)
        name = param_name
        if name not in proposal and self._builtin:  # before the objective's names are known
            from rankwise.estimators.builtin_source import synonym

            name = synonym(name, list(proposal)) or name
        value = fit_value(proposal.get(name, MISSING), param_distribution)
        if value is MISSING:
            return self._random(study, trial, param_name, param_distribution)
        return value

    @override
    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        self._proposals.pop(id_of_trial(trial), None)
        if self._constraints_func is not None:
            store_constraints(self._constraints_func, study, trial, state)
        if self._past is not None and self._past.strategy is not None:
            with suppress(Exception):  # a failing account must not end a study
                trials = with_result(study, trial, state, values)
                self._account.evidence(study, self._evidence(study, trials))

    # ------------------------------------------------------------------ transfer trust

    def trust(self, study: Study) -> float | None:
        """Transfer trust: probability (0 to 1) that past studies predict the order of the trials.

        See `evidence`. None if there is no evidence.
        """
        found = self.evidence(study)
        return None if found is None else found.trust

    def evidence(self, study: Study) -> Evidence | None:
        """How well past studies alone predicted the order of a study's trials.

        None without past studies, or if the method has no such prediction: `auto`, `eb-gp`,
        `eb-net` and `dre-gp` have one, and all methods with the option `guard`.
        """
        _check_objectives(study)
        return self._evidence(study, study.get_trials(deepcopy=False))

    def _evidence(self, study: Study, trials: Sequence[FrozenTrial]) -> Evidence | None:
        past, known, finished = self._current(study, trials)
        return None if past is None else past.restricted(known, {}, finished).evidence(finished)

    def _current(
        self, study: Study, trials: Sequence[FrozenTrial]
    ) -> tuple[Part | None, dict[str, BaseDistribution], PastStudy]:
        """The model of past studies, and the distributions and finished trials of a study."""
        finished = past_study(study, trials, self._kinds(study))
        known = {**self._search_space, **finished.distributions}
        with self._lock:
            return self._learn_past(study, len(finished), known, finished), known, finished

    def past(self, study: Study) -> UsedPast | None:
        """The past studies that a study learns from, and those left out with the reasons.

        They are stored with the study, so another process can list them too. None without an
        archive.
        """
        _check_objectives(study)
        if self.past_ is None:
            self._evidence(study, study.get_trials(deepcopy=False))
        return self.past_ or stored_past(study)

    # ------------------------------------------------------------------ proposals

    def _proposal(self, study: Study, trial: FrozenTrial) -> dict[str, Any]:
        """Values of all known parameters; computed once per trial."""
        with self._lock:
            if id_of_trial(trial) not in self._proposals:
                try:
                    proposal = settle(study, trial, partial(self._propose, study, trial))
                except Exception as error:  # the sampler must not end a study
                    if self._account.strict and isinstance(error, RankwiseError):
                        raise
                    self._account.fall_back(
                        "sampled at random",
                        f"no proposal could be made ({type(error).__name__}: {error})",
                        error,
                    )
                    self._account.describe(study, trial, {"origin": RANDOM})
                    proposal = {}
                self._proposals[id_of_trial(trial)] = proposal
            return self._proposals[id_of_trial(trial)]

    def _propose(
        self, study: Study, trial: FrozenTrial, withdrawn: Sequence[dict[str, Any]], attempt: int
    ) -> Draft:
        """Values of all known parameters. After `TRIES` attempts they are random."""
        trials = study.get_trials(deepcopy=False)
        finished = past_study(study, trials, self._kinds(study))
        stale = stale_trials(study, trials)
        pending = [*running_params(trials, trial.number, stale), *withdrawn]
        if len(finished):  # no model sees these trials, but they are not proposed again
            pending += [{**proposed(t), **t.params} for t in blamed_trials(trials)]
        known = {**self._search_space, **finished.distributions}
        given = given_params(trial)
        rng = trial_rng(self._seed, trial.number, attempt)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            values, new, facts = dict(given), True, {"origin": RANDOM}
            for k, part in enumerate(
                self._parts(study, trial.number, trials, finished, known, values, bool(withdrawn))
            ):
                some, fresh = self._values(part, finished, pending, rng, trial.number, attempt)
                values.update({**some, **values})
                new = new and fresh
                if k == 0 and new and attempt < TRIES:
                    with suppress(Exception):  # a failing explanation must not end a study
                        facts = part.facts(some, finished, len(pending), trial.number, self._seed)
        for text in [str(warning.message) for warning in caught]:
            if text.startswith(FALLBACK):
                self._account.fall_back("sampled at random", text.split("; ")[0])
                facts = {"origin": RANDOM}
            else:
                self._say(text, logging.WARNING)
        if given:
            facts["origin"] = "enqueued"
        self._account.describe(study, trial, facts)
        proposals = {t.number: t.system_attrs.get(PROPOSAL) for t in trials}
        known_already = not given and any(
            repeats(t, values) for t in trials if t.state.is_finished()
        )
        return Draft(values, new, proposals, is_undisputed(trials, trial), known_already)

    def _values(
        self,
        part: Part,
        finished: PastStudy,
        pending: Sequence[dict[str, Any]],
        rng: np.random.Generator,
        number: int,
        attempt: int,
    ) -> tuple[dict[str, Any], bool]:
        """Values of one proposal, and False if a finite space has no new configuration.

        Before a finished configuration is repeated, those of running trials are proposed again,
        because their workers may be dead.
        """
        if attempt >= TRIES:
            return part.random(rng), True
        try:
            return part.propose(finished, pending, rng, self._seed, number), True
        except SpaceExhausted:
            pass
        try:
            return part.propose(finished, (), rng, self._seed, number), False
        except SpaceExhausted:
            return part.random(rng), False

    def _parts(
        self,
        study: Study,
        number: int,
        trials: Sequence[FrozenTrial],
        finished: PastStudy,
        known: Mapping[str, BaseDistribution],
        proposal: Mapping[str, Any],
        again: bool,
    ) -> Iterator[Part]:
        """Yield the model of all parameters, restricted to the values already in the proposal.

        If a proposal was withdrawn (`again`), parameters with unknown conditions are left out.

        Without past studies it is a model of this study alone. So it is for the parameters that
        no past study has, if the method cannot model parameters that source tasks do not vary.
        """
        past = self._learn_past(study, number, known, finished)
        choices = allowed_choices(known, trials, number)
        names = frozenset() if past is None else past.names
        odd = {name: why for name, d in known.items() if (why := unusable(d))}
        for name, why in odd.items() if self._warn else ():
            self._say(f"parameter {name!r} is sampled at random: {why}", logging.WARNING)
        if past is not None:
            new = sorted({*known} - {*odd} - names | past.new & {*known})
            if new and self._warn:
                self._account.new_parameters(study, new)
            chosen = new_choice(known, trials, number, past.tried)
            if chosen and not again:  # it is compared with the best trial, where all else is equal
                best = finished.params[finished.ranking[0]] if finished.ok.any() else {}
                chosen = {**best, **chosen}
            yield past.restricted(known, {**chosen, **proposal}, finished, choices, again)
        if any(name not in names and name not in odd for name in known):
            self._own = Part.alone(finished, known, self._alone, self._own, len(study.directions))
            yield self._own.restricted(known, proposal, choices=choices, unswitched=again)

    def _learn_past(
        self,
        study: Study,
        number: int,
        known: Mapping[str, BaseDistribution],
        finished: PastStudy,
    ) -> Part | None:
        """The model of past studies; None if there are none, or they cannot be read.

        Args:
            study: the current study.
            number: number of the current trial.
            known: distributions of the study.
            finished: finished trials of the study.
        """
        if self._archive is None:
            return None
        objectives = self._kinds(study)
        if objectives != self._objectives:  # the sampler is used for another study
            self._objectives, self._past = objectives, None
        constrained = self._constraints_func is not None or bool(finished.constraints)
        if self._past is not None and constrained and not self._past.constrained:
            self._past = None
        renamed = self._renamed(known)
        if self._past is not None and self._method not in JOINT:
            known = {name: d for name, d in known.items() if name in self._past.names}
        if self._past is None or renamed or not self._past.covers(known, finished):
            if number < self._again:
                return None
            if self._past is not None:
                self._say(
                    "this study has parameters, ranges or choices that no past study has: "
                    "learning again for the wider space (search_space= avoids that)",
                    logging.INFO,
                )
            try:
                self._past = self._source.part(
                    study.study_name,
                    known,
                    finished,
                    self._method,
                    self._options,
                    objectives if len(objectives) > 1 or objectives[0].name else (),
                    constrained,
                )
            except Exception as error:  # an unreadable archive must not end a study
                self._past = None
                self._again = number if self._account.strict else number + _PAUSE
                self._account.fall_back(
                    "proposing from this study alone",
                    f"past studies cannot be used ({type(error).__name__}: {error})",
                    error,
                )
                return None
            self.past_ = self._past.used
            left_out = {} if self.past_ is None else self.past_.left_out
            for address in {*self._builtin} & {*left_out}:
                self._account.fall_back("using the other past studies", left_out[address])
        if self.past_ is not None:
            self._account.used(study, self.past_)
        return self._past if self._past.names else None

    def _kinds(self, study: Study) -> list[Objective]:
        """The objectives of a study, read from the storage once."""
        key = study.study_name, id_of_study(study)
        if key not in self._known_kinds:
            self._known_kinds[key] = study_objectives(study)
        return self._known_kinds[key]

    def _renamed(self, known: Mapping[str, BaseDistribution]) -> bool:
        """True if the objective has its own names for parameters of the built-in past."""
        if not self._builtin or self._past is None:
            return False
        from rankwise.estimators.builtin_source import synonym

        names = [name for name in self._past.names if name not in known]
        return any(n not in self._past.names and synonym(n, names) is not None for n in known)

    def _random(
        self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution
    ) -> Any:
        words = [self._seed, trial.number, zlib.crc32(name.encode())]
        seed = int(np.random.default_rng(words).integers(2**31))
        return RandomSampler(seed=seed).sample_independent(study, trial, name, distribution)

    def _say(self, text: str, level: int) -> None:
        if text not in self._said:
            self._said.add(text)
            _logger.log(level, text)


def _check_objectives(study: Study) -> None:
    if len(study.directions) > MOST:
        raise ValueError(
            f"RankwiseSampler optimizes at most {MOST} objectives; this study has "
            f"{len(study.directions)}: use NSGAIIISampler or TPESampler"
        )
