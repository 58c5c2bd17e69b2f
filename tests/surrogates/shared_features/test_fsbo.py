"""Deep-kernel processes against GPyTorch's kernels, dense formulas and finite differences."""

from __future__ import annotations

from itertools import combinations

import gpytorch
import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from support.bowls import bowl, bowls, points

from rankwise import Optimizer, TaskSet
from rankwise.errors import ModelFileError, OptionError, UnknownNameError
from rankwise.history.task import Task
from rankwise.surrogates.numeric.mlp import views
from rankwise.surrogates.ranking.meta_training import Record
from rankwise.surrogates.shared_features import base as neural
from rankwise.surrogates.shared_features.deep_kernel import (
    NOISE_FLOOR,
    DeepKernel,
    Evidence,
    fine_tune,
)
from rankwise.surrogates.shared_features.fsbo import DeepKernelGP, stretched, unit_range
from rankwise.surrogates.shared_features.minibatches import Rows, Table
from rankwise.surrogates.shared_features.warm_start_sets import evolved_set

SQUARE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
NOTHING = Task.of(np.empty((0, 2)), [])
KERNELS = {"rbf": gpytorch.kernels.RBFKernel, "matern52": gpytorch.kernels.MaternKernel}
SMALL = {"layers": 3, "width": 16, "steps": 300, "batch": 4, "rows": 20, "meta_rate": 5e-3}
both_kernels = pytest.mark.parametrize("kernel", list(KERNELS))


@pytest.fixture(scope="module", params=[0, 3], ids=["fsbo", "dklm"])
def learnt(request):
    return DeepKernelGP(**SMALL, deep_set=request.param).meta_fit(bowls(6))


def weights_of(kernel: DeepKernel, seed: int = 0) -> torch.Tensor:
    """Random ones, those of the kernel included."""
    generator = torch.Generator().manual_seed(seed)
    flat = kernel.initial(generator)
    return flat + 0.3 * torch.randn(len(flat), generator=generator, dtype=torch.float64)


def rows_of(tasks, count: int = 12, support: int = 0) -> Rows:
    """Of all tasks, some of which may be shorter than others."""
    table = Table(tasks, lambda y: unit_range(y)(y), count, support)
    return table.draw(range(len(tasks)), np.random.default_rng(0))


def value(kernel: DeepKernel, weights: torch.Tensor, rows: Rows) -> float:
    return Evidence(kernel, weights, torch.zeros_like(weights))(rows, backward=False)


def dense(name: str, weights: torch.Tensor, A, B):
    """Covariance of raw columns by GPyTorch, and the variance of the noise."""
    parts = views(weights, DeepKernel(2, layers=0, kernel=name).shapes)
    kernel = KERNELS[name](ard_num_dims=2).double()
    kernel.lengthscale = parts["lengthscales"].exp()
    with torch.no_grad():
        K = kernel(torch.as_tensor(A), torch.as_tensor(B)).to_dense().numpy()
    return float(parts["scale"].exp()) * K, float(parts["noise"].exp()) + NOISE_FLOOR


# ---------------------------------------------------------------------- the process


@both_kernels
def test_evidence_without_layers_is_that_of_an_ordinary_process(kernel):
    shape, task = DeepKernel(2, layers=0, kernel=kernel), bowl(0.4, 9)
    weights, y = weights_of(shape), unit_range(task.losses)(task.losses)
    K, noise = dense(kernel, weights, task.X, task.X)
    K += noise * np.eye(9)
    inverse = np.linalg.inv(K)
    constant = (inverse @ y).sum() / inverse.sum()
    expected = -multivariate_normal(np.full(9, constant), K).logpdf(y) / 9
    found = value(shape, weights, Rows.of(task.X, y, task.losses))
    assert found == pytest.approx(expected, rel=1e-10)


@both_kernels
def test_posterior_without_layers_is_that_of_an_ordinary_process(kernel):
    """A frozen identity as the network, and no fine-tuning."""
    surrogate = DeepKernelGP(kernel=kernel, layers=0, epochs=0, steps=30, batch=2, rows=10)
    surrogate.meta_fit(bowls(3))
    task, Z = bowl(0.6, 12, seed=9, scale=7.0), points()
    posterior = surrogate.fit(task).predict(Z, joint=True)
    low, width = task.losses.min(), np.ptp(task.losses)
    y, weights = (task.losses - low) / width, surrogate._weights
    K, noise = dense(kernel, weights, task.X, task.X)
    inverse = np.linalg.inv(K + noise * np.eye(12))
    cross, prior = dense(kernel, weights, Z, task.X)[0], dense(kernel, weights, Z, Z)[0]
    constant = (inverse @ y).sum() / inverse.sum()
    mean = constant + cross @ inverse @ (y - constant)
    covariance = (prior - cross @ inverse @ cross.T) * width**2
    np.testing.assert_allclose(posterior.mean, mean * width + low, rtol=1e-7)
    np.testing.assert_allclose(posterior.covariance, covariance, atol=1e-7 * width**2)
    np.testing.assert_allclose(posterior.std**2, np.diag(covariance), atol=1e-7 * width**2)


@both_kernels
@pytest.mark.parametrize("context", [0, 3])
def test_gradient_of_the_evidence_against_finite_differences(kernel, context):
    shape = DeepKernel(2, layers=2, width=4, context=context, kernel=kernel)
    tasks = [bowl(0.3, 6), bowl(0.7, 12, seed=1), bowl(0.5, 10, seed=2)]
    rows = rows_of(tasks, 8, support=4 if context else 0)
    assert len(set(rows.mask.sum(1).tolist())) > 1  # some are padded
    weights = weights_of(shape, 3)
    gradient = torch.zeros_like(weights)
    Evidence(shape, weights, gradient)(rows)
    some = np.random.default_rng(0).permutation(shape.size)[:40]
    some = np.union1d(some, np.arange(shape.features + 2))  # those of the kernel, too
    slope = np.zeros(len(some))
    for k, place in enumerate(some):
        for step in (1e-5, -1e-5):
            moved = weights.clone()
            moved[place] += step
            slope[k] += value(shape, moved, rows) / (2 * step)
    np.testing.assert_allclose(gradient[some], slope, atol=1e-6 * np.abs(slope).max())
    names = views(gradient, shape.shapes)
    assert all(names[name].abs().max() > 0 for name in names if name != "b1")


def test_tasks_of_a_batch_do_not_see_each_other_or_the_padding():
    shape, tasks = DeepKernel(2, layers=1, width=4), [bowl(0.3, 5), bowl(0.7, 12, seed=1)]
    weights, alone = weights_of(shape), []
    for task in tasks:
        y = unit_range(task.losses)(task.losses)
        alone.append(value(shape, weights, Rows.of(task.X, y, task.losses)))
    assert value(shape, weights, rows_of(tasks)) == pytest.approx(np.mean(alone), rel=1e-12)


@pytest.mark.parametrize("context", [0, 3])
def test_fine_tuning_raises_the_evidence_and_leaves_the_start(context):
    shape, task = DeepKernel(2, layers=2, width=8, context=context), bowl(0.4, 12)
    rows = Rows.of(task.X, unit_range(task.losses)(task.losses), task.losses)
    start = weights_of(shape)
    before = start.clone()
    losses = [
        value(shape, fine_tune(shape, start, rows, epochs=epochs, rate=3e-3), rows)
        for epochs in (1, 20, 60)
    ]
    assert value(shape, start, rows) > losses[0] > losses[1] > losses[2]
    assert torch.equal(start, before)


def test_every_fit_starts_from_the_stored_weights(learnt):
    first, second = bowl(0.3, 8, seed=20), bowl(0.7, 8, seed=21)
    expected = learnt.with_seed(1).fit(second).predict(points()).mean
    again = learnt.with_seed(1).fit(first).fit(second).predict(points()).mean
    np.testing.assert_array_equal(again, expected)


# ---------------------------------------------------------------------- landmarks


def test_the_context_does_not_depend_on_the_order_of_the_evaluations():
    shape, task = DeepKernel(2, layers=1, width=4, context=5), bowl(0.4, 7)
    weights, order = weights_of(shape), np.random.default_rng(0).permutation(7)
    z = shape.describe(weights, Rows.of(task.X, task.losses, task.losses))
    other = shape.describe(weights, Rows.of(task.X[order], task.losses[order], task.losses[order]))
    np.testing.assert_allclose(z, other, rtol=1e-12)
    reverse = Rows.of(task.X, task.losses, -task.losses)
    assert not np.allclose(z, shape.describe(weights, reverse))


def test_order_and_scale_of_the_evaluations_change_no_proposal(learnt):
    task = bowl(0.4, 8, seed=30)
    order = np.random.default_rng(0).permutation(8)
    other = Task.of(task.X[order], 3.0 + 1e3 * task.losses[order])
    a, b = (learnt.with_seed(0).fit(t).predict(points()) for t in (task, other))
    np.testing.assert_allclose(3.0 + 1e3 * a.mean, b.mean, rtol=1e-6)
    np.testing.assert_allclose(1e3 * a.std, b.std, rtol=1e-6)


# ---------------------------------------------------------------------- learning the past


def test_labels_are_stretched_from_a_random_range():
    y = torch.tensor([[0.0, 0.25, 1.0], [0.5, 0.5, 0.0]], dtype=torch.float64)
    low, high = np.sort(np.random.default_rng(1).random((2, 2)), axis=0)
    expected = (y.numpy() - low[:, None]) / np.maximum(high - low, 0.05)[:, None]
    np.testing.assert_allclose(stretched(y, np.random.default_rng(1)), expected)
    spans = [np.ptp(stretched(y, np.random.default_rng(k)).numpy()[0]) for k in range(200)]
    assert min(spans) >= 1 and max(spans) == pytest.approx(20)


def test_labels_of_any_losses_are_within_the_unit_range():
    for losses in ([3.0], [2.0, 2.0], [-1e308, 1.0, 1e308], [1e-300, 3e-300], [1, 2, 3, 4, 1e9]):
        y = unit_range(np.array(losses))(np.array(losses))
        assert y.min() == pytest.approx(0.0, abs=1e-9) and y.max() <= 1 + 1e-9
    y = unit_range(np.array([3.0, 5.0, 4.0]))(np.array([3.0, 5.0, 4.0]))
    np.testing.assert_allclose(y, [0.0, 1.0, 0.5])


def test_support_sets_and_rows_do_not_overlap():
    table = Table(bowls(4), lambda y: y, rows=30, support=20)
    rows = table.draw([0, 1, 2, 3] * 5, np.random.default_rng(0))
    sizes = (rows.pool[:, 0] > 0).sum(1)
    assert sizes.min() == 0 and sizes.max() > 5
    assert (rows.mask.sum(1) + sizes == 30).all()
    for b, size in enumerate(sizes):
        told, rest = rows.items[b, :size, :2], rows.X[b, rows.mask[b] > 0]
        assert len(np.unique(np.concatenate([told, rest]), axis=0)) == 30


def test_validation_draws_every_task_as_often():
    table = Table(bowls(3), lambda y: y / y.max(), rows=30)
    rows = table.draw_evenly(7, np.random.default_rng(0))
    assert np.unique(rows.X.sum((1, 2)).numpy().round(9)).size == 3 and len(rows.X) == 6
    assert len(table.draw_evenly(2, np.random.default_rng(0)).X) == 2


def test_learning_stops_early_and_keeps_the_best_weights(monkeypatch):
    monkeypatch.setattr(neural, "_EVERY", 2)
    monkeypatch.setattr(neural, "_PATIENCE", 3)
    weights, gradient, seen = torch.zeros(1), torch.zeros(1), []

    def learn(step):
        gradient.fill_(-1.0)
        return 0.0

    def measure():
        seen.append(weights.clone())
        return abs(len(seen) - 2.0)  # the second validation is the best one

    record = Record()
    kept = neural.descend(weights, gradient, learn, measure, steps=100, rate=0.1, record=record)
    assert (record.steps, record.best_step, record.stopped) == (10, 4, "patience")
    assert torch.equal(kept, seen[1]) and kept[0] > 0
    last = neural.descend(
        weights, gradient, learn, None, steps=7, rate=0.1, record=(r := Record())
    )
    assert (r.steps, r.best_step, r.stopped) == (7, 7, "steps") and torch.equal(last, weights)


def test_validation_tasks_say_which_weights_are_kept():
    tasks = bowls(5)
    surrogate = DeepKernelGP(**SMALL).meta_fit(tasks[:4], tasks[4:])
    losses = {step: loss for step, _, loss in surrogate.record.losses}
    assert losses[surrogate.record.best_step] == min(losses.values())
    assert surrogate.record.validation == ["study 4"]


def test_what_was_learnt_explains_a_new_task_better(learnt):
    task = bowl(0.35, 20, seed=50)
    rows = Rows.of(task.X, unit_range(task.losses)(task.losses), task.losses)
    untaught = learnt._kernel.initial(torch.Generator().manual_seed(0))
    assert value(learnt._kernel, learnt._weights, rows) < value(learnt._kernel, untaught, rows)


@pytest.mark.parametrize("method", ["fsbo", "dklm"])
def test_the_first_proposal_is_near_the_common_optimum(method):
    tasks = TaskSet.of(SQUARE, {t.name: t for t in bowls(6)})
    [first] = Optimizer(SQUARE, method=method, tasks=tasks, seed=0, **SMALL).ask()
    assert abs(first["x"] - 0.3) < 0.15 and abs(first["y"] - 0.3) < 0.15


def test_the_order_of_past_tasks_changes_nothing():
    a, b = (DeepKernelGP(**SMALL).meta_fit(tasks) for tasks in (bowls(4), bowls(4)[::-1]))
    assert torch.equal(a._weights, b._weights)
    assert not torch.equal(
        a._weights, DeepKernelGP(**SMALL, stretch=True).meta_fit(bowls(4))._weights
    )


# ---------------------------------------------------------------------- proposals


def test_posteriors_of_few_and_of_no_evaluations(learnt):
    Z = points(40)
    one = Task.of([[0.3, 0.3]], [5.0])
    for task in (NOTHING, one, Task.of(points(3), [1.0, 1.0, 1.0]), bowl(0.3, 5)):
        posterior = learnt.fit(task).predict(Z, joint=True)
        assert np.isfinite(posterior.mean).all() and (posterior.std > 0).all()
        np.testing.assert_allclose(np.diag(posterior.covariance), posterior.std**2, rtol=1e-6)
        assert (learnt.improvement(Z) is None) == (len(task) > 0)
    assert learnt.fit(one).predict([[0.3, 0.3]]).mean == pytest.approx(5.0)
    mean = np.mean([process.mean(Z) for process in learnt._past], axis=0)
    np.testing.assert_allclose(-learnt.fit(NOTHING).improvement(Z), mean)


def test_an_evolved_set_is_the_best_of_all_sets():
    losses = np.random.default_rng(0).random((25, 6))
    for size in (1, 2, 3):
        best = min(combinations(range(25), size), key=lambda s: losses[list(s)].min(0).mean())
        assert evolved_set(losses, size, np.random.default_rng(1)) == list(best)
    assert evolved_set(losses[:2], 5, np.random.default_rng(0)) == [0, 1]


def test_an_evolved_set_is_as_large_as_it_should_be():
    losses = np.random.default_rng(0).random((25, 6))
    for seed in range(20):
        assert len(set(evolved_set(losses, 8, np.random.default_rng(seed), generations=5))) == 8


def test_a_warm_start_evaluates_configurations_that_are_good_together():
    corners = np.array([[0.1, 0.1], [0.9, 0.1], [0.1, 0.9]])
    tasks = [bowl(corners[k % 3], 40, seed=k) for k in range(6)]
    surrogate = DeepKernelGP(**SMALL, warm_start=3).meta_fit(tasks)
    gaps = np.linalg.norm(surrogate._initial[:, None] - corners, axis=2)
    assert (gaps.min(axis=0) < 0.25).all()
    pool, seen = np.concatenate([points(100), surrogate._initial]), []
    for _ in range(3):
        surrogate.fit(Task.of(pool[seen].reshape(-1, 2), np.arange(len(seen))))
        seen.append(int(np.argmax(surrogate.improvement(pool))))
    assert sorted(seen) == [100, 101, 102]
    assert surrogate.fit(Task.of(pool[seen], [1.0, 2.0, 3.0])).improvement(pool) is None
    assert len(DeepKernelGP(**SMALL).meta_fit(tasks)._initial) == 0


# ---------------------------------------------------------------------- files and mistakes


def test_a_saved_model_predicts_the_same(learnt, tmp_path):
    learnt.save(tmp_path / "model", fingerprint="space")
    again = DeepKernelGP.load(tmp_path / "model", fingerprint="space")
    assert again.settings == learnt.settings
    np.testing.assert_array_equal(again.record.losses, learnt.record.losses)
    for task in (NOTHING, bowl(0.3, 6)):
        a, b = (s.fit(task).predict(points()) for s in (learnt, again))
        np.testing.assert_array_equal(a.mean, b.mean)
        np.testing.assert_array_equal(a.std, b.std)
    with pytest.raises(ModelFileError, match="weights, but the options"):
        DeepKernelGP.load(tmp_path / "model", width=9)
    with pytest.raises(ModelFileError, match="another search space"):
        DeepKernelGP.load(tmp_path / "model", fingerprint="other")


def test_mistakes_are_named(learnt):
    with pytest.raises(UnknownNameError, match="matern52, rbf"):
        DeepKernelGP(kernel="matern")
    with pytest.raises(OptionError, match="warm_start must be an integer of at least 0"):
        DeepKernelGP(warm_start=-1)
    with pytest.raises(OptionError, match="rate must be a positive number"):
        DeepKernelGP(rate=0.0)
    with pytest.raises(OptionError, match="call meta_fit"):
        DeepKernelGP().fit(NOTHING)
    with pytest.raises(OptionError, match="2 columns and the target study has 3"):
        learnt.fit(Task.of(np.ones((2, 3)), [1.0, 2.0]))
    with pytest.raises(OptionError, match="was not fitted"):
        DeepKernelGP(**SMALL).meta_fit(bowls(3)).predict(points())
    assert not DeepKernelGP().meta_fit([Task.of(points(3), [1.0, 1.0, 1.0])]).meta_learned


def test_a_warm_start_is_for_expected_improvement():
    with pytest.raises(OptionError, match=r"warm_start .* acquisition='ei', not 'lcb'"):
        Optimizer(SQUARE, method="fsbo", acquisition="lcb", warm_start=3)
    assert Optimizer(SQUARE, method="fsbo", acquisition="lcb").ask()


def test_a_model_of_another_kernel_is_refused(learnt, tmp_path):
    path = tmp_path / "model.safetensors"
    learnt.save(path)
    other = "rbf" if learnt.kernel == "matern52" else "matern52"
    with pytest.raises(ModelFileError, match=f"learnt with kernel .*, not '{other}'"):
        DeepKernelGP.load(path, kernel=other)
