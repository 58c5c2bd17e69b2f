"""Studies that the sampler refuses before the objective is called."""

from __future__ import annotations

import optuna
import pytest
from optuna.trial import TrialState

from rankwise import RankwiseSampler
from rankwise.errors import OptionError


def test_too_many_objectives_are_refused_before_the_first_evaluation():
    called = []
    study = optuna.create_study(directions=["minimize"] * 5, sampler=RankwiseSampler(seed=0))
    with pytest.raises(ValueError, match="at most 4 objectives; this study has 5"):
        study.optimize(lambda trial: called.append(trial) or (0.0,) * 5, n_trials=3)
    assert not called
    assert [trial.state for trial in study.trials] == [TrialState.FAIL]  # none stays running


def test_constraints_that_are_no_function_are_refused_when_the_sampler_is_made():
    with pytest.raises(OptionError, match="is a function of a trial, not 1"):
        RankwiseSampler(constraints_func=1)
