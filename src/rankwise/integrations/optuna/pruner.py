"""RankwisePruner: an Optuna pruner that learns from past studies which trials to stop."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

from optuna.pruners import BasePruner
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from typing_extensions import override

from rankwise.archive.curves import curves_of
from rankwise.errors import OptionError, check_count, is_number
from rankwise.history.early_ranks import FEWEST, FullCurves, at_step, fractions_of, loss
from rankwise.history.stopping_rule import StoppingRule
from rankwise.types import sign_of

_logger = logging.getLogger(__name__)
_EVERY = 5  # full curves after which a study without a past learns from itself again
_PRIOR = 0.5  # weight of the simulated curves where there are past studies
_OWN = 40  # full curves of a study that count as much as all simulated ones


class RankwisePruner(BasePruner):
    """Stops a trial when it will probably not end among the best trials of its study.

    From past studies with intermediate values it learns how the rank of a trial at a step
    foretells its final rank. Steps are compared as fractions of the longest curve of their study.
    A trial is stopped when its further steps are better spent on a new trial: when the chance that
    it ends among the best, per step that it still needs, is below `threshold` times that of a new
    trial. Stopped trials count as worse than those that went on. A trial that is the best so far
    at its step is never stopped.

    Without past studies it begins with the assumption that curves are random walks, and learns
    from the full curves of this study.

    It works with every sampler. Pickle the study or give it to several processes as with Optuna's
    own pruners.

    Args:
        archive: past studies with intermediate values, as for `RankwiseSampler`; None for none.
        like: pattern of the names of the past studies.
        threshold: stop a trial when its chance per step is below this share of that of a new
            trial, from 0 (stop nothing) to 1 (stop most, and lose more of the best trials).
        best: share of the trials that count as the best, from 0 to 1; at least one trial.
        longest: last step of a full trial. By default the longest finished trial of the study
            says it, and nothing is stopped before one has finished.

    Raises:
        OptionError: an option has an invalid value.

    Attributes:
        past_: number of full curves of each past study that is used, by name; None before the
            first step.
        left_out_: the reason, by name, why a past study is not used.

    Example:
        >>> import optuna
        >>> study = optuna.create_study(pruner=RankwisePruner())
        >>> def objective(trial):
        ...     x = trial.suggest_float("x", 0, 1)
        ...     for step in range(1, 11):
        ...         trial.report(x + 1 / step, step)
        ...         if trial.should_prune():
        ...             raise optuna.TrialPruned
        ...     return x
        >>> study.optimize(objective, n_trials=10)
    """

    def __init__(
        self,
        archive: Any = None,
        *,
        like: str | Sequence[str] = "*",
        threshold: float = 0.7,
        best: float = 0.05,
        longest: int | None = None,
    ) -> None:
        for name, value in (("threshold", threshold), ("best", best)):
            if not (is_number(value) and 0 <= value <= 1):
                raise OptionError(f"{name} is a number from 0 to 1, not {value!r}")
        if longest is not None:
            check_count("longest", longest)
        self._archive, self._like = archive, like
        self._threshold, self._best, self._longest = threshold, best, longest
        self._learnt: list[FullCurves] = []
        self._made: tuple[tuple[int, int], StoppingRule] | None = None  # longest, full curves
        self._last: dict[tuple[str, int], int] = {}  # last step by study and number
        self.past_: dict[str, int] | None = None
        self.left_out_: dict[str, str] = {}

    @override
    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """True if the trial should be stopped at its last reported step."""
        step = trial.last_step
        if step is None:
            return False
        others = [t for t in study.get_trials(deepcopy=False) if t.number != trial.number]
        last = [self._last_step(study, t) for t in others]
        ended = [n for n, t in zip(last, others, strict=True) if t.state == TrialState.COMPLETE]
        longest = self._longest or max(ended, default=0)
        if step >= longest:
            return False
        sign = sign_of(study.direction.name.lower())
        mine = loss(trial.intermediate_values[step], sign)
        known = [_standing(t, step, n, sign) for n, t in zip(last, others, strict=True)]
        compared = [value for value in known if value is not None]
        if mine == math.inf:  # it is behind all others, also behind those that were stopped
            better: float = len(compared)
        elif any(value < mine for value in compared):
            better = sum((value < mine) + 0.5 * (value == mine) for value in compared)
        else:
            return False
        return self._rule(study, others, longest, sign).stops(
            step / longest, better, len(compared)
        )

    def _last_step(self, study: Study, trial: FrozenTrial) -> int:
        """The last step of a trial, computed once if it has finished; -1 if it has none."""
        key = study.study_name, trial.number
        if key in self._last:
            return self._last[key]
        last = max(trial.intermediate_values, default=-1)
        if trial.state.is_finished():
            self._last[key] = last
        return last

    def _rule(
        self, study: Study, others: Sequence[FrozenTrial], longest: int, sign: float
    ) -> StoppingRule:
        """The rule of the past studies; without them, that of simulated and of own curves."""
        if self.past_ is None:
            self._learn(study.study_name)
        full = sum(t.state == TrialState.COMPLETE for t in others)
        key = longest, 0 if self._learnt else full - full % _EVERY
        if self._made is None or self._made[0] != key:
            known, prior, fractions = self._learnt, _PRIOR, fractions_of(longest)
            if key[1]:
                curves = [t.intermediate_values for t in others]
                own = FullCurves.of(curves, [_final(t) for t in others], sign)
                known, prior = [own] * (len(own) >= FEWEST), _OWN / max(len(own), 1)
            rule = StoppingRule(
                fractions,
                [(one.at(fractions), one.losses) for one in known],
                best=self._best,
                threshold=self._threshold,
                prior=prior,
            )
            self._made = key, rule
        return self._made[1]

    def _learn(self, name: str) -> None:
        """Read the past studies; those without full curves are left out with a reason."""
        self.past_ = {}
        if self._archive is None:
            return
        from rankwise.archive import open_archive

        try:
            archive = open_archive(self._archive, like=self._like, exclude=[name])
        except Exception as error:  # an unreadable archive must not end a study
            _logger.warning(
                "past studies cannot be used (%s: %s); trials are stopped by what this study "
                "shows",
                type(error).__name__,
                error,
            )
            return
        self.left_out_ = dict(archive.unread)
        for past in archive.given:  # curves can be compared whatever the parameters are
            curves, reason = curves_of(past)
            if reason:
                self.left_out_[past.name] = reason
            else:
                self.past_[past.name] = len(curves)
                self._learnt.append(curves)
        if not self._learnt:
            _logger.warning(
                "no past study has %d full learning curves; trials are stopped by what this "
                "study shows",
                FEWEST,
            )


def _final(trial: FrozenTrial) -> float:
    """The final value of a trial; NaN if it has none."""
    ended = trial.state == TrialState.COMPLETE and trial.value is not None
    return float(trial.value or 0.0) if ended else math.nan


def _standing(trial: FrozenTrial, step: int, last: int, sign: float) -> float | None:
    """The loss of another trial at a step; infinite if it was stopped before; None if unknown.

    Args:
        trial: the trial.
        step: the step.
        last: its last step; -1 if it has none.
        sign: 1 if smaller values are better, else -1.
    """
    if last < 0 or (last < step and not trial.state.is_finished()):
        return None
    if last < step and trial.state != TrialState.COMPLETE:
        return math.inf
    value = at_step(trial.intermediate_values, step)
    return None if value is None else loss(value, sign)
