"""Output of the option `verbose`: a line at the start and a line per trial."""

from __future__ import annotations

import math

from rankwise.history.task import OK
from rankwise.history.trial import Trial
from rankwise.run.result import Result

PER_TRIAL = 2
"""The level of `verbose` from which each trial gets a line."""


def fit_verbosity(verbose: int) -> int:
    """The level that scikit-learn's fits get: from 3 on they print a line each."""
    return verbose - 1 if verbose > PER_TRIAL else 0


def announce(verbose: int, n_splits: int, n_trials: int) -> None:
    """Print how much will be fitted, in scikit-learn's words."""
    if verbose > 0:
        fits = n_splits * n_trials
        print(f"Fitting {n_splits} folds for each of {n_trials} candidates, totalling {fits} fits")


class TrialLines:
    """A callback that prints a line per trial with the best score so far.

    Args:
        n_trials: number of trials of the search.
    """

    def __init__(self, n_trials: int) -> None:
        self.n_trials = n_trials

    def __call__(self, trial: Trial, result: Result) -> None:
        """Print the line of a trial."""
        best = result.best_trial
        known = "none yet" if best is None else f"{best.value:.5g} (trial {best.number})"
        what = f"score {trial.value:.5g}" if trial.status == OK else trial.status
        seconds = f" in {trial.cost:.2f} s" if math.isfinite(trial.cost) else ""
        print(f"trial {trial.number} of {self.n_trials}: {what}{seconds}; best so far {known}")
