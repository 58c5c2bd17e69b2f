"""The model of `mbo`: its kernel inputs, its scale of losses, its gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from rankwise import Encoder, Optimizer, make_space
from rankwise.history.task import Task
from rankwise.surrogates.numeric.exact_gp import lengthscale_prior
from rankwise.surrogates.numeric.grouped_fit import negative_log_posterior, start_of
from rankwise.surrogates.single_study.kernel_inputs import KernelInputs
from rankwise.surrogates.single_study.loss_warp import LossWarp
from rankwise.surrogates.single_study.structured_gp import StructuredGP

CONDITIONAL = Encoder(
    make_space(
        {"k": ["a", "b", "c"], "x": (0.0, 1.0), "y": (0.0, 1.0), "n": (1, 9)},
        when={"y": {"k": "a"}},
    )
)
NUMBERS = Encoder({f"x{j}": (0.0, 1.0) for j in range(3)})


def history(encoder, n, function, seed=0):
    X = encoder.sample(n, np.random.default_rng(seed))
    return Task.of(X, function(X))


def bowl(X):
    return np.square(X - 0.3).sum(axis=1)


def distance(first, second):
    inputs = KernelInputs.of(CONDITIONAL.layout)
    a, b = inputs(CONDITIONAL.encode([first, second]))
    return float(np.linalg.norm(a - b))


def test_an_inactive_value_is_equally_far_from_all_active_ones():
    base = {"x": 0.2, "n": 3}
    inactive = {**base, "k": "b"}
    far = [distance(inactive, {**base, "k": "a", "y": y}) for y in (0.0, 0.4, 1.0)]
    assert np.ptp(far) < 1e-12
    # the choice and the inactive number count 1 each
    assert far[0] == pytest.approx(math.sqrt(2.0))
    assert distance(inactive, {**base, "k": "c"}) == pytest.approx(1.0)


def test_columns_of_one_hyperparameter_share_a_length_scale():
    inputs = KernelInputs.of(CONDITIONAL.layout)
    groups = dict(zip(inputs.plain.tolist(), inputs.groups.tolist(), strict=False))
    columns = CONDITIONAL.columns["k"]
    assert len({groups[j] for j in range(columns.start, columns.stop)}) == 1
    assert inputs.groups.max() + 1 == len(CONDITIONAL.names)


@pytest.mark.parametrize("encoder", [NUMBERS, CONDITIONAL])
def test_the_gradient_of_the_utility_is_that_of_finite_differences(encoder):
    fitted = StructuredGP(encoder.layout).fit(history(encoder, 25, bowl))
    activity = list(encoder.activity.values())
    for x in encoder.sample(4, np.random.default_rng(1)):
        value, gradient = fitted.slope(x)
        wanted = approx_fprime(x, lambda z: fitted.improvement(z[None])[0], 1e-7)
        wanted[activity] = 0.0  # they never move
        assert value == pytest.approx(fitted.improvement(x[None])[0], rel=1e-9)
        atol = 1e-4 * max(1.0, np.abs(wanted).max())
        np.testing.assert_allclose(gradient, wanted, rtol=1e-3, atol=atol)


def test_the_gradient_of_the_fit_is_that_of_finite_differences():
    inputs = KernelInputs.of(CONDITIONAL.layout)
    task = history(CONDITIONAL, 20, bowl)
    Z, y = inputs(task.X), LossWarp.fit(task.losses)(task.losses)
    theta = start_of(inputs.groups, 1e-6)
    prior = lengthscale_prior(len(theta) - 1)
    found = negative_log_posterior(theta, Z, y, inputs.groups, prior)[1]
    wanted = approx_fprime(
        theta, lambda t: negative_log_posterior(t, Z, y, inputs.groups, prior)[0], 1e-6
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("c", [math.inf, 0.3, 0.01])
def test_a_warp_is_monotone_and_is_inverted(c):
    y = np.random.default_rng(0).lognormal(2.0, 1.0, 30) - 5.0
    warp = LossWarp.fit(y, c, fence=math.inf)
    z = warp(y)
    assert (np.diff(z[np.argsort(y)]) > 0).all()
    assert z.mean() == pytest.approx(0.0, abs=1e-9)
    assert z.std() == pytest.approx(1.0)
    np.testing.assert_allclose(warp.unscale(z, np.ones(30))[0], y, rtol=1e-8)


def test_the_derivative_of_a_warp_is_that_of_finite_differences():
    y = np.array([0.0, 1.0, 2.0, 5.0, 40.0])
    for c in (math.inf, 0.3):
        warp = LossWarp.fit(y, c, fence=math.inf)
        wanted = np.log((warp(y + 1e-6) - warp(y)) / 1e-6).sum()
        assert warp.log_slope(y) == pytest.approx(wanted, abs=1e-3)


def test_the_scale_of_losses_is_the_one_that_the_model_explains():
    linear = StructuredGP(NUMBERS.layout).fit(history(NUMBERS, 31, lambda X: X.sum(axis=1)))
    assert math.isinf(linear._warp.softness)
    softness = []
    for n in (29, 30, 31):
        task = history(NUMBERS, n, lambda X: 10.0 ** (6 * X.sum(axis=1)))
        softness.append(StructuredGP(NUMBERS.layout).fit(task)._warp.softness)
    assert np.isinf(softness).tolist() == [False, True, False]  # every third is linear


@pytest.mark.parametrize("encoder", [NUMBERS, CONDITIONAL])
@pytest.mark.parametrize("worst", [1.0, 1e30, 1e300])
def test_outliers_leave_the_order_of_good_losses(encoder, worst):
    task = history(encoder, 30, lambda X: X[:, 0])
    losses = task.losses.copy()
    losses[[3, 7]] = worst
    fitted = StructuredGP(encoder.layout).fit(Task.of(task.X, losses))
    posterior = fitted.predict(task.X, joint=True)
    assert np.isfinite(posterior.mean).all() and np.isfinite(posterior.std).all()
    assert np.isfinite(posterior.covariance).all()
    rest = np.delete(np.arange(30), [3, 7])
    assert np.corrcoef(posterior.mean[rest], losses[rest])[0, 1] > 0.8


@pytest.mark.parametrize("value", [0.0, 3.0, 1e99, -1e99, 1e-300])
def test_equal_losses_are_believed(value):
    X = NUMBERS.sample(7, np.random.default_rng(0))
    posterior = StructuredGP(NUMBERS.layout).fit(Task.of(X, [value] * 7)).predict(X)
    unit = abs(value) or 1.0
    np.testing.assert_allclose(posterior.mean / unit, value / unit, atol=0.1)


def test_many_trials_are_thinned_and_the_best_are_kept():
    task = history(NUMBERS, 700, bowl)
    fitted = StructuredGP(NUMBERS.layout).fit(task)
    assert len(fitted.model.X) == 500
    best = task.X[np.argsort(task.losses)[:250]]
    kept = {row.tobytes() for row in fitted.model.X}
    assert all(row.tobytes() in kept for row in best)


def test_mbo_begins_with_the_default_and_few_points():
    optimizer = Optimizer({f"x{j}": (0.0, 4.0) for j in range(40)}, method="mbo", seed=0)
    design = optimizer.encoder.decode(optimizer._design_rows)
    assert len(design) == 10
    assert design[0] == optimizer.encoder.default
    assert len(Optimizer({"x": (0.0, 1.0)}, method="mbo", seed=0)._design_rows) == 4
