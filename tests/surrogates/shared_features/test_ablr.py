"""Bayesian linear regression against dense Gaussian processes and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal
from support.bowls import bowl, bowls, points

from rankwise import Optimizer, TaskSet
from rankwise.errors import ModelFileError, OptionError
from rankwise.history.task import Task
from rankwise.history.transforms import Standardize
from rankwise.surrogates.numeric.bayesian_linear import (
    Belief,
    LinearPosterior,
    Spectrum,
    most_likely,
)
from rankwise.surrogates.numeric.mlp import Perceptron, count, views
from rankwise.surrogates.shared_features.ablr import AdaptiveBLR, SharedEvidence
from rankwise.surrogates.shared_features.minibatches import Table

SQUARE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
NOTHING = Task.of(np.empty((0, 2)), [])
SMALL = {"layers": 2, "width": 12, "steps": 300, "batch": 4, "rows": 20, "meta_rate": 5e-3}
PRECISIONS = np.array([0.7, 2.1])  # log alpha, log beta
few_and_many = pytest.mark.parametrize("n", [1, 4, 40])  # fewer and more than features


def regression(n: int, f: int = 7):
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, f)), rng.normal(size=n)


@pytest.fixture(scope="module")
def learnt():
    return AdaptiveBLR(**SMALL).meta_fit(bowls(6))


# ---------------------------------------------------------------------- one regression


@few_and_many
def test_posterior_and_evidence_are_those_of_a_process_with_a_linear_kernel(n):
    (phi, y), Z = regression(n), np.random.default_rng(1).normal(size=(9, 7))
    alpha, beta = np.exp(PRECISIONS)
    K = phi @ phi.T / alpha + np.eye(n) / beta
    cross = Z @ phi.T / alpha
    covariance = Z @ Z.T / alpha - cross @ np.linalg.solve(K, cross.T)
    spectrum = Spectrum.of(phi, y)
    posterior = LinearPosterior.given(spectrum, PRECISIONS)
    mean, variance = posterior.moments(Z)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(K, y), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(variance, np.diag(covariance), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(posterior.covariance(Z), covariance, rtol=1e-8, atol=1e-8)
    expected = multivariate_normal(np.zeros(n), K).logpdf(y)
    assert spectrum.log_evidence(PRECISIONS)[0] == pytest.approx(expected, rel=1e-8)


@few_and_many
def test_gradient_by_the_precisions_against_finite_differences(n):
    spectrum = Spectrum.of(*regression(n))
    slope = approx_fprime(PRECISIONS, lambda p: spectrum.log_evidence(p)[0], 1e-6)
    np.testing.assert_allclose(spectrum.log_evidence(PRECISIONS)[1], slope, rtol=1e-4, atol=1e-4)


def test_precisions_maximise_the_evidence_where_there_is_one():
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(400, 7))
    y = phi @ rng.normal(scale=0.5, size=7) + rng.normal(scale=0.1, size=400)
    spectrum, vague = Spectrum.of(phi, y), Belief(np.zeros(2), np.full(2, 1e3))
    found = most_likely(spectrum, vague)
    best = spectrum.log_evidence(found)[0]
    for step in (0.2, -0.2):
        assert spectrum.log_evidence(found + np.array([step, 0.0]))[0] < best
        assert spectrum.log_evidence(found + np.array([0.0, step]))[0] < best
    assert found[1] == pytest.approx(-2 * np.log(0.1), abs=0.3)
    sure = Belief(np.array([1.0, 2.0]), np.full(2, 1e-3))
    np.testing.assert_allclose(most_likely(spectrum, sure), sure.mean, atol=0.01)


def test_one_evaluation_leaves_the_precisions_to_what_is_believed():
    belief = Belief(np.array([1.0, 3.0]), np.ones(2))
    found = most_likely(Spectrum.of(np.ones((1, 7)), np.zeros(1)), belief)
    assert (np.abs(found - belief.mean) < 2).all()


# ---------------------------------------------------------------------- all tasks


def shared(network: Perceptron, tasks: int) -> SharedEvidence:
    """With random precisions."""
    evidence = SharedEvidence(network, tasks, seed=0)
    noise = torch.randn(2 * tasks, generator=torch.Generator().manual_seed(1))
    evidence.weights[-2 * tasks :] += 0.5 * noise
    return evidence


def drawn(tasks, rows: int = 8):
    table = Table(tasks, lambda y: Standardize.fit(y)(y), rows)
    return table.draw(range(len(tasks)), np.random.default_rng(0))


def test_evidence_of_all_tasks_is_the_mean_of_dense_ones():
    network = Perceptron((2, 5, 6), tanh=True, bent=True)
    tasks = [bowl(0.3, 5), bowl(0.7, 12, seed=1), bowl(0.5, 4, seed=2)]
    evidence, rows = shared(network, 3), drawn(tasks)
    parts = views(evidence.weights[: count(network.shapes)], network.shapes)
    log_alpha, log_beta = evidence.weights[-6:].view(2, 3).numpy()
    expected = []
    for t in range(3):
        n = int(rows.mask[t].sum())
        phi = network.forward(parts, 2.0 * rows.X[t, :n] - 1.0)[-1].numpy()
        phi = np.column_stack([phi, np.ones(n)])
        K = phi @ phi.T / np.exp(log_alpha[t]) + np.eye(n) / np.exp(log_beta[t])
        expected.append(-multivariate_normal(np.zeros(n), K).logpdf(rows.y[t, :n]) / n)
    assert evidence(rows, torch.arange(3)) == pytest.approx(np.mean(expected), rel=1e-8)


def test_gradient_of_features_and_precisions_against_finite_differences():
    network = Perceptron((2, 4, 3), tanh=True, bent=True)
    tasks = [bowl(0.3, 5), bowl(0.7, 12, seed=1), bowl(0.5, 7, seed=2)]
    evidence, rows, which = shared(network, 4), drawn(tasks), torch.tensor([2, 0, 3])
    evidence(rows, which)
    gradient, start = evidence.gradient.clone().numpy(), evidence.weights.clone()

    def value(w):
        evidence.weights.copy_(torch.as_tensor(w))
        return evidence(rows, which)

    slope = approx_fprime(start.numpy(), value, 1e-7)
    np.testing.assert_allclose(gradient, slope, atol=1e-5)
    precisions = gradient[-8:].reshape(2, 4)
    assert (precisions[:, 1] == 0).all() and (precisions[:, [0, 2, 3]] != 0).all()


def test_validation_tasks_say_which_weights_are_kept():
    tasks = bowls(6)
    surrogate = AdaptiveBLR(**SMALL).meta_fit(tasks[:4], tasks[4:])
    losses = {step: loss for step, _, loss in surrogate.record.losses}
    assert losses[surrogate.record.best_step] == min(losses.values())
    assert len(surrogate.record.validation) == 2


def test_what_was_learnt_predicts_a_new_task_better(learnt):
    task = bowl(0.35, 60, seed=50)
    told, rest = Task.of(task.X[:10], task.y[:10]), slice(10, None)
    untaught = AdaptiveBLR(**{**SMALL, "steps": 1}).meta_fit(bowls(6))
    errors = [
        np.square(s.fit(told).predict(task.X[rest]).mean - task.y[rest]).mean()
        for s in (learnt, untaught)
    ]
    assert errors[0] < 0.5 * errors[1]


# ---------------------------------------------------------------------- proposals


def test_the_first_proposal_is_near_the_common_optimum():
    tasks = TaskSet.of(SQUARE, {t.name: t for t in bowls(6)})
    [first] = Optimizer(SQUARE, method="ablr", tasks=tasks, seed=0, **SMALL).ask()
    assert abs(first["x"] - 0.3) < 0.15 and abs(first["y"] - 0.3) < 0.15


def test_posteriors_of_few_and_of_no_evaluations(learnt):
    Z = points(40)
    tasks = (NOTHING, Task.of([[0.3, 0.3]], [5.0]), Task.of(points(3), [1.0] * 3), bowl(0.3, 5))
    for task in tasks:
        posterior = learnt.fit(task).predict(Z, joint=True)
        assert np.isfinite(posterior.mean).all() and (posterior.std > 0).all()
        np.testing.assert_allclose(np.diag(posterior.covariance), posterior.std**2, rtol=1e-6)
        assert (learnt.improvement(Z) is None) == (len(task) > 0)
    np.testing.assert_allclose(
        learnt.fit(NOTHING).predict(Z).mean, -learnt.improvement(Z), rtol=1e-12
    )


def test_scale_of_the_losses_and_order_of_tasks_change_nothing(learnt):
    task = bowl(0.4, 8, seed=30)
    a = learnt.fit(task).predict(points())
    b = learnt.fit(Task.of(task.X, 3.0 + 1e3 * task.losses)).predict(points())
    np.testing.assert_allclose(3.0 + 1e3 * a.mean, b.mean, rtol=1e-6)
    np.testing.assert_allclose(1e3 * a.std, b.std, rtol=1e-5)
    again = AdaptiveBLR(**SMALL).meta_fit(bowls(6)[::-1])
    assert torch.equal(learnt._weights, again._weights)


def test_a_saved_model_predicts_the_same(learnt, tmp_path):
    learnt.save(tmp_path / "model", fingerprint="space")
    again = AdaptiveBLR.load(tmp_path / "model", fingerprint="space")
    assert again.settings == learnt.settings
    for task in (NOTHING, bowl(0.3, 6)):
        a, b = (s.fit(task).predict(points()) for s in (learnt, again))
        np.testing.assert_array_equal(a.mean, b.mean)
        np.testing.assert_array_equal(a.std, b.std)
    with pytest.raises(ModelFileError, match="weights, but the options"):
        AdaptiveBLR.load(tmp_path / "model", width=9)


def test_mistakes_are_named():
    with pytest.raises(OptionError, match="layers"):
        AdaptiveBLR(layers=0)
    with pytest.raises(OptionError, match="meta_rate must be a positive number"):
        AdaptiveBLR(meta_rate=-1.0)
    with pytest.raises(OptionError, match="call meta_fit"):
        AdaptiveBLR().fit(NOTHING)
