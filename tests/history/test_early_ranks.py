"""Learning curves at fractions of their length, and rules that stop trials by their ranks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rankwise.history.early_ranks import FullCurves, at_step, fractions_of, random_walks
from rankwise.history.stopping_rule import StoppingRule, never_rising

FRACTIONS = np.array([0.1, 0.3, 0.6])


def parallel(n=40):
    """Curves that never cross: the early rank is the final one."""
    final = np.linspace(0, 1, n)
    return np.repeat(final[:, None], len(FRACTIONS), axis=1), final


def unrelated(n=40, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((n, len(FRACTIONS))), rng.random(n)


def rule(studies, **options):
    return StoppingRule(FRACTIONS, studies, **options)


def test_curves_that_never_cross_decide_at_once():
    found = rule([parallel()] * 8)
    assert not found.stops(0.1, 0, 10) and found.stops(0.1, 3, 10)


def test_ranks_without_a_relation_to_the_end_stop_nothing():
    found = rule([unrelated(200, seed) for seed in range(8)], prior=0.0)
    assert not any(found.stops(f, better, 20) for f in FRACTIONS for better in range(21))


def test_nothing_is_stopped_before_the_first_fraction_or_without_other_trials():
    found = rule([parallel()])
    assert not found.stops(0.05, 5, 10) and not found.stops(0.5, 0, 0)


def test_nothing_is_stopped_where_no_study_has_a_value():
    early, final = parallel()
    early[:, 0] = math.nan
    found = rule([(early, final)])
    assert not found.stops(0.1, 10, 10) and found.stops(0.3, 10, 10)


def test_a_lower_threshold_and_a_larger_share_stop_fewer():
    rng = np.random.default_rng(0)
    final = rng.random(60)
    early = final[:, None] + rng.normal(size=(60, 3)) * [0.5, 0.3, 0.1]

    def stopped(**options):
        found = rule([(early, final)] * 3, **options)
        return sum(found.stops(f, better, 39) for f in FRACTIONS for better in range(40))

    assert stopped(threshold=0.0) == 0
    assert stopped(threshold=0.2) < stopped(threshold=1.0)
    assert stopped(best=0.3) < stopped(best=0.05)


def test_the_rule_finds_the_most_of_the_best_per_step():
    """On fresh curves from the same source it is as good as the best constant rank."""
    rng = np.random.default_rng(1)

    def study():
        final = rng.normal(size=40)
        return final[:, None] + rng.normal(size=(40, 3)) * [1.0, 0.5, 0.2], final

    found = rule([study() for _ in range(40)], threshold=1.0, prior=0.0)
    fresh = [study() for _ in range(200)]

    def rate(largest):
        """The best per share of the training, if ranks up to `largest` (3,) go on."""
        wins = spent = 0.0
        for early, final in fresh:
            stop = early[:22].argsort(axis=0).argsort(axis=0) > np.array(largest)
            end = np.where(stop.any(axis=1), stop.argmax(axis=1), 3)
            wins += (end[final[:22].argmin()] == 3).sum()
            spent += np.append(FRACTIONS, 1.0)[end].sum()
        return wins / spent

    mine = rate([max(r for r in range(22) if not found.stops(f, r, 21)) for f in FRACTIONS])
    assert mine > 2 * rate([21] * 3)
    assert mine > 0.95 * max(rate([largest] * 3) for largest in range(22))


def test_studies_of_few_trials_are_used_for_large_sets():
    early, final = parallel(5)
    found = rule([(early, final)] * 4)
    assert found.stops(0.3, 100, 100) and not found.stops(0.3, 0, 100)


def test_full_curves_have_gaps_filled_and_other_steps_scaled():
    epochs = {1: 5.0, 3: 3.0, 10: 1.0}
    batches = {100 * step: value for step, value in epochs.items()}
    fractions = np.array([0.05, 0.5, 0.95])
    found = FullCurves.of([epochs, {1: 2.0}], [1.0, 2.0])
    assert len(found) == 1 and found.losses.tolist() == [1.0]
    [row] = found.at(fractions)
    assert math.isnan(row[0]) and row[1:].tolist() == [3.0, 3.0]
    np.testing.assert_array_equal(FullCurves.of([batches], [1.0]).at(fractions)[0], row)


def test_values_that_are_no_numbers_are_the_worst_whatever_the_direction():
    curve = {step: math.nan if step < 5 else 1.0 for step in range(1, 11)}
    for sign in (1.0, -1.0):
        [row] = FullCurves.of([curve], [1.0], sign).at(np.array([0.2, 0.9]))
        assert row.tolist() == [math.inf, sign]


def test_a_trial_that_diverged_has_a_full_curve_and_one_that_was_stopped_has_not():
    full = dict.fromkeys(range(1, 11), 1.0)
    found = FullCurves.of([full, {1: 2.0, 2: math.nan}, {1: 2.0}], [1.0, math.nan, math.nan])
    assert found.losses.tolist() == [1.0, math.inf]
    assert found.at(np.array([0.1, 0.5])).tolist() == [[1.0, 1.0], [2.0, math.inf]]


def test_a_value_at_a_step_is_the_last_one_before():
    assert at_step({2: 0.5, 4: 0.7}, 3) == 0.5 and at_step({2: 0.5}, 1) is None


@pytest.mark.parametrize("longest", [1, 3, 51, 100_000])
def test_fractions_are_those_of_steps_and_not_many(longest):
    found = fractions_of(longest)
    steps = found * longest
    np.testing.assert_allclose(steps, steps.round(), atol=1e-6)
    assert found[0] == 0 and found[-1] < 1 and (np.diff(found) > 0).all() and len(found) < 40


def test_random_walks_foretell_more_the_later_they_are():
    early, final = random_walks(FRACTIONS)
    found = [np.corrcoef(early[:, k], final)[0, 1] for k in range(3)]
    np.testing.assert_allclose(found, FRACTIONS**0.25, atol=0.1)


def test_the_nearest_sequence_without_a_rise():
    values, equal = np.array([3.0, 1.0, 2.0, 0.0]), np.ones(4)
    assert never_rising(values, equal).tolist() == pytest.approx([3.0, 1.5, 1.5, 0.0])
    weights = np.array([1.0, 3.0, 1.0, 1.0])
    assert never_rising(values, weights).tolist() == pytest.approx([3.0, 1.25, 1.25, 0.0])
