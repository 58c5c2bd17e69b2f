"""Early stopping in `minimize`: what a pruner needs."""

from __future__ import annotations

from typing import Any

from optuna.pruners import BasePruner, NopPruner

from rankwise.errors import OptionError
from rankwise.run.several import Directions
from rankwise.run.workers import Evaluator
from rankwise.storage.study_log import StudyLog


def check_pruner(pruner: Any, evaluator: Evaluator, directions: Directions) -> None:
    """Raise `OptionError` if a run cannot use a pruner.

    Args:
        pruner: the argument of `minimize`; None for none.
        evaluator: evaluates the trials.
        directions: directions of the run.
    """
    if pruner is None:
        return
    if not isinstance(pruner, BasePruner):
        raise OptionError(f"pruner= is an Optuna pruner, not a {type(pruner).__name__}")
    if directions.several:
        raise OptionError("pruner= needs a study with one objective")
    if not evaluator.reports:
        raise OptionError(
            "pruner= needs an objective with a parameter `report`, which it calls as "
            "report(value, step)"
        )
    if not evaluator.in_process:
        raise OptionError(
            "pruner= needs n_jobs=1 and no timeout, because worker processes do not see the "
            "study; for parallel trials with a pruner use study.optimize with RankwiseSampler"
        )


def watch_with(pruner: BasePruner | None, evaluator: Evaluator, log: StudyLog) -> None:
    """Let an evaluator write reported values to the study at once, and ask the pruner."""
    if evaluator.reports and evaluator.in_process:
        log.study.pruner = pruner or NopPruner()
        evaluator.watch = log.step
