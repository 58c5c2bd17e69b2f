"""Gaussian copula processes: scores and back, the network's likelihood, the residual process."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime
from scipy.stats import norm
from sklearn.gaussian_process.kernels import Matern
from support.bowls import bowl, bowls, points

from rankwise import Optimizer, TaskSet
from rankwise.errors import ModelFileError, OptionError
from rankwise.history.task import Task
from rankwise.history.transforms import Copula
from rankwise.surrogates.numeric.mlp import Perceptron, count, initial
from rankwise.surrogates.shared_features.gcp import (
    CopulaProcess,
    NormalQuantiles,
    ScoreLikelihood,
    amplitude,
)
from rankwise.surrogates.shared_features.minibatches import Table

SQUARE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
NOTHING = Task.of(np.empty((0, 2)), [])
SMALL = {"layers": 2, "width": 16, "steps": 300, "batch": 4, "rows": 20, "meta_rate": 5e-3}


@pytest.fixture(scope="module")
def learnt():
    return CopulaProcess(**SMALL).meta_fit(bowls(6))


# ---------------------------------------------------------------------- scores and losses


@pytest.mark.parametrize(
    "losses",
    [
        np.random.default_rng(0).lognormal(size=50),
        np.array([3.0, 1.0, 2.0, 1.0, 3.0, 3.0]),
        np.array([-1e300, 0.0, 1e-300, 1e300]),
        np.array([5.0]),
        np.array([2.0, 2.0]),
    ],
    ids=["distinct", "ties", "huge", "one", "constant"],
)
def test_scores_lead_back_to_the_losses(losses):
    quantiles = NormalQuantiles.of(losses)
    np.testing.assert_allclose(quantiles(Copula()(losses)), losses, rtol=1e-12, atol=1e-300)
    ends = quantiles(np.array([-9.0, 9.0]))
    assert ends.tolist() == [losses.min(), losses.max()]


def test_scores_are_normal_and_quantiles_those_of_the_losses():
    losses = np.random.default_rng(1).exponential(size=4000)
    scores = Copula()(losses)
    assert abs(scores.mean()) < 1e-9 and scores.std() == pytest.approx(1.0, abs=1e-2)
    levels = np.array([0.1, 0.5, 0.9])
    found = NormalQuantiles.of(losses)(norm.ppf(levels))
    np.testing.assert_allclose(found, np.quantile(losses, levels), rtol=5e-3)
    tied = Copula()(np.array([1.0, 2.0, 2.0, 4.0]))
    assert tied[1] == tied[2] == 0.0 and tied[0] == -tied[3]


def test_predicted_quantiles_are_losses_in_order(learnt):
    task, Z = bowl(0.4, 12, seed=9, scale=50.0), points(20)
    learnt.fit(task)
    low, median, high = (learnt.quantile(Z, level) for level in (0.1, 0.5, 0.9))
    assert (low <= median).all() and (median <= high).all() and (low < high).any()
    assert (low >= task.losses.min()).all() and (high <= task.losses.max()).all()
    posterior = learnt.predict(Z)
    np.testing.assert_allclose(median, NormalQuantiles.of(task.losses)(posterior.mean))
    np.testing.assert_allclose(learnt.quantile(task.X), task.losses, rtol=0.2, atol=3.0)


# ---------------------------------------------------------------------- the network


def drawn(tasks, rows: int = 8):
    return Table(tasks, Copula(), rows).draw(range(len(tasks)), np.random.default_rng(0))


def test_likelihood_is_that_of_normal_scores_each_task_weighing_the_same():
    surrogate = CopulaProcess(**{**SMALL, "steps": 3}).meta_fit(bowls(3))
    rows = drawn([bowl(0.3, 4), bowl(0.7, 12, seed=1)])
    expected = []
    for t in range(2):
        n = int(rows.mask[t].sum())
        mean, std = surrogate._expected(rows.X[t, :n].numpy())
        expected.append(-norm(mean, std).logpdf(rows.y[t, :n].numpy()).mean())
    likelihood = ScoreLikelihood(surrogate._network, surrogate._weights)
    assert likelihood(rows, backward=False) == pytest.approx(np.mean(expected), rel=1e-10)


def test_gradient_of_the_likelihood_against_finite_differences():
    network = Perceptron((2, 4, 2), tanh=True)
    weights = 2.0 * initial(network.shapes, torch.Generator().manual_seed(0))
    rows = drawn([bowl(0.3, 4), bowl(0.7, 12, seed=1)])

    def value(w):
        return ScoreLikelihood(network, torch.as_tensor(w))(rows, backward=False)

    likelihood = ScoreLikelihood(network, weights)
    likelihood(rows)
    slope = approx_fprime(weights.numpy(), value, 1e-7)
    assert len(slope) == count(network.shapes)
    np.testing.assert_allclose(likelihood.gradient, slope, atol=1e-6)


def test_the_network_learns_what_the_tasks_have_in_common(learnt):
    Z = points(200)
    mean, std = learnt._expected(Z)
    order = np.square(Z - 0.3).sum(axis=1)
    assert np.corrcoef(mean, Copula()(order))[0, 1] > 0.95
    assert std.min() > 0.2 and std.max() < 1.0  # it is surer than a standard normal


def test_validation_tasks_say_which_weights_are_kept():
    tasks = bowls(6)
    surrogate = CopulaProcess(**SMALL).meta_fit(tasks[:4], tasks[4:])
    losses = {step: loss for step, _, loss in surrogate.record.losses}
    assert losses[surrogate.record.best_step] == min(losses.values())
    assert len(surrogate.record.validation) == 2


# ---------------------------------------------------------------------- the residual process


def test_posterior_is_the_network_corrected_by_a_process_of_the_residuals(learnt):
    task, Z = bowl(0.6, 10, seed=9, scale=7.0), points()
    posterior = learnt.fit(task).predict(Z, joint=True)
    (mean, std), (there, spread) = learnt._expected(task.X), learnt._expected(Z)
    r = (Copula()(task.losses) - mean) / std
    scale = np.sqrt((5.0 + (r**2).sum()) / 15.0)
    r, spread = r / scale, spread * scale
    kernel = Matern(learnt._gp.lengthscales, nu=2.5)
    K = kernel(task.X) + learnt._gp.noise * np.eye(10)
    inverse, cross = np.linalg.inv(K), kernel(Z, task.X)
    constant = (inverse @ r).sum() / inverse.sum()
    shift = constant + cross @ inverse @ (r - constant)
    inner = kernel(Z) - cross @ inverse @ cross.T
    np.testing.assert_allclose(posterior.mean, there + spread * shift, rtol=1e-6)
    np.testing.assert_allclose(
        posterior.covariance, spread[:, None] * inner * spread[None], atol=1e-8
    )
    np.testing.assert_allclose(posterior.std**2, np.diag(posterior.covariance), atol=1e-8)


def test_residuals_larger_than_expected_widen_the_process():
    assert amplitude(np.empty(0)) == 1.0 and amplitude(np.ones(7)) == 1.0
    assert amplitude(np.array([3.0])) == pytest.approx(np.sqrt(14 / 6))
    assert amplitude(np.full(1000, 3.0)) == pytest.approx(3.0, rel=0.01)


def test_joint_draws_have_the_covariance(learnt):
    posterior = learnt.fit(bowl(0.5, 4, seed=3)).predict(points(3), joint=True)
    rng = np.random.default_rng(0)
    draws = np.stack([posterior.draw(rng) for _ in range(4000)])
    np.testing.assert_allclose(draws.mean(axis=0), posterior.mean, atol=0.05)
    scale = np.outer(posterior.std, posterior.std)
    np.testing.assert_allclose(np.cov(draws.T) / scale, posterior.covariance / scale, atol=0.08)


def test_posteriors_of_few_and_of_no_evaluations(learnt):
    Z = points(40)
    tasks = (NOTHING, Task.of([[0.3, 0.3]], [5.0]), Task.of(points(3), [1.0] * 3), bowl(0.3, 5))
    for task in tasks:
        posterior = learnt.fit(task).predict(Z, joint=True)
        assert np.isfinite(posterior.mean).all() and (posterior.std > 0).all()
        np.testing.assert_allclose(np.diag(posterior.covariance), posterior.std**2, rtol=1e-6)
        assert (learnt.improvement(Z) is None) == (len(task) > 0)
    np.testing.assert_array_equal(-learnt.fit(NOTHING).improvement(Z), learnt._expected(Z)[0])


@pytest.mark.parametrize("acquisition", ["ei", "thompson"])
def test_proposals_begin_near_the_common_optimum_and_follow_the_evaluations(acquisition):
    tasks = TaskSet.of(SQUARE, {t.name: t for t in bowls(6)})
    options = {"method": "gcp", "tasks": tasks, "acquisition": acquisition, **SMALL}
    optimizer = Optimizer(SQUARE, seed=0, **options)
    [first] = optimizer.ask()
    if acquisition == "ei":
        assert abs(first["x"] - 0.3) < 0.15 and abs(first["y"] - 0.3) < 0.15
    for _ in range(9):
        optimizer.tell(first, (first["x"] - 0.5) ** 2 + (first["y"] - 0.2) ** 2)
        [first] = optimizer.ask()
    assert optimizer.best.value < 0.05  # what the optimum of the past is worth here


def test_only_the_order_of_losses_counts(learnt):
    task = bowl(0.4, 8, seed=30)
    a = learnt.fit(task).predict(points())
    b = learnt.fit(Task.of(task.X, np.exp(5.0 * task.losses))).predict(points())
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-12)
    again = CopulaProcess(**SMALL).meta_fit(bowls(6)[::-1])
    assert torch.equal(learnt._weights, again._weights)


# ---------------------------------------------------------------------- files and mistakes


def test_a_saved_model_predicts_the_same(learnt, tmp_path):
    learnt.save(tmp_path / "model", fingerprint="space")
    again = CopulaProcess.load(tmp_path / "model", fingerprint="space")
    assert again.settings == learnt.settings
    for task in (NOTHING, bowl(0.3, 6)):
        a, b = (s.fit(task).predict(points()) for s in (learnt, again))
        np.testing.assert_array_equal(a.mean, b.mean)
        np.testing.assert_array_equal(a.std, b.std)
    with pytest.raises(ModelFileError, match="weights, but the options"):
        CopulaProcess.load(tmp_path / "model", layers=3)


def test_mistakes_are_named(learnt):
    with pytest.raises(OptionError, match="width"):
        CopulaProcess(width=0)
    with pytest.raises(OptionError, match="call meta_fit"):
        CopulaProcess().fit(NOTHING)
    with pytest.raises(OptionError, match="scale of the losses is not known"):
        learnt.fit(NOTHING).quantile(points())
    with pytest.raises(OptionError, match="within"):
        learnt.fit(bowl(0.3, 5)).quantile(points(), 1.0)
