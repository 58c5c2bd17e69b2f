"""TST and TAF."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm
from support.plain import parabola

from rankwise import Encoder, methods
from rankwise.errors import ModelFileError, OptionError, RunWarning, UnknownNameError
from rankwise.history.task import Task
from rankwise.history.transforms import Standardize
from rankwise.surrogates import GaussianProcess, TransferAcquisition, TwoStageTransfer
from rankwise.surrogates.source_ensembles.tst import (
    context_distances,
    discordance,
    epanechnikov,
    shared_features,
)

CENTRES = [(0.2, 0.3), (0.7, 0.6), (0.5, 0.5)]
Z = np.random.default_rng(0).random((40, 2))
both = pytest.mark.parametrize("kind", [TwoStageTransfer, TransferAcquisition])


def past(n=30):
    return [parabola(centre, n, seed=k, name=f"task {k}") for k, centre in enumerate(CENTRES)]


def described(contexts):
    return [replace(t, context=c) for t, c in zip(past(), contexts, strict=True)]


def target(n, centre=(0.6, 0.6), context=None) -> Task:
    task = parabola(centre, 20, 7)
    return Task.of(task.X[:n], task.y[:n], context=context)


# ---------------------------------------------------------------------- distances and weights


def test_the_kernel():
    np.testing.assert_allclose(epanechnikov(np.array([0.0, 0.5, 1.0, 3.0])), [0.75, 0.5625, 0, 0])


def test_distances_by_hand():
    y = np.array([4.0, 1.0, 3.0, 2.0])
    same, swapped, reverse = 10 * y, np.array([4.0, 2.0, 3.0, 1.0]), -y
    means = np.stack([same, swapped, reverse], axis=1)
    np.testing.assert_allclose(discordance(means, y), [0, 1 / 6, 1])
    tied = np.array([4.0, 1.0, 1.0, 1.0])  # three pairs count
    np.testing.assert_allclose(discordance(means, tied), [0, 0, 1])
    for few in (y[:0], y[:1], np.ones(4)):
        np.testing.assert_array_equal(discordance(means[: len(few)], few), 0)


@both
@pytest.mark.parametrize("n", [2, 3, 8])
def test_weights_of_three_tasks_by_hand(kind, n):
    task, bandwidth = target(n), 0.6
    surrogate = kind(bandwidth=bandwidth).meta_fit(past()).fit(task)
    expected, pairs = [], n * (n - 1) // 2
    for gp_mean in surrogate.past.stack.mean(task.X):
        wrong = sum(
            (gp_mean[j] < gp_mean[k]) != (task.y[j] < task.y[k])
            for j in range(n)
            for k in range(j)
        )
        t = wrong / pairs / bandwidth
        expected.append(0.75 * (1 - t**2) if t <= 1 else 0.0)
    total = sum(expected) + 0.75
    np.testing.assert_allclose(surrogate._weights, np.array(expected) / total)
    assert surrogate._own == pytest.approx(0.75 / total)


@both
def test_a_task_like_the_target_counts_most_and_an_inverted_one_not_at_all(kind):
    like = parabola((0.3, 0.6), 40, 4, name="like")
    wrong = replace(like, y=-like.y, name="wrong")
    other = parabola((0.9, 0.1), 40, 8, name="other")
    surrogate = kind(bandwidth=0.5).meta_fit([wrong, like, other])
    sources = surrogate.fit(Task.of(like.X[:9], like.y[:9])).sources
    assert next(iter(sources)) == "like" and sources["like"] > sources["other"]
    assert sources["wrong"] == 0


def test_the_default_bandwidth_is_that_of_the_similarity():
    task = target(8)
    for similarity, bandwidth in (("ranking", 0.1), ("metafeatures", 1.0)):
        tasks = described([{"size": 1.0}, {"size": 1.5}, {"size": 4.0}])
        task = target(8, context={"size": 1.2})
        found, given = (
            TwoStageTransfer(similarity=similarity, bandwidth=b).meta_fit(tasks).fit(task)._weights
            for b in (None, bandwidth)
        )
        np.testing.assert_array_equal(found, given)
    assert 0 < (found > 0).sum() < 3


# ---------------------------------------------------------------------- the surrogate


def test_the_mean_is_a_kernel_regression_and_the_variance_the_target_s():
    task = target(6)
    surrogate = TwoStageTransfer(bandwidth=0.9).meta_fit(past()).fit(task)
    own = GaussianProcess().fit(task)
    unit = Standardize.fit(task.losses)
    mean = surrogate._weights @ surrogate.past.stack.mean(Z)
    mean = mean + surrogate._own * own.model.mean(Z)
    found = surrogate.predict(Z, joint=True)
    np.testing.assert_allclose(found.mean, unit.center + unit.scale * mean)
    expected = own.predict(Z, joint=True)
    np.testing.assert_allclose(found.std, expected.std)
    np.testing.assert_allclose(found.covariance, expected.covariance)
    assert surrogate.improvement(Z) is None
    assert (surrogate._weights > 0).all()


@both
def test_before_the_first_evaluation_the_past_speaks(kind):
    surrogate = kind().meta_fit(past()).fit(Task.of(np.empty((0, 2)), []))
    mean = surrogate.past.stack.mean(Z).mean(axis=0)
    np.testing.assert_allclose(surrogate.improvement(Z), -mean)
    posterior = surrogate.predict(Z, joint=True)
    np.testing.assert_allclose(posterior.mean, mean)
    np.testing.assert_array_equal(posterior.std, 1)
    np.testing.assert_array_equal(posterior.covariance, np.eye(len(Z)))


@both
@pytest.mark.parametrize("losses", [[2.0], [2.0, 2.0, 2.0], [math.nan] * 2])
def test_without_a_pair_all_tasks_are_alike(kind, losses):
    surrogate = kind().meta_fit(past()).fit(Task.of(Z[: len(losses)], losses))
    np.testing.assert_allclose([*surrogate._weights, surrogate._own], 1 / 4)
    assert np.isfinite(surrogate.predict(Z).mean).all()


@both
def test_without_a_past_it_is_a_gaussian_process(kind):
    surrogate = kind().meta_fit([]).fit(target(5))
    assert not surrogate.meta_learned and surrogate.sources is None
    assert surrogate.improvement(Z) is None
    expected = GaussianProcess().fit(target(5)).predict(Z)
    np.testing.assert_allclose(surrogate.predict(Z).mean, expected.mean, rtol=1e-6)


@both
def test_no_past_task_may_be_like_the_target(kind):
    surrogate = kind().meta_fit([replace(t, y=-t.y) for t in past()]).fit(target(8))
    assert surrogate._own == 1 and not surrogate._weights.any()
    task = target(8)
    expected = GaussianProcess().fit(task).predict(Z)
    np.testing.assert_allclose(surrogate.predict(Z).mean, expected.mean)


@both
def test_save_and_load(kind, tmp_path):
    path = tmp_path / "past.safetensors"
    contexts = [{"size": 1.0, "classes": 2.0}, {"size": 3.0, "classes": 2.0}, {"size": 9.0}]
    surrogate = kind(similarity="metafeatures", bandwidth=0.8).meta_fit(described(contexts))
    surrogate.save(path)
    loaded = kind.load(path)
    task = target(5, context={"size": 2.0})
    expected, found = surrogate.fit(task), loaded.fit(task)
    np.testing.assert_array_equal(found._weights, expected._weights)
    np.testing.assert_array_equal(found.predict(Z).mean, expected.predict(Z).mean)
    other = TransferAcquisition if kind is TwoStageTransfer else TwoStageTransfer
    with pytest.raises(ModelFileError, match="holds a"):
        other.load(path)


def test_wrong_options_are_refused():
    with pytest.raises(UnknownNameError, match=r"similarity.*metafeatures, ranking"):
        TwoStageTransfer(similarity="rank")
    for bandwidth in (0, -1.0, "wide"):
        with pytest.raises(OptionError, match="bandwidth"):
            TransferAcquisition(bandwidth=bandwidth)


# ---------------------------------------------------------------------- meta-features


def test_distances_of_contexts_by_hand():
    contexts = [
        {"a": 1.0, "b": 10.0, "c": 5.0, "d": 0.0},
        {"a": 3.0, "b": 30.0, "c": 5.0},
        {"a": 5.0, "b": 20.0, "c": 5.0, "d": math.nan},
    ]
    assert shared_features(contexts) == ["a", "b", "c"]
    wanted = {"a": 3.0, "b": 10.0, "c": 77.0, "e": 1.0}  # c is the same for all past tasks
    a, b = (np.std([context[name] for context in contexts]) for name in "ab")
    expected = [
        math.sqrt(((2 / a) ** 2 + 0) / 2),
        math.sqrt((0 + (20 / b) ** 2) / 2),
        math.sqrt(((2 / a) ** 2 + (10 / b) ** 2) / 2),
    ]
    np.testing.assert_allclose(context_distances(contexts, wanted), expected)
    np.testing.assert_array_equal(context_distances(contexts, {"c": 1.0}), 0)
    assert context_distances(contexts, {"e": 1.0}) is None
    assert context_distances(contexts, {}) is None


def test_meta_features_speak_before_the_first_evaluation():
    tasks = described([{"size": 0.0}, {"size": 1.0}, {"size": 2.0}])
    surrogate = TwoStageTransfer(similarity="metafeatures", bandwidth=0.5).meta_fit(tasks)
    empty = Task.of(np.empty((0, 2)), [], context={"size": 1.1})
    assert surrogate.fit(empty).sources["task 1"] == 1
    far = Task.of(np.empty((0, 2)), [], context={"size": 99.0})
    np.testing.assert_allclose(surrogate.fit(far)._weights, 1 / 3)  # nothing else is known
    known = target(4, context={"size": 99.0})
    assert surrogate.fit(known)._own == 1


def test_a_past_without_contexts_cannot_be_compared_by_them(tmp_path):
    surrogate = TwoStageTransfer(similarity="metafeatures")
    for contexts in (
        [{}, {}, {}],
        [{"size": 1.0}, {"size": 2.0}, {}],
        [{"a": 1.0}, {"b": 1.0}, {}],
    ):
        with pytest.raises(OptionError, match=r"no meta-feature in common.*ranking"):
            surrogate.meta_fit(described(contexts))
    TwoStageTransfer().meta_fit(past()).save(tmp_path / "past")
    with pytest.raises(ModelFileError, match=r"not fit the options.*no meta-feature in common"):
        TwoStageTransfer.load(tmp_path / "past", similarity="metafeatures")


def test_a_target_without_context_is_compared_by_ranking():
    tasks = described([{"size": 0.0}, {"size": 1.0}, {"size": 2.0}])
    surrogate = TwoStageTransfer(similarity="metafeatures").meta_fit(tasks)
    with pytest.warns(RunWarning, match="compared by ranking"):
        surrogate.fit(target(5))
    expected = TwoStageTransfer().meta_fit(tasks).fit(target(5))
    np.testing.assert_array_equal(surrogate._weights, expected._weights)


def test_a_study_begins_where_the_past_task_with_its_context_was_best():
    encoder = Encoder({"x": (0.0, 1.0), "y": (0.0, 1.0)})
    tasks = described([{"size": 0.0}, {"size": 1.0}, {"size": 2.0}])
    strategy = methods.make("tst", encoder, tasks, similarity="metafeatures", bandwidth=0.5)
    nothing, rng = np.empty((0, 2)), np.random.default_rng(0)
    for k, centre in enumerate(CENTRES):
        history = Task.of(nothing, [], context={"size": float(k)})
        proposed = strategy.propose(history, nothing, rng)
        assert np.linalg.norm(proposed - centre) < 0.15


# ---------------------------------------------------------------------- TAF


@pytest.mark.parametrize("n", [1, 2, 6])
def test_the_utility_of_taf_by_hand(n):
    task = target(n)
    surrogate = TransferAcquisition(bandwidth=0.9).meta_fit(past()).fit(task)
    gp = GaussianProcess().fit(task).model
    mean, variance = gp.posterior(Z)
    std, best = np.sqrt(variance), gp.mean(task.X).min()
    z = (best - mean) / std
    total = surrogate._own * (std * norm.pdf(z) + (best - mean) * norm.cdf(z))
    for weight, source, seen in zip(
        surrogate._weights,
        surrogate.past.stack.mean(Z),
        surrogate.past.stack.mean(task.X),
        strict=True,
    ):
        total += weight * np.maximum(seen.min() - source, 0)
    np.testing.assert_allclose(surrogate.improvement(Z), np.log(total), rtol=1e-6)


def test_where_the_past_promises_nothing_the_target_s_own_improvement_decides():
    tasks = [replace(t, y=-t.y) for t in past()]
    task = target(12)
    surrogate = TransferAcquisition().meta_fit(tasks).fit(task)
    assert surrogate._own == 1
    values = surrogate.improvement(np.concatenate([Z, task.X]))
    assert np.isfinite(values).all()
    assert values[: len(Z)].max() > values[len(Z) :].max()


def test_taf_has_the_options_of_tst():
    assert methods.get("taf").options == methods.get("tst").options
    assert methods.get("tst").options["similarity"] == "ranking"
