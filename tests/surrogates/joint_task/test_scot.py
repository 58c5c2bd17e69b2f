"""The joint ranking of past tasks and the new one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import spearmanr

from rankwise import Optimizer
from rankwise.errors import OptionError
from rankwise.history.task import Task
from rankwise.surrogates import GaussianProcess, JointRankingGP
from rankwise.surrogates.joint_task.scot import mixed, ranked, rho_covariance, similarity
from rankwise.surrogates.numeric.exact_gp import matern52, squared_distances


def bowl(centre, n=20, seed=0, context=None, name="") -> Task:
    X = np.random.default_rng(seed).random((n, 2))
    return Task.of(X, np.square(X - centre).sum(axis=1), name=name, context=context)


def past(count=5) -> list[Task]:
    centres = [
        np.array([0.3, 0.6]) + 0.05 * np.random.default_rng(100 + k).normal(size=2)
        for k in range(count)
    ]
    return [bowl(centre, seed=k, name=f"bowl {k}") for k, centre in enumerate(centres)]


def points(n=200, seed=50):
    return np.random.default_rng(seed).random((n, 2))


def nothing() -> Task:
    return Task.of(np.empty((0, 2)), [])


@pytest.fixture(scope="module")
def learnt() -> JointRankingGP:
    return JointRankingGP().meta_fit(past())


# ---------------------------------------------------------------------- the ranker


def test_latent_values_minimise_the_loss_of_pairs():
    """By another search, over the values themselves."""
    rng = np.random.default_rng(0)
    X, task = rng.random((9, 2)), np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])
    y = np.array([3.0, 1.0, 2.0, 2.0, 10.0, 30.0, 20.0, 50.0, 40.0])
    B, lengthscales = np.array([[1.0, 0.6], [0.6, 1.0]]), np.array([0.5, 0.7])
    K = B[np.ix_(task, task)] * matern52(squared_distances(X, X, lengthscales))[0]
    K += 1e-4 * np.eye(9)
    inverse = np.linalg.inv(K)

    def loss(f):
        total = 0.5 * f @ inverse @ f
        for i in range(9):
            for j in range(9):
                if task[i] == task[j] and y[i] < y[j]:
                    weight = 5.0 / (3.0 if task[i] == 0 else 4.0)
                    total += weight * np.log1p(np.exp(-(f[j] - f[i])))
        return total

    found = ranked(X, y, task, B, lengthscales, 5.0)
    best = minimize(loss, np.zeros(9), method="BFGS", options={"gtol": 1e-7}).x
    assert found == pytest.approx(best / best.std(), abs=1e-3)


def test_only_the_order_within_a_task_counts():
    rng = np.random.default_rng(1)
    X, task, y = rng.random((12, 2)), np.repeat([0, 1], 6), rng.random(12)
    B, lengthscales = mixed(0.5, np.ones((2, 2))), np.array([0.3, 0.3])
    values = ranked(X, y, task, B, lengthscales, 1e3)
    for t in range(2):
        mine = task == t
        assert (np.argsort(values[mine]) == np.argsort(y[mine])).all()
    other = np.where(task == 0, np.exp(5 * y), 1e6 * y - 3)
    assert ranked(X, other, task, B, lengthscales, 1e3).tolist() == values.tolist()


def test_nothing_to_compare_gives_no_values():
    X, task = points(4), np.array([0, 0, 1, 2])
    values = ranked(X, np.array([1.0, 1.0, 2.0, 3.0]), task, np.eye(3), np.ones(2), 10.0)
    assert values.tolist() == [0.0] * 4


def test_losses_of_a_narrow_part_get_their_place_on_the_common_scale(learnt):
    """The observations of a study that begins near the optimum are all good ones."""
    X = np.array([0.3, 0.6]) + 0.03 * np.random.default_rng(3).normal(size=(5, 2))
    near = Task.of(X, np.square(X - [0.3, 0.6]).sum(axis=1))
    learnt.fit(near)
    everywhere = learnt.predict(points()).mean
    assert (learnt.predict(X).mean < np.quantile(everywhere, 0.2)).all()


# ---------------------------------------------------------------------- tasks


def test_contexts_say_which_tasks_are_alike():
    contexts = [{"rows": 10, "b": 1}, {"rows": 10, "b": 1}, {"rows": 50, "c": 2}]
    alike = similarity(contexts)
    assert alike[0, 1] == 1.0 and alike[0, 2] == alike[1, 2] < 0.7
    assert np.linalg.eigvalsh(alike).min() > -1e-12
    for useless in ([{}, {}], [{"a": 1.0}, {"b": 1.0}], [{"a": 2.0}] * 2, [{"a": np.nan}] * 2):
        assert similarity(useless).tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_the_derivative_by_rho():
    alike = similarity([{"a": 0.0}, {"a": 1.0}, {"a": 3.0}])
    weights = np.random.default_rng(0).normal(size=(3, 3))

    def total(logit):
        B, density, _ = rho_covariance(np.array([logit]), alike)
        return float((weights * B).sum()) + density

    _, _, chain = rho_covariance(np.array([0.7]), alike)
    assert chain(weights)[0] == pytest.approx((total(0.7 + 1e-6) - total(0.7 - 1e-6)) / 2e-6)
    assert mixed(0.3, alike).diagonal().tolist() == [1.0, 1.0, 1.0]


def test_rho_is_large_for_tasks_that_are_alike_and_small_for_others():
    rng = np.random.default_rng(0)
    X = rng.random((30, 2))
    strangers = [Task.of(X, np.sin(9 * X @ rng.normal(size=2) + 6 * k)) for k in range(5)]
    alike = JointRankingGP().meta_fit([bowl(0.4, seed=k) for k in range(5)]).rho
    assert alike > 0.9 and JointRankingGP().meta_fit(strangers).rho < 0.5


def test_a_study_is_like_past_ones_with_a_similar_context():
    tasks = [bowl([0.2, 0.2], seed=k, context={"rows": 1.0 + 0.01 * k}) for k in range(3)]
    tasks += [bowl([0.8, 0.8], seed=9 + k, context={"rows": 9.0 + 0.01 * k}) for k in range(3)]
    model, Z = JointRankingGP().meta_fit(tasks), points()
    for rows, centre in ((1.0, 0.2), (9.0, 0.8)):
        model.fit(Task.of(np.empty((0, 2)), [], context={"rows": rows}))
        best = Z[np.argmin(model.predict(Z).mean)]
        assert np.abs(best - centre).max() < 0.2
    model.fit(nothing())  # of which nothing is known: all past tasks count the same
    assert abs(model.predict(np.array([[0.2, 0.2], [0.8, 0.8]])).mean @ [1, -1]) < 0.5


# ---------------------------------------------------------------------- the surrogate


def test_without_evaluations_it_says_what_the_past_says(learnt):
    Z = points()
    learnt.fit(nothing())
    truth = np.square(Z - [0.3, 0.6]).sum(axis=1)
    assert spearmanr(learnt.predict(Z).mean, truth)[0] > 0.95
    assert learnt.improvement(Z) == pytest.approx(-learnt.predict(Z).mean)


@pytest.mark.parametrize("n", [3, 6])
def test_a_few_evaluations_and_the_past_are_better_than_the_evaluations_alone(learnt, n):
    Z, ours, alone = points(), [], []
    for seed in range(20, 26):
        centre = np.array([0.3, 0.6]) + 0.05 * np.random.default_rng(seed).normal(size=2)
        truth, task = np.square(Z - centre).sum(axis=1), bowl(centre, n=n, seed=seed)
        ours.append(spearmanr(learnt.fit(task).predict(Z).mean, truth)[0])
        alone.append(spearmanr(GaussianProcess().fit(task).predict(Z).mean, truth)[0])
    assert np.mean(ours) > np.mean(alone)


def test_many_evaluations_overcome_a_past_that_is_upside_down(learnt):
    task, Z = bowl([0.3, 0.6], n=80, seed=30), points()
    learnt.fit(Task.of(task.X, -task.y))
    truth = -np.square(Z - [0.3, 0.6]).sum(axis=1)
    assert spearmanr(learnt.predict(Z).mean, truth)[0] > 0.8


def test_monotone_changes_of_the_losses_change_nothing(learnt):
    task, Z = bowl(0.4, n=10, seed=31), points(20)
    expected = learnt.fit(task).predict(Z).mean.tolist()
    assert learnt.fit(Task.of(task.X, np.exp(30 * task.y))).predict(Z).mean.tolist() == expected


def test_of_a_long_study_a_hundred_rows_are_ranked(learnt):
    learnt.fit(bowl(0.4, n=130, seed=32))
    assert len(learnt.model.X) == len(learnt.rows.X) + 100


def test_saved_and_read_again(learnt, tmp_path):
    path = tmp_path / "scot.safetensors"
    learnt.save(path)
    again, task, Z = JointRankingGP.load(path), bowl(0.4, n=7, seed=41), points(20)
    expected = learnt.fit(task).predict(Z, joint=True)
    found = again.fit(task).predict(Z, joint=True)
    assert found.mean.tolist() == expected.mean.tolist() and again.rho == learnt.rho
    assert np.diag(found.covariance) == pytest.approx(np.square(found.std))


def test_a_study_starts_where_the_past_ended():
    space = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
    optimizer = Optimizer(space, method="scot", tasks=past(), seed=0)
    [first] = optimizer.ask()
    assert np.hypot(first["x"] - 0.3, first["y"] - 0.6) < 0.15
    with pytest.raises(OptionError, match="strength"):
        Optimizer(space, method="scot", tasks=past(), strength=0)
