"""What all surrogates of one study alone do: few evaluations, any losses, no growing memory."""

from __future__ import annotations

import gc
import math
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from rankwise import surrogates
from rankwise.errors import OptionError
from rankwise.history.task import Task
from rankwise.surrogates.single_study.base import moments_of_draws

NETWORK = {"layers": 2, "width": 8}
QUICK = {
    "BayesianNetworks": {**NETWORK, "burn_in": 5, "thin": 1, "draws": 2, "chains": 2, "batch": 4},
    "DeepEnsemble": {**NETWORK, "epochs": 5},
    "DeepGlobalOptimization": {**NETWORK, "epochs": 5},
    "LoneDeepKernelGP": {**NETWORK, "epochs": 3},
    "MonteCarloDropout": {**NETWORK, "epochs": 5, "passes": 5},
    "WarpedGP": {},
}
LONGER = {"WarpedGP": {}, "BayesianNetworks": {"burn_in": 800}}
STATM = Path("/proc/self/statm")
every_surrogate = pytest.mark.parametrize("name", list(QUICK))
POINTS = np.random.default_rng(9).random((7, 2))


def make(name, **options):
    return getattr(surrogates, name)(**QUICK[name] | options)


def history(n: int, seed: int = 0, d: int = 2) -> Task:
    X = np.random.default_rng(seed).random((n, d))
    return Task.of(X, np.square(X - 0.3).sum(axis=1))


@every_surrogate
@pytest.mark.parametrize("n", [0, 1, 2, 3, 6])
def test_few_evaluations_give_finite_posteriors(name, n):
    posterior = make(name).fit(history(n)).predict(POINTS, joint=True)
    assert np.isfinite(posterior.mean).all() and np.isfinite(posterior.std).all()
    assert (posterior.std > 0).all()
    np.testing.assert_allclose(np.diag(posterior.covariance), posterior.std**2, rtol=1e-6)


@every_surrogate
@pytest.mark.parametrize("value", [0.0, 3.0, 1e100, -1e100, 1e-300])
def test_equal_losses_are_believed(name, value):
    task = Task.of(POINTS, [value] * 7)
    fitted = make(name, **LONGER.get(name, {"epochs": 300})).fit(task)
    posterior = fitted.predict(POINTS)
    unit, expected = (abs(value) or 1.0, value) if fitted.in_losses else (1.0, 0.0)
    assert np.abs(posterior.mean / unit - expected / unit).max() < 0.1
    assert np.isfinite(posterior.std).all()


@every_surrogate
def test_failures_are_learnt_as_bad_losses(name):
    options = LONGER.get(name, {"epochs": 300})
    X = np.linspace(0.0, 1.0, 12)[:, None]
    task = Task.of(X, np.where(X[:, 0] > 0.5, math.nan, 0.1 * X[:, 0]))
    mean = make(name, **options).fit(task).predict(X).mean
    assert mean[:5].max() < mean[-5:].min()


@every_surrogate
def test_predictions_depend_on_the_seed_alone(name):
    state = torch.get_rng_state()
    task = history(8)
    a, b = (make(name, seed=4).fit(task).predict(POINTS) for _ in range(2))
    np.testing.assert_array_equal(a.mean, b.mean)
    np.testing.assert_array_equal(a.std, b.std)
    if name != "WarpedGP":  # which draws nothing
        assert (make(name, seed=5).fit(task).predict(POINTS).mean != a.mean).any()
    assert torch.equal(state, torch.get_rng_state())


@every_surrogate
def test_fitted_surrogates_can_be_pickled(name):
    fitted = make(name).fit(history(5))
    kept = [*vars(fitted).values(), *vars(getattr(fitted, "_networks", fitted)).values()]
    assert not any(isinstance(part, torch.Generator) for part in kept), "torch 2.2 cannot"
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(POINTS).mean, fitted.predict(POINTS).mean)


@every_surrogate
def test_no_columns_and_no_points(name):
    empty = make(name).fit(Task.of(np.empty((3, 0)), [1.0, 2.0, 3.0]))
    assert empty.predict(np.empty((2, 0))).mean == pytest.approx([2.0, 2.0])
    assert make(name).fit(history(3)).predict(np.empty((0, 2))).mean.shape == (0,)


@pytest.mark.skipif(not STATM.exists(), reason="the memory of a process is read from /proc")
@every_surrogate
def test_memory_does_not_grow_over_two_hundred_steps(name):
    def steps(count):
        for k in range(count):
            make(name, seed=k).fit(history(4, seed=k)).predict(POINTS)
        gc.collect()
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    before = steps(30)
    assert steps(200) - before < 5


def test_moments_of_draws_are_those_of_numpy():
    values = np.random.default_rng(0).normal(size=(6, 4))
    mean, variance, covariance = moments_of_draws(values, True, bessel=True)
    np.testing.assert_allclose(mean, values.mean(axis=0))
    np.testing.assert_allclose(variance, values.var(axis=0, ddof=1))
    np.testing.assert_allclose(covariance, np.cov(values, rowvar=False))
    np.testing.assert_allclose(moments_of_draws(values, False)[1], values.var(axis=0))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("DeepEnsemble", {"members": 0}),
        ("DeepEnsemble", {"adversarial": -1.0}),
        ("MonteCarloDropout", {"dropout": 1.0}),
        ("MonteCarloDropout", {"passes": 1}),
        ("MonteCarloDropout", {"decay": -1.0}),
        ("DeepGlobalOptimization", {"draws": -1}),
        ("BayesianNetworks", {"friction": 1.0}),
        ("BayesianNetworks", {"thin": 0}),
        ("LoneDeepKernelGP", {"layers": -1}),
        ("LoneDeepKernelGP", {"rate": 0.0}),
    ],
)
def test_mistakes_are_named(name, options):
    with pytest.raises(OptionError, match=next(iter(options))):
        make(name, **options)
