"""Account: records which past studies were used, what each trial is based on, and fall-backs."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from rankwise.archive.used_past import UsedPast
from rankwise.errors import ArchiveError, FallbackError
from rankwise.storage.optuna_private import id_of_study, id_of_trial, storage_of
from rankwise.storage.study_facts import PREFIX
from rankwise.surrogates.transfer_trust import Evidence

PAST, EVIDENCE = PREFIX + "past", PREFIX + "evidence"
"""Study attributes: the past studies, and the evidence for the transfer trust."""

_logger = logging.getLogger("rankwise.integrations.optuna.sampler")
_visible = logging.getLogger("optuna.rankwise")  # shown at Optuna's default level


class Account:
    """What a sampler says about its studies: on the log, in attributes, or as an error.

    Args:
        strict: True to raise an error instead of a fall-back.

    Attributes:
        fallbacks: number of fall-backs by kind.
    """

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.fallbacks: dict[str, int] = {}
        self._told: dict[str, str] = {}
        self._new: set[tuple[str, str]] = set()

    def fall_back(self, kind: str, reason: str, error: BaseException | None = None) -> None:
        """Count a fall-back, and log it at number 1, 10, 100 and so on.

        Args:
            kind: what is done instead, such as "sampled at random".
            reason: what went wrong.
            error: the error that caused it.

        Raises:
            FallbackError: fall-backs are errors (`strict`).
        """
        if self.strict:
            raise FallbackError(f"{reason}; strict=False would go on: {kind}") from error
        count = self.fallbacks[kind] = self.fallbacks.get(kind, 0) + 1
        if _is_power_of_ten(count):
            times = "" if count == 1 else f" ({count} times so far)"
            _logger.warning("%s; %s%s", reason, kind, times)

    def used(self, study: Study, past: UsedPast) -> None:
        """Log once per study which past studies are used, and store it with the study.

        Raises:
            ArchiveError: no past study is used, and that is an error (`strict`).
        """
        if self.strict and not past.studies:
            why = "".join(f"; {name!r}: {reason}" for name, reason in past.left_out.items())
            reason = past.unused or "no past study was found" + " that can be used" * bool(why)
            raise ArchiveError(f"{reason}{why}; strict=False would use this study alone")
        line = str(past)
        if self._told.get(study.study_name) == line:
            return
        self._told[study.study_name] = line
        lists = " sampler.past(study) lists them." if past.studies or past.left_out else ""
        _visible.info("%s%s", line, lists)
        facts = past.to_dict()
        storage = storage_of(study)
        with suppress(Exception):  # a storage that cannot be written must not end a study
            if storage.get_study_user_attrs(id_of_study(study)).get(PAST) != facts:
                storage.set_study_user_attr(id_of_study(study), PAST, facts)

    def new_parameters(self, study: Study, names: Sequence[str]) -> None:
        """Log once per study and parameter that no past study has it."""
        new = [name for name in names if (study.study_name, name) not in self._new]
        if new:
            self._new.update((study.study_name, name) for name in new)
            kind = "parameter" if len(new) == 1 else "parameters"
            listed = ", ".join(map(repr, new))
            _visible.info("no past study has %s %s: learnt from this study alone", kind, listed)

    def describe(self, study: Study, trial: FrozenTrial, facts: Mapping[str, Any]) -> None:
        """Store facts about a trial."""
        with suppress(Exception):
            for key, value in facts.items():
                storage_of(study).set_trial_user_attr(id_of_trial(trial), PREFIX + key, value)

    def evidence(self, study: Study, evidence: Evidence | None) -> None:
        """Store the evidence for the transfer trust with the study."""
        if evidence is not None:
            with suppress(Exception):
                facts = evidence.to_dict()
                storage_of(study).set_study_user_attr(id_of_study(study), EVIDENCE, facts)


def stored_past(study: Study) -> UsedPast | None:
    """The past studies that were stored with a study; None if there are none."""
    return UsedPast.from_dict(storage_of(study).get_study_user_attrs(id_of_study(study)).get(PAST))


def with_result(
    study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
) -> list[FrozenTrial]:
    """The trials of a study, with the result of one that Optuna has not stored yet."""
    ended = copy.copy(trial)
    ended.state, ended.values = state, None if values is None else list(values)
    return [ended if t.number == trial.number else t for t in study.get_trials(deepcopy=False)]


def _is_power_of_ten(n: int) -> bool:
    return n in (1, 10, 100) or (n % 1000 == 0)
