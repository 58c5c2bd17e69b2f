"""RankwiseSampler: the methods of this library, and past studies, inside Optuna."""

from __future__ import annotations

import json
import logging
import threading
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
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
from rankwise.errors import OptionError, SpaceExhausted
from rankwise.optimizer import check_seed
from rankwise.sampling import (
    MISSING,
    Part,
    fit_value,
    given_params,
    past_study,
    running_params,
)

if TYPE_CHECKING:
    from rankwise.archive import PastStudy

_PROPOSAL = "rankwise:proposal"  # trial attributes through which workers see each other's choice
_SETTLED = "rankwise:settled"
_TRIES = 10  # proposals, and then random ones, before two workers may evaluate the same
_PAUSE = 10  # trials before past studies that could not be read are read again
_logger = logging.getLogger(__name__)


class RankwiseSampler(BaseSampler):
    """Proposes from the first trial on what past studies say is good, and learns from this one.

    Every parameter is answered when the objective asks for it, with the range that it asks for: a
    proposal for all of them is made at the first question of a trial, and each answer is taken
    from it. So conditional objectives, changed ranges and new parameters need no special care. A
    parameter that no past study has is proposed by a second model that knows this study alone.

    Several workers, in threads, processes or on many machines, may share a study: each trial's
    proposal is written to the storage, and two that turn out equal are settled before they are
    evaluated. With one worker the same seed gives the same trials.

    If anything fails the reason is logged once, and a study never ends because of its sampler:
    without an archive that can be read it goes on alone, and where no model can be fitted the
    proposal is a random one. A past that was asked for and is not there is logged as well.

    Args:
        archive: where past studies are: an Optuna storage or its URL, a journal file, a table, a
            folder, or an `Archive`; None: this study alone, with `alone` as the method.
        like: pattern of the names of the past studies to learn from, such as "xgb-*".
        method: a method that learns from past tasks, one of `rankwise.methods.available()`; "auto"
            is what did best in our benchmarks for so many past studies.
        alone: the method for what there is no past of.
        search_space: distributions of the parameters, if they are known; without, ranges are those
            of the past studies until this one shows its own.
        seed: of all randomness; None draws one.
        warn_independent_sampling: log once for each parameter that no past study has.
        options: of the method.

    Raises:
        UnknownNameError, OptionError: the method or an option does not exist, an option has a
            value that makes no sense, or the method cannot learn from past tasks.

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
        options: Mapping[str, Any] | None = None,
    ) -> None:
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
        self._archive, self._like = archive, like
        self._method, self._alone, self._options = method, alone, dict(options or {})
        self._search_space = dict(search_space or {})
        self._seed = check_seed(seed)
        self._warn = warn_independent_sampling
        self._past: Part | None = None  # None until the archive was read
        self._again = 0  # the trial from which on it is tried again
        self._said: set[str] = set()
        self._proposals: dict[int, dict[str, Any]] = {}
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_proposals": {}, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    # ------------------------------------------------------------------ what Optuna calls

    @override
    def reseed_rng(self) -> None:
        self._seed = check_seed(None)

    @override
    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Nothing: Optuna raises if what the objective asks for is not what was announced here."""
        return {}

    @override
    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        _check_single(study)
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
        _check_single(study)
        proposal = self._proposal(study, trial)
        value = fit_value(proposal.get(param_name, MISSING), param_distribution)
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
        self._proposals.pop(trial._trial_id, None)

    # ------------------------------------------------------------------ what is known

    def trust(self, study: Study) -> float | None:
        """How sure it is, after a study's trials, that its past applies to it, from 0 to 1.

        None if there is no past, or the method cannot tell: `auto`, `eb-gp` and `eb-net` can, and
        all methods with the option `guard`.
        """
        _check_single(study)
        finished = past_study(study, study.get_trials(deepcopy=False))
        known = {**self._search_space, **finished.distributions}
        with self._lock:
            past = self._learn_past(study, len(finished), known)
        return None if past is None else past.restricted(known, {}, finished).trust(finished)

    # ------------------------------------------------------------------ proposals

    def _proposal(self, study: Study, trial: FrozenTrial) -> dict[str, Any]:
        """Values of all parameters that are known, made once per trial."""
        with self._lock:
            if trial._trial_id not in self._proposals:
                try:
                    proposal = self._settle(study, trial)
                except Exception as error:  # a study must not die of its sampler
                    self._say(
                        f"no proposal could be made ({type(error).__name__}: {error}); "
                        "sampling at random instead",
                        logging.WARNING,
                    )
                    proposal = {}
                self._proposals[trial._trial_id] = proposal
            return self._proposals[trial._trial_id]

    def _settle(self, study: Study, trial: FrozenTrial) -> dict[str, Any]:
        """A proposal that no other worker evaluates.

        A worker writes its proposal, then looks whether another one has the same; it gives way to
        one that is settled or has a lower number. It settles and looks again, as another may have
        looked before that was visible. Whoever writes second sees the first, so of two equal
        proposals at least one is withdrawn.
        """
        withdrawn: list[dict[str, Any]] = []
        proposal: dict[str, Any] = {}
        for attempt in range(2 * _TRIES):
            proposal, new = self._propose(study, trial, withdrawn, attempt)
            if not proposal or not new:
                return proposal
            self._write(study, trial, _PROPOSAL, proposal)
            if self._taken(study, trial, proposal, settled=True):
                withdrawn.append(proposal)
                continue
            self._write(study, trial, _SETTLED, proposal)
            if not self._taken(study, trial, proposal, settled=False):
                return proposal
            withdrawn.append(proposal)
        return proposal

    def _taken(
        self, study: Study, trial: FrozenTrial, proposal: dict[str, Any], *, settled: bool
    ) -> bool:
        mine = _text(proposal)
        for other in study.get_trials(deepcopy=False):
            if other.number == trial.number:
                continue
            if other.state.is_finished():  # by now; maybe it was not when this one was proposed
                if other.state != TrialState.FAIL and _same(other.params, proposal):
                    return True
            elif other.system_attrs.get(_PROPOSAL) == mine and (
                other.number < trial.number
                or (settled and other.system_attrs.get(_SETTLED) == mine)
            ):
                return True
        return False

    def _write(self, study: Study, trial: FrozenTrial, key: str, proposal: dict[str, Any]) -> None:
        study._storage.set_trial_system_attr(trial._trial_id, key, _text(proposal))

    def _propose(
        self, study: Study, trial: FrozenTrial, withdrawn: Sequence[dict[str, Any]], attempt: int
    ) -> tuple[dict[str, Any], bool]:
        """A proposal, and whether it is a new one: a finite space may be used up.

        Where all that a model proposes was taken, it is drawn at random in the end.
        """
        trials = study.get_trials(deepcopy=False)
        finished = past_study(study, trials)
        pending = [*running_params(trials, trial.number, _PROPOSAL), *withdrawn]
        known = {**self._search_space, **finished.distributions}
        given = given_params(trial)
        proposal, new = dict(given), True
        rng = np.random.default_rng([self._seed, trial.number, attempt])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for part in self._parts(study, trial, finished, known, proposal):
                try:
                    if attempt < _TRIES:
                        values = part.propose(finished, pending, rng, self._seed)
                    else:
                        values = part.random(rng)
                except SpaceExhausted:
                    values, new = part.random(rng), False
                proposal.update({**values, **proposal})
        for warning in caught:
            self._say(str(warning.message), logging.WARNING)
        return proposal, new

    def _parts(
        self,
        study: Study,
        trial: FrozenTrial,
        finished: PastStudy,
        known: Mapping[str, BaseDistribution],
        proposal: Mapping[str, Any],
    ) -> Iterator[Part]:
        """The model of what past studies have, then that of this study alone for the rest.

        Each is restricted to what is in the proposal by the time that it is asked for.
        """
        past = self._learn_past(study, trial.number, known)
        if past is not None:
            yield past.restricted(known, proposal, finished)
        new = sorted(name for name in known if past is None or name not in past.names)
        if new:
            if past is not None and self._warn:
                names = ", ".join(new)
                self._say(
                    f"no past study has {names}: proposed from this study alone", logging.INFO
                )
            yield Part.alone(finished, known, self._alone).restricted(known, proposal)

    def _learn_past(
        self, study: Study, number: int, known: Mapping[str, BaseDistribution]
    ) -> Part | None:
        """The model of past studies; None if there are none, or they cannot be read now.

        Args:
            study: that is being run.
            number: of the trial that it is for.
            known: distributions of the study.
        """
        if self._archive is None:
            return None
        if self._past is None or not self._past.covers(known):
            if number < self._again:
                return None
            if self._past is not None:
                self._say(
                    "this study has ranges or choices that no past one has: learning again for "
                    "the wider space (search_space= says them from the start)",
                    logging.INFO,
                )
            try:
                self._past = Part.past(
                    self._archive, self._like, study, known, self._method, self._options
                )
            except Exception as error:  # a study must not die of its past
                self._past, self._again = None, number + _PAUSE
                self._say(
                    f"past studies cannot be used ({type(error).__name__}: {error}); proposing "
                    "from this study alone",
                    logging.WARNING,
                )
                return None
        return self._past if self._past.names else None

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


def _same(params: Mapping[str, Any], proposal: Mapping[str, Any]) -> bool:
    """Whether what was evaluated is what is proposed, of which all may not be asked for."""
    return bool(params) and all(proposal.get(k, MISSING) == v for k, v in params.items())


def _text(proposal: Mapping[str, Any]) -> str:
    return json.dumps(proposal, sort_keys=True)


def _check_single(study: Study) -> None:
    if len(study.directions) > 1:
        raise ValueError(
            "RankwiseSampler optimizes one objective; this study has "
            f"{len(study.directions)}: use NSGAIISampler or TPESampler"
        )
