"""Transforms of losses: monotone, and safe for whatever an objective returns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, skew
from sklearn.preprocessing import PowerTransformer

from rankwise.errors import UnknownNameError
from rankwise.history.transforms import TRANSFORMS, Copula, Power, Standardize, fit_transform

any_losses = st.lists(
    st.floats(-1e300, 1e300) | st.floats(-1, 1) | st.sampled_from([1e300, 1e-300, 5e-324, 0]),
    min_size=1,
    max_size=20,
).map(lambda y: np.array(y, dtype=float))


@pytest.mark.parametrize("name", TRANSFORMS)
@given(y=any_losses)
def test_transforms_are_finite_and_monotone(name, y):
    z = fit_transform(name, y)(y)
    assert z.shape == y.shape and np.isfinite(z).all()
    assert (np.diff(z[np.argsort(y, kind="stable")]) >= 0).all()


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("value", [0.0, 1.0, -7.5, 1e300, -1e300, 1e-300, 5e-324])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_constant_losses_become_zero(name, value, n):
    y = np.full(n, value)
    assert fit_transform(name, y)(y) == pytest.approx(np.zeros(n), abs=1e-12)


@pytest.mark.parametrize("unit", [1.0, 1e300, 1e-300, 1e-310, 1e6])
@pytest.mark.parametrize("shift", [0.0, 10.0])
def test_standardized_losses_have_mean_zero_and_variance_one_in_any_unit(unit, shift):
    y = (np.arange(10.0) + shift) * unit
    z = Standardize.fit(y)(y)
    assert z.mean() == pytest.approx(0.0, abs=1e-6)
    assert z.std() == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("worst", [1e3, 1e12, 1e100, 1e300])
def test_one_terrible_loss_does_not_drown_the_others(worst):
    y = np.append(np.arange(20.0), worst)
    z = Standardize.fit(y)(y)
    assert np.ptp(z[:20]) > 1.0
    assert z[:20] == pytest.approx(Standardize.fit(np.append(y[:20], 1e3))(y[:20]), rel=1e-6)
    assert z[19] < z[20] < z[19] + 10


def test_good_losses_are_never_pulled_in():
    y = np.append(np.arange(20.0), -1e3)
    z = Standardize.fit(y)(y)
    assert z[20] == z.min() and z[20] < z[0] - 1


def test_a_small_spread_around_a_large_value_is_kept():
    y = 1e6 + np.arange(10) * 1e-3
    assert Standardize.fit(y)(y).std() == pytest.approx(1.0, rel=1e-3)


def test_unscale_is_the_way_back():
    y = np.array([3.0, 5.0, 4.0, 9.0])
    transform = Standardize.fit(y)
    mean, std = transform.unscale(transform(y), np.ones(4))
    assert mean == pytest.approx(y)
    assert std == pytest.approx(np.full(4, y.std()))


def test_copula_scores_depend_only_on_the_order_and_ties_share_them():
    y = np.array([10.0, -1.0, 3.0, 3.0, 1e300])
    z = Copula()(y)
    assert z.tobytes() == Copula()(np.array([4.0, 1.0, 2.0, 2.0, 5.0])).tobytes()
    assert z[2] == z[3] and norm.cdf(z) == pytest.approx([0.7, 0.1, 0.4, 0.4, 0.9])
    assert Copula().unscale(z, z)[0] is z


def test_powers_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    for y, method in (
        (np.exp(0.5 * rng.normal(size=60)), "box-cox"),
        (np.exp(0.5 * rng.normal(size=60)) - 1.0, "yeo-johnson"),
    ):
        before = y if method == "box-cox" else Standardize.fit(y)(y)
        expected = PowerTransformer(method).fit_transform(before[:, None])[:, 0]
        assert Power.fit(y)(y) == pytest.approx(expected, abs=2e-3)
        assert abs(skew(Power.fit(y)(y))) < 0.2 < skew(y)


def test_a_power_is_left_out_where_there_is_nothing_to_fit_it_to():
    y = np.array([1.0, 2.0, 2.0, 5.0])
    assert Power.fit(y)(y) == pytest.approx(Standardize.fit(y)(y))


def test_an_unknown_transform_lists_the_valid_ones():
    with pytest.raises(UnknownNameError, match="'log'; valid: copula, power, standardize"):
        fit_transform("log", np.ones(3))
