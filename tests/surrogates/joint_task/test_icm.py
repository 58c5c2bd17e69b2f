"""One Gaussian process of past tasks and the new one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal, spearmanr

from rankwise import Optimizer
from rankwise.errors import ModelFileError, OptionError
from rankwise.history.task import Task
from rankwise.surrogates import GaussianProcess, MultiTaskGP
from rankwise.surrogates.empirical_bayes.past_functions import scores
from rankwise.surrogates.joint_task import base as joint
from rankwise.surrogates.joint_task.base import JointGP, Rows, evidence, most_likely
from rankwise.surrogates.joint_task.icm import Latents, Target, TargetPrior, negative_log_posterior


def bowl(centre, n=25, seed=0, noise=0.0, sign=1.0, scale=1.0, name="", context=None) -> Task:
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    losses = sign * np.square(X - centre).sum(axis=1) + noise * rng.normal(size=n)
    return Task.of(X, 5.0 + scale * losses, name=name, context=context)


def past(count=5, **settings) -> list[Task]:
    """Bowls with centres near (0.3, 0.6), each with another scale."""
    tasks = []
    for k in range(count):
        centre = np.array([0.3, 0.6]) + 0.05 * np.random.default_rng(100 + k).normal(size=2)
        tasks.append(bowl(centre, seed=k, scale=10.0**k, name=f"bowl {k}", **settings))
    return tasks


def beginning(task: Task, n: int) -> Task:
    return Task.of(task.X[:n].reshape(n, 2), task.y[:n], context=task.context)


def points(n=30, seed=50):
    return np.random.default_rng(seed).random((n, 2))


@pytest.fixture(scope="module")
def learnt() -> MultiTaskGP:
    return MultiTaskGP().meta_fit(past())


def matern(a, b, lengthscales) -> float:
    r = np.sqrt(5.0 * np.square((a - b) / lengthscales).sum())
    return (1.0 + r + r * r / 3.0) * np.exp(-r)


def dense(X, Z, task, other, B, lengthscales):
    """The covariance of pairs of a configuration and a task, one entry after the other."""
    return np.array(
        [
            [B[s, t] * matern(x, z, lengthscales) for z, t in zip(Z, other, strict=True)]
            for x, s in zip(X, task, strict=True)
        ]
    )


def small_rows(seed=0) -> Rows:
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(3), [5, 4, 6])
    return Rows(rng.random((15, 2)), rng.normal(size=15), task, ("a", "b", "c"), ({}, {}, {}))


def some_covariance(count, seed=1):
    W = np.random.default_rng(seed).normal(size=(count, 2))
    return W @ W.T + np.diag(0.1 + np.random.default_rng(seed).random(count))


# ---------------------------------------------------------------------- rows of the past


def test_rows_are_scores_of_each_task():
    tasks = past(3)
    rows = Rows.of(tasks[::-1], None)
    assert len(rows) == 3 and sorted(rows.names) == ["bowl 0", "bowl 1", "bowl 2"]
    for t, name in enumerate(rows.names):
        [task] = [task for task in tasks if task.name == name]
        mine = rows.task == t
        assert rows.X[mine].tolist() == task.X.tolist()
        assert rows.y[mine] == pytest.approx(scores(task.losses))


def test_of_many_tasks_a_few_that_differ_are_kept(monkeypatch):
    monkeypatch.setattr(joint, "TASKS", 3)
    monkeypatch.setattr(joint, "ROWS", 30)
    kinds = [np.array([0.1, 0.1]), np.array([0.9, 0.1]), np.array([0.5, 0.9])]
    tasks = [bowl(kinds[k % 3] + 1e-3 * k, seed=7, name=str(k % 3)) for k in range(9)]
    rows = Rows.of(tasks, None)
    assert sorted(rows.names) == ["0", "1", "2"]
    assert np.bincount(rows.task).tolist() == [10, 10, 10]
    for t in range(3):  # evenly over the order: the best and the worst are among them
        best = min(scores(tasks[int(rows.names[t])].losses))
        assert rows.y[rows.task == t].min() == pytest.approx(best, abs=0.1)


def test_a_task_that_is_given_twice_counts_once_and_what_has_no_order_not_at_all():
    X = points(4)
    useless = [Task.of(X, [1.0] * 4), Task.of(X, [np.nan] * 4), Task.of(X[:2], [1.0, 2.0])]
    tasks = past(2)
    assert len(Rows.of([*tasks, *tasks], None)) == 2
    assert len(MultiTaskGP().meta_fit([*tasks, *tasks, *useless]).rows) == 2
    surrogate = MultiTaskGP().meta_fit(useless)
    assert not surrogate.meta_learned
    task = bowl(0.5, n=8)
    expected = GaussianProcess().fit(task).predict(points())
    assert surrogate.fit(task).predict(points()).mean.tolist() == expected.mean.tolist()


# ---------------------------------------------------------------------- evidence and posterior


def test_evidence_is_a_normal_density():
    rows, B, lengthscales = small_rows(), some_covariance(3), np.array([0.4, 0.9])
    K = dense(rows.X, rows.X, rows.task, rows.task, B, lengthscales) + 0.1 * np.eye(15)
    expected = multivariate_normal(np.zeros(15), K).logpdf(rows.y) + 7.5 * np.log(2 * np.pi)
    assert evidence(rows, lengthscales, 0.1, B).value == pytest.approx(expected)


def test_the_gradient_of_the_evidence():
    rows, B, lengthscales = small_rows(), some_covariance(3), np.array([0.4, 0.9])
    found = evidence(rows, lengthscales, 0.1, B)

    def value(theta):
        changed = theta[3:].reshape(3, 3)
        return evidence(rows, np.exp(theta[:2]), np.exp(theta[2]), changed).value

    theta = np.concatenate([np.log(lengthscales), [np.log(0.1)], B.ravel()])
    numeric = approx_fprime(theta, value, 1e-6)
    assert [*found.by_lengthscales, found.by_noise] == pytest.approx(numeric[:3], abs=1e-3)
    # The factor reads one triangle only, so a step of one entry is not a symmetric step.
    by_pairs = found.by_tasks + found.by_tasks.T - np.diag(np.diag(found.by_tasks))
    steps = numeric[3:].reshape(3, 3)
    steps = steps + steps.T - np.diag(np.diag(steps))
    assert by_pairs == pytest.approx(steps, abs=1e-3)


def test_the_posterior_is_that_of_dense_matrices():
    rows, B, lengthscales, Z = small_rows(), some_covariance(3), np.array([0.4, 0.9]), points(6)
    noise = np.linspace(0.01, 0.2, 15)
    last = np.full(6, 2)
    K = dense(rows.X, rows.X, rows.task, rows.task, B, lengthscales) + np.diag(noise)
    cross = dense(Z, rows.X, last, rows.task, B, lengthscales)
    own = dense(Z, Z, last, last, B, lengthscales)
    model = JointGP.given(rows.X, rows.y, rows.task, B, lengthscales, noise)
    mean, variance = model.posterior(Z)
    covariance = own - cross @ np.linalg.solve(K, cross.T)
    assert mean == pytest.approx(cross @ np.linalg.solve(K, rows.y))
    assert variance == pytest.approx(np.diag(covariance))
    assert model.covariance(Z) == pytest.approx(covariance)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_the_posterior_is_that_of_botorch():
    torch = pytest.importorskip("torch")
    models = pytest.importorskip("botorch.models")
    from gpytorch.kernels import IndexKernel, MaternKernel
    from gpytorch.means import ZeroMean

    rows, lengthscales, Z = small_rows(), np.array([0.4, 0.9]), points(6)
    rng = np.random.default_rng(2)
    W, v, noise = rng.normal(size=(3, 2)), 0.1 + rng.random(3), 0.01 + rng.random(15)
    inputs = torch.as_tensor(np.column_stack([rows.X, rows.task.astype(float)]))
    model = models.MultiTaskGP(
        inputs,
        torch.as_tensor(rows.y)[:, None],
        task_feature=-1,
        train_Yvar=torch.as_tensor(noise)[:, None],
        mean_module=ZeroMean(),
        output_tasks=[2],
        outcome_transform=None,
    )
    kernel = MaternKernel(nu=2.5, ard_num_dims=2, active_dims=(0, 1)).double()
    kernel.lengthscale = torch.as_tensor(lengthscales)
    index = IndexKernel(num_tasks=3, rank=2, active_dims=(2,)).double()
    index.covar_factor.data = torch.as_tensor(W)
    index.var = torch.as_tensor(v)
    if hasattr(model, "task_covar_module"):  # until version 0.16
        index.active_dims = None
        model.covar_module, model.task_covar_module = kernel, index
    else:
        model.covar_module = kernel * index
    model.eval()
    with torch.no_grad():
        expected = model.posterior(torch.as_tensor(Z))
    own = JointGP.given(rows.X, rows.y, rows.task, W @ W.T + np.diag(v), lengthscales, noise)
    mean, variance = own.posterior(Z)
    assert mean == pytest.approx(expected.mean.numpy()[:, 0], abs=1e-6)
    assert variance == pytest.approx(expected.variance.numpy()[:, 0], abs=1e-6)


def test_the_search_finds_a_stationary_point(learnt):
    """At the found numbers no small change is better."""
    rows = learnt.rows

    def value(lengthscales, noise, W, v):
        return evidence(rows, lengthscales, noise, W @ W.T + np.diag(v)).value

    at = value(learnt.lengthscales, learnt.noise, learnt.W, learnt.v)
    for factor in (0.5, 2.0):
        assert value(factor * learnt.lengthscales, learnt.noise, learnt.W, learnt.v) < at
        assert value(learnt.lengthscales, factor * learnt.noise, learnt.W, learnt.v) < at
        assert value(learnt.lengthscales, learnt.noise, -0.5 * learnt.W, factor * learnt.v) < at


def test_one_number_is_found_as_by_a_grid():
    """The covariance between two tasks, by maximum a posteriori."""
    tasks = [bowl(0.4, seed=1, noise=0.05), bowl(0.5, seed=2, noise=0.05)]
    rows = Rows.of(tasks, None)

    def covariance(theta):
        r = float(np.tanh(theta[0]))

        def chain(by_B):
            return np.array([2.0 * by_B[0, 1] * (1.0 - r * r)])

        return np.array([[1.0, r], [r, 1.0]]), 0.0, chain

    lengthscales, noise, [theta] = most_likely(rows, np.zeros(1), covariance, [(-4.0, 4.0)])
    grid = np.linspace(-0.95, 0.999, 200)
    values = [evidence(rows, lengthscales, noise, np.array([[1, r], [r, 1]])).value for r in grid]
    assert np.tanh(theta) == pytest.approx(grid[int(np.argmax(values))], abs=0.02)


# ---------------------------------------------------------------------- the new task's numbers


def two_latents(n=6):
    """A model with two latent functions of small rows, and the latents at n points."""
    model = MultiTaskGP(rank=2)
    model.rows = small_rows()
    rng = np.random.default_rng(4)
    model.W, model.v = rng.normal(size=(3, 2)), 0.1 + rng.random(3)
    model.lengthscales, model.noise = np.array([0.4, 0.9]), 0.1
    X = points(n, seed=9)
    return model, X, model.latents(model.rows, X)


def test_latent_functions_given_the_past():
    """Each of them is a task of its own that is never observed."""
    model, X, latents = two_latents()
    rows = model.rows
    W = np.vstack([model.W, np.eye(2)])  # tasks 3 and 4 are the latent functions themselves
    B = W @ W.T + np.diag([*model.v, 0.0, 0.0])
    K = dense(rows.X, rows.X, rows.task, rows.task, B, model.lengthscales) + 0.1 * np.eye(15)
    cross = [dense(X, rows.X, [3 + r] * 6, rows.task, B, model.lengthscales) for r in range(2)]
    for r in range(2):
        assert latents.mean[r] == pytest.approx(cross[r] @ np.linalg.solve(K, rows.y))
        for s in range(2):
            known = cross[r] @ np.linalg.solve(K, cross[s].T)
            assert latents.known[r, s] == pytest.approx(known)


def test_the_density_of_observations_given_the_past():
    """Up to a constant that of a dense process whose level is nearly free."""
    model, X, latents = two_latents()
    rows, y = model.rows, np.random.default_rng(5).normal(size=6)
    prior = TargetPrior.of(model.W, 0.3, 0.1)
    task, everything = np.append(rows.task, np.full(6, 3)), np.concatenate([rows.X, X])

    def expected(theta):
        w, (v, noise, scale) = theta[:2], np.exp(theta[2:])
        W = np.vstack([model.W, w])
        B = W @ W.T + np.diag(np.append(model.v, v))
        K = dense(everything, everything, task, task, B, model.lengthscales)
        K += np.diag([0.1] * 15 + [noise] * 6)
        K[15:, 15:] += 1e6
        both = multivariate_normal(np.zeros(21), K).logpdf(np.append(rows.y, y / scale))
        return both - 6 * theta[4] + theta[4] + prior.log_density(theta)[0]

    one, two = np.array([0.5, -0.4, -1.0, -2.0, 0.3]), np.array([-0.2, 0.9, 0.1, -1.0, -0.4])
    found = [negative_log_posterior(theta, latents, y, prior)[0] for theta in (one, two)]
    assert found[1] - found[0] == pytest.approx(expected(one) - expected(two), abs=1e-3)
    level = negative_log_posterior(one, latents, y, prior)[2]
    shifted = negative_log_posterior(one, latents, y + 7.0, prior)
    assert shifted[0] == pytest.approx(found[0])  # the level is free
    assert shifted[2] == pytest.approx(level + 7.0 / np.exp(0.3))


def test_the_gradient_of_that_density():
    model, _, latents = two_latents()
    y, prior = np.random.default_rng(5).normal(size=6), TargetPrior.of(model.W, 0.3, 0.1)
    for seed in range(3):
        theta = np.random.default_rng(seed).normal(size=5)
        numeric = approx_fprime(
            theta, lambda t: negative_log_posterior(t, latents, y, prior)[0], 1e-6
        )
        assert negative_log_posterior(theta, latents, y, prior)[1] == pytest.approx(
            numeric, rel=1e-3, abs=1e-3
        )


def test_without_observations_a_task_is_a_typical_one():
    W, v = np.array([[0.5], [0.9], [1.0]]), np.array([0.1, 0.2, 0.4])
    nothing = Latents(np.empty((1, 0)), np.empty((0, 0)), np.empty((1, 1, 0, 0)))
    target = Target.of(nothing, np.empty(0), W, v, 0.05)
    assert target.w == pytest.approx([0.8]) and target.v == pytest.approx(0.2)
    assert (target.scale, target.level) == (1.0, 0.0) and target.noise == pytest.approx(0.05)


# ---------------------------------------------------------------------- the surrogate


def test_past_tasks_that_are_alike_share_nearly_all(learnt):
    shared = np.square(learnt.W[:, 0])
    assert (shared / (shared + learnt.v)).min() > 0.7
    assert (np.sign(learnt.W[:, 0]) == np.sign(learnt.W[0, 0])).all()


def test_tasks_that_have_nothing_in_common_share_little():
    rng = np.random.default_rng(0)
    X = rng.random((30, 2))
    tasks = [Task.of(X, np.sin(9 * X @ rng.normal(size=2) + 6 * k)) for k in range(5)]
    model = MultiTaskGP().meta_fit(tasks)
    B = model.W @ model.W.T + np.diag(model.v)
    correlation = B / np.sqrt(np.outer(np.diag(B), np.diag(B)))
    assert np.abs(correlation[np.triu_indices(5, 1)]).mean() < 0.5


def test_without_evaluations_it_says_what_the_past_says(learnt):
    learnt.fit(beginning(bowl(0.5), 0))
    Z = points(200)
    truth = np.square(Z - [0.3, 0.6]).sum(axis=1)
    assert spearmanr(learnt.predict(Z).mean, truth)[0] > 0.95
    assert learnt.improvement(Z) == pytest.approx(-learnt.predict(Z).mean)


@pytest.mark.parametrize("n", [3, 6, 12])
def test_a_few_evaluations_and_the_past_are_better_than_the_evaluations_alone(learnt, n):
    Z, ours, alone = points(200), [], []
    for seed in range(20, 26):
        centre = np.array([0.3, 0.6]) + 0.05 * np.random.default_rng(seed).normal(size=2)
        truth = np.square(Z - centre).sum(axis=1)
        task = beginning(bowl(centre, seed=seed, scale=1e-3), n)
        ours.append(spearmanr(learnt.fit(task).predict(Z).mean, truth)[0])
        alone.append(spearmanr(GaussianProcess().fit(task).predict(Z).mean, truth)[0])
    assert np.mean(ours) > np.mean(alone)
    assert learnt.improvement(Z) is None


def test_a_past_that_is_upside_down_is_overcome(learnt):
    task, Z = bowl([0.3, 0.6], n=25, seed=30, sign=-1.0), points(200)
    truth = -np.square(Z - [0.3, 0.6]).sum(axis=1)
    assert spearmanr(learnt.fit(task).predict(Z).mean, truth)[0] > 0.9


def test_predictions_are_in_units_of_the_loss(learnt):
    one, other = bowl(0.4, n=10, seed=40), bowl(0.4, n=10, seed=40, scale=1e4)
    Z = points()
    a, b = learnt.with_seed(1).fit(one).predict(Z), learnt.with_seed(1).fit(other).predict(Z)
    assert b.mean - 5.0 == pytest.approx(1e4 * (a.mean - 5.0), rel=1e-3)
    assert b.std == pytest.approx(1e4 * a.std, rel=1e-3)
    joint_posterior = learnt.fit(other).predict(Z, joint=True)
    variances = np.diag(joint_posterior.covariance)
    assert variances == pytest.approx(np.square(joint_posterior.std), rel=1e-6)


def test_a_study_that_begins_near_the_optimum_is_predicted_at_its_own_level(learnt):
    """All losses are below what past tasks had on average, but their mean is the study's zero."""
    X = np.array([0.3, 0.6]) + 0.05 * np.random.default_rng(3).normal(size=(8, 2))
    task = Task.of(X, 7.0 + np.square(X - [0.3, 0.6]).sum(axis=1))
    learnt.fit(task)
    assert learnt._level > 0.5
    assert learnt.predict(X).mean == pytest.approx(task.y, abs=0.5 * task.y.std())


def test_of_a_long_study_all_rows_are_predicted_from(learnt):
    task = bowl(0.5, n=130, seed=60)
    learnt.fit(task)
    assert len(learnt.model.X) == len(learnt.rows.X) + 130
    assert spearmanr(learnt.predict(task.X).mean, task.y)[0] > 0.99


def test_the_order_of_tasks_changes_nothing(learnt):
    again = MultiTaskGP().meta_fit(past()[::-1])
    assert again.W.tolist() == learnt.W.tolist()
    split = MultiTaskGP().meta_fit(past()[:2], past()[2:])
    assert split.W.tolist() == learnt.W.tolist()


def test_saved_and_read_again(learnt, tmp_path):
    path = tmp_path / "icm.safetensors"
    learnt.save(path)
    again, task, Z = MultiTaskGP.load(path), bowl(0.4, n=7, seed=41), points()
    expected = learnt.fit(task).predict(Z)
    assert again.fit(task).predict(Z).mean.tolist() == expected.mean.tolist()
    assert again.rows.names == learnt.rows.names
    with pytest.raises(ModelFileError, match=r"rank=1, not 3"):
        MultiTaskGP.load(path, rank=3)


def test_what_does_not_fit_is_refused(learnt):
    with pytest.raises(OptionError, match="2 columns and the target study has 3"):
        learnt.fit(Task.of(np.ones((2, 3)), [1.0, 2.0]))
    with pytest.raises(OptionError, match="rank"):
        MultiTaskGP(rank=0)


def test_a_study_starts_where_the_past_ended():
    space = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
    optimizer = Optimizer(space, method="icm", tasks=past(), seed=0)
    [first] = optimizer.ask()
    assert np.hypot(first["x"] - 0.3, first["y"] - 0.6) < 0.15
