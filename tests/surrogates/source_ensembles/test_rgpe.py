"""RGPE, and the Gaussian processes of past tasks that it shares with TST and TAF."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.plain import parabola

from rankwise._core.threads import one_thread
from rankwise.errors import ModelFileError, OptionError, UnknownNameError
from rankwise.history.task import Task
from rankwise.history.transforms import Standardize
from rankwise.surrogates import GaussianProcess, RankingWeightedGPs
from rankwise.surrogates.numeric.exact_gp import ExactGP, fit_hyperparameters, matern52
from rankwise.surrogates.source_ensembles import base as source_gps
from rankwise.surrogates.source_ensembles.base import SourceGPs, Stack, leading, some_rows
from rankwise.surrogates.source_ensembles.rgpe import (
    LeaveOneOut,
    discordant,
    ranking_weights,
    roots,
    source_losses,
    target_losses,
)

CENTRES = [(0.2, 0.3), (0.7, 0.6), (0.5, 0.5)]


def past(n=30):
    return [parabola(centre, n, seed=k, name=f"task {k}") for k, centre in enumerate(CENTRES)]


def process(task, lengthscales=(0.4, 0.7), noise=1e-3) -> ExactGP:
    y = Standardize.fit(task.losses)(task.losses)
    return ExactGP.given(task.X, y, matern52, np.array(lengthscales), noise)


def inverted(task: Task) -> Task:
    return replace(task, y=-task.y)


def part(task: Task, n: int) -> Task:
    return Task.of(task.X[:n], task.y[:n], name="target")


# ---------------------------------------------------------------------- processes of past tasks


@pytest.mark.parametrize("cache", [1, 100_000], ids=["one at a time", "together"])
def test_a_stack_predicts_what_each_process_does(monkeypatch, cache):
    monkeypatch.setattr(source_gps, "_CHUNK", cache)
    processes = [
        process(parabola((0.2, 0.3), 40, 0)),
        process(parabola((0.7, 0.6), 5, 1), (0.1, 3.0), 1e-6),
        process(parabola((0.5, 0.5), 23, 2), (1.0, 0.2), 0.1),
    ]
    Z = np.random.default_rng(3).random((9, 2))
    stack = Stack.of(processes)
    mean, variance = stack.posterior(Z)
    joint_mean, covariance = stack.joint(Z)
    for t, gp in enumerate(processes):
        expected, expected_variance = gp.posterior(Z)
        for found in (mean[t], stack.mean(Z)[t], joint_mean[t]):
            np.testing.assert_allclose(found, expected, atol=1e-9)
        np.testing.assert_allclose(variance[t], expected_variance, atol=1e-9)
        np.testing.assert_allclose(covariance[t], gp.covariance(Z), atol=1e-9)
    some = stack.some(np.array([2, 0]))
    np.testing.assert_array_equal(some.mean(Z), stack.mean(Z)[[2, 0]])
    nothing = stack.some(np.array([], dtype=int))
    assert nothing.mean(Z).shape == nothing.posterior(Z)[1].shape == (0, 9)


def test_sources_are_exact_processes_of_the_standardised_losses():
    tasks = past()
    sources = SourceGPs.of(tasks, rows=100)
    Z = np.random.default_rng(1).random((5, 2))
    for t, task in enumerate(tasks):
        y = Standardize.fit(task.losses)(task.losses)
        with one_thread():
            lengthscales, noise = fit_hyperparameters(task.X, y, matern52)
        expected = ExactGP.given(task.X, y, matern52, lengthscales, noise)
        np.testing.assert_allclose(sources.stack.mean(Z)[t], expected.mean(Z), atol=1e-9)


def test_rows_of_a_source_are_limited_and_spread():
    tasks = [parabola((0.4, 0.4), 150, 0), parabola((0.1, 0.4), 8, 1)]
    sources = SourceGPs.of(tasks, rows=20)
    assert sources.X.shape == (2, 20, 2)
    assert sources.counts.tolist() == [20, 8]
    y = tasks[0].losses
    rows = some_rows(y, 20, "abc")
    assert len(set(rows.tolist())) == 20 and (np.diff(rows) > 0).all()
    assert {int(y.argmin()), int(y.argmax())} <= set(rows.tolist())
    np.testing.assert_array_equal(rows, some_rows(y, 20, "abc"))
    assert not np.array_equal(rows, some_rows(y, 20, "def"))
    np.testing.assert_array_equal(some_rows(y[:3], 20, "abc"), [0, 1, 2])


def test_known_sources_are_not_fitted_again(monkeypatch):
    fitted = []

    def counted(*arguments):
        fitted.append(arguments)
        return fit_hyperparameters(*arguments)

    monkeypatch.setattr(source_gps, "fit_hyperparameters", counted)
    new = parabola((0.9, 0.1), 12, 9, name="new")
    surrogate = RankingWeightedGPs().meta_fit(past())
    assert len(fitted) == 3
    surrogate.meta_fit([*past(), new])
    assert len(fitted) == 4
    fresh = RankingWeightedGPs().meta_fit([new, *past()])
    Z = np.random.default_rng(0).random((4, 2))
    np.testing.assert_allclose(surrogate.past.stack.mean(Z), fresh.past.stack.mean(Z))
    assert surrogate.past.names == fresh.past.names


def test_the_largest_weights_lead_and_keep_the_sum_of_all():
    weights = np.array([0.1, 0.0, 0.4, 0.2, 0.1])
    lead, share = leading(weights, 2, np.random.default_rng(0))
    assert lead.tolist() == [2, 3]
    np.testing.assert_allclose(share, [0.8 * 0.4 / 0.6, 0.8 * 0.2 / 0.6])
    lead, share = leading(weights, 9, np.random.default_rng(0))
    assert sorted(lead.tolist()) == [0, 2, 3, 4]
    np.testing.assert_allclose(share, weights[lead])
    lead, share = leading(np.zeros(3), 2, np.random.default_rng(0))
    assert len(lead) == len(share) == 0


def test_equal_weights_lead_in_turn():
    drawn = {
        tuple(leading(np.full(6, 0.1), 2, np.random.default_rng(k))[0].tolist()) for k in range(20)
    }
    assert len(drawn) > 5


# ---------------------------------------------------------------------- ranking losses


@pytest.mark.parametrize("n", [2, 3, 8])
@pytest.mark.parametrize("noise", [1e-6, 0.05])
def test_leave_one_out_is_what_refits_without_the_observation_believe(n, noise):
    task = parabola((0.3, 0.6), n, 4)
    X, y = task.X, Standardize.fit(task.losses)(task.losses)
    if n == 8:
        X = X.copy()
        X[5] = X[2]  # a configuration evaluated twice
    lengthscales = np.array([0.4, 0.9])
    found = LeaveOneOut.of(ExactGP.given(X, y, matern52, lengthscales, noise), y)
    for j in range(n):
        others = np.arange(n) != j
        refit = ExactGP.given(X[others], y[others], matern52, lengthscales, noise)
        covariance = found.covariance + np.outer(found.extra[j], found.extra[j])
        np.testing.assert_allclose(found.mean[j], refit.mean(X), atol=1e-6)
        np.testing.assert_allclose(covariance, refit.covariance(X), atol=1e-6)


def pairs_wrong(f, y) -> int:
    """Ordered pairs, one by one."""
    return sum(
        (f[j] < f[k]) ^ (y[j] < y[k]) for j in range(len(y)) for k in range(len(y)) if y[j] != y[k]
    )


def test_discordant_pairs_are_counted_and_equal_losses_are_not():
    y = np.array([1.0, 1.0, 2.0, 3.0, 3.0, 5.0])
    f = np.random.default_rng(0).normal(size=(3, 6, 7))
    found = discordant(f, y)
    for t in range(3):
        for s in range(7):
            assert 2 * found[t, s] == pairs_wrong(f[t, :, s], y)
    np.testing.assert_array_equal(discordant(y[None, :, None], y), 0)
    np.testing.assert_array_equal(discordant(-y[None, :, None], y), 13)  # of 15, two are ties


def test_covariances_without_full_rank_have_roots():
    ones = np.ones((2, 4, 4))
    ones[1] -= 1e-7 * np.eye(4)  # as rounding leaves them
    L = roots(ones)
    np.testing.assert_allclose(L @ L.transpose(0, 2, 1), 1.0, atol=1e-4)


def brute_force_losses(surrogate, task, samples, seed):
    """Losses (T + 1, S) of the same random numbers, sample by sample, with refits."""
    X, y = task.X, Standardize.fit(task.losses)(task.losses)
    order, rng = np.argsort(y, kind="stable"), np.random.default_rng(seed)
    past, n = surrogate.past, len(y)
    z = rng.standard_normal((len(past), n, samples))
    rows = []
    for t in range(len(past)):
        count = past.counts[t]
        gp = ExactGP.given(
            past.X[t, :count],
            past.y[t, :count],
            matern52,
            past.lengthscales[t],
            float(past.noise[t]),
        )
        root = np.linalg.cholesky(gp.covariance(X[order]) + 1e-8 * np.eye(n))
        f = gp.mean(X[order])[:, None] + root @ z[t]
        rows.append([pairs_wrong(f[:, s], y[order]) for s in range(samples)])
    own = GaussianProcess().fit(task).model
    shared = LeaveOneOut.of(own, y).covariance
    values, vectors = np.linalg.eigh(shared)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    target = np.zeros(samples)
    for j in range(n):
        others = np.arange(n) != j
        refit = ExactGP.given(X[others], y[others], matern52, own.lengthscales, own.noise)
        # The covariance without j is the shared one and a vector's outer product with itself.
        more = refit.covariance(X) - shared
        extra = more[:, j] / np.sqrt(more[j, j])
        z = rng.standard_normal((n + 1, samples))
        f = refit.mean(X)[:, None] + root @ z[:-1] + np.outer(extra, z[-1])
        for s in range(samples):
            target[s] += sum((f[j, s] < f[k, s]) ^ (y[j] < y[k]) for k in range(n) if y[k] != y[j])
    return np.array([*rows, target])


@pytest.mark.parametrize("n", [3, 7])
def test_weights_of_three_tasks_by_hand(n):
    task = part(parabola((0.6, 0.6), 20, 7), n)
    surrogate = RankingWeightedGPs(samples=40, seed=5, dilution="none").meta_fit(past())
    surrogate.fit(task)
    losses = brute_force_losses(surrogate, task, 40, seed=5)
    expected = np.zeros(4)
    for s in range(40):
        best = [i for i in range(4) if losses[i, s] == losses[:, s].min()]
        for i in best:
            expected[i] += 1 / len(best) / 40
    np.testing.assert_allclose([*surrogate._weights, surrogate._own], expected)
    assert len(set(losses[:, 0])) > 1


def test_sources_and_target_are_judged_on_one_scale():
    task = parabola((0.3, 0.6), 10, 4)
    y = Standardize.fit(task.losses)(task.losses)
    sure = ExactGP.given(task.X, y, matern52, np.array([0.5, 0.5]), 1e-6)
    unsure = ExactGP.given(task.X[:1], y[:1], matern52, np.array([0.01, 0.01]), 1e-6)
    rng = np.random.default_rng(0)
    good, chance = source_losses(Stack.of([sure, unsure]), task.X, y, 500, rng)
    assert good.mean() < 1
    assert abs(chance.mean() - 45) < 4  # half of 90 ordered pairs
    own = LeaveOneOut.of(ExactGP.given(task.X, y, matern52, np.array([0.01, 0.01]), 1e-6), y)
    blind = target_losses(own, y, 500, rng).mean()
    assert 10 < blind < 80


LOSSES = np.array(
    [
        [0.0, 0.0, 2.0, 0.0],  # a good task
        [0.0, 4.0, 6.0, 2.0],
        [8.0, 8.0, 8.0, 0.0],  # a bad one, which is best once
        [2.0, 2.0, 2.0, 2.0],  # the target
    ]
)


def test_ranking_weights_by_hand():
    rng = np.random.default_rng(0)
    expected = np.array([1 / 2 + 1 + 1 / 2 + 1 / 2, 1 / 2, 1 / 2, 1 / 2]) / 4
    np.testing.assert_allclose(ranking_weights(LOSSES, "none", rng), expected)
    # Medians 0, 3 and 8 against 2: the second and the third task are left out.
    expected = np.array([1 + 1 + 1 / 2 + 1, 0, 0, 1 / 2]) / 4
    np.testing.assert_allclose(ranking_weights(LOSSES, "percentile", rng), expected)


def test_a_task_is_kept_as_often_as_it_beats_the_target():
    found = [
        ranking_weights(LOSSES, "probabilistic", np.random.default_rng(k)) for k in range(400)
    ]
    np.testing.assert_allclose(np.sum(found, axis=1), 1.0)
    kept = (np.array(found) > 0).mean(axis=0)
    assert abs(kept[0] - 3 / 4) < 0.07
    # The second is best only in the first sample, the third in the last.
    assert abs(kept[1] - 1 / 4) < 0.07 and abs(kept[2] - 1 / 4) < 0.07


# ---------------------------------------------------------------------- the ensemble


@pytest.mark.parametrize("dilution", ["percentile", "probabilistic", "none"])
def test_a_task_like_the_target_counts_most_and_an_inverted_one_not_at_all(dilution):
    target = parabola((0.3, 0.6), 40, 4, name="target")
    twin = replace(target, name="twin")
    wrong = replace(inverted(target), name="wrong")
    other = parabola((0.9, 0.1), 40, 8, name="other")
    surrogate = RankingWeightedGPs(dilution=dilution).meta_fit([wrong, twin, other])
    sources = surrogate.fit(part(target, 9)).sources
    assert next(iter(sources)) == "twin"
    assert sources["twin"] > 0.4
    assert sources["wrong"] == 0
    assert sum(sources.values()) + surrogate._own == pytest.approx(1.0)


def test_the_ensemble_is_the_weighted_sum_of_independent_processes():
    surrogate = RankingWeightedGPs(dilution="none").meta_fit(past())
    task = part(parabola((0.6, 0.6), 20, 7), 3)
    surrogate.fit(task)
    Z = np.random.default_rng(0).random((5, 2))
    means, variances = surrogate.past.stack.posterior(Z)
    own_mean, own_variance = GaussianProcess().fit(task).model.posterior(Z)
    w, w0 = surrogate._weights, surrogate._own
    assert w0 > 0 and (w > 0).sum() > 1
    unit = Standardize.fit(task.losses)
    found = surrogate.predict(Z, joint=True)
    np.testing.assert_allclose(found.mean, unit.center + unit.scale * (w @ means + w0 * own_mean))
    std = unit.scale * np.sqrt(w**2 @ variances + w0**2 * own_variance)
    np.testing.assert_allclose(found.std, std)
    np.testing.assert_allclose(np.diag(found.covariance), std**2)
    assert np.linalg.eigvalsh(found.covariance).min() > -1e-9
    shared = sum(w[t] ** 2 * c for t, c in enumerate(surrogate.past.stack.joint(Z)[1]))
    own = w0**2 * GaussianProcess().fit(task).model.covariance(Z)
    np.testing.assert_allclose(found.covariance, unit.scale**2 * (shared + own), atol=1e-12)


def test_predictions_are_in_units_of_the_loss():
    surrogate = RankingWeightedGPs().meta_fit(past())
    task = part(parabola((0.6, 0.6), 20, 7), 6)
    Z = np.random.default_rng(0).random((5, 2))
    small = surrogate.fit(task).predict(Z)
    large = surrogate.fit(replace(task, y=1000 * task.y - 7)).predict(Z)
    np.testing.assert_allclose(large.mean, 1000 * small.mean - 7)
    np.testing.assert_allclose(large.std, 1000 * small.std)


@pytest.mark.parametrize(
    "losses", [[], [3.0], [3.0, 3.0], [np.nan, np.nan]], ids=["none", "one", "equal", "failed"]
)
def test_before_two_different_losses_all_past_tasks_count_the_same(losses):
    surrogate = RankingWeightedGPs().meta_fit(past())
    Z = np.random.default_rng(0).random((50, 2))
    n = len(losses)
    surrogate.fit(Task.of(Z[:n].reshape(n, 2), losses))
    assert surrogate._own == 0
    np.testing.assert_allclose(surrogate._weights, 1 / 3)
    mean = surrogate.past.stack.mean(Z).mean(axis=0)
    assert np.argsort(surrogate.predict(Z).mean).tolist() == np.argsort(mean).tolist()
    if n:
        assert surrogate.improvement(Z) is None
    else:
        np.testing.assert_allclose(surrogate.improvement(Z), -mean)


def test_only_some_of_many_past_tasks_predict():
    tasks = [parabola((0.1 + 0.08 * k, 0.5), 15, k, name=str(k)) for k in range(10)]
    surrogate = RankingWeightedGPs(active=3).meta_fit(tasks)
    task = part(parabola((0.5, 0.5), 20, 77), 8)
    surrogate.fit(task)
    assert len(surrogate._lead) <= 3 < (surrogate._weights > 0).sum()
    assert surrogate._share.sum() + surrogate._own == pytest.approx(1.0)
    assert np.isfinite(surrogate.predict(task.X).mean).all()


def test_one_source_and_a_source_of_three_trials_will_do():
    tiny = Task.of([[0.1, 0.2], [0.5, 0.5], [0.9, 0.4]], [1.0, 2.0, 2.0], name="tiny")
    surrogate = RankingWeightedGPs().meta_fit([tiny])
    for n in (0, 1, 2, 5):
        posterior = surrogate.fit(part(parabola((0.3, 0.3), 9, 0), n)).predict(tiny.X, joint=True)
        assert np.isfinite(posterior.mean).all() and (posterior.std >= 0).all()
        assert np.isfinite(posterior.covariance).all()


def test_many_observations_are_compared_by_some_of_them():
    surrogate = RankingWeightedGPs(samples=8).meta_fit(past())
    surrogate.fit(parabola((0.5, 0.5), 130, 3))
    assert surrogate._weights.sum() + surrogate._own == pytest.approx(1.0)


def test_without_a_past_it_is_a_gaussian_process():
    surrogate = RankingWeightedGPs().meta_fit([Task.of(np.ones((4, 2)), [1.0] * 4)])
    assert not surrogate.meta_learned and surrogate.sources is None
    task = part(parabola((0.3, 0.3), 9, 0), 6)
    Z = np.random.default_rng(0).random((5, 2))
    expected, found = GaussianProcess().fit(task).predict(Z), surrogate.fit(task).predict(Z)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-6)
    np.testing.assert_allclose(found.std, expected.std, rtol=1e-4)
    assert surrogate.improvement(Z) is None


def test_order_and_parts_of_the_past_do_not_matter_and_seeds_do():
    task = part(parabola((0.6, 0.6), 20, 7), 5)
    a, b, c = past()
    one = RankingWeightedGPs(seed=3).meta_fit([a, b, c]).fit(task)
    two = RankingWeightedGPs(seed=3).meta_fit([c], [b, a]).fit(task)
    np.testing.assert_array_equal(one._weights, two._weights)
    other = one.with_seed(4).fit(task)
    assert not np.array_equal(one._weights, other._weights)
    assert other.past is one.past


def test_save_and_load(tmp_path):
    path = tmp_path / "past.safetensors"
    surrogate = RankingWeightedGPs(samples=64, rows=12).meta_fit(past())
    surrogate.save(path, fingerprint="space")
    loaded = RankingWeightedGPs.load(path, fingerprint="space", active=2)
    assert (loaded.samples, loaded.rows, loaded.active) == (64, 12, 2)
    assert loaded.past.names == surrogate.past.names
    task = part(parabola((0.6, 0.6), 20, 7), 5)
    expected = surrogate.fit(task)._weights
    np.testing.assert_array_equal(loaded.fit(task)._weights, expected)
    with pytest.raises(ModelFileError, match=r"rows=12, not 30"):
        RankingWeightedGPs.load(path, rows=30)
    with pytest.raises(ModelFileError, match="another search space"):
        RankingWeightedGPs.load(path, fingerprint="another")
    with pytest.raises(OptionError, match="nothing to save"):
        RankingWeightedGPs().save(path)


def test_wrong_options_and_tasks_are_refused():
    with pytest.raises(UnknownNameError, match=r"dilution.*none, percentile, probabilistic"):
        RankingWeightedGPs(dilution="p95")
    for option in ("samples", "rows", "active"):
        with pytest.raises(OptionError, match=option):
            RankingWeightedGPs(**{option: 0})
    surrogate = RankingWeightedGPs().meta_fit(past())
    with pytest.raises(OptionError, match="2 columns and the target study has 3"):
        surrogate.fit(Task.of(np.ones((2, 3)), [1.0, 2.0]))
    with pytest.raises(OptionError, match="one width"):
        surrogate.meta_fit([*past(), Task.of(np.ones((3, 3)), [1.0, 2.0, 3.0])])


def test_learning_shows_a_bar(capsys):
    RankingWeightedGPs().meta_fit(past(), progress=True)
    assert "3/3" in capsys.readouterr().err
