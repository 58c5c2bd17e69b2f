"""What an early rank foretells, on curves whose answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rankwise.history.early_ranks import (
    FRACTIONS,
    EarlyRanks,
    at_step,
    full_curves,
    never_rising,
    without_past,
)


def parallel(n=40):
    """Curves that never cross: the early rank is the final one."""
    final = np.linspace(0, 1, n)
    return np.repeat(final[:, None], len(FRACTIONS), axis=1), final


def unrelated(n=600):
    rng = np.random.default_rng(0)
    return rng.random((n, len(FRACTIONS))), rng.random(n)


def test_curves_that_never_cross_decide_at_once():
    ranks = EarlyRanks([parallel()])
    assert ranks.probability(0.1, 0, 10) == 1.0
    assert ranks.probability(0.1, 3, 10) == 0.0


def test_early_values_without_a_relation_leave_the_base_rate():
    ranks = EarlyRanks([unrelated()])
    for better in (0, 5, 10):
        assert ranks.probability(0.5, better, 10) == pytest.approx(1 / 11, abs=0.05)


def test_nothing_is_known_before_the_first_fraction_or_without_other_trials():
    ranks = EarlyRanks([parallel()])
    assert ranks.probability(0.001, 5, 10) == ranks.probability(0.5, 0, 0) == 1.0
    assert EarlyRanks([]).probability(0.5, 9, 10) == 1.0


def test_the_probability_falls_with_the_rank_and_sums_to_the_number_of_the_best():
    ranks = EarlyRanks([unrelated(30), parallel(30)], best=0.25)
    found = [ranks.probability(0.3, better, 13) for better in range(14)]
    assert (np.diff(found) <= 1e-12).all()
    assert sum(found) == pytest.approx(4, abs=0.3)


def test_full_curves_have_gaps_filled_and_other_steps_scaled():
    epochs = {1: 5.0, 3: 3.0, 10: 1.0}
    batches = {100 * step: value for step, value in epochs.items()}
    found, final = full_curves([epochs, {1: 2.0}], [1.0, 2.0])
    scaled, _ = full_curves([batches], [1.0])
    assert final.tolist() == [1.0] and found.shape == (1, len(FRACTIONS))
    np.testing.assert_array_equal(found, scaled)
    middle = list(np.isclose(FRACTIONS, 0.5)).index(True)
    assert found[0, middle] == 3.0 and math.isnan(found[0, 0])


def test_values_that_are_no_numbers_are_the_worst_whatever_the_direction():
    curve = {step: math.nan if step < 5 else 1.0 for step in range(1, 11)}
    for sign in (1.0, -1.0):
        [row], _ = full_curves([curve], [1.0], sign)
        assert row[5] == math.inf and row[-1] == sign


def test_a_value_at_a_step_is_the_last_one_before():
    assert at_step({2: 0.5, 4: 0.7}, 3) == 0.5 and at_step({2: 0.5}, 1) is None


def test_the_nearest_sequence_without_a_rise():
    assert never_rising(np.array([3.0, 1.0, 2.0, 0.0])).tolist() == [3.0, 1.5, 1.5, 0.0]


def test_without_a_past_random_walks_give_way_to_the_study_itself():
    nothing = (np.empty((0, len(FRACTIONS))), np.empty(0))
    start, later = without_past(nothing, 0.1), without_past(parallel(), 0.1)
    assert 0.05 < start.probability(0.3, 3, 10) < 0.2
    assert later.probability(0.3, 3, 10) < 0.1 * start.probability(0.3, 3, 10) + 1e-9
