"""Several objectives without past studies: on which scale losses are modelled."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from rankwise import methods
from rankwise.history.task import Task
from rankwise.space.encoder import Encoder
from rankwise.space.shorthand import make_space
from rankwise.strategies.joint import joint, softened


@pytest.mark.parametrize(("objectives", "transformed"), [(1, True), (2, True), (3, False)])
def test_losses_of_three_objectives_are_not_transformed(objectives, transformed):
    encoder = Encoder(make_space({"x": (0.0, 1.0)}))
    strategy = joint([methods.make("mbo", encoder)] * objectives, methods.make("mbo", encoder))
    for part in strategy.objectives:
        assert (part.make_surrogate(0).warps != (math.inf,)) == transformed
    assert strategy.plain.make_surrogate(0).warps == (math.inf,)  # of constraints


@pytest.mark.parametrize("n", [20, 21, 22])
def test_violations_far_above_values_that_are_close_together_are_seen(n):
    """Most trials are alike and feasible; clipped outliers would be feasible, too."""
    encoder = Encoder(make_space({"x": (0.0, 1.0)}))
    strategy = joint([methods.make("mbo", encoder)], methods.make("mbo", encoder))
    x = np.append(np.linspace(0.1, 0.12, n - 3), [0.5, 0.8, 1.0])
    history = replace(
        Task.of(x[:, None], 1 - x), constraints={"limit": np.append(x[:-3] - 1.3, [0.2, 0.5, 0.6])}
    )
    [(surrogate, limit)] = strategy._limits(history, np.empty((0, 1)), 0)
    mean = surrogate.predict(history.X).mean
    assert limit == 0.0
    assert (mean[:-3] < -0.1).all() and (mean[-3:] > 0.05).all()


def test_constraint_values_keep_their_sign_on_a_scale_of_their_own():
    found = softened(np.array([-1e9, -2.0, 0.0, 1.0, 2.0, np.nan]))
    assert np.sign(found[:5]).tolist() == [-1, -1, 0, 1, 1] and np.isnan(found[5])
    assert (np.diff(found[:5]) > 0).all() and found[0] > -30
    assert softened(np.zeros(3)).tolist() == [0, 0, 0]
