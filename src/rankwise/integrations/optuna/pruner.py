"""RankwisePruner: an Optuna pruner that learns from past studies which trials to stop."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from optuna.pruners import BasePruner
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from typing_extensions import override

from rankwise.archive.curves import curves_of
from rankwise.errors import OptionError, check_count, is_number
from rankwise.history.early_ranks import (
    FEWEST,
    EarlyRanks,
    at_step,
    full_curves,
    loss,
    with_past,
    without_past,
)
from rankwise.types import sign_of

_logger = logging.getLogger(__name__)
_EVERY = 5  # full curves after which a study without a past learns from itself again


class RankwisePruner(BasePruner):
    """Stops a trial when it will probably not end among the best trials of its study.

    From past studies with intermediate values it learns how the rank of a trial at a step
    foretells its final rank. Steps are compared as fractions of the longest curve of their study.
    A trial is stopped when the probability that it ends among the best `best` of the trials is
    below `threshold`. Stopped trials count as worse than those that went on.

    Without past studies it begins with the assumption that curves are random walks, and learns
    from the full curves of this study.

    It works with every sampler. Pickle the study or give it to several processes as with Optuna's
    own pruners.

    Args:
        archive: past studies with intermediate values, as for `RankwiseSampler`; None for none.
        like: pattern of the names of the past studies.
        threshold: stop a trial when the probability is below this, from 0 (never) to 1.
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
        threshold: float = 0.05,
        best: float = 0.1,
        longest: int | None = None,
    ) -> None:
        for name, value in (("threshold", threshold), ("best", best)):
            if not (is_number(value) and 0 <= value <= 1):
                raise OptionError(f"{name} is a number from 0 to 1, not {value!r}")
        if longest is not None:
            check_count("longest", longest)
        self._archive, self._like = archive, like
        self._threshold, self._best, self._longest = threshold, best, longest
        self._learnt: EarlyRanks | None = None
        self._own: tuple[int, EarlyRanks] | None = None  # number of full curves, and the model
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
        last = {t.number: self._last_step(study, t) for t in others}
        ended = [t for t in others if t.state == TrialState.COMPLETE and last[t.number]]
        longest = self._longest or max((last[t.number] for t in ended), default=0)
        if step >= longest:
            return False
        sign = sign_of(study.direction.name.lower())
        mine = loss(trial.intermediate_values[step], sign)
        known = [_standing(t, step, last[t.number], sign) for t in others]
        compared = [value for value in known if value is not None]
        better = sum((v < mine) + 0.5 * (v == mine) for v in compared)
        model = self._model(study, ended, sign)
        return model.probability(step / longest, better, len(compared)) < self._threshold

    def _last_step(self, study: Study, trial: FrozenTrial) -> int:
        """The last step of a finished trial, computed once; 0 if it has none or goes on."""
        if not trial.state.is_finished():
            return 0
        key = study.study_name, trial.number
        if key not in self._last:
            self._last[key] = max(trial.intermediate_values, default=0)
        return self._last[key]

    def _model(self, study: Study, ended: Sequence[FrozenTrial], sign: float) -> EarlyRanks:
        if self.past_ is None:
            self._learn(study.study_name)
        if self._learnt is not None:
            return self._learnt
        count = len(ended) - len(ended) % _EVERY
        if self._own is None or self._own[0] != count:
            values = [t.value if t.value is not None else float("nan") for t in ended]
            curves = full_curves([t.intermediate_values for t in ended], values, sign)
            self._own = count, without_past(curves, self._best)
        return self._own[1]

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
        found = []
        for past in archive.given:  # curves can be compared whatever the parameters are
            curves, reason = curves_of(past)
            if reason:
                self.left_out_[past.name] = reason
            else:
                self.past_[past.name] = len(curves[1])
                found.append(curves)
        if found:
            self._learnt = with_past(found, self._best)
        else:
            _logger.warning(
                "no past study has %d full learning curves; trials are stopped by what this "
                "study shows",
                FEWEST,
            )


def _standing(trial: FrozenTrial, step: int, last: int, sign: float) -> float | None:
    """The loss of another trial at a step; infinite if it was stopped before; None if unknown.

    Args:
        trial: the trial.
        step: the step.
        last: last step of the trial; 0 if it has none or goes on.
        sign: 1 if smaller values are better, else -1.
    """
    if not last:
        return None
    if trial.state != TrialState.COMPLETE and last < step:
        return float("inf")
    value = at_step(trial.intermediate_values, step)
    return None if value is None else loss(value, sign)
