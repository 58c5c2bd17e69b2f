"""Acquisitions, each against Monte Carlo integration over the posterior it is given."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from rankwise import Optimizer
from rankwise import acquisition as acq
from rankwise._core.numerics import log_h
from rankwise.errors import OptionError, UnknownNameError
from rankwise.surrogates.base import Posterior

MEAN = np.array([-1.0, 0.0, 0.5, 1.0])
STD = np.array([0.5, 1.0, 2.0, 0.7])
INCUMBENT = 0.3
DRAWS = 400_000


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def draws(rng):
    """Independent samples (DRAWS, n) of the posterior."""
    return MEAN + STD * rng.normal(size=(DRAWS, len(MEAN)))


def utility(acquisition, rng, log_seconds=None):
    return acquisition(Posterior(MEAN, STD), INCUMBENT, rng, log_seconds)


def test_expected_improvement_is_the_mean_of_improvements(draws, rng):
    sampled = np.maximum(INCUMBENT - draws, 0).mean(axis=0)
    assert np.exp(utility(acq.ExpectedImprovement(), rng)) == pytest.approx(sampled, rel=0.02)


@pytest.mark.parametrize("xi", [0.0, 0.4])
def test_probability_of_improvement_is_a_frequency(draws, rng, xi):
    sampled = (draws <= INCUMBENT - xi).mean(axis=0)
    computed = np.exp(utility(acq.ProbabilityOfImprovement(xi), rng))
    assert computed == pytest.approx(sampled, abs=0.003)


def test_ei_per_second_is_the_mean_of_improvement_over_seconds(draws, rng):
    mean, std = np.array([0.0, 1.0, -1.0, 2.0]), np.array([0.3, 0.1, 0.5, 0.2])
    seconds = np.exp(mean + std * rng.normal(size=draws.shape))
    sampled = (np.maximum(INCUMBENT - draws, 0) / seconds).mean(axis=0)
    computed = utility(acq.ExpectedImprovementPerSecond(), rng, mean - 0.5 * std**2)
    assert np.exp(computed) == pytest.approx(sampled, rel=0.03)


def test_lower_confidence_bound_is_a_quantile(draws, rng):
    bound = -utility(acq.LowerConfidenceBound(1.0), rng)
    below = (draws < bound).mean(axis=0)
    assert below == pytest.approx(0.158655, abs=0.003)  # Phi(-1)


def test_mean_is_the_sample_mean(draws, rng):
    assert -utility(acq.Mean(), rng) == pytest.approx(draws.mean(axis=0), abs=0.02)


def test_thompson_picks_each_point_as_often_as_it_is_the_best(draws, rng):
    best = np.bincount(np.argmin(draws, axis=1), minlength=4) / DRAWS
    picks = [np.argmax(utility(acq.Thompson(), rng)) for _ in range(20_000)]
    assert np.bincount(picks, minlength=4) / 20_000 == pytest.approx(best, abs=0.015)


def test_thompson_draws_jointly_where_a_covariance_is_known(rng):
    covariance = np.array([[1.0, 0.9], [0.9, 1.0]])
    posterior = Posterior(np.zeros(2), np.ones(2), covariance)
    sample = np.array([posterior.draw(rng) for _ in range(20_000)])
    assert np.cov(sample.T) == pytest.approx(covariance, abs=0.05)


def exact_log_h(z: float) -> float:
    with mpmath.workdps(60):
        return float(mpmath.log(mpmath.npdf(z) + mpmath.mpf(z) * mpmath.ncdf(z)))


@pytest.mark.parametrize(
    "z", [30.0, 5.0, 0.0, -0.999, -1.0, -1.001, -3.0, -40.0, -200.0, -999.0, -1001.0, -1e4, -1e6]
)
def test_log_h_agrees_with_sixty_digits(z):
    assert log_h(np.array([z]))[0] == pytest.approx(exact_log_h(z), rel=1e-9, abs=1e-12)


def test_log_ei_orders_points_where_ei_underflows(rng):
    posterior = Posterior(np.array([50.0, 60.0, 1e6, 0.0]), np.array([1.0, 1.0, 1.0, 0.0]))
    values = acq.ExpectedImprovement()(posterior, 0.0, rng)
    assert np.isfinite(values).all()
    assert values[0] > values[1] > values[2]


@pytest.mark.parametrize("name", acq.available())
def test_every_acquisition_prefers_the_better_of_two_equally_uncertain_points(name, rng):
    posterior = Posterior(np.array([0.0, 1.0]), np.array([1e-3, 1e-3]))
    better, worse = acq.make_acquisition(name)(posterior, 0.5, rng, np.zeros(2))
    assert better > worse


@pytest.mark.parametrize("name", ["ei", "pi", "lcb", "ei-per-second", "mace"])
def test_no_uncertainty_and_huge_losses_give_no_nan(name, rng):
    posterior = Posterior(np.array([0.0, 1e300, -1e300]), np.array([0.0, 0.0, 1e299]))
    values = acq.make_acquisition(name)(posterior, 0.0, rng, np.zeros(3))
    assert not np.isnan(values).any()


def test_the_unit_of_the_loss_does_not_matter_to_ei(rng):
    def order(unit):
        posterior = Posterior(unit * MEAN, unit * STD)
        return np.argsort(acq.ExpectedImprovement()(posterior, unit * INCUMBENT, rng)).tolist()

    assert order(1.0) == order(1e-15) == order(1e15)


def test_points_of_the_front_that_are_better_are_counted_once():
    values = np.random.default_rng(0).normal(size=(60, 3)).round(1)
    values[50:] = values[:10]
    better = (values[:, None] >= values).all(axis=2) & (values[:, None] > values).any(axis=2)
    front = ~better.any(axis=0)
    _, first = np.unique(values[front], axis=0, return_index=True)
    expected = better[front][first].sum(axis=0)
    assert acq.times_dominated(values).tolist() == expected.tolist()


def test_points_that_are_not_numbers_are_worse_than_all_others():
    values = np.array([[1.0, np.nan], [0.0, 2.0], [1.0, 1.0], [np.nan, np.nan], [-np.inf, 0.0]])
    assert acq.times_dominated(values).tolist() == [2.0, 0.0, 0.0, 2.0, 2.0]
    assert acq.times_dominated(np.full((3, 2), np.nan)).tolist() == [0.0] * 3


def test_the_ensemble_does_not_choose_among_utilities_that_are_not_numbers(rng):
    with pytest.raises(ValueError, match="no utility is a number"):
        acq.Ensemble()(Posterior(np.full(3, np.nan), np.ones(3)), 0.0, rng)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_the_ensemble_ends_on_the_largest_losses_there_are():
    optimizer = Optimizer({"x": (0.0, 1.0)}, method="gp", acquisition="mace", seed=0)
    for k in range(8):
        optimizer.tell({"x": k / 7}, (-1) ** (k // 4) * 1.7e308)
    [proposal] = optimizer.ask()
    assert 0 <= proposal["x"] <= 1


@pytest.mark.parametrize("option", ["xi", "lam"])
def test_the_ensemble_checks_its_settings(option):
    with pytest.raises(OptionError, match=f"{option} must not be negative"):
        acq.Ensemble(**{option: -1.0})


def test_the_ensemble_of_acquisitions_takes_a_random_one_of_the_best(rng):
    mean, std = np.array([0.0, 1.0, 1.0, 2.0]), np.array([1.0, 2.0, 1.5, 1.0])
    utilities = [acq.Ensemble()(Posterior(mean, std), 0.5, rng) for _ in range(50)]
    assert {int(np.argmax(u)) for u in utilities} == {0, 1}
    assert all((u[[0, 1]] >= 0).all() and (u[[2, 3]] < 0).all() for u in utilities)
    same = acq.Ensemble()(Posterior(np.zeros(5000), np.ones(5000)), 0.0, rng)
    assert (same >= 0).all()


def test_unknown_names_and_bad_settings_are_refused():
    with pytest.raises(UnknownNameError, match="ei, ei-per-second, lcb"):
        acq.make_acquisition("eii")
    with pytest.raises(OptionError, match="xi"):
        acq.ProbabilityOfImprovement(-1.0)
    with pytest.raises(OptionError, match="lam"):
        acq.LowerConfidenceBound(-0.1)
